"""Follows a CUDA call's error code through instructions: what holds it, where it is compared with success, which branch
that decides.

There is one tracker. `fast` gives it the text of the instructions alone, `proof` the abstract machine's record of every
access: they differ in what they know of memory and of calls, and in what they do where the code is not followed any
further (`stop`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from farlane.analyzer.graph.control_flow import FALL, TAKEN, Block, ControlFlow
from farlane.analyzer.machine.effects import COPIES, Flags, flags, reads, targets
from farlane.analyzer.machine.instruction import Immediate, Instruction, Operand, Register
from farlane.analyzer.permissions.codes.endings import Endings

CODE, FAILED, SUCCEEDED = "code", "failed", "succeeded"  # the code itself; 1 when it is no success; 1 when it is
_OPPOSITE = {FAILED: SUCCEEDED, SUCCEEDED: FAILED}
_ASKS = frozenset({"test", "cmp", "or", "and"})

# What holds the code: a register, a cell as two numbers, or a mark.
Place: TypeAlias = "int | tuple[int, int] | str"
# Place -> as what it holds the code. All places hold it at once.
Held: TypeAlias = "dict[Place, str]"


class Tested(NamedTuple):
    """A branch that the code decides.

    Attributes:
        decided: FAILED: the zero flag says success; SUCCEEDED: the zero flag says failure.
        at: the comparison.
    """

    jump: Instruction
    decided: str
    at: int


class Tracker(ABC):
    """Follows codes in one function.

    Args:
        endings: tells whether the program ends from a block on.
        strict: whether a comparison counts only right before the branch that it decides.
    """

    def __init__(self, flow: ControlFlow, endings: Endings, strict: bool = False) -> None:
        self.flow, self.endings, self.strict = flow, endings, strict

    # What differs

    @abstractmethod
    def stop(self, why: str) -> Exception:
        """What is raised where the code is not followed any further."""

    @abstractmethod
    def place(self, block: Block, instruction: Instruction, operand: Operand) -> Place | None:
        """A general register, or the cell that an operand is; None: neither."""

    @abstractmethod
    def target(self, block: Block, instruction: Instruction, operand: Operand) -> Place | None:
        """The same of an operand that the code is copied to; None: it must not be."""

    @abstractmethod
    def call(self, block: Block, instruction: Instruction, held: Held) -> None:
        """What holds the code behind a call."""

    @abstractmethod
    def memory(self, block: Block, instruction: Instruction, held: Held) -> None:
        """What an instruction's accesses make of the cells that hold the code."""

    @abstractmethod
    def changed(self, place: Place, held: Held) -> None:
        """A register or cell is overwritten."""

    @abstractmethod
    def returned(self, instruction: Instruction, held: Held) -> None:
        """The function returns."""

    @abstractmethod
    def undecided(self, block: Block, at: int) -> None:
        """A block ends behind a comparison that no branch of its own asks for."""

    # What is the same

    def follow(self, block: Block, instructions: Iterable[Instruction], held: Held) -> Tested | None:
        """Follows the code through instructions of a block; the branch that it decides at its end, or None.

        `held` is what holds it before them, and behind them.
        """
        decided: str | None = None
        at, last = 0, block.instructions[-1]
        for instruction in instructions:
            name = instruction.mnemonic
            if decided is not None:
                if name.startswith("j") and instruction is last:
                    return Tested(instruction, decided, at)
                if name in ("sete", "setne") and isinstance(instruction.operands[0], Register):
                    if self.strict:
                        raise self.stop(f"the code is used at {instruction.address:#x}")
                    byte = instruction.operands[0].number
                    self.changed(byte, held)
                    held[byte] = decided if name == "setne" else _OPPOSITE[decided]
                    continue
            asked = self._asked(block, instruction, held)
            if asked is not None:
                if self.strict and (len(block.instructions) < 2 or instruction is not block.instructions[-2]):
                    raise self.stop(f"the code is compared at {instruction.address:#x}, away from a branch")
                decided, at = asked, instruction.address
                continue
            if decided is not None:
                effect = flags(name)
                if name in ("call", "ret") or effect == Flags.CHANGES:
                    decided = None
                elif effect != Flags.KEEPS:
                    raise self.stop(f"the code may be used at {instruction.address:#x}")
            if name == "call" or instruction.address in self.flow.calls:
                self.call(block, instruction, held)
                decided = None
            else:
                self._other(block, instruction, held)
            if not held and decided is None:
                break
        if decided is not None:
            self.undecided(block, at)
        return None

    def failure(self, block: Block, tested: Tested) -> tuple[str, str]:
        """Why the branch refuses the code, because the program goes on although the call failed; or the fact that it
        ends then."""
        edges = {edge.kind: edge.target for edge in block.edges}
        jump = tested.jump
        if jump.mnemonic not in ("je", "jne") or edges.keys() != {TAKEN, FALL}:
            raise self.stop(f"the code decides a jump that does not ask for success at {jump.address:#x}")
        failure = edges[TAKEN if (jump.mnemonic == "jne") == (tested.decided == FAILED) else FALL]
        if self.endings.ends(self.flow, failure):
            return "", f"the code is compared with 0 at {tested.at:#x}, the other way ends the program"
        return f"when the code at {tested.at:#x} is no success, the program goes on at {failure:#x}", ""

    def _asked(self, block: Block, instruction: Instruction, held: Held) -> str | None:
        """What the zero flag says behind a comparison of what holds the code with success."""
        name, operands = instruction.mnemonic, instruction.operands
        if name not in _ASKS or len(operands) != 2:
            return None
        first, second = operands
        zero = isinstance(second, Immediate) and second.value == 0 if name == "cmp" else first == second
        kind = self._kind(block, instruction, first, held) if zero else None
        if kind is None:
            return None
        return SUCCEEDED if kind == SUCCEEDED else FAILED

    def _kind(self, block: Block, instruction: Instruction, operand: Operand, held: Held) -> str | None:
        """As what an operand holds the code."""
        place = self.place(block, instruction, operand)
        kind = held.get(place) if place is not None else None
        if kind == CODE and operand.size < 4:
            raise self.stop(f"the code is used at {instruction.address:#x}")
        return kind

    def _other(self, block: Block, instruction: Instruction, held: Held) -> None:
        name, operands = instruction.mnemonic, instruction.operands
        if name in ("nop", "endbr64"):
            return  # the operand of nop is none
        if name == "ret":
            self.returned(instruction, held)
            return
        if name in COPIES and len(operands) == 2:
            kind = self._kind(block, instruction, operands[1], held)
            if kind is not None:
                target = self.target(block, instruction, operands[0])
                if target is None or (kind == CODE and operands[0].size < 4):
                    raise self.stop(f"the code is stored at {instruction.address:#x}")
                self.changed(target, held)
                held[target] = kind
                return
        if not held.keys().isdisjoint(reads(instruction)):
            raise self.stop(f"the code is used at {instruction.address:#x}")
        self.memory(block, instruction, held)
        for operand in targets(instruction):
            if isinstance(operand, Register) and operand.size >= 4:
                self.changed(operand.number, held)
        for number in instruction.writes:
            self.changed(number, held)
