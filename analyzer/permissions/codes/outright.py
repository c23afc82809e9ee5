"""Error codes that stay in registers from the call to where they are compared or overwritten: judged without the abstract machine.

Follows a code from its call through registers along every edge of the graph. Where each way comes to a comparison behind which the program
goes on although the call failed, the code is refused; where each comes to one behind which it ends, or to where nothing holds the code any
longer, what is done with it is proven. That is most codes, and executing a function and all its callees for them is most of the time. Where
anything else happens on some way nothing is said, and `codes` decides.
"""

from __future__ import annotations

from typing import NamedTuple

from farlane.analyzer.externals import names
from farlane.analyzer.graph.control_flow import EXCEPTION, FALL, LEAVING, RETURN, STOP, TAKEN, Block, ControlFlow
from farlane.analyzer.machine.effects import reads
from farlane.analyzer.machine.instruction import (
    ARGUMENTS,
    CALLEE_SAVED,
    NONE,
    RAX,
    RDX,
    XMM0,
    Immediate,
    Instruction,
    Memory,
    Operand,
    Register,
)
from farlane.analyzer.permissions.codes.endings import Endings

MAXIMUM_STEPS = 256  # blocks with what holds the code there
_COPIES = {"mov", "movzx"}
_CALLEE_SAVED = frozenset(CALLEE_SAVED)


class Verdict(NamedTuple):
    """Why a code must not be left out, or, where `refused` is empty, the facts of the proof that it may."""

    refused: str
    facts: tuple[str, ...]


class _Unseen(Exception):
    """Something that is not followed here."""


def verdict(flow: ControlFlow, endings: Endings, site: int) -> Verdict | None:
    """What is to be said of the code of the call at `site`; None when that is not seen here."""
    first = flow.holding(site)
    if first is None:
        return None
    try:
        # A refusal on all ways without an exception is one; a proof has to hold on all ways.
        found = _ways(flow, endings, first, site, exceptional=False)
        return _ways(flow, endings, first, site, exceptional=True) if found is not None and not found.refused else found
    except _Unseen:
        return None


def _ways(flow: ControlFlow, endings: Endings, first: Block, site: int, exceptional: bool) -> Verdict | None:
    work = [(first, site, frozenset({RAX}))]
    seen = {(first.start, site, frozenset({RAX}))}
    refused: dict[str, None] = {}
    facts: dict[str, None] = {}
    ends = False  # whether some way comes to where nothing holds the code
    while work:
        block, after, holders = work.pop()
        tested, held = _block(flow, endings, block, after, holders)
        if tested is not None:
            refusal, fact = _branch(flow, endings, block, tested)
            (refused if refusal else facts)[refusal or fact] = None
            continue
        returned = block.end == RETURN and held.isdisjoint((RAX, RDX))  # functions restore the others
        if not held or returned or (block.end == STOP and not block.edges):
            ends = True
            continue
        if block.end in LEAVING or not block.edges:
            raise _Unseen
        for edge in block.edges:
            if edge.kind == EXCEPTION and not exceptional:
                continue
            kept = held & _CALLEE_SAVED if edge.kind == EXCEPTION else held  # a landing pad is given the others
            step = (edge.target, -1, kept)
            if step not in seen:
                seen.add(step)
                work.append((flow.blocks[edge.target], -1, kept))
        if len(seen) > MAXIMUM_STEPS:
            raise _Unseen
    if not refused:
        return Verdict("", tuple(sorted(facts)))
    return None if facts or ends else Verdict(min(refused), ())


def _block(
    flow: ControlFlow, endings: Endings, block: Block, after: int, holders: frozenset[int]
) -> tuple[Instruction | None, frozenset[int]]:
    """The comparison that the block's last jump asks for, or else what holds the code behind the block."""
    held = set(holders)
    for index, instruction in enumerate(block.instructions):
        if instruction.address <= after:
            continue
        if _compares(instruction, held):
            if index != len(block.instructions) - 2:
                raise _Unseen
            return instruction, frozenset()
        if not _passes(flow, endings, instruction, held):
            raise _Unseen
        if not held:
            break
    return None, frozenset(held)


def _branch(flow: ControlFlow, endings: Endings, block: Block, tested: Instruction) -> tuple[str, str]:
    """Why the jump behind a comparison with success refuses the code, or the fact that it is."""
    jump = block.instructions[-1].mnemonic
    edges = {edge.kind: edge.target for edge in block.edges}
    if jump not in ("je", "jne") or edges.keys() != {TAKEN, FALL}:
        raise _Unseen
    failure = edges[TAKEN if jump == "jne" else FALL]
    if endings.ends(flow, failure):
        return "", f"the code is compared with 0 at {tested.address:#x}, the other way ends the program"
    return f"when the code at {tested.address:#x} is no success, the program goes on at {failure:#x}", ""


def _compares(instruction: Instruction, held: set[int]) -> bool:
    """Whether it compares the code, in a register, with success."""
    if instruction.mnemonic not in ("test", "cmp") or len(instruction.operands) != 2:
        return False
    first, second = instruction.operands
    if not isinstance(first, Register) or first.number not in held or first.size < 4 or first.offset:
        return False
    if instruction.mnemonic == "cmp":
        return isinstance(second, Immediate) and second.value == 0
    return first == second


def _passes(flow: ControlFlow, endings: Endings, instruction: Instruction, held: set[int]) -> bool:
    """Follows the code past an instruction that only moves it between registers or leaves it alone; whether it is one."""
    name, operands = instruction.mnemonic, instruction.operands
    callee = flow.calls.get(instruction.address)
    if callee is not None or name == "call":
        # A computed call may use the code; a callee may be given it.
        if callee is None or name != "call" or not held.isdisjoint(ARGUMENTS) or not _direct(instruction):
            return False
        if callee.name in names.RETURNS_TWICE:
            return False
        held -= endings.clobbered(callee)
        return True
    if name in _COPIES and len(operands) == 2:
        target, source = operands
        if isinstance(source, Register) and source.number in held:
            if not isinstance(target, Register) or not 0 <= target.number < XMM0 or min(target.size, source.size) < 4:
                return False
            held.add(target.number)
            return True
    if held & reads(instruction):
        return False
    for operand in operands[:1]:
        if isinstance(operand, Register) and operand.size >= 4 and name not in ("cmp", "test", "push"):
            held.discard(operand.number)
    held.difference_update(instruction.writes)
    return True


def _direct(instruction: Instruction) -> bool:
    return all(isinstance(operand, Immediate) or _fixed(operand) for operand in instruction.operands)


def _fixed(operand: Operand) -> bool:
    return isinstance(operand, Memory) and operand.base == operand.indexed == NONE
