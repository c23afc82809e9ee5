"""What the analyzer knows of an executable before it decodes an instruction.

Owns the plain data that `elf.py` fills in. Addresses are link-time virtual addresses. Nothing here changes after
loading.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Segment:
    """Bytes of the file as they lie in memory; `code` marks sections that hold instructions."""

    start: int
    data: bytes
    writable: bool
    code: bool
    name: str

    @property
    def end(self) -> int:
        return self.start + len(self.data)


@dataclass(frozen=True)
class Function:
    """One contiguous range of code: a function, or the part of one that the compiler moved elsewhere (".cold").

    Attributes:
        landing_pads: (start, end, address): an exception from a call within start..end goes on at the address.
        continued: whether the exception tables say that this is a part split off from a function.
    """

    start: int
    end: int
    name: str
    landing_pads: tuple[tuple[int, int, int], ...] = ()
    continued: bool = False


# Sections that the loader fills in and then makes read-only, or that only the loader writes.
FILLED = frozenset({".got", ".got.plt", ".data.rel.ro", ".data.rel.ro.local", ".init_array", ".fini_array"})
FIXED = 0x10000  # where a file that is not position-independent starts, at least


@dataclass(frozen=True)
class Image:
    """An executable or shared object.

    Attributes:
        identity: the build-id in hexadecimal, or "sha256-..." of the code and read-only data when there is none.
        functions: by rising start, without overlaps.
        stubs: address of a PLT entry -> the imported name.
        slots: address of a GOT slot -> the name that the loader puts there.
        pointers: address of a slot -> the address inside this file that the loader puts there.
        choosers: address of a PLT entry or slot of an indirect function (IFUNC) -> the function whose result the loader
            puts there.
        entry: the address at which the process starts, 0 for a shared object without one.
        stripped: whether function bounds come from the exception tables alone.
        end: where the last section ends, those that have no bytes in the file included.
    """

    path: str
    identity: str
    segments: tuple[Segment, ...]
    functions: tuple[Function, ...]
    stubs: dict[int, str]
    slots: dict[int, str]
    pointers: dict[int, int]
    choosers: dict[int, int]
    entry: int
    stripped: bool
    end: int = 0
    _starts: list[int] = field(default_factory=list, compare=False, repr=False)
    _spans: list[tuple[int, int, Segment]] = field(default_factory=list, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._starts.extend(function.start for function in self.functions)
        self._spans.extend((segment.start, segment.end, segment) for segment in self.segments)

    def segment(self, address: int) -> Segment | None:
        # Segments may overlap in a damaged file; the first one counts.
        for start, end, segment in self._spans:
            if start <= address < end:
                return segment
        return None

    def read(self, address: int, size: int) -> bytes | None:
        """The bytes at an address, None when any of them is not in the file."""
        segment = self.segment(address)
        if segment is None or address + size > segment.end:
            return None
        offset = address - segment.start
        return segment.data[offset : offset + size]

    def constant(self, address: int, size: int) -> int | None:
        """A value that the program cannot change; None for what it can change, or what a relocation fills in."""
        segment = self.segment(address)
        filled = address in self.pointers or address in self.slots or address in self.choosers
        if segment is None or segment.writable or filled:
            return None
        data = self.read(address, size)
        return None if data is None else int.from_bytes(data, "little")

    def stays(self, address: int) -> bool:
        """Whether what the loader puts into a slot stays there: in the tables of imported addresses, and where nothing
        is written after loading. A variable that holds a function's address may be given another."""
        segment = self.segment(address)
        return segment is None or not segment.writable or segment.name in FILLED

    def string(self, address: int, limit: int = 4096) -> str | None:
        """The zero-terminated string at an address."""
        segment = self.segment(address)
        if segment is None:
            return None
        offset = address - segment.start
        end = segment.data.find(b"\0", offset, offset + limit)
        return None if end < 0 else segment.data[offset:end].decode("utf-8", "replace")

    def function_at(self, address: int) -> Function | None:
        """The function whose range holds an address."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index >= 0 and address < self.functions[index].end:
            return self.functions[index]
        return None

    def imports(self, name: str) -> bool:
        """Whether the loader is asked for a symbol of this name."""
        return name in self.stubs.values() or name in self.slots.values()

    @property
    def moves(self) -> bool:
        """Whether it may be loaded anywhere, so that its addresses are no numbers."""
        return not self.segments or self.segments[0].start < FIXED

    def spans(self, number: int) -> bool:
        """Whether a number may be an address in it, or the end of something there."""
        return bool(self.segments) and self.segments[0].start <= number <= self.end

    def anchor(self) -> int | None:
        """A slot in `pointers` that the loader fills in and nothing else writes: what it holds tells where the file is
        loaded."""
        for segment in self.segments:
            if segment.name == ".init_array":
                for slot in range(segment.start, segment.end - 7, 8):
                    if slot in self.pointers and slot not in self.slots:
                        return slot
        return None

    @property
    def code_bytes(self) -> int:
        return sum(len(segment.data) for segment in self.segments if segment.code)
