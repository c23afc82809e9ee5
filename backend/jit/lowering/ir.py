"""Writing LLVM IR as text: typed values that know whether they are one scalar or one element per lane.

Owns the spelling of IR. Operations take scalars and vectors mixed and broadcast as needed, so that every instruction family is
written once; the result is a vector as soon as one operand is. No fast-math flags, no poison-generating flags.
Owns PTX's types too: the LLVM types that hold them, and the conversions that a register read implies.

Source: LLVM Language Reference; PTX ISA, "Types" and "Operand Size Exceeding Instruction-Type Size".
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from farlane.backend.jit.ptx.declarations import UnsupportedError
from farlane.backend.jit.ptx.model import LANES

BITS = {
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "i128": 128,
    "half": 16,
    "bfloat": 16,
    "float": 32,
    "double": 64,
    "ptr": 64,
}
_INTRINSIC = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}
FLOATS = ("half", "bfloat", "float", "double")


class Val(NamedTuple):
    """An IR value: its spelling without type, element type, one element per lane or one scalar, literal or not."""

    name: str
    type: str
    vec: bool = False
    const: bool = False

    @property
    def spelled_type(self) -> str:
        return f"<{LANES} x {self.type}>" if self.vec else self.type

    def __str__(self) -> str:
        return f"{self.spelled_type} {self.name}"


def integer(value: int, kind: str) -> Val:
    """An integer constant, wrapped to the type."""
    bits = BITS[kind]
    value &= (1 << bits) - 1
    if kind == "i1":
        return Val("true" if value else "false", kind, const=True)
    if value >> (bits - 1):
        value -= 1 << bits
    return Val(str(value), kind, const=True)


def floating(bits: int, kind: str) -> Val:
    """A float constant from its bits."""
    if kind == "double":
        return Val(f"0x{bits:016X}", kind, const=True)
    if kind == "half":
        return Val(f"0xH{bits:04X}", kind, const=True)
    if bits & 0x7F80_0000 == 0x7F80_0000:  # infinity or NaN: widen the fields by hand to keep the payload
        wide = (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7F_FFFF) << 29
    else:
        wide = struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", bits))[0]))[0]
    return Val(f"0x{wide:016X}", kind, const=True)


def real(value: float, kind: str) -> Val:
    """A float constant from a Python float (rounded to the type)."""
    if kind == "double":
        return floating(struct.unpack("<Q", struct.pack("<d", value))[0], kind)
    if kind == "half":
        return floating(struct.unpack("<H", struct.pack("<e", value))[0], kind)
    return floating(struct.unpack("<I", struct.pack("<f", value))[0], kind)


def lanes(values: list[int], kind: str) -> Val:
    """A vector constant with one integer per lane."""
    return Val("<" + ", ".join(f"{kind} {integer(value, kind).name}" for value in values) + ">", kind, True, True)


LANE_INDEX = {kind: lanes(list(range(LANES)), kind) for kind in ("i32", "i64")}


class Builder:
    """Appends instructions to a list of lines; `label` is the current basic block."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.label = "entry"
        self.counter = 0
        self.prefix = ""
        self.intrinsics: dict[str, str] = {}

    def name(self, hint: str = "v") -> str:
        self.counter += 1
        return f"%{self.prefix}{hint}{self.counter}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def new_label(self, hint: str) -> str:
        self.counter += 1
        return f"{self.prefix}{hint}.{self.counter}"

    def block(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    def op(self, text: str, kind: str, vec: bool) -> Val:
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return Val(name, kind, vec)

    # Shapes ------------------------------------------------------------------------------------------------------
    def splat(self, value: Val) -> Val:
        """One element per lane."""
        if value.vec:
            return value
        if value.const:
            return Val(f"splat ({value.type} {value.name})", value.type, True, True)
        one = self.op(f"insertelement <{LANES} x {value.type}> poison, {value}, i32 0", value.type, True)
        return self.op(
            f"shufflevector {one}, <{LANES} x {value.type}> poison, <{LANES} x i32> zeroinitializer", value.type, True
        )

    def shape(self, *values: Val) -> tuple[bool, list[Val]]:
        vec = any(value.vec for value in values)
        return vec, [self.splat(value) for value in values] if vec else list(values)

    def lane(self, value: Val, index: int | Val = 0) -> Val:
        if not value.vec:
            return value
        at = index if isinstance(index, Val) else integer(index, "i32")
        return self.op(f"extractelement {value}, {at}", value.type, False)

    # Operations --------------------------------------------------------------------------------------------------
    def bin(self, operation: str, a: Val, b: Val) -> Val:
        vec, (a, b) = self.shape(a, b)
        return self.op(f"{operation} {a}, {b.name}", a.type, vec)

    def icmp(self, predicate: str, a: Val, b: Val) -> Val:
        vec, (a, b) = self.shape(a, b)
        return self.op(f"icmp {predicate} {a}, {b.name}", "i1", vec)

    def fcmp(self, predicate: str, a: Val, b: Val) -> Val:
        vec, (a, b) = self.shape(a, b)
        return self.op(f"fcmp {predicate} {a}, {b.name}", "i1", vec)

    def select(self, condition: Val, a: Val, b: Val) -> Val:
        if not condition.vec:
            vec, (a, b) = self.shape(a, b)
            return self.op(f"select {condition}, {a}, {b}", a.type, vec)
        a, b = self.splat(a), self.splat(b)
        return self.op(f"select {condition}, {a}, {b}", a.type, True)

    def neg(self, a: Val) -> Val:
        return self.op(f"fneg {a}", a.type, a.vec) if a.type in FLOATS else self.bin("sub", integer(0, a.type), a)

    def invert(self, a: Val) -> Val:
        return self.bin("xor", a, integer(-1, a.type))

    def cast(self, operation: str, a: Val, kind: str) -> Val:
        if a.type == kind:
            return a
        if a.vec and a.const:
            a = Val(a.name, a.type, True)
        target = f"<{LANES} x {kind}>" if a.vec else kind
        return self.op(f"{operation} {a} to {target}", kind, a.vec)

    def bitcast(self, a: Val, kind: str) -> Val:
        return self.cast("bitcast", a, kind)

    def resize(self, a: Val, kind: str, signed: bool = False) -> Val:
        """Integer truncation or extension."""
        if BITS[a.type] > BITS[kind]:
            return self.cast("trunc", a, kind)
        return self.cast("sext" if signed else "zext", a, kind)

    def call(self, name: str, result: str, arguments: list[Val], extra: str = "") -> Val:
        """An LLVM intrinsic overloaded on its first argument; shapes are unified."""
        vec, arguments = self.shape(*arguments)
        suffix = _INTRINSIC.get(arguments[0].type, arguments[0].type)
        full = f"@llvm.{name}.v{LANES}{suffix}" if vec else f"@llvm.{name}.{suffix}"
        shown = f"<{LANES} x {result}>" if vec else result
        types = ", ".join(argument.spelled_type for argument in arguments)
        extra_types = ", ".join(part.split()[0] for part in extra.split(", ")) if extra else ""
        self.intrinsics[full] = f"declare {shown} {full}({types}{', ' + extra_types if extra else ''})"
        text = ", ".join(str(argument) for argument in arguments)
        return self.op(f"call {shown} {full}({text}{', ' + extra if extra else ''})", result, vec)

    # Masks -------------------------------------------------------------------------------------------------------
    def bits(self, mask: Val) -> Val:
        """A lane mask as an i32."""
        mask = self.splat(mask)
        return self.op(f"bitcast {mask} to i32", "i32", False)

    def mask(self, bits: Val) -> Val:
        """An i32 as a lane mask."""
        return self.op(f"bitcast {bits} to <{LANES} x i1>", "i1", True)

    # Memory and control ------------------------------------------------------------------------------------------
    def load(self, kind: str, vec: bool, pointer: str, extra: str = "") -> Val:
        shown = f"<{LANES} x {kind}>" if vec else kind
        return self.op(f"load {shown}, ptr {pointer}{extra}", kind, vec)

    def store(self, value: Val, pointer: str, extra: str = "") -> None:
        self.line(f"store {value}, ptr {pointer}{extra}")

    def masked_store(self, value: Val, pointer: str, mask: Val) -> None:
        """Stores a vector for the lanes of a mask, to a slot aligned for a whole one."""
        name = f"@llvm.masked.store.v{LANES}{_INTRINSIC.get(value.type, value.type)}.p0"
        self.intrinsics[name] = f"declare void {name}({value.spelled_type}, ptr, i32 immarg, <{LANES} x i1>)"
        self.line(f"call void {name}({value}, ptr {pointer}, i32 64, {mask})")

    def phi(self, value: Val, there: str, elsewhere: str) -> Val:
        """At the start of a block: a value when control comes from `there`, zero when it comes from `elsewhere`."""
        text = f"phi {value.spelled_type} [ {value.name}, %{there} ], [ zeroinitializer, %{elsewhere} ]"
        return self.op(text, value.type, value.vec)

    def gep(self, base: str, offset: Val | int) -> str:
        shown = f"i64 {offset}" if isinstance(offset, int) else str(offset)
        name = self.name("p")
        self.line(f"{name} = getelementptr i8, ptr {base}, {shown}")
        return name

    def branch(self, target: str) -> None:
        self.line(f"br label %{target}")

    def branch_if(self, condition: Val, yes: str, no: str, unlikely: bool = False) -> None:
        self.line(f"br {condition}, label %{yes}, label %{no}{', !prof !0' if unlikely else ''}")


# Types of PTX --------------------------------------------------------------------------------------------------------
REGISTER_LLVM = {
    "pred": "i1",
    "b16": "i16",
    "b32": "i32",
    "b64": "i64",
    "f32": "float",
    "f64": "double",
    "b128": "i128",
}

PTX_LLVM = {
    "pred": "i1", "b8": "i8", "u8": "i8", "s8": "i8", "b16": "i16", "u16": "i16", "s16": "i16", "b32": "i32", "u32": "i32",
    "s32": "i32", "b64": "i64", "u64": "i64", "s64": "i64", "f16": "half", "f32": "float", "f64": "double", "b128": "i128",
    "bf16": "bfloat", "f16x2": "i32", "bf16x2": "i32",
}  # fmt: skip
SIGNED = {"s8", "s16", "s32", "s64"}
_INTEGER_OF = {8: "i8", 16: "i16", 32: "i32", 64: "i64", 128: "i128", 1: "i1"}


def integer_of(kind: str) -> str:
    """The integer type of the same width."""
    return _INTEGER_OF[BITS[kind]]


def convert(b: Builder, value: Val, kind: str, fail: Callable[[str], UnsupportedError]) -> Val:
    """Reads a register as a type of the same or a smaller width."""
    if value.type == kind:
        return value
    have, want = BITS[value.type], BITS[kind]
    if want > have or (1 in (have, want) and have != want):
        raise fail(f"a register of {have} bits is read as {want} bits")
    if value.type in FLOATS:
        value = b.bitcast(value, integer_of(value.type))
    if want < have:
        value = b.cast("trunc", value, _INTEGER_OF[want])
    return b.bitcast(value, kind)


def widen(b: Builder, value: Val, register: str, signed: bool) -> Val:
    """A result as a register type of the same or a larger width."""
    target = REGISTER_LLVM[register]
    if value.type == target:
        return value
    if value.type in FLOATS:
        value = b.bitcast(value, integer_of(value.type))
    if BITS[value.type] != BITS[target]:
        value = b.resize(value, integer_of(target), signed)
    return b.bitcast(value, target)
