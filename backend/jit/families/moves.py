"""Data movement between registers: mov, packing and unpacking, cvta, isspacep, mapa, createpolicy.

Global and constant addresses are host addresses; generic shared, local and parameter addresses lie in the windows of abi.py.
Source: PTX ISA, "Data Movement and Conversion Instructions".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit import support
from farlane.backend.jit.abi import LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW, FaultKind
from farlane.backend.jit.families.addresses import symbol_address
from farlane.backend.jit.families.base import check, handles, type_of, write
from farlane.backend.jit.ir import BITS, Val, integer
from farlane.backend.jit.model import Instruction, Symbol, Vector
from farlane.backend.jit.types import REGISTER_LLVM, integer_of

if TYPE_CHECKING:
    from farlane.backend.jit.codegen import FunctionEmitter

_TYPES = {"pred", "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64", "f16", "b128"}
WINDOWS = {"shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAMETER_WINDOW}


@handles("mov")
def mov(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, _TYPES, 1)
    name, kind = type_of(e, i)
    source = i.sources[0]
    if len(i.destinations) > 1:
        _unpack(e, i, e.read(source, integer_of(kind)))
    elif isinstance(source, Vector):
        write(e, i, _pack(e, source, integer_of(kind)), name)
    else:
        write(e, i, e.read(source, kind), name)


def _unpack(e: FunctionEmitter, i: Instruction, value: Val) -> None:
    b = e.body
    bits = BITS[value.type] // len(i.destinations)
    element = {8: "i8", 16: "i16", 32: "i32", 64: "i64"}.get(bits)
    if element is None:
        raise e.fail(f"malformed {i.text}")
    for index in range(len(i.destinations)):
        part = value if index == 0 else b.bin("lshr", value, integer(bits * index, value.type))
        write(e, i, b.cast("trunc", part, element), "", index)


def _pack(e: FunctionEmitter, source: Vector, kind: str) -> Val:
    b = e.body
    bits = BITS[kind] // len(source.items)
    element = {8: "i8", 16: "i16", 32: "i32", 64: "i64"}.get(bits)
    if element is None or BITS[kind] % len(source.items):
        raise e.fail("malformed vector operand")
    result = integer(0, kind)
    for index, item in enumerate(source.items):
        part = b.cast("zext", e.read(item, element), kind)
        result = b.bin("or", result, b.bin("shl", part, integer(bits * index, kind)))
    return result


@handles("cvta")
def cvta(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, {"to", "global", "const", "shared", "shared::cta", "local", "param", "u64", "u32"}, 1)
    space = next((item for item in i.modifiers if item not in ("to", "u64", "u32")), "")
    kind = REGISTER_LLVM["b32" if i.modifiers[-1] == "u32" else "b64"]
    value = e.read(i.sources[0], kind)
    if isinstance(i.sources[0], Symbol) and kind == "i64" and "to" not in i.modifiers:
        value = e.read(i.sources[0], "i64")
    window = WINDOWS.get(space)
    b = e.body
    if window is None:
        write(e, i, value)
    elif "to" in i.modifiers:
        write(e, i, b.bin("and", value, integer(0xFFFF_FFFF, kind)) if kind == "i64" else value)
    elif kind == "i64":
        write(e, i, b.bin("or", b.bin("and", value, integer(0xFFFF_FFFF, kind)), integer(window, kind)))
    else:
        raise e.fail(f"unsupported {i.text}")


@handles("isspacep")
def isspacep(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, {"global", "const", "shared", "shared::cta", "local", "param", "shared::cluster", "param::entry"}, 1)
    b = e.body
    value = e.read(i.sources[0], "i64")
    space = i.modifiers[0].split("::")[0]
    if space == "const":
        write(e, i, _in_constants(e, value))
        return
    upper = b.bin("lshr", value, integer(32, "i64"))
    if space in WINDOWS:
        result = b.icmp("eq", upper, integer(WINDOWS[space] >> 32, "i64"))
    else:
        result = b.icmp("ugt", b.bin("sub", upper, integer(SHARED_WINDOW >> 32, "i64")), integer(2, "i64"))
    write(e, i, result)


def _in_constants(e: FunctionEmitter, value: Val) -> Val:
    """Whether an address lies in one of the module's .const variables, which have host addresses like global ones."""
    b = e.body
    result = integer(0, "i1")
    for variable in e.kernel.module.variables:
        if variable.space == "const":
            start = symbol_address(e, Symbol(variable.name))
            hit = b.icmp("ult", b.bin("sub", value, start), integer(max(variable.size, 1), "i64"))
            result = b.bin("or", result, hit)
    # Reading it keeps the shape when there is no such variable.
    return result if not value.vec or result.vec else b.splat(result)


@handles("mapa")
def map_address(e: FunctionEmitter, i: Instruction) -> None:
    """An address in the shared memory of a block of the cluster: clusters have one block, whose rank is 0."""
    check(e, i, {"shared::cluster", "u32", "u64"}, 2)
    _, kind = type_of(e, i)
    b = e.body
    support.fault_if(
        e, other_rank(e, b.icmp("ne", e.read(i.sources[1], "i32"), integer(0, "i32"))), FaultKind.ILLEGAL_ADDRESS
    )
    write(e, i, e.read(i.sources[0], kind))


def other_rank(e: FunctionEmitter, wrong: Val) -> Val:
    b = e.body
    return b.icmp("ne", b.bin("and", b.bits(wrong), e.mask_bits), integer(0, "i32"))


@handles("getctarank")
def block_rank(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, {"shared::cluster", "u32", "u64"}, 1)
    write(e, i, integer(0, "i32"))


@handles("createpolicy")
def cache_policy(e: FunctionEmitter, i: Instruction) -> None:
    """A cache policy is a number without a meaning here: instructions that take one ignore it."""
    write(e, i, integer(0, "i64"))
