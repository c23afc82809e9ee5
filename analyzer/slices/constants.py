"""Constants of a slice's graph: what is the same number in every execution takes the place of what computes it, and
branches on it go one way.

Source: G. Kildall, A unified approach to global program optimization, POPL 1973.
"""

from __future__ import annotations

from collections.abc import Sequence

from farlane.analyzer.slices.arithmetic import StuckError, compute
from farlane.analyzer.slices.form import HAS_IMMEDIATE, Branch, Called, Code, Jump, Operation
from farlane.analyzer.slices.raw import Graph, Lost, RawBlock, Region, Unknown, successors

MAXIMUM_COPIED = 40  # steps before a branch
_Held = dict[tuple[str, int, int], int]


def propagate(graph: Graph) -> None:
    """Replaces what is the same number in every execution, and branches on it."""
    count = len(graph.blocks)
    before: list[_Held | None] = [None] * count
    before[0] = {}
    work = [0]
    while work:
        index = work.pop()
        held = dict(before[index] or {})
        block = graph.blocks[index]
        for step in block.steps:
            _fold(step, held, graph.regions)
        for target in _ways(graph, block, held):
            old = before[target]
            new = held if old is None else {key: value for key, value in old.items() if held.get(key) == value}
            if old is None or len(new) != len(old):
                before[target] = dict(new)
                work.append(target)
    for index, block in enumerate(graph.blocks):
        if before[index] is None:
            block.steps, block.end = [], Jump(0)
            continue
        held = dict(before[index] or {})
        block.steps[:] = [_fold(step, held, graph.regions) for step in block.steps]
        if isinstance(block.end, Branch) and (number := held.get(("r", block.end.register, 8))) is not None:
            block.end = Jump(block.end.then if number else block.end.other)
        _thread(graph, block, held)


def _thread(graph: Graph, block: RawBlock, held: _Held) -> None:
    """Where a block jumps to a branch that goes one way from there, it gets a copy of what stands before the branch: so a
    counted loop's test is passed over where the loop is entered."""
    if not isinstance(block.end, Jump) or block.end.block == 0:
        return
    target = graph.blocks[block.end.block]
    if target is block or not isinstance(target.end, Branch) or len(target.steps) > MAXIMUM_COPIED:
        return
    steps = [_fold(step, held, graph.regions) for step in target.steps]
    number = held.get(("r", target.end.register, 8))
    if number is not None:
        block.steps += steps
        block.end = Jump(target.end.then if number else target.end.other)


def _ways(graph: Graph, block: RawBlock, held: _Held) -> tuple[int, ...]:
    end = block.end
    if isinstance(end, Branch) and (number := held.get(("r", end.register, 8))) is not None:
        return (end.then if number else end.other,)
    if isinstance(end, Called) and (fills := graph.calls[end.call].fills) is not None:
        _lose(held, fills.low, fills.low + fills.size)
    return successors(block)


def _lose(held: _Held, low: int, high: int) -> None:
    for key in [key for key in held if key[0] == "m" and key[1] < high and low < key[1] + key[2]]:
        del held[key]


def _fold(step: Operation | Unknown | Lost, held: _Held, regions: Sequence[Region]) -> Operation | Unknown | Lost:
    """A step with what is held, which it changes."""
    if isinstance(step, Lost):
        _lose(held, step.low, step.high)
        return step
    if isinstance(step, Unknown):
        held.pop(("r", step.target, 8), None)
        return step
    code, width, target, operands, immediate = step
    values = [held.get(("r", each, 8)) for each in operands]
    known = [each for each in values if each is not None]
    if code == Code.STORE_AT:
        _lose(held, regions[immediate].low, regions[immediate].low + regions[immediate].size)
        return step
    if code == Code.STORE:
        _lose(held, immediate, immediate + width)
        if known:
            held["m", immediate, width] = known[0] & ((1 << 8 * width) - 1)
        return step
    result: int | None = None
    if code == Code.CONSTANT:
        result = immediate
    elif code == Code.LOAD:
        result = held.get(("m", immediate, width))
    elif len(known) == len(values) and code not in HAS_IMMEDIATE:
        try:
            result = compute(code, known, width)
        except StuckError:
            result = None
    if result is None:
        held.pop(("r", target, 8), None)
        return step
    held["r", target, 8] = result
    return Operation(Code.CONSTANT, 8, target, (), result)
