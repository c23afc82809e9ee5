"""Formats of device-side printf: from a format and the bytes of its arguments to text.

The conversions are C's, done by the C library of this machine: each format is checked and rebuilt first, so that what reaches
snprintf has one argument of the right type for each conversion, no %n, and bounded widths and precisions. What is no conversion is
printed as it stands. Arguments lie as nvcc lays them out: 4 bytes for int, 8 for long, long long, double and pointers, each aligned to
its size.

Source: CUDA programming guide, "Formatted Output" (format specifiers, limitations, return value).
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

MAX_ARGUMENTS = 32  # the guide's limit, format apart
MAX_FIELD = 1 << 16  # characters of a width or precision
MAX_FORMAT = 1 << 16

_SPECIFIER = re.compile(rb"%([-+ #0]*)(\*|\d{1,9})?(?:\.(\*|\d{0,9}))?(hh|h|ll|l|j|z|t|L)?([diouxXcspfFeEgGaA%])")
_WIDE = {b"l", b"ll", b"j", b"z", b"t"}
_snprintf = ctypes.CDLL(None).snprintf
_snprintf.restype = ctypes.c_int

#: The bytes before the zero at an address, as the printing thread sees them.
Text = Callable[[int], bytes]


class _Field(NamedTuple):
    """A conversion. `stars`: how many of width and precision are arguments."""

    flags: bytes
    width: bytes | None
    precision: bytes | None
    length: bytes
    kind: bytes


class Format(NamedTuple):
    """A parsed format: literal text (percent signs doubled) and fields, in turns."""

    pieces: tuple[bytes | _Field, ...]
    types: str  # of the arguments: "i" int, "q" 8 bytes, "d" double
    size: int  # of the arguments' bytes
    arity: int  # the number of arguments


@functools.lru_cache(maxsize=1024)
def parse(text: bytes) -> Format:
    """Never fails: what is no conversion, or comes behind the last argument that is allowed, is text."""
    pieces: list[bytes | _Field] = []
    types, size = "", 0
    at = 0
    for match in _SPECIFIER.finditer(text):
        flags, width, precision, length, kind = match.groups()
        if kind == b"%":
            wanted = ""
        else:
            wanted = "i" * ((width == b"*") + (precision == b"*")) + _type(kind, length or b"")
        if len(types) + len(wanted) > MAX_ARGUMENTS:
            break
        pieces.append(text[at : match.start()].replace(b"%", b"%%"))
        pieces.append(b"%%" if kind == b"%" else _Field(flags, width, precision, length or b"", kind))
        at = match.end()
        types += wanted
    pieces.append(text[at:].replace(b"%", b"%%"))
    for kind in types:
        width_bytes = 4 if kind == "i" else 8
        size = -(-size // width_bytes) * width_bytes + width_bytes
    return Format(tuple(piece for piece in pieces if piece), types, size, len(types))


def _type(kind: bytes, length: bytes) -> str:
    if kind in b"fFeEgGaA":
        return "d"
    if kind in b"sp" or (length in _WIDE and kind != b"c"):
        return "q"
    return "i"


def render(form: Format, arguments: bytes, text: Text) -> bytes:
    """The printed bytes. `arguments` has `form.size` bytes; `text` fetches what %s points to, and what it raises is passed on."""
    spec = bytearray()
    values: list[Any] = []
    reader = _Reader(arguments)
    for piece in form.pieces:
        if isinstance(piece, bytes):
            spec += piece
            continue
        flags, width, precision, length, kind = piece
        spec += b"%"
        columns = reader.narrow() if width == b"*" else int(width or 0)
        if columns < 0:
            flags, columns = flags + b"-", -columns
        digits = reader.narrow() if precision == b"*" else None if precision is None else int(precision or 0)
        spec += flags
        if columns:
            spec += b"%d" % min(columns, MAX_FIELD)
        if digits is not None and digits >= 0:
            spec += b".%d" % min(digits, MAX_FIELD)
        if kind in b"fFeEgGaA":
            values.append(ctypes.c_double(reader.double()))
        elif kind == b"s":
            address = reader.wide()
            values.append(ctypes.c_char_p(text(address) if address else None))
        elif kind == b"p":
            values.append(ctypes.c_void_p(reader.wide() & 0xFFFF_FFFF_FFFF_FFFF))
        elif kind == b"c":
            values.append(ctypes.c_int(reader.narrow()))
        elif length in _WIDE:
            spec += b"ll"
            values.append(ctypes.c_longlong(reader.wide()))
        else:
            spec += length if length in (b"h", b"hh") else b""
            values.append(ctypes.c_int(reader.narrow()))
        spec += kind
    # Without a conversion there may still be zeros in the text: there are none, it came from a C string.
    return _print(bytes(spec), values)


def _print(spec: bytes, values: list[Any]) -> bytes:
    size = 1024
    while True:
        buffer = ctypes.create_string_buffer(size)
        needed = int(_snprintf(buffer, ctypes.c_size_t(size), ctypes.c_char_p(spec), *values))
        if needed < 0:
            return b""
        if needed < size:
            return buffer.raw[:needed]
        size = needed + 1


class _Reader:
    """Takes arguments off, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, size: int) -> bytes:
        start = -(-self._at // size) * size
        self._at = start + size
        return self._data[start : self._at]

    def narrow(self) -> int:
        return int.from_bytes(self._take(4), "little", signed=True)

    def wide(self) -> int:
        return int.from_bytes(self._take(8), "little", signed=True)

    def double(self) -> float:
        return ctypes.c_double.from_buffer_copy(self._take(8)).value
