"""Error codes that are refused whatever the abstract machine would find: between the call and the comparison they stay in registers.

Follows a code from its call, through registers alone and along the only way that leads on, to a comparison behind which the program goes on
although the call failed. That is most of what `codes` refuses, and executing a function and all its callees for it is most of the time. Where
anything else happens on the way nothing is said, and `codes` decides.
"""

from __future__ import annotations

from farlane.analyzer.graph.control_flow import EXCEPTION, FALL, TAKEN, ControlFlow
from farlane.analyzer.machine.instruction import (
    ARGUMENTS,
    NONE,
    RAX,
    XMM0,
    Immediate,
    Instruction,
    Memory,
    Operand,
    Register,
)
from farlane.analyzer.permissions.endings import Endings
from farlane.analyzer.permissions.uses import reads

_COPIES = {"mov", "movzx"}


def refusal(flow: ControlFlow, endings: Endings, site: int) -> str | None:
    """Why the code of the call at `site` must not be left out; None when that is not seen here."""
    block = flow.holding(site)
    held, seen = {RAX}, set[int]()
    after = site
    while block is not None and block.start not in seen:
        seen.add(block.start)
        tested: Instruction | None = None
        for instruction in block.instructions:
            if instruction.address <= after:
                continue
            if tested is not None:
                if instruction is not block.instructions[-1] or instruction.mnemonic not in ("je", "jne"):
                    return None
                edges = {edge.kind: edge.target for edge in block.edges}
                if edges.keys() != {TAKEN, FALL}:
                    return None
                failure = edges[TAKEN if instruction.mnemonic == "jne" else FALL]
                if endings.ends(flow, failure):
                    return None
                return f"when the code at {tested.address:#x} is no success, the program goes on at {failure:#x}"
            if _compares(instruction, held):
                tested = instruction
                continue
            if not _passes(flow, endings, instruction, held):
                return None
        edges_on = [edge.target for edge in block.edges if edge.kind != EXCEPTION]
        if tested is not None or not held or len(edges_on) != 1:
            return None
        block, after = flow.blocks[edges_on[0]], -1
    return None


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
