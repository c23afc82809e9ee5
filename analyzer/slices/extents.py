"""What a loop's copies bring or carry, in the frame, among global variables and on the heap: where its arrays are, by the
permissions' abstract machine.

A heap block is known by the allocation that it is from. It has no place that is known beforehand: `raw.Extent` says how a
slice speaks of it all the same. Only the loop's own code reaches it: no address of it has escaped, which `extract` asks.
"""

from __future__ import annotations

from collections.abc import Collection

from farlane.analyzer.externals import interface
from farlane.analyzer.graph.program import UNKNOWN
from farlane.analyzer.machine.instruction import RSP
from farlane.analyzer.permissions.abstract.arguments import passed
from farlane.analyzer.permissions.abstract.domain import CONSTANT, EXACT, IN_FRAME, Heap, Objects, Value, beginning
from farlane.analyzer.permissions.abstract.facts import Regions
from farlane.analyzer.permissions.abstract.memory import READ, WRITE, State
from farlane.analyzer.slices.form import REACHED, Origin
from farlane.analyzer.slices.raw import GLOBALS, Extent
from farlane.limits.generated import SLICE_FRAME_BYTES, SLICE_MEMORY

LONGEST = 512  # bytes of an array whose end is not known


def at(value: Value) -> int | None:
    """The place that an abstract value is the address of; None: it is no certain one."""
    if value.kind == EXACT and value.objects == IN_FRAME:
        return value.number
    if value.kind == CONSTANT and value.objects and value.number > 0:
        return GLOBALS + value.number
    return None


def block(objects: Objects) -> Heap | None:
    """The heap block that an address surely leads to, where no device reaches it."""
    (each,) = objects if len(objects) == 1 else (None,)
    return each if isinstance(each, Heap) and not each.pinned else None


def copied(regions: Regions, blocks: Collection[int]) -> tuple[list[tuple[int, int]], dict[Heap, Extent]]:
    """The arrays of the frame and of global variables that a function's copies bring or carry, wherever these are, and
    the heap blocks of those in some blocks; what the function calls included. Of a heap block it is always as much."""
    arrays: set[tuple[int, int]] = set()
    sizes: dict[Heap, set[int]] = {}
    _note(regions, blocks, arrays, sizes)
    for heap in _tables(regions, blocks) - sizes.keys():
        size = _allocated(regions, heap)
        if size is None or 0 < size <= SLICE_MEMORY:
            sizes[heap] = {LONGEST if size is None else size}
    known = sorted(heap for heap, found in sizes.items() if len(found) == 1)
    return sorted(arrays), {heap: Extent(number, min(sizes[heap])) for number, heap in enumerate(known)}


def _tables(regions: Regions, blocks: Collection[int]) -> set[Heap]:
    """The heap blocks that the loop's code touches, and that were there before it."""
    flow = regions.structure.flow

    def inside(site: int) -> bool:
        holding = flow.holding(site)
        return holding is not None and holding.start in blocks

    found = {
        heap
        for start in blocks
        for access in regions.accesses.get(start, ())
        if access.kind in (READ, WRITE) and access.at == access.source and (heap := block(access.objects)) is not None
    }
    return {heap for heap in found if not any(inside(site) for site in heap.site)}


def _allocated(regions: Regions, heap: Heap) -> int | None:
    """The bytes of an allocation, where they are a constant."""
    *chain, site = heap.site
    for call in chain:
        inner = regions.inner.get(call)
        if inner is None:
            return None
        regions = inner
    state = regions.sites.get(site)
    callee = regions.structure.flow.calls.get(site, UNKNOWN)
    first, second = (passed(state, index) for index in (0, 1)) if state is not None else (None, None)
    if first is None or second is None or callee.address is not None or first.kind != CONSTANT:
        return None
    if callee.name == "calloc":
        return first.number * second.number if second.kind == CONSTANT else None
    return first.number if callee.name in ("malloc", "_Znwm", "_Znam") else None


def _note(
    regions: Regions, blocks: Collection[int] | None, arrays: set[tuple[int, int]], sizes: dict[Heap, set[int]]
) -> None:
    """`blocks`: those of the loop; None: all are in it."""
    flow = regions.structure.flow

    def inside(site: int) -> bool:
        holding = flow.holding(site)
        return blocks is None or (holding is not None and holding.start in blocks)

    for site, state in (*regions.sites.items(), *regions.tails.items()):
        callee = flow.calls.get(site, UNKNOWN)
        form = interface.COPIES.get(interface.plain(callee.name)) if callee.address is None else None
        size = None if form is None or form.size is None else passed(state, form.size)
        if form is None or size is None or size.kind != CONSTANT or not 0 < size.number <= SLICE_MEMORY:
            continue
        for value in (passed(state, form.destination), passed(state, form.source)):
            place, heap = at(value), block(value.objects)
            if place is not None:
                arrays.add((place, place + size.number))
            if heap is not None and inside(site):
                sizes.setdefault(heap, set()).add(size.number)
    for call, inner in regions.inner.items():
        _note(inner, None if inside(call) else (), arrays, sizes)


def address(state: State, heap: Heap, source: tuple[Origin, int] | None) -> tuple[Origin, int] | None:
    """Where a block's address may stand at the entry, which is a guess: where a copy takes it from, or the first place
    that holds the address at which the block begins, or any address of the block.

    Args:
        state: at the entry.
        source: a register, or an offset of the frame.
    """
    stack, wanted = state.registers[RSP].number, frozenset({heap})
    registers = {(Origin.REGISTER, number): state.registers[number] for number in sorted(REACHED)}
    cells = {
        (Origin.FRAME, offset): value
        for offset, (size, value) in sorted(state.cells.items())
        if size == 8 and 0 <= offset - stack <= SLICE_FRAME_BYTES - 8
    }
    found = {place: value for place, value in (registers | cells).items() if value.objects == wanted}
    if not found:
        return None
    first = next((place for place, value in found.items() if value == beginning(heap)), next(iter(found)))
    origin, where = source if source in found else first
    return (origin, where) if origin == Origin.REGISTER else (origin, where - stack)
