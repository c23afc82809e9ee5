"""The registry of instruction families, and what most of them share.

A handler takes the emitter and one instruction, reads operands with `e.read`, appends IR to `e.body` and sets results with `write`.
It raises `e.fail(...)` for every modifier it does not know: `check` enforces that nothing is ignored silently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from farlane.backend.jit.lowering.ir import PTX_LLVM, SIGNED, Val, floating, integer, real, widen
from farlane.backend.jit.ptx.model import Instruction

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

Handler = Callable[["Emitter", Instruction], None]
HANDLERS: dict[str, Handler] = {}

ROUNDINGS = {"rn", "rz", "rm", "rp"}


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Registers a handler for base opcodes."""

    def register(handler: Handler) -> Handler:
        for name in names:
            if name in HANDLERS:
                raise AssertionError(f"two handlers for {name}")
            HANDLERS[name] = handler
        return handler

    return register


def check(e: Emitter, instruction: Instruction, allowed: set[str], operands: int | None = None) -> None:
    """Fails on a modifier outside of `allowed` or a wrong number of sources."""
    for modifier in instruction.modifiers:
        if modifier not in allowed:
            raise e.fail(f"unsupported modifier .{modifier} in {instruction.text}")
    if operands is not None and len(instruction.sources) != operands:
        raise e.fail(f"{instruction.text} needs {operands} sources, has {len(instruction.sources)}")


def type_of(e: Emitter, instruction: Instruction) -> tuple[str, str]:
    """(PTX type, LLVM type) of the last modifier."""
    name = instruction.modifiers[-1] if instruction.modifiers else ""
    if name not in PTX_LLVM:
        raise e.fail(f"unsupported type in {instruction.text}")
    return name, PTX_LLVM[name]


def write(e: Emitter, instruction: Instruction, result: Val, kind: str = "", index: int = 0) -> None:
    """Sets destination `index`; a narrower result is extended by the signedness of the PTX type `kind`."""
    value: Any = instruction.destinations[index] if index < len(instruction.destinations) else None
    if value is not None:
        e.define(value, widen(e.body, result, value.type, kind in SIGNED))


# Float helpers -------------------------------------------------------------------------------------------------------
# Type -> carrier, smallest normal number, sign bit.
_NORMAL = {"float": ("i32", 1 << 23, 1 << 31), "half": ("i16", 1 << 10, 1 << 15), "bfloat": ("i16", 1 << 7, 1 << 15)}


def flush(e: Emitter, value: Val) -> Val:
    """.ftz: a subnormal number becomes a zero of its sign."""
    b = e.body
    carrier, normal, top = _NORMAL[value.type]
    bits = b.bitcast(value, carrier)
    magnitude = b.bin("and", bits, integer(top - 1, carrier))
    tiny = b.icmp("ult", magnitude, integer(normal, carrier))
    sign = b.bin("and", bits, integer(top, carrier))
    return b.bitcast(b.select(tiny, sign, bits), value.type)


def saturate(e: Emitter, value: Val) -> Val:
    """.sat: clamp to [0, 1]; NaN becomes +0."""
    b = e.body
    zero, one = floating(0, value.type), real(1.0, value.type)
    above = b.select(b.fcmp("ogt", value, zero), value, zero)
    return b.select(b.fcmp("olt", above, one), above, one)


def clamp_negative(e: Emitter, value: Val) -> Val:
    """.relu: a negative number becomes 0; NaN stays."""
    return e.body.call("maximum", value.type, [value, floating(0, value.type)])


def read_float(e: Emitter, instruction: Instruction, operand: Any, kind: str) -> Val:
    value = e.read(operand, kind)
    return flush(e, value) if "ftz" in instruction.modifiers and kind == "float" else value


def finish_float(e: Emitter, instruction: Instruction, result: Val) -> None:
    """Applies .ftz and .sat to a result and writes it."""
    if "ftz" in instruction.modifiers and result.type == "float":
        result = flush(e, result)
    if "sat" in instruction.modifiers:
        result = saturate(e, result)
    write(e, instruction, result)


def halves(e: Emitter, operand: Any, kind: str) -> tuple[Val, Val]:
    """The low and high element of a packed f16x2 or bf16x2 register."""
    b = e.body
    value = e.read(operand, "i32")
    low = b.cast("trunc", value, "i16")
    high = b.cast("trunc", b.bin("lshr", value, integer(16, "i32")), "i16")
    return b.bitcast(low, kind), b.bitcast(high, kind)


def pack(e: Emitter, low: Val, high: Val) -> Val:
    """Two 16-bit elements as one i32."""
    b = e.body
    low32 = b.cast("zext", b.bitcast(low, "i16"), "i32")
    high32 = b.cast("zext", b.bitcast(high, "i16"), "i32")
    return b.bin("or", low32, b.bin("shl", high32, integer(16, "i32")))
