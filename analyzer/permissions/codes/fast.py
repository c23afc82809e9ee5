"""Error codes that are accepted or refused by the graph alone, without the abstract machine. That is most codes.

Executing a function with all its callees for a code takes more time than all else that is done for permissions.

- `verdict` follows a code from its call through registers along every edge. Where each way comes to a comparison behind
  which the program goes on although the call failed, it refuses the code. Where each comes to one behind which it ends,
  or to where nothing holds the code any longer, that is a proof.
- `refusal` follows it through cells of the frame and `sete` too, as the text of the instructions has them, and only to
  refuse: a refusal needs no proof. It refuses a code where every way from its call, but for those on which the program
  ends and those of exceptions, comes to a comparison behind which the program goes on although the call failed.

Where anything else happens on some way they say nothing, and `proof` decides.
"""

from __future__ import annotations

from typing import NamedTuple

from farlane.analyzer.externals import names
from farlane.analyzer.graph.control_flow import EXCEPTION, LEAVING, RETURN, STOP, Block, ControlFlow
from farlane.analyzer.machine.instruction import (
    ARGUMENTS,
    CALLEE_SAVED,
    RAX,
    RBP,
    RCX,
    RDX,
    RSP,
    XMM0,
    Immediate,
    Instruction,
    Memory,
    Operand,
    Register,
)
from farlane.analyzer.permissions.codes.endings import Endings
from farlane.analyzer.permissions.codes.tracker import CODE, Held, Place, Tracker

STEPS, STEPS_WITH_CELLS = 256, 1024  # blocks with what holds the code there
_CALLEE_SAVED = frozenset(CALLEE_SAVED)
_UNKNOWN_READS = frozenset({RAX, RCX, RDX})


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
    tracker = _Textual(flow, endings, cells=False)
    work: list[tuple[Block, int, Held]] = [(first, site, {RAX: CODE})]
    seen: set[tuple[int, frozenset[Place]]] = set()
    refused: dict[str, None] = {}
    facts: dict[str, None] = {}
    ends = False  # whether some way comes to where nothing holds the code
    while work:
        block, after, held = work.pop()
        tested = tracker.follow(block, [each for each in block.instructions if each.address > after], held)
        if tested is not None:
            refusal_, fact = tracker.failure(block, tested)
            (refused if refusal_ else facts)[refusal_ or fact] = None
            continue
        returned = block.end == RETURN and held.keys().isdisjoint((RAX, RDX))  # functions restore the others
        if not held or returned or (block.end == STOP and not block.edges):
            ends = True
            continue
        if block.end in LEAVING or not block.edges:
            raise _Unseen
        for edge in block.edges:
            if edge.kind == EXCEPTION and not exceptional:
                continue
            # A landing pad is given the registers that calls do not keep.
            kept = {place: kind for place, kind in held.items() if edge.kind != EXCEPTION or place in _CALLEE_SAVED}
            step = (edge.target, frozenset(kept))
            if step not in seen:
                seen.add(step)
                work.append((flow.blocks[edge.target], -1, kept))
        if len(seen) >= STEPS:
            raise _Unseen
    if not refused:
        return Verdict("", tuple(sorted(facts)))
    return None if facts or ends else Verdict(min(refused), ())


def refusal(flow: ControlFlow, endings: Endings, site: int) -> str | None:
    """Why the code of the call at `site` must not be left out; None when that is not seen here."""
    first = flow.holding(site)
    if first is None:
        return None
    tracker = _Textual(flow, endings, cells=True)
    found: set[str] = set()
    work: list[tuple[Block, int, Held]] = [(first, site, {RAX: CODE})]
    seen: set[tuple[int, frozenset[tuple[Place, str]]]] = set()
    try:
        while work:
            block, after, held = work.pop()
            tested = tracker.follow(block, [each for each in block.instructions if each.address > after], held)
            if tested is not None:
                refused, _ = tracker.failure(block, tested)
                if not refused:
                    return None  # perhaps a proof
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
            if len(seen) > STEPS_WITH_CELLS:
                return None
    except _Unseen:
        return None
    return min(found, default=None)


class _Textual(Tracker):
    """Knows of memory and calls what the text of the instructions tells.

    Args:
        cells: whether codes are followed through cells of the frame, as (register, displacement), and through `sete`.
    """

    def __init__(self, flow: ControlFlow, endings: Endings, cells: bool) -> None:
        super().__init__(flow, endings, strict=not cells)
        self._cells = cells

    def stop(self, why: str) -> Exception:
        return _Unseen(why)

    def place(self, block: Block, instruction: Instruction, operand: Operand) -> Place | None:
        if isinstance(operand, Register):
            return operand.number if 0 <= operand.number < XMM0 and not operand.offset else None
        framed = isinstance(operand, Memory) and operand.base in (RSP, RBP) and operand.indexed < 0
        if self._cells and framed and isinstance(operand, Memory) and not operand.thread:
            return operand.base, operand.displacement
        return None

    target = place

    def call(self, block: Block, instruction: Instruction, held: Held) -> None:
        callee = self.flow.calls.get(instruction.address)
        # A computed call may use the code; a callee may be given it.
        if callee is None or instruction.mnemonic != "call" or not held.keys().isdisjoint(ARGUMENTS):
            raise _Unseen
        if callee.name in names.RETURNS_TWICE or not all(map(_fixed, instruction.operands)):
            raise _Unseen
        for number in self.endings.clobbered(callee):
            held.pop(number, None)

    def memory(self, block: Block, instruction: Instruction, held: Held) -> None:
        operands = instruction.operands
        target = self.place(block, instruction, operands[0]) if operands else None
        stored = instruction.mnemonic == "mov" and isinstance(target, tuple) and operands[0].size >= 4
        for place in held:
            overlaps = isinstance(place, tuple) and any(_overlaps(place, each) for each in operands)
            if overlaps and not (stored and place == target):
                raise _Unseen
        if instruction.mnemonic in ("push", "pop", "leave"):
            self._moved(RSP, held)
        if instruction.mnemonic == "leave":
            self._moved(RBP, held)
        if stored and isinstance(target, tuple):
            held.pop(target, None)

    def changed(self, place: Place, held: Held) -> None:
        self._moved(place, held)
        held.pop(place, None)

    def returned(self, instruction: Instruction, held: Held) -> None:
        if not held.keys().isdisjoint(_UNKNOWN_READS):
            raise _Unseen
        self._moved(RSP, held)
        self._moved(RBP, held)

    def undecided(self, block: Block, at: int) -> None:
        pass  # the branch elsewhere refuses nothing here

    def _moved(self, place: Place, held: Held) -> None:
        """A register is changed: of cells that it is the base of, nothing is said."""
        if place in (RSP, RBP) and any(isinstance(each, tuple) and each[0] == place for each in held):
            raise _Unseen


def _fixed(operand: Operand) -> bool:
    return isinstance(operand, Immediate) or (isinstance(operand, Memory) and operand.base < 0 and operand.indexed < 0)


def _overlaps(place: tuple[int, int], operand: Operand) -> bool:
    """Whether an operand is a part of the four bytes of a cell, as far as its text says."""
    if not isinstance(operand, Memory):
        return False
    base, displacement = place
    size = operand.size or 1
    return (
        operand.base == base and operand.displacement < displacement + 4 and displacement < operand.displacement + size
    )
