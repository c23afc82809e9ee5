"""Error codes that are kept in the frame, or as a byte that says whether there is one, and that the program goes on in spite of: refused
by the graph alone.

`outright` follows codes in registers to their first comparison. Here they are followed through cells of the frame and `sete` too, as the
text of the instructions has them, and only to refuse: a refusal needs no proof. A code is refused where every way from its call, but for
those on which the program ends and those of exceptions, comes to a comparison behind which the program goes on although the call failed.
Executing a function with all its callees to find that out took more time than all proofs of permissions together. Of whatever else
happens on some way nothing is said, and `codes` decides.
"""

from __future__ import annotations

from typing import TypeAlias

from farlane.analyzer.externals import names
from farlane.analyzer.graph.control_flow import EXCEPTION, FALL, STOP, TAKEN, Block, ControlFlow
from farlane.analyzer.machine.effects import reads
from farlane.analyzer.machine.instruction import (
    ARGUMENTS,
    RAX,
    RBP,
    RSP,
    XMM0,
    Immediate,
    Instruction,
    Memory,
    Operand,
    Register,
)
from farlane.analyzer.permissions.codes.endings import Endings

MAXIMUM_STEPS = 1024  # blocks with what holds the code there
CODE, FAILED, SUCCEEDED = "code", "failed", "succeeded"  # the code itself; 1 when it is no success; 1 when it is
_OPPOSITE = {FAILED: SUCCEEDED, SUCCEEDED: FAILED}
_COPIES = {"mov", "movzx"}
_KEEPS_FLAGS = ("mov", "lea", "nop", "endbr64", "cdq", "cqo", "cwde", "cdqe")
_SETS_FLAGS = {"add", "sub", "cmp", "test", "and", "or", "xor", "inc", "dec", "neg", "shl", "sal", "sar", "shr", "imul"}

# A register, or a cell of the frame as (register, displacement) in the instructions.
_Place: TypeAlias = "int | tuple[int, int]"
_Held: TypeAlias = "dict[_Place, str]"


class _Unseen(Exception):
    """Something that is not followed here."""


def refusal(flow: ControlFlow, endings: Endings, site: int) -> str | None:
    """Why the code of the call at `site` must not be left out; None when that is not seen here."""
    first = flow.holding(site)
    if first is None:
        return None
    found: set[str] = set()
    work: list[tuple[Block, int, _Held]] = [(first, site, {RAX: CODE})]
    seen: set[tuple[int, frozenset[tuple[_Place, str]]]] = set()
    try:
        while work:
            block, after, held = work.pop()
            refused = _block(flow, endings, block, after, held)
            if refused is not None:
                found.add(refused)
                continue
            if not held:
                return None
            if block.end == STOP and not block.edges:
                continue
            edges = [edge for edge in block.edges if edge.kind != EXCEPTION]
            if block.end or (not edges and not block.edges):
                return None
            for edge in edges:
                step = (edge.target, frozenset(held.items()))
                if step not in seen:
                    seen.add(step)
                    work.append((flow.blocks[edge.target], -1, dict(held)))
            if len(seen) > MAXIMUM_STEPS:
                return None
    except _Unseen:
        return None
    return min(found, default=None)


def _block(flow: ControlFlow, endings: Endings, block: Block, after: int, held: _Held) -> str | None:
    """Why the code is refused at the end of a block; None when it is not: then `held` is what holds it there."""
    decided: str | None = None  # FAILED: the zero flag says success; SUCCEEDED: the zero flag says failure
    tested = 0
    last = block.instructions[-1]
    for instruction in block.instructions:
        if instruction.address <= after:
            continue
        name = instruction.mnemonic
        if name.startswith("j"):
            if decided is not None:
                return _branch(flow, endings, block, instruction, decided, tested)
            if instruction is not last or not held.keys().isdisjoint(reads(instruction)):
                raise _Unseen
            return None
        if decided is not None and name in ("sete", "setne") and isinstance(instruction.operands[0], Register):
            held[instruction.operands[0].number] = decided if name == "setne" else _OPPOSITE[decided]
            continue
        asked = _asked(instruction, held)
        if asked is not None:
            decided, tested = asked, instruction.address
            continue
        if name in _SETS_FLAGS or name == "call":
            decided = None
        elif decided is not None and not name.startswith(_KEEPS_FLAGS):
            raise _Unseen
        _pass(flow, endings, instruction, held)
        if not held:
            return None
    return None


def _branch(flow: ControlFlow, endings: Endings, block: Block, jump: Instruction, decided: str, tested: int) -> str:
    edges = {edge.kind: edge.target for edge in block.edges}
    if jump.mnemonic not in ("je", "jne") or edges.keys() != {TAKEN, FALL}:
        raise _Unseen
    failure = edges[TAKEN if (jump.mnemonic == "jne") == (decided == FAILED) else FALL]
    if endings.ends(flow, failure):
        raise _Unseen  # perhaps a proof
    return f"when the code at {tested:#x} is no success, the program goes on at {failure:#x}"


def _place(operand: Operand) -> _Place | None:
    """A general register, or a cell of the frame."""
    if isinstance(operand, Register):
        return operand.number if 0 <= operand.number < XMM0 and not operand.offset else None
    if isinstance(operand, Memory) and operand.base in (RSP, RBP) and operand.indexed < 0 and not operand.thread:
        return operand.base, operand.displacement
    return None


def _asked(instruction: Instruction, held: _Held) -> str | None:
    """What the zero flag says behind a comparison of what holds the code with 0."""
    if instruction.mnemonic not in ("test", "cmp"):
        return None
    first, second = instruction.operands
    zero = isinstance(second, Immediate) and second.value == 0
    if not (zero if instruction.mnemonic == "cmp" else first == second):
        return None
    place = _place(first)
    kind = held.get(place) if place is not None else None
    if kind is None:
        return None
    if kind == CODE and first.size < 4:
        raise _Unseen
    return SUCCEEDED if kind == SUCCEEDED else FAILED


def _pass(flow: ControlFlow, endings: Endings, instruction: Instruction, held: _Held) -> None:
    """What holds the code behind an instruction that does not compare it."""
    name, operands = instruction.mnemonic, instruction.operands
    callee = flow.calls.get(instruction.address)
    if callee is not None or name == "call":
        if callee is None or name != "call" or not held.keys().isdisjoint(ARGUMENTS):
            raise _Unseen
        if callee.name in names.RETURNS_TWICE or not all(_fixed(operand) for operand in instruction.operands):
            raise _Unseen
        for number in endings.clobbered(callee):
            held.pop(number, None)
        return
    if name in _COPIES and len(operands) == 2:
        source, target = _place(operands[1]), _place(operands[0])
        kind = held.get(source) if source is not None else None
        if kind is not None:
            if target is None or (kind == CODE and min(operands[0].size, operands[1].size) < 4):
                raise _Unseen
            _moved(held, target)
            held[target] = kind
            return
    used = reads(instruction)
    target = _place(operands[0]) if operands else None
    for place in held:
        if isinstance(place, int):
            if place in used:
                raise _Unseen
        elif any(isinstance(each, Memory) and _overlaps(place, each) for each in operands) and not (
            name == "mov" and target == place and operands[0].size >= 4
        ):
            raise _Unseen
    if name in ("push", "pop", "leave", "ret"):
        _moved(held, RSP)
        if name in ("leave", "ret"):
            _moved(held, RBP)
    if isinstance(target, tuple) and name == "mov":
        held.pop(target, None)
    elif isinstance(target, int) and name not in ("cmp", "test", "push"):
        _moved(held, target)
        held.pop(target, None)
    for number in instruction.writes:
        _moved(held, number)
        held.pop(number, None)


def _fixed(operand: Operand) -> bool:
    return isinstance(operand, Immediate) or (isinstance(operand, Memory) and operand.base < 0 and operand.indexed < 0)


def _moved(held: _Held, place: _Place) -> None:
    """A register is changed: of cells that it is the base of, nothing is said."""
    if place in (RSP, RBP) and any(isinstance(each, tuple) and each[0] == place for each in held):
        raise _Unseen


def _overlaps(place: tuple[int, int], operand: Memory) -> bool:
    """Whether an operand is a part of the four bytes of a cell, as far as its text says."""
    base, displacement = place
    size = operand.size or 1
    return (
        operand.base == base and operand.displacement < displacement + 4 and displacement < operand.displacement + size
    )
