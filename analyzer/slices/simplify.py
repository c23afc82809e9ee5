"""Takes out of a slice's graph what nothing wanted depends on, and finds what must be known at the entry.

Wanted is what decides calls: branches behind which calls differ, what calls are passed, which bytes they carry. The
rest of the loop's code, its output and its error paths, goes, block by block: what is dead, branches whose ways are the
same, jumps to jumps. Then whatever is not known and still wanted refuses the slice.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from farlane.analyzer.slices import reasons
from farlane.analyzer.slices.arithmetic import StuckError, compute
from farlane.analyzer.slices.form import HAS_IMMEDIATE, Branch, Called, Code, Jump, Operation, taken
from farlane.analyzer.slices.forward import forward
from farlane.analyzer.slices.raw import Graph, Lost, Range, RawBlock, RefusedError, Region, Unknown, successors

ROUNDS = 40
# Operations whose low bytes depend on the low bytes of their operands alone.
_BY_LOW_BYTES = frozenset(
    {
        *(Code.COPY, Code.NEGATE, Code.NOT, Code.ADD, Code.SUBTRACT, Code.MULTIPLY, Code.AND, Code.OR, Code.XOR),
        Code.SELECT,
    }
)


@dataclass
class Demand:
    """What is wanted at a point: of each register so many low bytes, and bytes of memory."""

    registers: dict[int, int]
    memory: set[int]

    def want(self, register: int, size: int) -> None:
        self.registers[register] = max(size, self.registers.get(register, 0))

    def merge(self, other: Demand) -> None:
        for register, size in other.registers.items():
            self.want(register, size)
        self.memory |= other.memory

    def copy(self) -> Demand:
        return Demand(dict(self.registers), set(self.memory))


def simplify(graph: Graph) -> Demand:
    """Simplifies a graph in place; what is wanted at the entry. Raises RefusedError."""
    _constants(graph)
    _decide(graph)
    _clean(graph)
    before = demands(graph)
    for block in graph.blocks:
        _refuse(block, _behind(graph, block, before), graph.regions)
    forward(graph)
    _clean(graph)
    return demands(graph)[0]


def _clean(graph: Graph) -> None:
    """Takes out what is dead, until nothing is."""
    for _ in range(ROUNDS):
        before = demands(graph)
        changed = False
        for block in graph.blocks:
            changed |= _without_dead(block, _behind(graph, block, before), graph.regions)
        if not _shorten(graph) and not changed:
            break
    else:
        raise RefusedError(reasons.TOO_LONG, "the host code between the calls")


def _decide(graph: Graph) -> None:
    """Finds the branches that decide something wanted, beginning with none; the others become jumps.

    A branch decides nothing when the next block with something in it is the same either way: a call, the loop's end, a
    step that is wanted, a branch that decides.
    """
    deciding: set[int] = set()
    while True:
        before = demands(graph, deciding)
        content = {0} | deciding
        for index, block in enumerate(graph.blocks):
            demand = _behind(graph, block, before, index in deciding)
            if any(backward(step, demand, graph.regions) for step in reversed(block.steps)) or not isinstance(
                block.end, (Jump, Branch)
            ):
                content.add(index)
        found = _different(graph, content, deciding)
        if not found:
            break
        deciding |= found
    for index, block in enumerate(graph.blocks):
        if isinstance(block.end, Branch) and index not in deciding:
            block.end = Jump(block.end.then)
    _drop(graph)


def _different(graph: Graph, content: set[int], deciding: set[int]) -> set[int]:
    """The branches whose ways lead to different blocks with something in them, of those that are not `deciding`."""
    following: dict[int, int | None] = {}  # block -> the first block with content at or behind it; None: in a cycle
    found: set[int] = set()
    for root in range(len(graph.blocks)):
        work = [root]
        while work:
            index = work[-1]
            block = graph.blocks[index]
            ways = () if index in content else successors(block)
            if index not in following:
                following[index] = index if index in content else None
                work += [way for way in ways if way not in following]
                continue
            work.pop()
            if ways and following[index] is None:
                following[index] = following[ways[0]]
    for index, block in enumerate(graph.blocks):
        if not isinstance(block.end, Branch) or index in deciding:
            continue
        one, other = following[block.end.then], following[block.end.other]
        if one is None or one != other:
            found.add(index)
    return found


def demands(graph: Graph, deciding: Container[int] | None = None) -> list[Demand]:
    """What is wanted before each block: the least that holds around all cycles; `deciding` are the branches that are
    wanted, None: all."""
    found = [Demand({}, set()) for _ in graph.blocks]
    sources: list[set[int]] = [set() for _ in graph.blocks]
    for index, block in enumerate(graph.blocks):
        for target in successors(block):
            sources[target].add(index)
    work = list(range(len(graph.blocks)))
    queued = set(work)
    while work:
        index = work.pop()
        queued.discard(index)
        block = graph.blocks[index]
        demand = _behind(graph, block, found, deciding is None or index in deciding)
        for step in reversed(block.steps):
            backward(step, demand, graph.regions)
        if demand != found[index]:
            found[index] = demand
            for source in sources[index] - queued:
                queued.add(source)
                work.append(source)
    return found


def _behind(graph: Graph, block: RawBlock, before: list[Demand], decides: bool = True) -> Demand:
    """What is wanted behind a block's steps; `decides`: whether its branch is."""
    demand = Demand({}, set())
    for target in successors(block):
        demand.merge(before[target])
    end = block.end
    if isinstance(end, Branch):
        if decides:
            demand.want(end.register, 8)
    elif isinstance(end, Called):
        call = graph.calls[end.call]
        if call.fills is not None:
            demand.memory -= set(range(call.fills.low, call.fills.low + call.fills.size))
        for _, size, value in call.arguments:
            if isinstance(value, Range):
                demand.memory |= set(range(value.low, value.low + value.size))
            else:
                demand.want(value, size)
        if call.source is not None:
            demand.memory |= set(range(call.source.low, call.source.low + call.source.size))
    return demand


def backward(step: Operation | Unknown | Lost, demand: Demand, regions: Sequence[Region]) -> bool:
    """What is wanted before a step; whether the step itself is."""
    if isinstance(step, Lost):
        hit = {each for each in demand.memory if step.low <= each < step.high}
        demand.memory -= hit
        return bool(hit)
    if isinstance(step, Unknown):
        return demand.registers.pop(step.target, 0) > 0
    code, width, target, operands, immediate = step
    if code == Code.STORE:
        touched = set(range(immediate, immediate + width))
        if not touched & demand.memory:
            return False
        demand.memory -= touched
        demand.want(operands[0], width)
        return True
    if code == Code.STORE_AT:
        region = regions[immediate]
        if not any(region.first <= each < region.last for each in demand.memory):
            return False
        demand.memory |= _bytes(region)
        demand.want(operands[0], width)
        demand.want(operands[1], 8)
        return True
    wanted = demand.registers.pop(target, 0)
    if not wanted:
        return False
    if code == Code.LOAD_AT:
        demand.memory |= _bytes(regions[immediate])
        demand.want(operands[0], 8)
        return True
    if code == Code.LOAD:
        demand.memory |= set(range(immediate, immediate + min(width, wanted)))
        return True
    for index, operand in enumerate(operands):
        size = taken(step, index)
        if (code in _BY_LOW_BYTES and not (code == Code.SELECT and index == 2)) or (
            code == Code.SHIFT_LEFT and index == 0
        ):
            size = min(size, wanted)
        elif code == Code.INSERT:
            if index == 0 and wanted <= width:
                continue
            size = wanted if index == 0 else min(width, wanted)
        demand.want(operand, size)
    return True


def _bytes(region: Region) -> set[int]:
    return set(range(region.low, region.low + region.size))


def _without_dead(block: RawBlock, demand: Demand, regions: Sequence[Region]) -> bool:
    """Takes out steps that are not wanted; those that only say what is not known stay while it may be wanted."""
    kept: list[Operation | Unknown | Lost] = []
    for step in reversed(block.steps):
        wanted = demand.registers.get(step.target, 0) if isinstance(step, Operation) and step.target >= 0 else 0
        if backward(step, demand, regions):
            if isinstance(step, Operation) and step.code == Code.INSERT and wanted <= step.width:
                step = Operation(Code.COPY, step.width, step.target, step.operands[1:])
            kept.append(step)
    changed = len(kept) != len(block.steps)
    block.steps[:] = reversed(kept)
    return changed


def _shorten(graph: Graph) -> bool:
    """Jumps over empty blocks, branches whose ways are the same, blocks that only one jump leads to, what is not
    reached."""
    blocks, changed = graph.blocks, False

    def final(index: int) -> int:
        seen = {index}
        while (
            not blocks[index].steps and isinstance(end := blocks[index].end, Jump) and end.block not in seen and index
        ):
            index = end.block
            seen.add(index)
        return index

    for block in blocks:
        end = block.end
        new = end
        if isinstance(end, Jump):
            new = Jump(final(end.block))
        elif isinstance(end, Called):
            new = Called(end.call, final(end.block))
        elif isinstance(end, Branch):
            new = Branch(end.register, final(end.then), final(end.other))
            one, other = blocks[new.then], blocks[new.other]
            if new.then == new.other or (not one.steps and not other.steps and one.end == other.end):
                new = Jump(new.then)
        if new != end:
            block.end, changed = new, True
    changed |= _drop(graph)
    counts = [0] * len(graph.blocks)
    for block in graph.blocks:
        for target in successors(block):
            counts[target] += 1
    for index, block in enumerate(graph.blocks):
        while isinstance(block.end, Jump) and block.end.block not in (0, index) and counts[block.end.block] == 1:
            following = graph.blocks[block.end.block]
            block.steps += following.steps
            block.end = following.end
            following.steps, following.end = [], Jump(0)
            changed = True
    return _drop(graph) or changed


def _drop(graph: Graph) -> bool:
    """Takes out blocks that are not reached from the entry."""
    reached, work = {0}, [0]
    while work:
        for target in successors(graph.blocks[work.pop()]):
            if target not in reached:
                reached.add(target)
                work.append(target)
    if len(reached) == len(graph.blocks):
        return False
    numbers = {old: new for new, old in enumerate(sorted(reached))}
    graph.blocks = [graph.blocks[old] for old in sorted(reached)]
    for block in graph.blocks:
        end = block.end
        if isinstance(end, Jump):
            block.end = Jump(numbers[end.block])
        elif isinstance(end, Called):
            block.end = Called(end.call, numbers[end.block])
        elif isinstance(end, Branch):
            block.end = Branch(end.register, numbers[end.then], numbers[end.other])
    return True


def _refuse(block: RawBlock, demand: Demand, regions: Sequence[Region]) -> None:
    """Raises RefusedError where something wanted is not known."""
    for step in reversed(block.steps):
        if backward(step, demand, regions) and not isinstance(step, Operation):
            raise RefusedError(step.reason, step.detail)


# Constants

_Held = dict[tuple[str, int, int], int]


def _constants(graph: Graph) -> None:
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
    _drop(graph)


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


def _fold(
    step: Operation | Unknown | Lost, held: _Held, regions: Sequence[Region]
) -> Operation | Unknown | Lost:
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


def touched(graph: Graph, demand: Demand) -> set[int]:
    """All bytes of memory that a graph looks at, or changes and hands on."""
    found = set(demand.memory)
    for block in graph.blocks:
        for step in block.steps:
            if isinstance(step, Operation) and step.code in (Code.LOAD_AT, Code.STORE_AT):
                found |= _bytes(graph.regions[step.immediate])
            elif isinstance(step, Operation) and step.code in (Code.LOAD, Code.STORE):
                found |= set(range(step.immediate, step.immediate + step.width))
        if isinstance(block.end, Called):
            call = graph.calls[block.end.call]
            ranges = [value for _, _, value in call.arguments if isinstance(value, Range)]
            for each in (*ranges, call.source, call.fills):
                if each is not None:
                    found |= set(range(each.low, each.low + each.size))
    return found
