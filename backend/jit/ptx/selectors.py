"""Bytes and half-words of operands (`%r1.b2`, `%r1.h0`) in scalar video instructions.

`vadd.u32.s32.u32 d, a.b1, b.h0` reads one field of each register, extended by the sign of its type. The parser puts a bfe of each field in
front of the instruction, so nothing behind it knows of selectors. Of the destination no field can be chosen.
Source: PTX ISA, "Scalar Video Instructions".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from farlane.backend.jit.ptx.declarations import UnsupportedError
from farlane.backend.jit.ptx.model import Immediate, Instruction, Register

SELECTING = {"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset", "vmad"}
_SELECTOR = re.compile(r"(.+)\.(b[0-3]|h[01])$")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a register, as an operand; only between reading an operand and `extractions`."""

    register: Register
    at: int
    bits: int


def split(token: str) -> tuple[str, int, int] | None:
    """(register, first bit, bits) of a name with a selector."""
    found = _SELECTOR.match(token)
    if found is None:
        return None
    bits = 8 if found[2][0] == "b" else 16
    return found[1], int(found[2][1]) * bits, bits


def extractions(instruction: Instruction, number: int) -> list[Instruction]:
    """What reads the fields that the instruction names; its operands become the results. `number` makes names that are not taken."""
    before: list[Instruction] = []
    types = [item for item in instruction.modifiers if item in ("u32", "s32")][-2:]
    for index, operand in enumerate(instruction.sources):
        if not isinstance(operand, Field):
            continue
        if index >= 2 or len(types) != 2 or operand.register.type != "b32":
            raise UnsupportedError(f"a selector of operand {index + 1} of {instruction.text}", instruction.line)
        result = Register(f"%field.{number}.{index}", "b32")
        sources = [operand.register, Immediate(operand.at), Immediate(operand.bits)]
        before.append(Instruction("bfe", (types[index],), [result], sources, instruction.line))
        instruction.sources[index] = result
    return before
