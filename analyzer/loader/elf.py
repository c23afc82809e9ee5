"""Loading an ELF file into an `Image`; the analyzer's only user of pyelftools beside `lines.py`.

pyelftools rather than LIEF: pure Python, reads DWARF lines too, and loading is a few hundredths of the analysis. It may
raise nearly anything on a damaged file, so `load` turns every exception into an `AnalysisError`. The exception tables
are read by `exception_tables.py`, which is ours because pyelftools decodes the call-frame programs we do not need.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import NoteSection, SymbolTableSection
from farlane.analyzer.errors import AnalysisError
from farlane.analyzer.loader.exception_tables import Frame, frames, landing_pads
from farlane.analyzer.loader.image import Function, Image, Segment

MAXIMUM_BYTES = 1 << 30
MAXIMUM_SECTIONS = 4096
MAXIMUM_SYMBOLS = 4_000_000
BUILD_ID_LIMIT = 32

_SHF_WRITE, _SHF_ALLOC, _SHF_EXECINSTR = 1, 2, 4
_GLOB_DAT, _JUMP_SLOT, _RELATIVE, _ABSOLUTE = 6, 7, 8, 1
_STUB_SECTIONS = (".plt", ".plt.sec", ".plt.got", ".plt.bnd")


def load(path: Path) -> Image:
    """Reads an executable or shared object.

    Raises:
        AnalysisError: it cannot be read, or is not an x86-64 ELF file that is whole.
    """
    try:
        if not path.is_file():
            raise AnalysisError(f"{path}: not a file")
        if path.stat().st_size > MAXIMUM_BYTES:
            raise AnalysisError(f"{path}: larger than {MAXIMUM_BYTES >> 20} MiB")
        return load_bytes(path.read_bytes(), str(path))
    except OSError as error:
        raise AnalysisError(f"{path}: {error.strerror}") from error


def load_bytes(content: bytes, name: str) -> Image:
    """The same from memory."""
    try:
        return _load(content, name)
    except AnalysisError as error:
        raise AnalysisError(f"{name}: {error}") from error
    except MemoryError:
        raise
    except Exception as error:  # pyelftools checks little, and raises what its parsing happens to hit
        raise AnalysisError(f"{name}: not an intact ELF file ({type(error).__name__}: {error})") from error


def _load(content: bytes, name: str) -> Image:
    if content[:4] != b"\x7fELF":
        raise AnalysisError("not an ELF file")
    elf = ELFFile(io.BytesIO(content))
    if elf.header["e_machine"] != "EM_X86_64" or elf.elfclass != 64:
        raise AnalysisError("not for x86-64")
    if elf.header["e_type"] not in ("ET_EXEC", "ET_DYN"):
        raise AnalysisError("neither an executable nor a shared object")
    if elf.num_sections() > MAXIMUM_SECTIONS:
        raise AnalysisError(f"more than {MAXIMUM_SECTIONS} sections")
    sections = list(elf.iter_sections())
    _check_extents(sections, len(content))
    segments = tuple(_segments(content, sections))
    slots, pointers = _relocations(elf, sections)
    stubs = _stubs(segments, slots)
    symbols = _symbols(sections)
    functions = _functions(segments, symbols, _named(segments, ".eh_frame"), _named(segments, ".gcc_except_table"))
    return Image(
        path=name,
        identity=_identity(sections, segments),
        segments=segments,
        functions=functions,
        stubs=stubs,
        slots=slots,
        pointers=pointers,
        entry=int(elf.header["e_entry"]),
        stripped=not any(section.name == ".symtab" for section in sections),
        end=max((s["sh_addr"] + s["sh_size"] for s in sections if s["sh_flags"] & _SHF_ALLOC), default=0),
    )


def _check_extents(sections: list[Any], size: int) -> None:
    for section in sections:
        if section["sh_type"] == "SHT_NOBITS":
            continue
        if section["sh_offset"] + section["sh_size"] > size:
            raise AnalysisError(f"section {section.name} lies outside the file")
        if section["sh_type"] in ("SHT_SYMTAB", "SHT_DYNSYM", "SHT_RELA") and section["sh_entsize"] != 24:
            raise AnalysisError(f"section {section.name} has entries of the wrong size")


def _segments(content: bytes, sections: list[Any]) -> list[Segment]:
    found = []
    for section in sections:
        flags = section["sh_flags"]
        if not flags & _SHF_ALLOC or section["sh_type"] == "SHT_NOBITS" or not section["sh_size"]:
            continue
        start, size = section["sh_offset"], section["sh_size"]
        data = content[start : start + size]
        found.append(
            Segment(section["sh_addr"], data, bool(flags & _SHF_WRITE), bool(flags & _SHF_EXECINSTR), section.name)
        )
    return sorted(found, key=lambda segment: segment.start)


def _named(segments: tuple[Segment, ...], name: str) -> Segment | None:
    return next((segment for segment in segments if segment.name == name), None)


def _relocations(elf: Any, sections: list[Any]) -> tuple[dict[int, str], dict[int, int]]:
    """Names and local addresses that the loader puts into slots. A name that this file defines stays a name."""
    slots: dict[int, str] = {}
    pointers: dict[int, int] = {}
    for section in sections:
        if not isinstance(section, RelocationSection) or not section.is_RELA() or not section["sh_flags"] & _SHF_ALLOC:
            continue
        symbols = elf.get_section(section["sh_link"]) if section["sh_link"] else None
        for relocation in section.iter_relocations():
            kind, offset = relocation["r_info_type"], relocation["r_offset"]
            if kind == _RELATIVE:
                pointers[offset] = relocation["r_addend"]
            elif kind in (_GLOB_DAT, _JUMP_SLOT, _ABSOLUTE) and isinstance(symbols, SymbolTableSection):
                symbol = symbols.get_symbol(relocation["r_info_sym"])
                # What an indirect function's symbol points to is the function that chooses, not the chosen one.
                chooser = symbol["st_info"]["type"] in ("STT_GNU_IFUNC", "STT_LOOS")
                if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_value"] and not chooser:
                    pointers[offset] = symbol["st_value"] + relocation["r_addend"]
                if symbol.name and not relocation["r_addend"]:
                    slots[offset] = symbol.name.split("@")[0]
    return slots, pointers


def _stubs(segments: tuple[Segment, ...], slots: dict[int, str]) -> dict[int, str]:
    """PLT entries: an optional endbr64, then `jmp *slot(%rip)` (with or without a bnd prefix)."""
    stubs: dict[int, str] = {}
    for segment in segments:
        if segment.name not in _STUB_SECTIONS:
            continue
        position = segment.data.find(b"\xff\x25")
        while position >= 0:
            displacement = int.from_bytes(segment.data[position + 2 : position + 6], "little", signed=True)
            name = slots.get(segment.start + position + 6 + displacement)
            if name is not None:
                start = position
                if start and segment.data[start - 1] == 0xF2:
                    start -= 1
                if segment.data[max(0, start - 4) : start] == b"\xf3\x0f\x1e\xfa":
                    start -= 4
                stubs[segment.start + start] = name
            position = segment.data.find(b"\xff\x25", position + 2)
    return stubs


def _symbols(sections: list[Any]) -> dict[int, tuple[int, str]]:
    """Address -> (size, name) of function symbols; of several names the one that sorts first, .symtab before .dynsym."""
    found: dict[int, tuple[int, str]] = {}
    tables = [section for section in sections if isinstance(section, SymbolTableSection)]
    for table in sorted(tables, key=lambda table: table.name != ".symtab"):
        if table.num_symbols() > MAXIMUM_SYMBOLS:
            raise AnalysisError("too many symbols")
        own: dict[int, tuple[int, str]] = {}
        for symbol in table.iter_symbols():
            if symbol["st_info"]["type"] not in ("STT_FUNC", "STT_GNU_IFUNC") or symbol["st_shndx"] == "SHN_UNDEF":
                continue
            address = symbol["st_value"]
            entry = (symbol["st_size"], symbol.name.split("@")[0])
            if address not in own or (-entry[0], entry[1]) < (-own[address][0], own[address][1]):
                own[address] = entry
        for address, entry in own.items():
            found.setdefault(address, entry)
    return found


def _functions(
    segments: tuple[Segment, ...], symbols: dict[int, tuple[int, str]], eh: Segment | None, lsda: Segment | None
) -> tuple[Function, ...]:
    """Bounds from the exception tables where there are any (they know `.cold` parts), else from symbols."""
    code = [segment for segment in segments if segment.code and segment.name not in _STUB_SECTIONS]
    described = {frame.start: frame for frame in (frames(eh.data, eh.start) if eh else [])}
    found: dict[int, tuple[int, Frame | None]] = {}
    for start, frame in described.items():
        found[start] = (frame.end, frame)
    for start, (size, _) in symbols.items():
        if start not in found and size:
            found[start] = (start + size, None)
    starts = sorted(found)
    functions = []
    for index, start in enumerate(starts):
        segment = next((segment for segment in code if segment.start <= start < segment.end), None)
        if segment is None:
            continue
        following = starts[index + 1] if index + 1 < len(starts) else segment.end
        end = min(found[start][0], segment.end, following)
        if end <= start:
            continue
        own = found[start][1]
        pads: tuple[tuple[int, int, int], ...] = ()
        if own is not None and own.lsda and lsda is not None and lsda.start <= own.lsda < lsda.end:
            pads = landing_pads(lsda.data, lsda.start, own)
        name = symbols[start][1] if start in symbols else f"sub_{start:x}"
        functions.append(Function(start, end, name, pads, own is not None and own.continued))
    return tuple(functions)


def _identity(sections: list[Any], segments: tuple[Segment, ...]) -> str:
    """As protos/manifest.md has it: the build-id, else a hash of code, constants and exception tables."""
    for section in sections:
        if isinstance(section, NoteSection) and section.name == ".note.gnu.build-id":
            for note in section.iter_notes():
                if note["n_type"] == "NT_GNU_BUILD_ID" and 2 <= len(note["n_desc"]) <= 2 * BUILD_ID_LIMIT:
                    return str(note["n_desc"])
    digest = hashlib.sha256()
    for name in (".text", ".rodata", ".eh_frame"):
        segment = _named(segments, name)
        digest.update(segment.data if segment is not None else b"")
    return f"sha256-{digest.hexdigest()}"
