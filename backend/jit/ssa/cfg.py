"""The control-flow graph of a function, with blocks in the order that the scheduler of lanes uses.

Owns: splitting a body into blocks (a guarded instruction that predication.py leaves becomes a branch round it; a block ends after a barrier), one latch per
loop, dominators, post-dominators, the loop nest and the block order. The order is topological (back edges apart) with every loop
contiguous, so that among waiting lanes those in the lowest block can run first and meet the others at the post-dominator.
Loops with several entries get one (entries.py).

Source: facts page "Divergence"; Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm".
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from farlane.backend.jit.ptx.declarations import PtxError
from farlane.backend.jit.ptx.instructions import Trait, having
from farlane.backend.jit.ptx.model import Body, Instruction, extends
from farlane.backend.jit.ssa import entries, predication
from farlane.backend.jit.ssa.blocks import EXIT, Block, dominates, dominators, postdominators

_ENDS = {"bra", "brx", "ret", "exit", "trap"}


@dataclass(slots=True)
class Graph:
    """Blocks in scheduling order; block 0 is the entry and has no predecessor."""

    blocks: list[Block]
    idom: list[int]
    ipdom: list[int]  # EXIT where nothing post-dominates; lanes that leave the function do not count
    loops: dict[int, set[int]]  # header -> blocks
    loop_of: list[int]  # innermost loop's header, or EXIT

    def dominates(self, a: int, b: int) -> bool:
        while b > a:
            b = self.idom[b]
        return a == b

    def loops_around(self, block: int) -> list[int]:
        """Headers of the loops that hold a block, innermost first."""
        return [header for header in sorted(self.loops, reverse=True) if block in self.loops[header]]


def build(
    body: Body,
    apart: Callable[[Instruction], bool] | None = None,
    predicated: bool = False,
    dual: bool | None = None,
) -> Graph:
    """The graph of a body.

    Args:
        apart: instructions for which it holds start a block.
        predicated: whether short branches and memory accesses become guarded instructions (predication.py).
        dual: whether there may be an unmasked version, in which a block is left at its start (affine.py). Else as
            for small kernels, which are not predicated.
    """
    blocks = _split(body, apart, predicated, not predicated if dual is None else dual)
    _drop_empty_exits(blocks)
    blocks = _reorder(blocks, _reverse_postorder(blocks))
    idom = dominators(blocks)
    if any(not dominates(idom, target, source) for source, target in _backward(blocks)):
        entries.unify(blocks)
        blocks = _reorder(blocks, _reverse_postorder(blocks))
        idom = dominators(blocks)
    back = _latches(blocks)
    for header, latches in back.items():
        if len(latches) > 1:
            _unify_latches(blocks, header, latches)
    loops, loop_of = _loops(blocks, idom, back)
    blocks = _reorder(blocks, _topological(blocks, loops, loop_of))
    idom = dominators(blocks)
    loops, loop_of = _loops(blocks, idom, _latches(blocks))
    return Graph(blocks, idom, postdominators(blocks), loops, loop_of)


def _backward(blocks: list[Block]) -> Iterator[tuple[int, int]]:
    """The edges that lead back in the order of the blocks."""
    for index, block in enumerate(blocks):
        for target in block.successors:
            if target <= index:
                yield index, target


def _latches(blocks: list[Block]) -> dict[int, list[int]]:
    """Header -> where its loop goes back to it."""
    back: dict[int, list[int]] = {}
    for source, target in _backward(blocks):
        back.setdefault(target, []).append(source)
    return back


def _split(body: Body, apart: Callable[[Instruction], bool] | None, predicated: bool, dual: bool) -> list[Block]:
    code, labels = predication.convert(body, predicated)

    def alone(instruction: Instruction) -> bool:
        """Whether a guarded instruction gets a block of its own."""
        if instruction.guard is None or instruction.base == "bra":
            return False
        return not (predicated and predication.accesses(instruction))

    starts = {0} | set(labels.values())
    for index, instruction in enumerate(code):
        if instruction.base in _ENDS or instruction.base in ("bar", "barrier"):
            starts.add(index + 1)
        if alone(instruction):
            starts.update((index, index + 1))
        if apart is not None and apart(instruction):
            starts.add(index)
    if dual:
        starts |= _extension_starts(code, starts)
    boundaries = sorted(start for start in starts if start < len(code))
    # An empty block at the end catches labels there and running off the end (= ret).
    number = {start: position + 1 for position, start in enumerate(boundaries)}
    final = len(boundaries) + 1
    extra: list[Block] = []
    blocks = [Block(targets=[1])]

    def at(index: int) -> int:
        return number.get(index, final)

    for position, start in enumerate(boundaries):
        end = boundaries[position + 1] if position + 1 < len(boundaries) else len(code)
        block = Block(line=code[start].line)
        blocks.append(block)
        last = code[end - 1]
        following = at(end)
        if last.guard is not None and alone(last):
            # The guarded instruction stands alone: the block branches round a new block that holds it.
            inner = Block(line=last.line)
            extra.append(inner)
            block.condition, block.negated = last.guard
            block.targets = [final + len(extra), following]
            inner.instructions = [
                Instruction(last.base, last.modifiers, last.destinations, last.sources, last.line, None, last.labels)
            ]
            _finish(inner, inner.instructions[0], following, labels, at)
            continue
        block.instructions = list(code[start:end])
        _finish(block, last, following, labels, at)
    blocks.append(Block(leaves="ret", targets=[EXIT], line=code[-1].line if code else 0))
    return blocks + extra


EFFECTS = having(Trait.EFFECT)


def _extension_starts(code: list[Instruction], starts: set[int]) -> set[int]:
    """Where an address extension follows a side effect: affine.py may run a block again from its start, up to such an extension."""
    found = set()
    dirty = False
    for index, instruction in enumerate(code):
        dirty = dirty and index not in starts
        if dirty and extends(instruction):
            found.add(index)
            dirty = False
        dirty = dirty or instruction.base in EFFECTS
    return found


def _finish(block: Block, last: Instruction, following: int, labels: dict[str, int], at: Any) -> None:
    """Sets a block's targets from its last instruction, removing it when it is a terminator."""
    if last.base not in _ENDS:
        block.targets = [following]
        return
    if last.base == "trap":
        block.leaves, block.targets = "trap", [EXIT]
        return
    block.instructions.pop()
    if last.base in ("ret", "exit"):
        block.leaves, block.targets = last.base, [EXIT]
    elif last.base == "bra":
        target = at(labels[last.labels[0]])
        if last.guard is None:
            block.targets = [target]
        else:
            block.condition, block.negated = last.guard
            block.targets = [target, following]
            if target == following:
                block.condition, block.targets = None, [target]
    else:
        block.condition, block.switch = last.sources[0], True
        block.targets = [at(labels[label]) for label in last.labels]
        if not block.targets:
            raise PtxError("brx without targets", last.line)


def _drop_empty_exits(blocks: list[Block]) -> None:
    """An edge to a block that only leaves the kernel is an EXIT edge; an edge to an empty jump goes where that goes."""
    forward: dict[int, int] = {}
    for index, block in enumerate(blocks):
        if index and not block.instructions and block.condition is None:
            if block.leaves == "ret":
                forward[index] = EXIT
            elif not block.leaves and block.targets[0] != index:
                forward[index] = block.targets[0]
    for block in blocks:
        for position, target in enumerate(block.targets):
            seen = 0
            while target in forward and seen <= len(forward):
                target = forward[target]
                seen += 1
            block.targets[position] = target
        if block.condition is not None and not block.switch and block.targets[0] == block.targets[1]:
            block.condition, block.targets = None, block.targets[:1]


def _reverse_postorder(blocks: list[Block]) -> list[int]:
    seen = {0}
    order: list[int] = []
    stack: list[tuple[int, list[int]]] = [(0, list(blocks[0].successors))]
    while stack:
        index, rest = stack[-1]
        if rest:
            target = rest.pop()
            if target not in seen:
                seen.add(target)
                stack.append((target, list(blocks[target].successors)))
        else:
            order.append(index)
            stack.pop()
    order.reverse()
    return order


def _reorder(blocks: list[Block], order: list[int]) -> list[Block]:
    """Renumbers; blocks that are not in the order are unreachable and dropped. Fills predecessors."""
    number = {old: new for new, old in enumerate(order)}
    number[EXIT] = EXIT
    result = [blocks[old] for old in order]
    for block in result:
        block.targets = [number[target] for target in block.targets]
        block.predecessors = []
    for index, block in enumerate(result):
        for target in block.successors:
            result[target].predecessors.append(index)
    return result


def _unify_latches(blocks: list[Block], header: int, latches: list[int]) -> None:
    blocks.append(Block(targets=[header], line=blocks[header].line))
    latch = len(blocks) - 1
    for index in latches:
        blocks[index].targets = [latch if target == header else target for target in blocks[index].targets]
        block = blocks[index]
        if block.condition is not None and not block.switch and block.targets[0] == block.targets[1]:
            block.condition, block.targets = None, block.targets[:1]
    latches[:] = [latch]
    for block in blocks:
        block.predecessors = []
    for index, block in enumerate(blocks):
        for target in block.successors:
            blocks[target].predecessors.append(index)


def _loops(blocks: list[Block], idom: list[int], back: dict[int, list[int]]) -> tuple[dict[int, set[int]], list[int]]:
    loops: dict[int, set[int]] = {}
    for header, latches in back.items():
        members = {header}
        stack = [latch for latch in latches if latch != header]
        while stack:
            node = stack.pop()
            if node not in members:
                members.add(node)
                stack.extend(blocks[node].predecessors)
        loops[header] = members
    loop_of = [EXIT] * len(blocks)
    for header in sorted(loops, key=lambda item: -len(loops[item])):
        for node in loops[header]:
            loop_of[node] = header
    return loops, loop_of


def _topological(blocks: list[Block], loops: dict[int, set[int]], loop_of: list[int]) -> list[int]:
    """Every loop contiguous: while one is open, only its blocks are taken."""
    parent = dict.fromkeys(loops, EXIT)
    for header in loops:
        around = [other for other in loops if other != header and header in loops[other]]
        if around:
            parent[header] = min(around, key=lambda other: len(loops[other]))
    waiting = [
        sum(1 for source in block.predecessors if not _is_back(loops, source, index))
        for index, block in enumerate(blocks)
    ]
    ready: dict[int, list[int]] = {EXIT: [0]}
    open_loops = [EXIT]
    order: list[int] = []
    while open_loops:
        heap = ready.get(open_loops[-1])
        if not heap:
            open_loops.pop()
            continue
        node = heapq.heappop(heap)
        order.append(node)
        if node in loops:
            open_loops.append(node)
        for target in blocks[node].successors:
            if _is_back(loops, node, target):
                continue
            waiting[target] -= 1
            if waiting[target] == 0:
                level = parent[target] if target in loops else loop_of[target]
                heapq.heappush(ready.setdefault(level, []), target)
    return order


def _is_back(loops: dict[int, set[int]], source: int, target: int) -> bool:
    return target in loops and source in loops[target]
