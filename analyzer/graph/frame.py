"""The lowest place of a function's own frame whose address the function takes.

What lies below it is reached at fixed places only: registers that are kept for a while, a function's parameters without
optimization. An address that is not followed cannot be one of those, as compilers lay objects out: it is made of one
that was taken, and a computed part counts up. For predictions.

Owns following the stack pointer, and a frame pointer, through a function's blocks: pushes, pops, and constants. Offsets
are from where the stack pointer is at the function's entry.
"""

from __future__ import annotations

from typing import NamedTuple

from farlane.analyzer.graph.control_flow import EXCEPTION, Block, ControlFlow
from farlane.analyzer.machine.instruction import NONE, RBP, RSP, Immediate, Instruction, Memory, Operand, Register

_WORD = 8


class _Depth(NamedTuple):
    """Where the stack pointer is, and the frame pointer if it is one."""

    stack: int
    frame: int | None


def lowest_taken(flow: ControlFlow) -> int | None:
    """None: the stack pointer is not followed, or no address is taken."""
    taken: list[int] = []
    depths = {flow.entry: _Depth(0, None)}
    work, pads = [flow.entry], list[tuple[int, _Depth]]()
    while work or pads:
        if not work:  # landing pads, as they are reached with the least on the stack
            start, depth = pads.pop()
            if start in depths:
                continue
            depths[start] = depth._replace(stack=max([depth.stack, *(d.stack for at, d in pads if at == start)]))
            work.append(start)
        start = work.pop()
        block = flow.blocks[start]
        after = _follow(block, depths[start], taken)
        if after is None:
            return None
        for edge in block.edges:
            known = depths.get(edge.target)
            if edge.kind == EXCEPTION:
                pads.append((edge.target, after))
            elif known is None:
                depths[edge.target] = after
                work.append(edge.target)
            elif known.stack != after.stack:
                return None
            elif known.frame != after.frame:
                depths[edge.target] = known._replace(frame=None)
                if known.frame is not None:
                    work.append(edge.target)
    return min(taken, default=None)


def _follow(block: Block, depth: _Depth, taken: list[int]) -> _Depth | None:
    """Where the pointers are behind a block; None: not followed. `taken`: the addresses that are taken are added."""
    for instruction in block.instructions:
        taken += _taken(instruction, depth)
        moved = _moved(instruction, depth)
        if moved is None:
            return None
        depth = moved
    return depth


def _moved(instruction: Instruction, depth: _Depth) -> _Depth | None:
    """Where the pointers are behind an instruction."""
    name, operands = instruction.mnemonic, instruction.operands
    if name == "push":
        return depth._replace(stack=depth.stack - _WORD)
    if name == "leave":
        return None if depth.frame is None else _Depth(depth.frame + _WORD, None)
    target = operands[0] if operands else None
    number = target.number if isinstance(target, Register) else None
    if name == "pop":
        if number == RSP:
            return None
        return _Depth(depth.stack + _WORD, None if number == RBP else depth.frame)
    if number == RSP and name not in ("cmp", "test"):
        place = _place(name, operands, depth)
        return None if place is None else depth._replace(stack=place)
    if number == RBP and name not in ("cmp", "test"):
        from_stack = name == "mov" and operands[1] == Register(RSP, _WORD)
        return depth._replace(frame=depth.stack if from_stack else None)
    return depth


def _place(name: str, operands: tuple[Operand, ...], depth: _Depth) -> int | None:
    """What the stack pointer is set to."""
    source = operands[1] if len(operands) > 1 else None
    if name in ("add", "sub") and isinstance(source, Immediate):
        return depth.stack + (source.value if name == "add" else -source.value)
    if name == "mov" and isinstance(source, Register) and source.number == RBP:
        return depth.frame
    if name == "lea" and isinstance(source, Memory) and source.indexed == NONE:
        start = _pointer(source.base, depth)
        return None if start is None else start + source.displacement
    return None


def _taken(instruction: Instruction, depth: _Depth) -> list[int]:
    """The addresses of the frame that an instruction takes, or computes a place from."""
    name, operands = instruction.mnemonic, instruction.operands
    found = []
    for index, operand in enumerate(operands):
        if isinstance(operand, Memory):
            start = _pointer(operand.base, depth)
            to_stack = isinstance(operands[0], Register) and operands[0].number == RSP
            if start is not None and ((name == "lea" and not to_stack) or operand.indexed != NONE):
                found.append(start + operand.displacement)
        elif isinstance(operand, Register) and (index or name == "push"):
            start = _pointer(operand.number, depth)
            if start is not None and not (index and operands[0] == Register(RSP, _WORD)):
                found.append(start)
    return found


def _pointer(number: int, depth: _Depth) -> int | None:
    return depth.stack if number == RSP else depth.frame if number == RBP else None
