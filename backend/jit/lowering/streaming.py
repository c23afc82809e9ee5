"""Stores that go past the caches: where a launch writes more than they hold, what it writes is not read from them again.

A store to a line that is not there makes a processor read the line first, and a third of what a stencil or a copy moves is that. Stores of whole lines without a
place in the caches (x86: movnt) do not. They pay where the launch as a whole writes more than the last cache holds, and cost where what is written would have been
found there afterwards. So the caller says from how many bytes for each thread on a launch is that large (Launch.streamed), and what a thread writes is known here: stores outside
of loops, each made once.

Only where the next block writes what lies beside it: pieces far apart, as a transposition writes them, want to be collected in a cache.
Only in the code of warp groups, in kernels that cannot see the order of their stores before the launch has ended (warp_groups.py: no atomics, fences, ordered accesses), and
not to arrays that the kernel reads itself. A fence at the worker's end (scheduler.ll) orders them before all that comes after it.

Source: Intel and AMD manuals, "Non-temporal stores"; the same rule as memcpy's of the GNU C library, which goes past the caches from three quarters of the last one on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.analysis import origins
from farlane.backend.jit.analysis.strides import row_length
from farlane.backend.jit.lowering import support
from farlane.backend.jit.lowering.families.accesses import addresses
from farlane.backend.jit.lowering.ir import Val, integer
from farlane.backend.jit.ptx.model import LANES, Address, Instruction, Special, Symbol
from farlane.backend.jit.ssa.ssa import Value

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter
    from farlane.backend.jit.lowering.families.accesses.addresses import Place
    from farlane.backend.jit.ssa.cfg import Graph

LINE = 64


class Streams:
    """What a kernel writes once and does not read."""

    def __init__(self, graph: Graph, block: tuple[int, int, int]) -> None:
        looped: set[int] = set().union(*graph.loops.values())
        read: set[object] = set()
        written: dict[object, int] = {}
        self.stores: set[int] = set()  # ids of instructions
        arrays: dict[int, object] = {}
        for index, item in ((index, item) for index, one in enumerate(graph.blocks) for item in one.instructions):
            if item.base not in ("ld", "st") or "param" in item.modifiers or addresses.space_of(item) == "shared":
                continue
            array = _array(item)
            if item.base == "ld":
                read.add(array)
            elif index not in looped and row_length(block) * _bytes(item) % LINE == 0 and _on_and_on(item):
                arrays[id(item)] = array
                written[array] = max(written.get(array, 0), _bytes(item))
        if None not in read:
            self.stores = {item for item, array in arrays.items() if array is not None and array not in read}
        kept = {arrays[item] for item in self.stores}
        self.bytes = sum(size for array, size in written.items() if array in kept)  # of a thread

    def condition(self, e: Emitter, i: Instruction, place: Place) -> Val | None:
        """Whether a store of all lanes goes past the caches; None: it never does."""
        form = place.form
        if id(i) not in self.stores or form is None or form.stride != _bytes(i) or place.base != "null":
            return None
        if form.step is None and row_length(e.kernel.block) != LANES:
            return None  # one row after the other in the same place
        b = e.body
        large = support.streamed(e, self.bytes)
        apart = form.base if form.step is None else b.bin("or", form.base, form.step)
        aligned = b.icmp("eq", b.bin("and", apart, integer(LINE - 1, "i64")), integer(0, "i64"))
        e.kernel.streams = True
        return b.bin("and", large, aligned)


def _bytes(i: Instruction) -> int:
    """What an access reads or writes for each lane."""
    count = next((int(item[1]) for item in i.modifiers if item in ("v2", "v4", "v8")), 1)
    return count * int(i.modifiers[-1][1:]) // 8


def _array(i: Instruction) -> object:
    """What tells arrays apart: the parameter, or the variable, that an address is reckoned from. None: not known."""
    base = i.sources[0].base if isinstance(i.sources[0], Address) else i.sources[0]
    if isinstance(base, Symbol):
        return base.name
    if not isinstance(base, Value):
        return None
    array, _ = origins.reckoned(base, _is_parameter)
    if array is None or not _is_parameter(array):
        return None
    assert isinstance(array.definition, Instruction)
    return array.definition.sources[0]


def _on_and_on(i: Instruction) -> bool:
    """Whether the thread's index in x is added to what only the block's number in x tells, so that blocks go on where others end."""
    operand = i.sources[0]
    if not isinstance(operand, Address) or not isinstance(operand.base, Value):
        return False
    for value in _behind(operand.base):
        definition = value.definition
        if isinstance(definition, Instruction) and definition.base in ("add", "mad", "or"):
            behind = [_specials(source) for source in definition.sources]
            others: set[str] = set().union(*(names for names in behind if names != {"tid.x"}))
            if {"tid.x"} in behind and "ctaid.x" in others and others <= {"ctaid.x", "ntid.x"}:
                return True
    return False


def _behind(value: Value) -> list[Value]:
    """A value, and all that it is computed from by arithmetic."""
    found, work = {value}, [value]
    while work:
        definition = work.pop().definition
        sources = definition.sources if isinstance(definition, Instruction) and definition.base != "ld" else ()
        new = [item for item in sources if isinstance(item, Value) and item not in found]
        found.update(new)
        work += new
    return sorted(found, key=lambda item: item.number)


def _specials(operand: object) -> set[str]:
    """The special registers that an operand is computed from."""
    if isinstance(operand, Special):
        return {operand.name}
    values = _behind(operand) if isinstance(operand, Value) else ()
    return {
        source.name
        for value in values
        if isinstance(value.definition, Instruction)
        for source in value.definition.sources
        if isinstance(source, Special)
    }


def _is_parameter(value: Value) -> bool:
    definition = value.definition
    return isinstance(definition, Instruction) and definition.base == "ld" and "param" in definition.modifiers
