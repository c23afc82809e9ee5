"""Names of C++ functions as people read them: what compilers mangle becomes what the source says.

Owns nothing but the two forms of a name. `demangled` has types (`store(int*, int)`), for messages; `readable` has none (`grid::Solver::step`), for
tables and pages. A name that is not C++ stays as it is, and so does every name on a machine without the C++ library.

Names come from guests. References within a name multiply what it stands for, so that a short one may name gigabytes: a name with more of them than
`MANGLED_REFERENCES` stays as it is.

Source: the Itanium C++ ABI, "External Names" and "Demangler API".
"""

from __future__ import annotations

import ctypes
import functools
import re

from farlane.limits.generated import MANGLED_BYTES, MANGLED_REFERENCES

MOST_PACKS = 2
_REFERENCE = re.compile(r"[ST][0-9A-Z]*_")
_PACK = re.compile(r"Dp|sp|sZ|sP")
_OPEN, _CLOSE = "(<[{", ")>]}"
_OPERATOR = re.compile(r"operator *(?:->\*?|<=>|<<=?|>>=?|[<>]=?|\(\)|\[\]|[-+*/%^&|~!=,]{1,2})")


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The C++ library, where this machine has one."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        library.__cxa_demangle.restype = ctypes.c_void_p
        library.free.argtypes = [ctypes.c_void_p]
    except (OSError, AttributeError):
        return None
    return library


@functools.lru_cache(4096)
def demangled(symbol: str) -> str:
    """`_Z5storePii` -> `store(int*, int)`; other names unchanged."""
    library = _library()
    if library is None or not symbol.startswith("_Z") or len(symbol) > MANGLED_BYTES or "\0" in symbol:
        return symbol
    if len(_REFERENCE.findall(symbol)) > MANGLED_REFERENCES or len(_PACK.findall(symbol)) > MOST_PACKS:
        return symbol
    status = ctypes.c_int(1)
    found = library.__cxa_demangle(symbol.encode(), None, None, ctypes.byref(status))
    if status.value or not found:
        return symbol
    text = ctypes.string_at(found).decode("utf-8", "replace")
    library.free(found)
    return text


@functools.lru_cache(4096)
def readable(symbol: str) -> str:
    """`_ZN4grid6Solver4stepEif` -> `grid::Solver::step`; other names unchanged. A compiler's suffix stays: `step.part.0`."""
    name, dot, suffix = symbol.partition(".")
    declaration = demangled(name)
    if declaration == name:
        return symbol
    return _without_types(declaration) + dot + suffix


def _without_types(declaration: str) -> str:
    """A function's name, from its declaration: without parameters, what follows them, and the result's type, which templates have."""
    plain = _OPERATOR.sub(lambda found: "o" * len(found[0]), declaration)  # brackets that are none
    depth, start, parameters = 0, 0, None
    for place, character in enumerate(plain):
        if character in _OPEN:
            if depth == 0 and character == "(" and plain[place:].startswith("(anonymous namespace)"):
                parameters = None
            elif depth == 0 and character == "(":
                parameters = place
            depth += 1
        elif character in _CLOSE:
            depth -= 1
        elif character == " " and depth == 0 and parameters is None and not plain[:place].endswith("operator"):
            start = place + 1
        elif depth == 0 and character == ":":
            parameters = None  # what was in brackets is a scope: a function's, in which a lambda is
    return declaration[start:parameters]
