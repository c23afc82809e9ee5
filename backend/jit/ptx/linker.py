"""Linking: the PTX of several translation units to one text.

Owns symbol resolution between units (relocatable device code): which definition a name means, names that are a unit's own, declarations
that a definition replaces. Works on the text's top-level statements; bodies are not parsed, only names in them are changed. What is
undefined in the end stays a declaration: what needs it reports it (the device for variables, the compiler for functions; a check of the module both).

Rules: a name with .visible is the program's, and defined once; .weak gives way to it, and else the first one counts, as with .common; a
name without either belongs to its unit, and is renamed where another unit has it too; .extern is satisfied by any unit's definition.

Source: PTX ISA, "Linking Directives".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from farlane.backend.jit.ptx import device_library
from farlane.backend.jit.ptx import module as modules
from farlane.backend.jit.ptx.declarations import Module, PtxError
from farlane.backend.jit.ptx.lexer import strip_comments
from farlane.demangle import demangled

MAX_UNITS = 4096
MAX_TEXT = 256 << 20
_NAME = r"(?<![\w$%.])([A-Za-z_$%][\w$]*)"
_TOKEN = re.compile(rf'"[^"]*"|{_NAME}')
_LOCATION = re.compile(r"(\.loc\s+|inlined_at\s+)(\d{1,9})(?!\d)")
_FILE = re.compile(r"\.file\s+(\d{1,9})(?!\d)")
_TARGET = re.compile(r"\.target\s+sm_(\d{1,9})")


@dataclass(slots=True)
class _Statement:
    """A top-level statement; `names` are the functions or variables that it declares."""

    text: str
    line: int
    kind: str  # ".version", ".func", ".global", ...
    linking: str = ""  # ".visible", ".extern", ...
    names: tuple[str, ...] = ()
    defines: bool = False

    @property
    def local(self) -> bool:
        return bool(self.names) and not self.linking


def link(texts: Sequence[str]) -> str:
    """One PTX text that does what the units do together.

    Raises:
        PtxError: a unit is malformed, or a symbol is defined in two of them.
    """
    if not 0 < len(texts) <= MAX_UNITS:
        raise PtxError(f"{len(texts)} translation units to link")
    if sum(map(len, texts)) > MAX_TEXT:
        raise PtxError("the translation units to link are too large")
    texts = device_library.completed(texts)
    if len(texts) == 1:
        return texts[0]
    units = [list(_statements(strip_comments(text.rstrip("\0")))) for text in texts]
    chosen = _definitions(units)
    taken: set[str] = set(chosen) | {
        name for unit in units for item in unit if item.linking == ".extern" for name in item.names
    }
    out = [_header(units)]
    files = 0
    for number, unit in enumerate(units):
        renamed = _rename(unit, number, taken)
        highest = 0
        for item in unit:
            if item.kind in (".version", ".target", ".address_size"):
                continue
            if item.names and not item.local and not _kept(item, number, chosen):
                continue
            text = _substitute(item.text, renamed)
            if item.kind == ".file":
                match = _FILE.match(text)
                highest = max(highest, int(match.group(1)) if match else 0)
                text = _FILE.sub(functools.partial(_shifted, ".file ", files), text, count=1)
            elif files:
                text = _LOCATION.sub(functools.partial(_shifted, "", files), text)
            out.append(text)
        files += highest
    return "\n".join(out) + "\n"


def _shifted(lead: str, files: int, found: re.Match[str]) -> str:
    """A file's number behind those of earlier units."""
    return f"{lead or found.group(1)}{int(found.groups()[-1]) + files}"


def _definitions(units: list[list[_Statement]]) -> dict[str, tuple[int, _Statement]]:
    """The definition of each name that units share, and the number of its unit."""
    chosen: dict[str, tuple[int, _Statement]] = {}
    for number, unit in enumerate(units):
        for item in unit:
            if not item.defines or item.local:
                continue
            for name in item.names:
                known = chosen.get(name)
                if known is None or (known[1].linking != ".visible" and item.linking == ".visible"):
                    chosen[name] = (number, item)
                elif known[1].linking == item.linking == ".visible":
                    raise PtxError(
                        f"'{demangled(name)}' is defined in two translation units, {known[0] + 1} and {number + 1}",
                        item.line,
                    )
    return chosen


def _kept(item: _Statement, number: int, chosen: dict[str, tuple[int, _Statement]]) -> bool:
    """Whether a statement about shared names stays: the definition that counts, and declarations of what no unit defines or of functions."""
    if item.defines:
        owned = [chosen[name][1] is item for name in item.names]
        if any(owned) and not all(owned):
            raise PtxError(f"some of {', '.join(item.names)} are defined in another translation unit too", item.line)
        return all(owned)
    return not any(name in chosen for name in item.names) or item.kind in (".func", ".entry")


def _rename(unit: list[_Statement], number: int, taken: set[str]) -> dict[str, str]:
    """New names for what is the unit's own and has a name that is taken; takes the others."""
    renamed: dict[str, str] = {}
    for item in unit:
        if not item.local:
            continue
        for name in item.names:
            if name in renamed:
                continue
            if name not in taken or (item.kind == ".entry" and not item.defines):
                continue
            if item.kind == ".entry":
                raise PtxError(f"the kernel '{demangled(name)}' is defined in two translation units", item.line)
            new = f"{name}$unit{number}"
            while new in taken:
                new += "$"
            renamed[name] = new
    for item in unit:
        if item.local:
            taken.update(renamed.get(name, name) for name in item.names)
    return renamed


def _substitute(text: str, renamed: dict[str, str]) -> str:
    if not renamed:
        return text
    return _TOKEN.sub(
        lambda match: renamed.get(match.group(1), match.group()) if match.group(1) else match.group(), text
    )


def _header(units: list[list[_Statement]]) -> str:
    """The highest version and target of all, for each unit runs there."""
    versions, targets = [], []
    for unit in units:
        for item in unit:
            if item.kind == ".version":
                words = item.text.split()[1].split(".")
                versions.append((int(words[0]), int(words[1])))
            elif item.kind == ".target":
                match = _TARGET.match(item.text)
                targets.append((int(match.group(1)) if match else 0, item.text))
    if not versions or not targets:
        raise PtxError("a translation unit without .version or .target", 1)
    major, minor = max(versions)
    return f".version {major}.{minor}\n{max(targets)[1]}\n.address_size 64"


def _statements(text: str) -> Iterator[_Statement]:
    """The top-level statements of a unit, in order."""
    scratch = Module(text, b"")
    position, line = 0, 1
    while (match := modules.WORDS.match(text, position)) is not None:
        line += text.count("\n", position, match.start(1))
        word, start = match.group(1), match.start(1)
        if word in modules.LINE_DIRECTIVES:
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            item = _Statement(text[start:end], line, word)
            if word in (".version", ".target", ".address_size"):
                modules.header_line(scratch, item.text, line)  # for its checks
        else:
            item, end = _declaration(text, start, line)
        yield item
        line += text.count("\n", start, end)
        position = end
    if text[position:].strip().strip(";"):
        raise PtxError(f"unexpected text '{text[position:].strip()[:40]}'", line)


def _declaration(text: str, start: int, line: int) -> tuple[_Statement, int]:
    scratch = Module(text, b"")
    end = modules.statement(scratch, start, line)
    whole = text[start:end]
    linking: list[str] = []
    position = 0
    while (head := modules.WORDS.match(whole, position)) is not None and head.group(1) in modules.LINKING:
        linking.append(head.group(1))
        position = head.end()
    kind = head.group(1) if head is not None else ""
    names = tuple(scratch.functions) + tuple(variable.name for variable in scratch.variables)
    if kind in (".func", ".entry"):
        defines = any(function.body is not None for function in scratch.functions.values())
    else:
        defines = bool(names) and ".extern" not in linking
    scope = next((word for word in (".extern", ".weak", ".common", ".visible") if word in linking), "")
    return _Statement(whole, line, kind, scope, names, defines), end
