"""Operands of PTX instructions: registers, constants, symbols, addresses, vectors, and fields of registers.

Scalar video instructions name bytes and half-words of registers (`%r1.b2`, `%r1.h0`): `vadd.u32.s32.u32 d, a.b1, b.h0` reads one field of
each, extended by the sign of its type. The parser puts a bfe of each field in front of the instruction, so nothing behind it knows of them.
Of the destination no field can be chosen.
Source: PTX ISA, "Operands", "Scalar Video Instructions".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from farlane.backend.jit.ptx.declarations import PtxError, UnsupportedError
from farlane.backend.jit.ptx.lexer import Cursor, is_word, number
from farlane.backend.jit.ptx.model import (
    Address,
    Body,
    Immediate,
    Instruction,
    Negated,
    Register,
    Special,
    Symbol,
    Vector,
)

MAX_OPERANDS = 64
SELECTING = {"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset", "vmad"}
_SELECTOR = re.compile(r"(.+)\.(b[0-3]|h[01])$")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})$")
_SPECIALS = {
    "tid", "ntid", "ctaid", "nctaid", "laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid", "lanemask_eq", "lanemask_le",
    "lanemask_lt", "lanemask_ge", "lanemask_gt", "clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo",
    "globaltimer_hi", "reserved_smem_offset_begin", "reserved_smem_offset_end", "reserved_smem_offset_cap", "reserved_smem_offset_0",
    "reserved_smem_offset_1", "dynamic_smem_size", "total_smem_size", "is_explicit_cluster", "clusterid", "nclusterid",
    "cluster_ctaid", "cluster_nctaid", "cluster_ctarank", "cluster_nctarank", "aggr_smem_size", "current_graph_exec",
    "envreg",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a register, as an operand; only between reading an operand and `extractions`."""

    register: Register
    at: int
    bits: int


def _split(token: str) -> tuple[str, int, int] | None:
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


class Scope:
    """The declarations of one brace level."""

    __slots__ = ("families", "labels", "names", "registers", "suffix")

    def __init__(self, suffix: str) -> None:
        self.suffix = suffix
        self.registers: dict[str, str] = {}
        self.families: dict[str, tuple[str, int]] = {}
        self.names: dict[str, str] = {}
        self.labels: set[str] = set()


class OperandParser:
    """Reads operands by the declarations that are in scope."""

    def __init__(self, cursor: Cursor, body: Body) -> None:
        self.cursor, self.body = cursor, body
        self.scopes = [Scope("")]
        self.cache: dict[str, Register] = {}

    def operand(self) -> Any:
        cursor = self.cursor
        line, token = cursor.line, cursor.next()
        if token == "{":
            items: list[Any] = []
            while not cursor.accept("}"):
                if items:
                    cursor.expect(",")
                if cursor.peek in ("{", "["):
                    raise PtxError("nested vector operand", line)
                items.append(self.operand())
                if len(items) > 2 * MAX_OPERANDS:  # accumulators of wgmma are 128
                    raise PtxError("vector operand too long", line)
            return Vector(tuple(items))
        if token == "[":
            return self._address(line)
        if token == "!":
            if cursor.peek in ("!", "{", "["):
                raise PtxError("malformed operand", line)
            return Negated(self.operand())
        if token == "_":
            return None
        if token in ("-", "+"):
            value = number(cursor.next(), line)
            if token == "+":
                return value
            if value.kind == "i":
                return Immediate(-value.value & 0xFFFF_FFFF_FFFF_FFFF)
            return Immediate(value.value ^ (1 << (31 if value.kind == "f32" else 63)), value.kind)
        if token[0].isdigit():
            return number(token, line)
        if is_word(token):
            return self.named(token, line)
        raise PtxError(f"unexpected '{token}' in an operand", line)

    def named(self, token: str, line: int) -> Any:
        register = self.cache.get(token) or self.register(token)
        if register is not None:
            return register
        selected = _split(token)
        if selected is not None and (register := self.register(selected[0])) is not None:
            return Field(register, *selected[1:])
        if token == "WARP_SZ":
            return Immediate(32)
        if token.startswith("%"):
            base = token[1:].split(".")[0].rstrip("0123456789")
            if token[1:].split(".")[0] in _SPECIALS or base in ("envreg", "pm", "clock"):
                return Special(token[1:])
            raise PtxError(f"unknown register '{token}'", line)
        for scope in reversed(self.scopes):
            if token in scope.names:
                token = scope.names[token]
                break
        offset = 0
        if self.cursor.peek in ("+", "-"):
            sign = -1 if self.cursor.next() == "-" else 1
            offset = sign * self.cursor.integer("an offset")
        return Symbol(token, offset)

    def register(self, token: str) -> Register | None:
        numbered = _NUMBERED.match(token)
        for scope in reversed(self.scopes):
            kind = scope.registers.get(token)
            if kind is None and numbered is not None:
                family = scope.families.get(numbered.group(1))
                if family is not None and int(numbered.group(2)) < family[1]:
                    kind = family[0]
            if kind is not None:
                register = self.cache[token] = Register(token + scope.suffix, kind)
                self.body.registers += 1
                return register
        return None

    def _coordinates(self, handle: Any, line: int) -> Vector:
        """[object, {x, y}] of textures and surfaces, as {object, x, y}."""
        cursor = self.cursor
        cursor.expect(",")
        if cursor.peek in ("[", "!"):
            raise PtxError("malformed coordinates", line)
        place = self.operand()
        if not cursor.accept("]"):
            raise UnsupportedError(f"address form with '{cursor.peek}'", line)
        return Vector((handle, *(place.items if isinstance(place, Vector) else (place,))))

    def _address(self, line: int) -> Address | Vector:
        cursor = self.cursor
        base: Any = None
        offset = 0
        if cursor.peek == "-" or cursor.peek[:1].isdigit():
            offset = cursor.integer("an address")
        else:
            base = self.named(cursor.word("an address"), line)
            if isinstance(base, Symbol):
                base, offset = Symbol(base.name), base.offset
            elif not isinstance(base, Register):
                raise PtxError("malformed address", line)
            while cursor.peek in ("+", "-"):
                sign = -1 if cursor.next() == "-" else 1
                offset += sign * cursor.integer("an offset")
        if cursor.peek == "," and not offset:
            return self._coordinates(base, line)
        if not cursor.accept("]"):
            raise UnsupportedError(f"address form with '{cursor.peek}'", line)
        if not -(1 << 63) <= offset < 1 << 64:
            raise PtxError("offset does not fit 64 bits", line)
        return Address(base, offset)

    def parenthesised(self) -> list[Any]:
        cursor = self.cursor
        cursor.expect("(")
        items: list[Any] = []
        while not cursor.accept(")"):
            if items:
                cursor.expect(",")
            items.append(self.operand())
            if len(items) > MAX_OPERANDS * 8:
                raise PtxError("too many arguments", cursor.line)
        return items
