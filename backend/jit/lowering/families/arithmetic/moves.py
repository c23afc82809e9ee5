"""Data movement between registers: mov, packing and unpacking, cvta, isspacep, mapa, createpolicy.

Global and constant addresses are host addresses; generic shared, local and parameter addresses lie in the windows of runtime/structures.py.
Source: PTX ISA, "Data Movement and Conversion Instructions".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering import support
from farlane.backend.jit.lowering.families.accesses.addresses import symbol_address
from farlane.backend.jit.lowering.families.base import check, handles, type_of, write
from farlane.backend.jit.lowering.ir import BITS, REGISTER_LLVM, Val, integer, integer_of
from farlane.backend.jit.lowering.specials import special
from farlane.backend.jit.ptx.model import Instruction, Symbol, Vector
from farlane.backend.jit.runtime.clusters import OFFSET_MASK, RANK_SHIFT
from farlane.backend.jit.runtime.structures import (
    GENERIC_WINDOWS_END,
    LOCAL_WINDOW,
    PARAMETER_WINDOW,
    SHARED_WINDOW,
    FaultKind,
)

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_TYPES = {"pred", "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64", "f16", "b128"}
WINDOWS = {
    "shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "shared::cluster": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAMETER_WINDOW,
}  # fmt: skip
_OWN = ("shared", "shared::cta")


@handles("mov")
def mov(e: Emitter, i: Instruction) -> None:
    check(e, i, _TYPES, 1)
    name, kind = type_of(e, i)
    source = i.sources[0]
    if len(i.destinations) > 1:
        _unpack(e, i, e.read(source, integer_of(kind)))
    elif isinstance(source, Vector):
        write(e, i, _pack(e, source, integer_of(kind)), name)
    else:
        write(e, i, e.read(source, kind), name)


def _unpack(e: Emitter, i: Instruction, value: Val) -> None:
    b = e.body
    bits = BITS[value.type] // len(i.destinations)
    element = {8: "i8", 16: "i16", 32: "i32", 64: "i64"}.get(bits)
    if element is None:
        raise e.fail(f"malformed {i.text}")
    for index in range(len(i.destinations)):
        part = value if index == 0 else b.bin("lshr", value, integer(bits * index, value.type))
        write(e, i, b.cast("trunc", part, element), "", index)


def _pack(e: Emitter, source: Vector, kind: str) -> Val:
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
def cvta(e: Emitter, i: Instruction) -> None:
    check(
        e, i, {"to", "global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "u64", "u32"}, 1
    )
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
        if kind == "i64":
            value = b.bin("and", value, integer(0xFFFF_FFFF, kind))
        if e.kernel.clusters and space in _OWN:  # an address that names this block by its rank is one of its own memory
            value = b.select(_ours(e, value), b.bin("and", value, integer(OFFSET_MASK, kind)), value)
        write(e, i, value)
    elif kind == "i64":
        write(e, i, b.bin("or", b.bin("and", value, integer(0xFFFF_FFFF, kind)), integer(window, kind)))
    else:
        raise e.fail(f"unsupported {i.text}")


@handles("isspacep")
def isspacep(e: Emitter, i: Instruction) -> None:
    check(e, i, {"global", "const", "shared", "shared::cta", "local", "param", "shared::cluster", "param::entry"}, 1)
    b = e.body
    value = e.read(i.sources[0], "i64")
    space = i.modifiers[0] if i.modifiers[0] == "shared::cluster" else i.modifiers[0].split("::")[0]
    if space == "const":
        write(e, i, _in_constants(e, value))
        return
    upper = b.bin("lshr", value, integer(32, "i64"))
    if space in WINDOWS:
        result = b.icmp("eq", upper, integer(WINDOWS[space] >> 32, "i64"))
        if e.kernel.clusters and space in _OWN:
            low = b.bin("and", value, integer(0xFFFF_FFFF, "i64"))
            own = b.icmp("ule", low, integer(OFFSET_MASK, "i64"))
            result = b.bin("and", result, b.bin("or", own, _ours(e, low)))
    else:
        size = GENERIC_WINDOWS_END - SHARED_WINDOW >> 32
        result = b.icmp("uge", b.bin("sub", upper, integer(SHARED_WINDOW >> 32, "i64")), integer(size, "i64"))
    write(e, i, result)


def _in_constants(e: Emitter, value: Val) -> Val:
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


# Clusters ------------------------------------------------------------------------------------------------------------
def _ours(e: Emitter, low: Val) -> Val:
    """Whether the low 32 bits of addresses name this block by its rank."""
    b = e.body
    rank = b.bin("add", b.resize(special(e, "cluster_ctarank"), low.type), integer(1, low.type))
    return b.icmp("eq", b.bin("lshr", low, integer(RANK_SHIFT, low.type)), rank)


@handles("mapa")
def map_address(e: Emitter, i: Instruction) -> None:
    """An address in the shared memory of the block of the cluster that has the rank. In a cluster of one block that is the block's own."""
    check(e, i, {"shared::cluster", "u32", "u64"}, 2)
    _, kind = type_of(e, i)
    b = e.body
    rank, blocks = e.read(i.sources[1], "i32"), special(e, "cluster_nctarank")
    wrong = b.bin("and", b.bits(b.icmp("uge", rank, blocks)), e.mask_bits)
    support.fault_if(e, b.icmp("ne", wrong, integer(0, "i32")), FaultKind.ILLEGAL_ADDRESS)
    named = b.bin("shl", b.resize(b.bin("add", rank, integer(1, "i32")), kind), integer(RANK_SHIFT, kind))
    alone = b.icmp("eq", blocks, integer(1, "i32"))
    plain = b.bin("and", e.read(i.sources[0], kind), integer(~(0xFF << RANK_SHIFT), kind))
    write(e, i, b.bin("or", plain, b.select(alone, integer(0, kind), named)))


@handles("getctarank")
def block_rank(e: Emitter, i: Instruction) -> None:
    check(e, i, {"shared::cluster", "u32", "u64"}, 1)
    _, kind = type_of(e, i)
    b = e.body
    bits = b.bin("and", b.bin("lshr", e.read(i.sources[0], kind), integer(RANK_SHIFT, kind)), integer(0xFF, kind))
    named = b.bin("sub", b.resize(bits, "i32"), integer(1, "i32"))
    own = b.icmp("eq", bits, integer(0, kind))
    write(e, i, b.select(own, special(e, "cluster_ctarank"), named))


@handles("createpolicy")
def cache_policy(e: Emitter, i: Instruction) -> None:
    """A cache policy is a number without a meaning here: instructions that take one ignore it."""
    write(e, i, integer(0, "i64"))
