"""The tables of an ELF file for x86-64: sections, symbols, relocations, notes, as plain tuples.

Owns the bytes' layout and nothing of what they mean to the analyzer (`elf.py`). Whatever lies outside the file is an
AnalysisError. Hand-written, because a general library's import alone takes as long as a small program's analysis.

Source: System V ABI, chapters 4 and 5, and its supplement for x86-64.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from farlane.analyzer.limits import AnalysisError

MAXIMUM_SECTIONS = 4096
SYMTAB, RELA, NOTE, NOBITS, DYNSYM = 2, 4, 7, 8, 11
EXECUTABLE, SHARED, X86_64 = 2, 3, 62
OBJECT, FUNCTION, INDIRECT_FUNCTION = 1, 2, 10  # types of symbols
UNDEFINED = 0

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_MORE = 0xFFFF  # the number stands in the first section


class Section(NamedTuple):
    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    entry: int


class Symbol(NamedTuple):
    """`name`: where it begins in the table of strings."""

    name: int
    kind: int
    section: int
    value: int
    size: int


class Relocation(NamedTuple):
    offset: int
    kind: int
    symbol: int
    addend: int


class Tables:
    """A file's tables.

    Attributes:
        entry: where the process starts.
        sections: all of them, in the file's order.

    Raises:
        AnalysisError: it is no ELF file for x86-64, or its table of sections is damaged.
    """

    def __init__(self, content: bytes) -> None:
        if content[:4] != b"\x7fELF":
            raise AnalysisError("not an ELF file")
        self._content = content
        header = self._unpack(_HEADER, 0)
        identification, kind, machine, _, self.entry, _, place, _, _, _, _, entry, count, names = header
        if machine != X86_64 or identification[4:6] != b"\x02\x01":
            raise AnalysisError("not for x86-64")
        if kind not in (EXECUTABLE, SHARED):
            raise AnalysisError("neither an executable nor a shared object")
        self.sections: list[Section] = []
        if not place:
            return
        if entry != _SECTION.size:
            raise AnalysisError("a table of sections with entries of the wrong size")
        first = self._unpack(_SECTION, place)
        count = count or first[5]
        names = first[6] if names == _MORE else names
        if count > MAXIMUM_SECTIONS:
            raise AnalysisError(f"more than {MAXIMUM_SECTIONS} sections")
        rows = [self._unpack(_SECTION, place + _SECTION.size * index) for index in range(count)]
        if rows and names >= len(rows):
            raise AnalysisError("no names of sections")
        for name, type_, flags, address, offset, size, link, _, _, own in rows:
            self.sections.append(
                Section(
                    self._text(rows[names][4], rows[names][5], name) if names else "",
                    type_,
                    flags,
                    address,
                    offset,
                    size,
                    link,
                    own,
                )
            )

    def data(self, section: Section) -> bytes:
        return self._content[section.offset : section.offset + section.size]

    def symbols(self, section: Section) -> list[Symbol]:
        """A table of symbols; its names are in the section that it links to."""
        rows = _SYMBOL.iter_unpack(self._whole(section, _SYMBOL.size))
        return [Symbol(name, info & 15, number, value, size) for name, info, _, number, value, size in rows]

    def name(self, section: Section, symbol: Symbol) -> str:
        """A symbol's name, without its version."""
        if section.link >= len(self.sections):
            raise AnalysisError(f"section {section.name} has no names")
        strings = self.sections[section.link]
        return self._text(strings.offset, strings.size, symbol.name).split("@")[0]

    def relocations(self, section: Section) -> Iterator[Relocation]:
        for offset, info, addend in _RELOCATION.iter_unpack(self._whole(section, _RELOCATION.size)):
            yield Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend)

    def notes(self, section: Section) -> Iterator[tuple[bytes, int, bytes]]:
        """(owner, type, contents) of each note."""
        data, at = self.data(section), 0
        while at + 12 <= len(data):
            owner, size, kind = struct.unpack_from("<III", data, at)
            start = at + 12 + (owner + 3 & ~3)
            if start + size > len(data):
                raise AnalysisError(f"section {section.name} has a damaged note")
            yield data[at + 12 : at + 12 + owner].rstrip(b"\0"), kind, data[start : start + size]
            at = start + (size + 3 & ~3)

    def _whole(self, section: Section, size: int) -> bytes:
        data = self.data(section)
        if len(data) != section.size:
            raise AnalysisError(f"section {section.name} lies outside the file")
        return data[: len(data) // size * size]

    def _text(self, offset: int, size: int, at: int) -> str:
        start = offset + at
        end = self._content.find(b"\0", start, offset + size) if at < size else -1
        if end < 0:
            raise AnalysisError("a name lies outside its table")
        return self._content[start:end].decode("utf-8", "replace")

    def _unpack(self, form: struct.Struct, at: int) -> tuple[Any, ...]:
        if at + form.size > len(self._content):
            raise AnalysisError("the file is cut off")
        return form.unpack_from(self._content, at)
