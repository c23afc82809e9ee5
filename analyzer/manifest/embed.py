"""A copy of an executable with its manifest inside: the section `.note.farlane`, a note that no segment covers.

Owns the rewriting of an ELF file. What the program loads is not touched: the note, a longer table of section names and
the table of sections are put behind the file's end, and the header points there. Only the header's e_shoff and e_shnum
change in front of that, so addresses, offsets, the build-id and other notes stay. A program that reads its own file from the
end backwards (a self-extracting archive) would be confused, so a file with data behind its tables is refused.

Source: System V ABI, chapter 4; protos/manifest.md, "Where it is found".
"""

from __future__ import annotations

import dataclasses
import struct
from dataclasses import dataclass

from farlane.analyzer.limits import AnalysisError

SECTION = b".note.farlane"
OWNER = b"FARLANE\0"
TYPE = 1

_HEADER_BYTES, _SECTION_BYTES, _SEGMENT_BYTES = 64, 64, 56
_SECTION_FORM = "<IIQQQQIIQQ"
_NULL, _NOTE, _NOBITS = 0, 7, 8
_RESERVED = 0xFF00  # section numbers from here on have another meaning
_ALIGNMENT = 8


@dataclass(frozen=True)
class _Section:
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int

    @property
    def end(self) -> int:
        return self.offset if self.kind in (_NULL, _NOBITS) else self.offset + self.size

    def packed(self) -> bytes:
        return struct.pack(_SECTION_FORM, *dataclasses.astuple(self))


def note(manifest: bytes) -> bytes:
    """The note as it stands in the section."""
    return struct.pack("<III", len(OWNER), len(manifest), TYPE) + OWNER + manifest + bytes(-len(manifest) % 4)


def embed(content: bytes, manifest: bytes) -> bytes:
    """The file with the manifest in it, in place of one that it has.

    Raises:
        AnalysisError: it cannot be done, and why.
    """
    try:
        return _embed(content, manifest)
    except struct.error as error:
        raise AnalysisError("not an intact ELF file") from error


def extract(content: bytes) -> bytes | None:
    """The manifest in a file, None when there is none.

    Raises:
        AnalysisError: the file or the note is damaged.
    """
    try:
        sections, names, _ = _sections(content)
        own = next((section for section in sections if _name(names, section) == SECTION), None)
        if own is None:
            return None
        if own.kind != _NOTE or own.end > len(content):
            raise AnalysisError(f"a damaged section {SECTION.decode()}")
        owner, size, kind = struct.unpack_from("<III", content, own.offset)
        start = own.offset + 12 + len(OWNER)
        if (
            owner != len(OWNER)
            or kind != TYPE
            or start + size > own.end
            or content[start - len(OWNER) : start] != OWNER
        ):
            raise AnalysisError(f"a damaged note in {SECTION.decode()}")
        return content[start : start + size]
    except struct.error as error:
        raise AnalysisError("not an intact ELF file") from error


def _embed(content: bytes, manifest: bytes) -> bytes:
    sections, names, index = _sections(content)
    data_end, table = _extents(content, sections)
    if len(content) > max(data_end, table + _SECTION_BYTES * len(sections)):
        raise AnalysisError("data is appended to the executable, which would not be found any more behind a manifest")
    own = [number for number, section in enumerate(sections) if _name(names, section) == SECTION]
    if len(own) > 1:
        raise AnalysisError(f"several sections {SECTION.decode()}")
    front = content
    if own:
        start = sections[own[0]].offset
        others = [section.end for number, section in enumerate(sections) if number not in (own[0], index)]
        # As we left it: everything from the note on is ours and can go.
        if sections[index].offset > start and table > start and max([0, *others, _segments_end(content)]) <= start:
            front = content[:start]
        name = sections[own[0]].name
    else:
        if len(sections) + 1 >= _RESERVED:
            raise AnalysisError("too many sections")
        name = len(names)
        names = names + SECTION + b"\0"
    described = note(manifest)
    output = bytearray(front)
    place = _append(output, described)
    fresh = _Section(name, _NOTE, 0, 0, place, len(described), 0, 0, 4, 0)
    if own:
        sections[own[0]] = fresh
    else:
        sections.append(fresh)
    sections[index] = dataclasses.replace(sections[index], offset=_append(output, names), size=len(names))
    table = _append(output, b"".join(section.packed() for section in sections))
    struct.pack_into("<Q", output, 40, table)
    struct.pack_into("<H", output, 60, len(sections))
    return bytes(output)


def _append(output: bytearray, piece: bytes) -> int:
    output += bytes(-len(output) % _ALIGNMENT)
    place = len(output)
    output += piece
    return place


def _sections(content: bytes) -> tuple[list[_Section], bytes, int]:
    """The sections, their names' table, and its number."""
    if content[:4] != b"\x7fELF" or content[4:6] != b"\x02\x01":
        raise AnalysisError("not a 64-bit little-endian ELF file")
    kind, machine = struct.unpack_from("<HH", content, 16)
    if kind not in (2, 3) or machine != 62:
        raise AnalysisError("neither an executable nor a shared object for x86-64")
    (table,) = struct.unpack_from("<Q", content, 40)
    size, count, index = struct.unpack_from("<HHH", content, 58)
    if not table or not count:
        raise AnalysisError("the file has no section headers, so there is no place for a section")
    if size != _SECTION_BYTES or count >= _RESERVED or not 0 < index < count:
        raise AnalysisError("an unusual table of sections")
    if table + size * count > len(content):
        raise AnalysisError("the table of sections lies outside the file")
    sections = [_Section(*struct.unpack_from(_SECTION_FORM, content, table + size * at)) for at in range(count)]
    names = sections[index]
    if any(section.end > len(content) for section in sections) or names.kind == _NOBITS:
        raise AnalysisError("a section lies outside the file")
    if names.flags & 2:
        raise AnalysisError("the table of section names is part of the program")
    return sections, content[names.offset : names.end], index


def _name(names: bytes, section: _Section) -> bytes:
    end = names.find(b"\0", section.name)
    return names[section.name : end] if section.kind != _NULL and end >= 0 else b""


def _extents(content: bytes, sections: list[_Section]) -> tuple[int, int]:
    """Where the last byte that something names ends, the table of sections aside; and where that table stands."""
    (table,) = struct.unpack_from("<Q", content, 40)
    return max([_segments_end(content), *(section.end for section in sections)]), table


def _segments_end(content: bytes) -> int:
    (start,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    if count and size != _SEGMENT_BYTES:
        raise AnalysisError("an unusual table of segments")
    ends: list[int] = [start + size * count]
    if ends[0] > len(content):
        raise AnalysisError("the table of segments lies outside the file")
    for at in range(start, start + size * count, _SEGMENT_BYTES):
        offset, length = struct.unpack_from("<Q", content, at + 8)[0], struct.unpack_from("<Q", content, at + 32)[0]
        ends.append(offset + length)
    if max(ends) > len(content):
        raise AnalysisError("a segment lies outside the file")
    return max(ends)
