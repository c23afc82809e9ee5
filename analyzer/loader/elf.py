"""Reads an ELF file into an `Image`: what of its tables (`sections.py`) matters to the analyzer, and where its
functions are.

Whatever goes wrong on a damaged file becomes an `AnalysisError`. The exception tables are read by
`exception_tables.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.loader import embedded
from farlane.analyzer.loader.exception_tables import Frame, frames, landing_pads
from farlane.analyzer.loader.image import FIXED, Function, Image, Segment
from farlane.analyzer.loader.sections import (
    DYNSYM,
    FUNCTION,
    INDIRECT_FUNCTION,
    NOBITS,
    NOTE,
    OBJECT,
    RELA,
    SYMTAB,
    UNDEFINED,
    Section,
    Tables,
)
from farlane.limits.generated import IDENTITY_BYTES

MAXIMUM_BYTES = 1 << 30
MAXIMUM_SYMBOLS = 4_000_000

_SHF_WRITE, _SHF_ALLOC, _SHF_EXECINSTR = 1, 2, 4
_BUILD_ID = 3  # a note's type
_GLOB_DAT, _JUMP_SLOT, _RELATIVE, _ABSOLUTE, _INDIRECT = 6, 7, 8, 1, 37  # kinds of relocations
TABLES = (".got", ".got.plt")
STUB_SECTIONS = (".plt", ".iplt", ".plt.sec", ".plt.got", ".plt.bnd")


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
    except Exception as error:  # of a kind not thought of
        raise AnalysisError(f"{name}: not an intact ELF file ({type(error).__name__}: {error})") from error


def _load(content: bytes, name: str) -> Image:
    tables = Tables(content)
    _check_extents(tables.sections, len(content))
    segments = tuple(_segments(tables))
    slots, pointers, choosers = _relocations(tables)
    stubs: dict[int, str] = {}
    for stub, slot in _stubs(segments):
        if slot in slots:
            stubs[stub] = slots[slot]
        elif slot in choosers:
            choosers[stub] = choosers[slot]
    symbols = _symbols(tables)
    identity = _identity(tables, segments)
    runtime = embedded.find(symbols, _objects(tables))
    functions = _functions(segments, symbols, _named(segments, ".eh_frame"), _named(segments, ".gcc_except_table"))
    if runtime is not None:
        functions = embedded.own(functions, runtime)
        segments = tuple(embedded.without(segments, runtime))
        _leave_out(runtime, functions, segments, stubs, slots, pointers)
    return Image(
        path=name,
        identity=identity,
        segments=segments,
        functions=functions,
        stubs=stubs,
        slots=slots,
        pointers=pointers,
        choosers=choosers,
        entry=tables.entry,
        stripped=not any(section.name == ".symtab" for section in tables.sections),
        end=max((s.address + s.size for s in tables.sections if s.flags & _SHF_ALLOC), default=0),
    )


def _leave_out(
    runtime: embedded.Embedded,
    functions: tuple[Function, ...],
    segments: tuple[Segment, ...],
    stubs: dict[int, str],
    slots: dict[int, str],
    pointers: dict[int, int],
) -> None:
    """Changes imports and pointers to what they are without the embedded runtime's: its public functions are stubs."""
    for slot in [slot for slot in pointers if runtime.holds_data(slot)]:
        del pointers[slot]
    for slot in [slot for slot, value in pointers.items() if value in runtime.public]:
        slots[slot] = runtime.public[pointers.pop(slot)]
    moves = not segments or segments[0].start < FIXED
    named = embedded.references(functions, segments, {*stubs, *slots, *runtime.public}, moves)
    entries = dict(_stubs(segments))
    used = {slot for stub, slot in entries.items() if stub in named}
    for slot in [slot for slot in slots if _lies_in(segments, slot, TABLES) and slot not in named and slot not in used]:
        del slots[slot]
    for stub in [stub for stub in stubs if stub not in named]:
        del stubs[stub]
    stubs.update((address, name) for address, name in runtime.public.items() if address in named)


def _lies_in(segments: tuple[Segment, ...], address: int, names: tuple[str, ...]) -> bool:
    return any(segment.name in names and segment.start <= address < segment.end for segment in segments)


def _check_extents(sections: list[Section], size: int) -> None:
    for section in sections:
        if section.kind == NOBITS:
            continue
        if section.offset + section.size > size:
            raise AnalysisError(f"section {section.name} lies outside the file")
        if section.kind in (SYMTAB, DYNSYM, RELA) and section.entry != 24:
            raise AnalysisError(f"section {section.name} has entries of the wrong size")


def _segments(tables: Tables) -> list[Segment]:
    found = []
    for section in tables.sections:
        flags = section.flags
        if not flags & _SHF_ALLOC or section.kind == NOBITS or not section.size:
            continue
        writable, code = bool(flags & _SHF_WRITE), bool(flags & _SHF_EXECINSTR)
        found.append(Segment(section.address, tables.data(section), writable, code, section.name))
    return sorted(found, key=lambda segment: segment.start)


def _named(segments: tuple[Segment, ...], name: str) -> Segment | None:
    return next((segment for segment in segments if segment.name == name), None)


def _relocations(tables: Tables) -> tuple[dict[int, str], dict[int, int], dict[int, int]]:
    """Names and local addresses that the loader puts into slots, and functions that choose what it puts there. A name
    that this file defines stays a name."""
    slots: dict[int, str] = {}
    pointers: dict[int, int] = {}
    choosers: dict[int, int] = {}
    for section in tables.sections:
        if section.kind != RELA or not section.flags & _SHF_ALLOC:
            continue
        table = tables.sections[section.link] if 0 < section.link < len(tables.sections) else None
        named = table is not None and table.kind in (SYMTAB, DYNSYM)
        symbols = tables.symbols(table) if named and table is not None else []
        for offset, kind, number, addend in tables.relocations(section):
            if kind == _RELATIVE:
                pointers[offset] = addend
            elif kind == _INDIRECT:
                choosers[offset] = addend
            elif kind in (_GLOB_DAT, _JUMP_SLOT, _ABSOLUTE) and named and table is not None:
                symbol = symbols[number]
                if symbol.section != UNDEFINED and symbol.value:
                    if symbol.kind == INDIRECT_FUNCTION:
                        # The symbol points to the function that chooses, not to the chosen one.
                        choosers[offset] = symbol.value
                        continue
                    pointers[offset] = symbol.value + addend
                name = tables.name(table, symbol)
                if name and not addend:
                    slots[offset] = name
    return slots, pointers, choosers


def _stubs(segments: tuple[Segment, ...]) -> Iterator[tuple[int, int]]:
    """PLT entries and their slots: an optional endbr64, then `jmp *slot(%rip)` (with or without a bnd prefix)."""
    for segment in segments:
        if segment.name not in STUB_SECTIONS:
            continue
        position = segment.data.find(b"\xff\x25")
        while position >= 0:
            displacement = int.from_bytes(segment.data[position + 2 : position + 6], "little", signed=True)
            start = position
            if start and segment.data[start - 1] == 0xF2:
                start -= 1
            if segment.data[max(0, start - 4) : start] == b"\xf3\x0f\x1e\xfa":
                start -= 4
            yield segment.start + start, segment.start + position + 6 + displacement
            position = segment.data.find(b"\xff\x25", position + 2)


def _symbols(tables: Tables) -> dict[int, tuple[int, str]]:
    """Address -> (size, name) of function symbols; of several names the one that sorts first, .symtab before
    .dynsym."""
    found: dict[int, tuple[int, str]] = {}
    sections = [section for section in tables.sections if section.kind in (SYMTAB, DYNSYM)]
    for table in sorted(sections, key=lambda table: table.name != ".symtab"):
        if table.size // 24 > MAXIMUM_SYMBOLS:
            raise AnalysisError("too many symbols")
        own: dict[int, tuple[int, str]] = {}
        for symbol in tables.symbols(table):
            if symbol.kind not in (FUNCTION, INDIRECT_FUNCTION) or symbol.section == UNDEFINED:
                continue
            address = symbol.value
            entry = (symbol.size, tables.name(table, symbol))
            if address not in own or (-entry[0], entry[1]) < (-own[address][0], own[address][1]):
                own[address] = entry
        for address, entry in own.items():
            found.setdefault(address, entry)
    return found


def _objects(tables: Tables) -> Iterator[tuple[int, int, str]]:
    """(address, size, name) of data that .symtab names."""
    for section in tables.sections:
        if section.kind == SYMTAB and section.size // 24 <= MAXIMUM_SYMBOLS:
            for symbol in tables.symbols(section):
                if symbol.kind == OBJECT and symbol.section != UNDEFINED:
                    yield symbol.value, symbol.size, tables.name(section, symbol)


def _functions(
    segments: tuple[Segment, ...], symbols: dict[int, tuple[int, str]], eh: Segment | None, lsda: Segment | None
) -> tuple[Function, ...]:
    """Bounds from the exception tables where there are any (they know `.cold` parts), else from symbols."""
    code = [segment for segment in segments if segment.code and segment.name not in STUB_SECTIONS]
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


def _identity(tables: Tables, segments: tuple[Segment, ...]) -> str:
    """As protos/manifest.md has it: the build-id, else a hash of code, constants and exception tables."""
    for section in tables.sections:
        if section.kind == NOTE and section.name == ".note.gnu.build-id":
            for owner, kind, contents in tables.notes(section):
                if owner == b"GNU" and kind == _BUILD_ID and 1 <= len(contents) <= IDENTITY_BYTES:
                    return contents.hex()
    digest = hashlib.sha256()
    for name in (".text", ".rodata", ".eh_frame"):
        segment = _named(segments, name)
        digest.update(segment.data if segment is not None else b"")
    return f"sha256-{digest.hexdigest()}"
