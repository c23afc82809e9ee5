"""Loops that wait for another thread: found on the graph in SSA form.

A loop waits when it is left depending on what an instruction read from memory that others write (an atomic, a volatile or ordered load, a test
of an mbarrier), and that instruction asks for the same thing again in each iteration: its operands are the same in all of them, or begin anew
(`do { again = false; for (v = first; v < n; v += step) again |= !ready(v); } while (again)`). So the retry of a compare-and-swap with a new
expected value is not one, and a lock is. In a loop with a fence or a sleep plain loads count too.
A loop also waits when such an instruction decides whether an iteration gets anywhere: where there is a way round the loop on which nothing
changes that its end and the instruction depend on (`while (i < n) if (ready(i)) i += step;`).

Such a loop lets the other warps run at each iteration. Where lanes leave it at different iterations, lanes of one warp may wait for each
other: the emitter then sends the ones that are through ahead (codegen.py).

Where local variables lie in memory, a loop is judged as if they were registers (unspilled.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from farlane.backend.jit.ptx.instructions import Trait, having
from farlane.backend.jit.ptx.model import Body, Instruction, registers_of
from farlane.backend.jit.ssa import cfg, ssa
from farlane.backend.jit.ssa.cfg import Graph
from farlane.backend.jit.ssa.ssa import Phi, Value
from farlane.backend.jit.ssa.unspilled import unspilled

_ORDERED = {"volatile", "relaxed", "acquire", "mmio"}
_PAUSES = having(Trait.PAUSE)
WARP_WIDE = having(Trait.WARP_WIDE)


def may_wait(body: Body) -> bool:
    """Whether a body is worth looking at."""
    return any(_asks(item, True) or item.base in _PAUSES for item in body.instructions)


def warp_wide(instruction: Instruction) -> bool:
    """Whether an instruction takes part with all lanes of its member mask."""
    if instruction.base in ("bar", "barrier"):
        return "warp" in instruction.modifiers
    return instruction.base in WARP_WIDE


def behind(graph: Graph, waiting: set[int]) -> Callable[[Instruction], bool]:
    """Tells the warp-wide instructions that a lane may come to after it has waited in one of these loops."""
    seen = reached(graph, waiting)
    lines = {item.line for index in seen for item in graph.blocks[index].instructions if warp_wide(item)}
    return lambda item: item.line in lines and warp_wide(item)


def reached(graph: Graph, start: set[int]) -> set[int]:
    """These blocks, and those that come after them."""
    seen: set[int] = set()
    stack = list(start)
    while stack:
        index = stack.pop()
        if index not in seen:
            seen.add(index)
            stack += graph.blocks[index].successors
    return seen


def members(instruction: Instruction) -> Any:
    """The member mask's operand, None for the old forms without one."""
    if "sync" not in instruction.modifiers:
        return None
    return instruction.sources[0 if instruction.base in ("bar", "barrier", "elect") else -1]


def prepare(body: Body, graph: Graph) -> tuple[list[Value], set[int]]:
    """Brings the graph of a body into SSA form: its values, and the headers of its loops that wait."""
    asks = may_wait(body)
    plain = unspilled(graph, body.storage) if asks else None
    values = ssa.build(graph)
    if plain is not None:
        ssa.build(plain)
    return values, waiting_loops(plain or graph) if asks else set()


def count(body: Body) -> int:
    """How many loops of a body wait."""
    return len(prepare(body, cfg.build(body))[1])


def waiting_loops(graph: Graph) -> set[int]:
    """Headers of the loops that wait."""
    found = set()
    for header, inside in graph.loops.items():
        paused = any(item.base in _PAUSES for index in inside for item in graph.blocks[index].instructions)
        for index in inside:
            block = graph.blocks[index]
            leaves = any(target not in inside for target in block.targets)
            test = block.condition if leaves else None
            if test is not None and (
                _depends(graph, test, header, inside, paused) or _stalls(graph, header, inside, test, paused)
            ):
                found.add(header)
                break
    return found


def _asks(item: Instruction, paused: bool) -> bool:
    """Whether an instruction reads memory that others may write."""
    if item.base == "atom":
        return True
    if item.base == "mbarrier":
        return item.modifiers[0] in ("test_wait", "try_wait")
    return item.base == "ld" and "param" not in item.modifiers and (paused or bool(_ORDERED & set(item.modifiers)))


def _stalls(graph: Graph, header: int, inside: set[int], condition: Any, paused: bool) -> bool:
    """Whether an instruction that asks decides if what the condition depends on changes."""
    end, carried = _iteration(registers_of(condition), header, inside)
    if not carried or not all(_keeps(value, header, inside) for value in carried):
        return False
    tests = [item for index in inside for item in registers_of(graph.blocks[index].condition)]
    for value in _iteration(tests, header, inside)[0] | end:
        definition = value.definition
        if isinstance(definition, Instruction) and _asks(definition, paused):
            operands = [item for source in definition.sources for item in registers_of(source)]
            known, carried = _iteration(operands, header, inside)
            # What an atomic returns is new each time.
            same = all(not isinstance(item.definition, Instruction) or item.definition.base != "atom" for item in known)
            if same and all(_keeps(item, header, inside) for item in carried):
                return True
    return False


def _iteration(values: list[Value], header: int, inside: set[int]) -> tuple[set[Value], set[Value]]:
    """What these depend on: values of the same iteration of the loop, and those that it carries from one to the next."""
    seen: set[Value] = set()
    carried: set[Value] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        if value in seen or value.block not in inside:
            continue
        definition = value.definition
        if value.block == header and isinstance(definition, Phi):
            carried.add(value)
            continue
        seen.add(value)
        if isinstance(definition, Phi):
            stack.extend(definition.operands.values())
        elif definition is not None:
            stack.extend(item for source in definition.sources for item in registers_of(source))
    return seen, carried


def _keeps(carried: Value, header: int, inside: set[int]) -> bool:
    """Whether a value that the loop carries may be the same in the next iteration: no more than chosen on the way there."""
    assert isinstance(carried.definition, Phi)
    stack = [value for source, value in carried.definition.operands.items() if source in inside]
    seen: set[Value] = set()
    while stack:
        value = stack.pop()
        if value is carried:
            return True
        definition = value.definition
        if value in seen or value.block not in inside or (value.block == header and isinstance(definition, Phi)):
            continue
        seen.add(value)
        if isinstance(definition, Phi):
            stack.extend(definition.operands.values())
        elif definition is not None and definition.base in ("mov", "selp"):
            stack.extend(item for source in definition.sources[:2] for item in registers_of(source))
    return False


def _depends(graph: Graph, condition: Any, header: int, inside: set[int], paused: bool) -> bool:
    """Whether a value depends, through values and branches of the loop, on an instruction that asks for the same again."""
    stack: list[Value] = list(registers_of(condition))
    seen: set[int] = set()
    while stack:
        value = stack.pop()
        if value.number in seen or value.block not in inside:
            continue
        seen.add(value.number)
        definition = value.definition
        if isinstance(definition, Phi):
            stack.extend(definition.operands.values())
            if value.block != header:
                stack.extend(_choosing(graph, definition, value.block, inside))
        elif definition is not None:
            operands = [item for source in definition.sources for item in registers_of(source)]
            if _asks(definition, paused) and _asks_again(definition, operands, header, inside):
                return True
            stack.extend(operands)
    return False


def _choosing(graph: Graph, phi: Phi, block: int, inside: set[int]) -> list[Value]:
    """What the branches ask for that decide which operand a phi takes: those between it and its dominator that have not met again before it."""
    found: list[Value] = []
    for source in phi.operands:
        at = source
        while at in inside:
            meeting = graph.ipdom[at]
            if graph.blocks[at].condition is not None and not (meeting >= 0 and graph.dominates(meeting, source)):
                found += registers_of(graph.blocks[at].condition)
            if at == graph.idom[block] or at == graph.idom[at]:
                break
            at = graph.idom[at]
    return found


def _asks_again(ask: Instruction, operands: list[Value], header: int, inside: set[int]) -> bool:
    """Whether each iteration of the loop asks for what the one before it has asked for."""
    if all(item.block not in inside for item in operands):
        return True
    if _iteration(operands, header, inside)[1]:
        return False
    if "cas" in ask.modifiers:  # expecting what was just read, it is a retry
        expected = _iteration(list(registers_of(ask.sources[1])), header, inside)[0]
        return not {"ld", "atom"} & _made_by(expected)
    return True


def _made_by(values: set[Value]) -> set[str]:
    return {value.definition.base for value in values if isinstance(value.definition, Instruction)}
