"""A slice under construction: the loop's host code in the operations of `form`, before what is not wanted is taken out.

Registers are the machine's: the general ones by their number, halves of vector registers behind them, then those of
this module; what an instruction needs in between is a register of its own, from TEMPORARY on. Memory is one line of
addresses: bytes of the frame by their offset from the stack pointer at the function's entry (the abstract machine's),
global variables from GLOBALS on.

What is not known is said: `Unknown` for a register, `Lost` for memory. Neither does any harm where nothing wanted
depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from farlane.analyzer.machine.instruction import REGISTERS, RSP
from farlane.analyzer.permissions.abstract.domain import Heap
from farlane.analyzer.slices.form import Branch, Called, Jump, Leave, Operation, Origin

FIRST, SECOND = REGISTERS, REGISTERS + 1  # what the flags compare
CONFIGURATION = REGISTERS + 2  # six registers: a pushed launch configuration, as the registers that it is passed in
PUSHED = CONFIGURATION + 6  # the return address of the push
BIAS = PUSHED + 1  # how far the file is from where it is linked
STACK = RSP  # the stack pointer at the entry; the stack pointer elsewhere is a distance from it
TEMPORARY = 64
GLOBALS = (
    1 << 48
)  # the program's variables begin here, by address; then blocks of the heap; then these blocks' addresses
HEAPS, ADDRESSES = 1 << 56, 1 << 57
FIRST_GIVEN = 4096  # from this number on, memory of the heap is what the loop is given (`given`)
GIVEN = HEAPS + (FIRST_GIVEN << 16)
LOWEST, HIGHEST = -(1 << 62), 1 << 62


class RefusedError(Exception):
    """A loop has no slice: the reason, a word of `reasons`, and what stood in the way."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


class Unknown(NamedTuple):
    """A register holds something that is not known."""

    target: int
    reason: str
    detail: str


class Lost(NamedTuple):
    """Memory from `low` up to `high` holds something that is not known."""

    low: int
    high: int
    reason: str
    detail: str


class Range(NamedTuple):
    low: int
    size: int


class Region(NamedTuple):
    """An array in memory whose elements are touched at computed places. A store in it may be anywhere from `first` up to
    `last`, as far as is proven; outside of the array the evaluation is stuck."""

    low: int
    size: int
    first: int
    last: int


@dataclass
class RawCall:
    """A call; a register or a range of memory for each argument, by (index, bytes)."""

    site: int
    name: str
    arguments: list[tuple[int, int, int | Range]] = field(default_factory=list)
    source: Range | None = None
    fills: Range | None = None


Step: TypeAlias = Operation | Unknown | Lost


NOWHERE = Leave(0)


@dataclass
class RawBlock:
    steps: list[Step] = field(default_factory=list)
    end: Jump | Branch | Called | Leave = NOWHERE


@dataclass(frozen=True)
class Extent:
    """What is known of a heap block, by the allocation that it is from: as many bytes from an address on as the loop's
    copies bring or carry. The address is a variable of the slice: that of the last copy to the host. What the code touches
    there is in the extent by its address, or the evaluation is stuck. So it makes no difference which block is meant, where
    an allocation made several."""

    number: int
    size: int

    @property
    def low(self) -> int:
        return HEAPS + (self.number << 16)

    @property
    def address(self) -> int:
        return ADDRESSES + 16 * self.number


@dataclass
class Graph:
    """Block 0 begins at the entry.

    Attributes:
        stack: the stack pointer at the entry's call instruction, as an address of the frame.
        regions: of LOAD_AT and STORE_AT, whose immediates are indices into it.
        extents: the blocks of the heap.
        addresses: extent -> where its address stands at the entry: a register, or a place of the frame.
    """

    entry: int
    stack: int
    blocks: list[RawBlock] = field(default_factory=list)
    calls: list[RawCall] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    extents: dict[Heap, Extent] = field(default_factory=dict)
    addresses: dict[int, tuple[Origin, int]] = field(default_factory=dict)
    floating: bool = False


def successors(block: RawBlock) -> tuple[int, ...]:
    end = block.end
    if isinstance(end, Branch):
        return (end.then, end.other)
    return (end.block,) if isinstance(end, (Jump, Called)) else ()
