"""Asynchronous copies (cp.async, cp.async.bulk and cp.reduce.async.bulk of bytes), stores and reductions (st.async, red.async), st.bulk,
clusterlaunchcontrol.

A copy is made when it is asked for, so groups are always complete and waiting for one does nothing: PTX leaves open when a copy happens before
the wait. Copies of tensors: tensor_copies.py; what they signal: mbarriers.py.

Source: PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy".
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from farlane.backend.jit.lowering import support, touches
from farlane.backend.jit.lowering.checks import Access
from farlane.backend.jit.lowering.families.accesses import addresses, atomics, patterned
from farlane.backend.jit.lowering.families.accesses.memory import read_memory, write_memory
from farlane.backend.jit.lowering.families.accesses.memory import store as store_memory
from farlane.backend.jit.lowering.families.base import check, handles, write
from farlane.backend.jit.lowering.families.tensors import tensor_copies, tensor_pieces
from farlane.backend.jit.lowering.families.tensors.mbarriers import ITSELF, each_rank, update
from farlane.backend.jit.lowering.ir import BITS, Val, integer, integer_of
from farlane.backend.jit.lowering.specials import special
from farlane.backend.jit.ptx.declarations import SCALAR_BYTES
from farlane.backend.jit.ptx.model import LANES, Instruction
from farlane.backend.jit.runtime.structures import FaultKind

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_HINTS = {"L2::cache_hint", "L2::64B", "L2::128B", "L2::256B"}
_COMPLETES = "mbarrier::complete_tx::bytes"
_MULTICAST = "multicast::cluster"


# cp.async ---------------------------------------------------------------------------------------------------------------
@handles("cp")
def copy(e: Emitter, i: Instruction) -> None:
    if "tensor" in i.modifiers:
        tensor_copies.copy(e, i)
        return
    if i.modifiers[0] == "reduce":
        _reduce(e, i)
        return
    if i.modifiers[0] != "async":
        raise e.fail(f"unsupported instruction {i.text}")
    if "bulk" in i.modifiers:
        _bulk(e, i)
        return
    if "mbarrier" in i.modifiers:
        _arrive_on_copies(e, i)
        return
    if i.modifiers[1] in ("commit_group", "wait_group", "wait_all"):
        check(e, i, {"async", "commit_group", "wait_group", "wait_all"})
        e.body.line('fence syncscope("singlethread") seq_cst')
        return
    check(e, i, {"async", "ca", "cg", "shared", "shared::cta", "global"} | _HINTS)
    operands = i.sources[:-1] if "L2::cache_hint" in i.modifiers else i.sources
    size = e.constant(operands[2])
    if len(operands) not in (3, 4) or size is None or size not in ((16,) if "cg" in i.modifiers else (4, 8, 16)):
        raise e.fail(f"unsupported {i.text}")
    b = e.body
    words = size // 4
    given = e.read(operands[3], "i32") if len(operands) == 4 else None
    if given is not None and e.constant(operands[3]) != size:
        # Bytes beyond the source's size are zero and are not read: word by word under the lanes that have it.
        values = _partial(e, operands, given, size)
    else:
        source = patterned.place(e, operands[1], "global", "i32", words, False)
        values = read_memory(e, source, "i32", words)
    target = patterned.place(e, operands[0], "shared", "i32", words, True)
    write_memory(e, target, "i32", values)
    b.line('fence syncscope("singlethread") seq_cst')


def _partial(e: Emitter, operands: list[object], given: Val, size: int) -> list[Val]:
    """Words of a source of `given` bytes, zero beyond. Reads only bytes that exist, one at a time."""
    b = e.body
    space, base = addresses.effective(e, operands[1], "global")
    words = [b.splat(integer(0, "i32")) for _ in range(size // 4)]
    touches.begin(e)
    for index in range(size):
        inside = b.splat(b.icmp("ugt", given, integer(index, "i32")))
        here, before, old = b.bin("and", b.bits(inside), e.mask_bits), b.label, words[index // 4]
        with support.among(e, here):
            address = b.splat(b.bin("add", base, integer(index, "i64")))
            place = addresses.place_at(e, space, address, 1, False)
            value = b.cast("zext", b.splat(read_memory(e, place, "i8", 1)[0]), "i32")
            value = b.select(b.mask(here), value, integer(0, "i32"))
            merged = b.bin("or", old, b.bin("shl", value, integer(index % 4 * 8, "i32")))
            inner = b.label
        shown = f"<{LANES} x i32>"
        words[index // 4] = b.op(f"phi {shown} [ {merged.name}, %{inner} ], [ {old.name}, %{before} ]", "i32", True)
    return words


def _bulk(e: Emitter, i: Instruction) -> None:
    """cp.async.bulk of bytes in a row: each lane copies its own range, 16 bytes at a time, then tells the mbarrier."""
    if {"commit_group", "wait_group", "prefetch"} & set(i.modifiers):
        check(e, i, {"async", "bulk", "commit_group", "wait_group", "read", "prefetch", "L2", "global"} | _HINTS)
        return
    completing, masked = _COMPLETES in i.modifiers, "cp_mask" in i.modifiers
    check(
        e,
        i,
        {"async", "bulk", "shared::cta", "shared::cluster", "global", "bulk_group", "cp_mask", _COMPLETES, _MULTICAST}
        | _HINTS,
    )
    spaces = [addresses.space_named(item) for item in i.modifiers if item in addresses.SPACES]
    kept = i.sources[:-1] if masked else i.sources
    operands = kept[:-1] if "L2::cache_hint" in i.modifiers else kept
    several = _MULTICAST in i.modifiers
    if len(spaces) != 2 or len(operands) != 3 + completing + several or completing == ("bulk_group" in i.modifiers):
        raise e.fail(f"unsupported {i.text}")
    if (several and (spaces[0] != "cluster" or not completing)) or (masked and spaces[0] != "global"):
        raise e.fail(f"malformed {i.text}")
    b = e.body
    size = _whole(e, operands[2])
    places = [addresses.effective(e, operand, space) for operand, space in zip(operands, spaces, strict=False)]
    barrier = addresses.effective(e, operands[3], spaces[0])[1] if completing else None
    if not several:
        _copy_bytes(e, places, size, e.read(i.sources[-1], "i16") if masked else None)
        if barrier is not None:
            update(e, i, "complete_tx", size, addresses.place_at(e, spaces[0], barrier, 8, True, ITSELF))
        return
    assert barrier is not None
    with each_rank(e, b.cast("zext", e.read(operands[4], "i16"), "i32")) as named:
        (_, target), source = places
        _copy_bytes(e, [("cluster", named(target)), source], size)
        update(e, i, "complete_tx", size, addresses.place_at(e, "cluster", named(barrier), 8, True, ITSELF))


def _whole(e: Emitter, operand: Any, unit: int = 16) -> Val:
    """Each lane's number of bytes, which is one of whole units."""
    b = e.body
    size = b.splat(e.read(operand, "i32"))
    rest = b.bin("and", size, integer(unit - 1, "i32"))
    bad = b.bin("and", b.bits(b.icmp("ne", rest, integer(0, "i32"))), e.mask_bits)
    support.fault_if(e, b.icmp("ne", bad, integer(0, "i32")), FaultKind.ILLEGAL_INSTRUCTION)
    return size


@contextlib.contextmanager
def _steps(e: Emitter, size: Val, width: int) -> Iterator[Val]:
    """A loop over each lane's bytes, `width` at a time; what is written for the one value that is given is its body."""
    b = e.body
    slot = e.slot("%bulk", "i32", False)
    b.store(integer(0, "i32"), slot)
    touches.begin(e)
    loop, body, done = b.new_label("bulk"), b.new_label("chunk"), b.new_label("copied")
    mask, bits = e.mask, e.mask_bits
    b.branch(loop)
    b.block(loop)
    at = b.load("i32", False, slot)
    here = b.bin("and", b.bits(b.icmp("ult", at, size)), bits)
    b.branch_if(b.icmp("ne", here, integer(0, "i32")), body, done)
    b.block(body)
    e.mask, e.mask_bits = b.mask(here), here
    yield b.cast("zext", at, "i64")
    b.store(b.bin("add", at, integer(width, "i32")), slot)
    e.mask, e.mask_bits = mask, bits
    b.branch(loop)
    b.block(done)


def _copy_bytes(e: Emitter, places: list[tuple[str, Val]], size: Val, chosen: Val | None = None) -> None:
    """Each lane's range, 16 bytes at a time. `chosen`: which bytes of each 16."""
    b = e.body
    (target_space, target), (source_space, source) = places
    with _steps(e, size, 16) as offset:
        where = addresses.place_at(e, source_space, b.splat(b.bin("add", source, offset)), 16, False)
        values = read_memory(e, where, "i64", 2)
        there = b.splat(b.bin("add", target, offset))
        if chosen is None:
            write_memory(e, addresses.place_at(e, target_space, there, 16, True), "i64", values)
        else:
            _write_chosen(e, target_space, there, values, chosen)


def _write_chosen(e: Emitter, space: str, address: Val, words: list[Val], chosen: Val) -> None:
    b = e.body
    for index in range(16):
        wanted = b.icmp("ne", b.bin("and", chosen, integer(1 << index, "i16")), integer(0, "i16"))
        with support.among(e, b.bin("and", b.bits(wanted), e.mask_bits)):
            value = b.cast("trunc", b.bin("lshr", words[index // 8], integer(index % 8 * 8, "i64")), "i8")
            place = addresses.place_at(e, space, b.bin("add", address, integer(index, "i64")), 1, True)
            write_memory(e, place, "i8", [b.splat(value)])


@handles("st.bulk")
def fill(e: Emitter, i: Instruction) -> None:
    """Zeros, 8 bytes at a time."""
    check(e, i, {"weak", "shared::cta"}, 3)
    if e.constant(i.sources[2]) != 0:
        raise e.fail(f"unsupported value in {i.text}")
    b = e.body
    space, address = addresses.effective(e, i.sources[0], addresses.space_of(i))
    size = _whole(e, i.sources[1], 8)
    with _steps(e, size, 8) as offset:
        there = addresses.place_at(e, space, b.splat(b.bin("add", address, offset)), 8, True)
        write_memory(e, there, "i64", [b.splat(integer(0, "i64"))])


_REDUCED = {"u32", "s32", "b32", "u64", "s64", "b64", "f16", "bf16", "f32", "f64"}


def _reduce(e: Emitter, i: Instruction) -> None:
    """cp.reduce.async.bulk: each lane's range, element by element, as one atomic operation after another."""
    operation = next((item for item in i.modifiers if item in tensor_pieces.OPERATIONS), "")
    spaces = [addresses.space_named(item) for item in i.modifiers if item in addresses.SPACES]
    completing, name = _COMPLETES in i.modifiers, i.modifiers[-1]
    check(
        e,
        i,
        {"reduce", "async", "bulk", "shared::cta", "shared::cluster", "global", "bulk_group", "noftz", "L2::cache_hint"}
        | {_COMPLETES, operation, *_REDUCED},
    )
    operands = i.sources[:-1] if "L2::cache_hint" in i.modifiers else i.sources
    places = ["cluster" if completing else "global", "shared"]
    if spaces != places or name not in _REDUCED or not operation or len(operands) != 3 + completing:
        raise e.fail(f"unsupported {i.text}")
    kind = atomics.TYPES[name]
    rmw, carrier = atomics.operation_of(e, i, operation, name), integer_of(kind)
    if rmw == "fadd":
        e.kernel.order_sensitive = True
    b = e.body
    size = _whole(e, operands[2])
    (target_space, target), (source_space, source) = (
        addresses.effective(e, operand, space) for operand, space in zip(operands, places, strict=False)
    )
    barrier = addresses.effective(e, operands[3], "cluster")[1] if completing else None
    width = BITS[carrier] // 8
    with _steps(e, size, width) as offset:
        where = addresses.place_at(e, source_space, b.splat(b.bin("add", source, offset)), width, False)
        value = read_memory(e, where, carrier, 1)[0]
        access = Access(strong=True, reads=True)
        where = addresses.place_at(e, target_space, b.splat(b.bin("add", target, offset)), width, True, access)
        atomics.by_lane(e, where, rmw, kind, carrier, "monotonic", [value], False)
    if barrier is not None:
        update(e, i, "complete_tx", size, addresses.place_at(e, "cluster", barrier, 8, True, ITSELF))


@handles("st.async", "red.async")
def store(e: Emitter, i: Instruction) -> None:
    """Each lane's store or reduction is made at once; then its mbarrier counts the bytes."""
    plain = tuple(item for item in i.modifiers if item not in ("async", _COMPLETES))
    known = _COMPLETES in i.modifiers and "shared::cluster" in i.modifiers and len(i.sources) == 3
    if not known or "mmio" in plain:
        raise e.fail(f"unsupported {i.text}")
    made = Instruction(i.base, plain, [], i.sources[:2], i.line)
    (store_memory if i.base == "st" else atomics.atomic)(e, made)
    width = SCALAR_BYTES[i.modifiers[-1]] * next((int(item[1]) for item in plain if item in ("v2", "v4")), 1)
    place = addresses.place(e, i.sources[2], "cluster", 8, True, ITSELF)
    update(e, i, "complete_tx", integer(width, "i32"), place)


def _arrive_on_copies(e: Emitter, i: Instruction) -> None:
    """cp.async.mbarrier.arrive: the copies are made, so it arrives now. Without .noinc the pending count is raised before."""
    check(e, i, {"async", "mbarrier", "arrive", "noinc", "shared", "shared::cta", "b64"}, 1)
    if "noinc" in i.modifiers:
        update(e, i, "arrive", integer(1, "i32"))


# clusterlaunchcontrol -------------------------------------------------------------------------------------------------
@handles("clusterlaunchcontrol.try_cancel")
def ask_for_a_block(e: Emitter, i: Instruction) -> None:
    """Asks for a block that has not begun, to do its work here. There is none to give: the answer, 16 bytes of zeros, says no."""
    several = "multicast::cluster::all" in i.modifiers
    check(e, i, {"async", "shared::cta", "b128", "multicast::cluster::all", _COMPLETES}, 2)
    if _COMPLETES not in i.modifiers:
        raise e.fail(f"malformed {i.text}")
    b = e.body
    space = "shared" if "shared::cta" in i.modifiers else ""
    answer, barrier = (addresses.effective(e, item, space)[1] for item in i.sources)

    def give(space: str, answer: Val, barrier: Val) -> None:
        zero = b.splat(integer(0, "i64"))
        write_memory(e, addresses.place_at(e, space, b.splat(answer), 16, True), "i64", [zero, zero])
        there = addresses.place_at(e, space, b.splat(barrier), 8, True, ITSELF)
        update(e, i, "complete_tx", integer(16, "i32"), there)

    if not several:
        give(space, answer, barrier)
        return
    blocks = b.bin("shl", integer(1, "i32"), special(e, "cluster_nctarank"))
    with each_rank(e, b.bin("sub", blocks, integer(1, "i32"))) as named:
        give("cluster", named(answer), named(barrier))


@handles("clusterlaunchcontrol.query_cancel")
def what_was_answered(e: Emitter, i: Instruction) -> None:
    """Whether a block was given (never), and which (open then, by PTX)."""
    check(
        e, i,
        {"is_canceled", "pred", "b128", "get_first_ctaid", "v4", "b32", *(f"get_first_ctaid::{axis}" for axis in "xyz")}, 1,
    )  # fmt: skip
    for index in range(len(i.destinations)):
        write(e, i, integer(0, "i1" if "is_canceled" in i.modifiers else "i32"), "", index)
