"""Loads and stores: ld, ldu, st in all state spaces, vectors, volatile and ordered accesses, prefetch.

Affine addresses are accessed row by row (rows.py), other per-lane addresses through the helper functions of lanewise.py. Ordered accesses of
several elements are one access per lane, so that a reader never sees half of another thread's store.
Source: PTX ISA, "ld", "st", "Memory Consistency Model" (mapped to LLVM fences; x86 and LLVM orderings are at least as strong).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from farlane.backend.jit.analysis.strides import row_length
from farlane.backend.jit.lowering import affine, checks, processors, support
from farlane.backend.jit.lowering.checks import Access
from farlane.backend.jit.lowering.families.accesses import addresses, lanewise, lanewise_stores, patterned, rows
from farlane.backend.jit.lowering.families.accesses.addresses import Place
from farlane.backend.jit.lowering.families.base import check, handles, type_of
from farlane.backend.jit.lowering.ir import BITS, PTX_LLVM, SIGNED, Builder, Val, integer, integer_of, widen
from farlane.backend.jit.ptx.model import LANES, Address, Instruction, Symbol, Vector

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_CACHE = {
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
    "L1::evict_last", "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B", "L2::cache_hint", "L2::evict_first",
    "L2::evict_last", "L2::evict_normal", "unified",
}  # fmt: skip
_ORDER = {"weak", "volatile", "relaxed", "acquire", "release", "cta", "gpu", "sys", "cluster", "mmio"}
_TYPES = {"b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64", "f32", "f64", "f16", "b128"}
_ALLOWED = addresses.SPACES | _CACHE | _ORDER | _TYPES | {"v2", "v4", "v8"}
AHEAD = 2  # log2 of how many accesses; measured: 8 is no better than 4, and as far in an unrolled loop is worse than nothing
AHEAD_SECOND = 3  # into the second-level cache, in an unrolled loop: measured, 5 % better there
MOST_AHEAD = 256  # bytes
MOST_ROWS_AHEAD = 16  # of a warp group
_ORDERED = {"volatile", "relaxed", "acquire", "release", "mmio"}


def _count(i: Instruction) -> int:
    return next((int(item[1]) for item in i.modifiers if item in ("v2", "v4", "v8")), 1)


def _compiler_fence(e: Emitter) -> None:
    e.body.line('fence syncscope("singlethread") seq_cst')


@handles("ld", "ldu")
def load(e: Emitter, i: Instruction) -> None:
    check(e, i, _ALLOWED)
    if "L2::cache_hint" in i.modifiers:
        i = Instruction(i.base, i.modifiers, i.destinations, i.sources[:1], i.line)
    if len(i.sources) != 1:
        raise e.fail(f"malformed {i.text}")
    name, kind = type_of(e, i)
    element = integer_of(kind)
    count = _count(i)
    if count != len(i.destinations):
        raise e.fail(f"malformed {i.text}")
    space = addresses.space_of(i)
    results = parameter_load(e, i, element, count) if space == "param" else None
    if results is None:
        ordered = bool(_ORDERED & set(i.modifiers))
        size = count * BITS[element] // 8
        if ordered:
            place = addresses.place(e, i.sources[0], space, size, False, Access(strong=True))
            _compiler_fence(e)
        else:
            place = patterned.place(e, i.sources[0], space, element, count, False)
        if not ordered and space == "global" and e.placed is None:
            _ahead(e, place, element, count)
        results = read_memory(e, place, element, count, ordered)
        if "acquire" in i.modifiers:
            e.body.line("fence acquire")
        elif ordered:
            _compiler_fence(e)
    for destination, result in zip(i.destinations, results, strict=True):
        if destination is not None:
            e.define(destination, widen(e.body, result, destination.type, name in SIGNED))


def access_bytes(e: Emitter, i: Instruction) -> int:
    """How many bytes a load or store accesses for each lane."""
    return _count(i) * BITS[integer_of(type_of(e, i)[1])] // 8


def placed(e: Emitter, i: Instruction) -> Place:
    """Checks a plain access, and asks for what comes after it, without making it."""
    _, kind = type_of(e, i)
    element, count, space = integer_of(kind), _count(i), addresses.space_of(i)
    where = addresses.place(e, i.sources[0], space, count * BITS[element] // 8, i.base == "st")
    if i.base == "ld" and space == "global":
        _ahead(e, where, element, count)
    if i.base == "st" and e.streams is not None:
        return dataclasses.replace(where, streamed=e.streams.condition(e, i, where))
    return where


def _ahead(e: Emitter, place: Place, element: str, count: int) -> None:
    """Asks for what the loop will read some iterations on, should it go on in steps as wide as the last one.

    Threads that stride over an array by the size of the grid leave a warp with steps that no processor's own prefetching follows. Steps of a large
    power of two meet in the same few lines of a cache: what is asked for too early has gone again when it is read.
    """
    loops = [body for body in e.graph.loops.values() if e.block in body]
    if e.mask is not None or not loops:
        return
    b = e.body
    reads = sum(
        item.base == "ld" and "global" in item.modifiers
        for index in min(loops, key=len)
        for item in e.graph.blocks[index].instructions
    )
    second = processors.zen(e.kernel.options)
    accesses = AHEAD_SECOND if second and reads > 1 else AHEAD
    iterations = max(0, accesses + 1 - max(reads, 1).bit_length())
    if place.form is not None and place.form.stride:
        here = place.form.base
    elif place.form is None and (place.index.vec or place.apart):
        here = b.lane(place.index, 0)
    else:
        return
    before = e.slot(f"%before{e.kernel.prefetch()}", "i64", False)
    step = b.bin("sub", here, b.load("i64", False, before))
    b.store(here, before)
    distance = b.bin("shl", step, integer(iterations, "i64"))
    there = b.bin("add", here, distance)
    e.kernel.declare("declare void @llvm.prefetch.p0(ptr, i32 immarg, i32 immarg, i32 immarg)")
    lanes, starts = LANES, [there]
    if e.group is not None and place.form is not None:
        lanes = row_length(e.kernel.block)
        if place.form.step is not None:
            ahead = affine.Affine(there, 0, place.form.step)
            starts = [affine.row_base(e, ahead, row) for row in range(min(affine.rows(e) * e.warps, MOST_ROWS_AHEAD))]
    size = min(lanes * BITS[element] // 8 * count, MOST_AHEAD)
    lines = [*range(0, size, 64), *([size - 1] if lanes < LANES else [])]  # a short row may lie in one line more
    level = 2 if second else 3  # the second cache's, or the first one's
    for start in starts:
        for line in lines:
            pointer = b.cast("inttoptr", b.bin("add", start, integer(line, "i64")), "ptr")
            b.line(f"call void @llvm.prefetch.p0({pointer}, i32 0, i32 {level}, i32 1)")


@handles("st")
def store(e: Emitter, i: Instruction) -> None:
    check(e, i, _ALLOWED)
    sources = i.sources[:2] if "L2::cache_hint" in i.modifiers else i.sources
    if len(sources) != 2:
        raise e.fail(f"malformed {i.text}")
    _, kind = type_of(e, i)
    element = integer_of(kind)
    count = _count(i)
    items = list(sources[1].items) if isinstance(sources[1], Vector) else [sources[1]]
    if len(items) != count or None in items:
        raise e.fail(f"malformed {i.text}")
    # Immediates are read by the PTX type (a float literal), registers by width.
    values = [e.body.bitcast(e.read(item, kind), element) for item in items]
    space = addresses.space_of(i)
    if space == "param" and parameter_store(e, sources[0], values):
        return
    ordered = bool(_ORDERED & set(i.modifiers))
    if "release" in i.modifiers:
        checks.fence(e)
    size = count * BITS[element] // 8
    if ordered or element == "i128" or e.kernel.options.checks:
        access = Access(strong=ordered, values=tuple(values))
        place = addresses.place(e, sources[0], space, size, True, access)
    else:
        place = patterned.place(e, sources[0], space, element, len(values), True)
    if "release" in i.modifiers:
        e.body.line("fence release")
    elif ordered:
        _compiler_fence(e)
    write_memory(e, place, element, values, ordered)
    if ordered:
        _compiler_fence(e)


# Parameters ----------------------------------------------------------------------------------------------------------
def parameter_load(e: Emitter, i: Instruction, element: str, count: int) -> list[Val] | None:
    """ld.param at an offset known now: from the parameter buffer, an argument, or a call's result. None for other forms."""
    operand = i.sources[0]
    if not isinstance(operand, Address) or not isinstance(operand.base, Symbol):
        return None
    b = e.body
    name, offset = operand.base.name, operand.offset
    size = BITS[element] // 8
    if e.entry and name in e.kernel.parameter_offsets:
        start = e.kernel.parameter_offsets[name] + offset
        if start % (size * count) or not 0 <= start <= e.kernel.parameter_bytes - size * count:
            raise e.fail(f"{i.text} outside of the parameters")
        pointer = support.parameters(e)
        return [
            b.load(element, False, b.gep(pointer, start + size * index), f", align {size}, !invariant.load !1")
            for index in range(count)
        ]
    slot = scalar_slot(e, name)
    if slot is None:
        return None
    kind = slot[1]
    if offset % size or not 0 <= offset <= BITS[kind] // 8 - size * count:
        raise e.fail(f"{i.text} outside of the parameter")
    value = b.load(kind, True, slot[0])
    return [b.resize(_shifted(b, "lshr", value, offset + size * index), element) for index in range(count)]


def parameter_store(e: Emitter, operand: object, values: list[Val]) -> bool:
    """st.param to a scalar argument or result."""
    if not isinstance(operand, Address) or not isinstance(operand.base, Symbol):
        return False
    slot = scalar_slot(e, operand.base.name)
    if slot is None:
        return False
    b = e.body
    name, kind = slot
    size = BITS[values[0].type] // 8
    if operand.offset % size or not 0 <= operand.offset <= BITS[kind] // 8 - size * len(values):
        raise e.fail("st.param outside of the parameter")
    if values[0].type == kind:
        value = b.splat(values[0])
    else:
        written = ((1 << 8 * size * len(values)) - 1) << 8 * operand.offset
        value = b.bin("and", b.load(kind, True, name), integer(~written, kind))
        for index, part in enumerate(values):
            value = b.bin("or", value, _shifted(b, "shl", b.resize(part, kind), operand.offset + size * index))
    if e.mask is not None:
        value = b.select(e.mask, value, b.load(kind, True, name))
    b.store(value, name)
    return True


def _shifted(b: Builder, operation: str, value: Val, count: int) -> Val:
    """A value shifted by whole bytes."""
    return b.bin(operation, value, integer(8 * count, value.type)) if count else value


def scalar_slot(e: Emitter, name: str) -> tuple[str, str] | None:
    """(stack slot, type) of a scalar .param variable: an argument, a result, or of a call sequence."""
    item = e.storage.get(name)
    if item is None or item.space != "param" or item.array:
        return None
    kind = integer_of(PTX_LLVM[item.element])
    return e.slot(f'%"param.{name}"', kind, True), kind


# Memory --------------------------------------------------------------------------------------------------------------
def read_memory(e: Emitter, place: Place, element: str, count: int, ordered: bool = False) -> list[Val]:
    """`count` elements from a checked place."""
    b = e.body
    size = BITS[element] // 8
    if place.form is not None and not ordered:
        return rows.read(e, place, place.form, element, count)
    if place.apart:
        return patterned.read(e, _pointer(e, place), place.apart, element, count)
    place = addresses.as_offsets(e, place)
    if not place.index.vec:
        pointer = _pointer(e, place)
        extra = f", align {size}"
        if ordered and count > 1:
            whole = f"<{count} x {element}>"
            pack = b.op(f"load volatile {whole}, ptr {pointer}, align {size * count}", element, False)
            return [b.op(f"extractelement {whole} {pack.name}, i32 {index}", element, False) for index in range(count)]
        keyword = "volatile " if ordered else ""
        return [
            b.op(f"load {keyword}{element}, ptr {b.gep(pointer, size * index)}{extra}", element, False)
            for index in range(count)
        ]
    where = place.narrow or place.index
    if e.contiguous:
        return [rows.masked_read(e, place.base, where, element)]
    helper = lanewise.reader(e, element, count, ordered, where.type)
    mask = e.mask or Val("splat (i1 true)", "i1", True, True)
    shown = f"{{ {', '.join([f'<{LANES} x {element}>'] * count)} }}"
    result = b.op(f"call {shown} @{helper}(ptr {place.base}, {where}, {mask}{lanewise.counting(e)})", element, True)
    return [b.op(f"extractvalue {shown} {result.name}, {index}", element, True) for index in range(count)]


def write_memory(e: Emitter, place: Place, element: str, values: list[Val], ordered: bool = False) -> None:
    b = e.body
    size = BITS[element] // 8
    if place.form is not None and not ordered:
        rows.write(e, place, place.form, element, values)
        return
    if place.apart:
        patterned.write(e, _pointer(e, place), place.apart, element, values)
        return
    place = addresses.as_offsets(e, place)
    if not place.index.vec:
        pointer = _pointer(e, place)
        lane = support.last_lane(e) if any(value.vec for value in values) else 0
        scalars = [b.lane(value, lane) for value in values]
        if ordered and len(values) > 1:
            whole = f"<{len(values)} x {element}>"
            pack = "poison"
            for index, value in enumerate(scalars):
                pack = b.op(f"insertelement {whole} {pack}, {value}, i32 {index}", element, False).name
            b.line(f"store volatile {whole} {pack}, ptr {pointer}, align {size * len(values)}")
            return
        for index, value in enumerate(scalars):
            b.line(f"store {'volatile ' if ordered else ''}{value}, ptr {b.gep(pointer, size * index)}, align {size}")
        return
    where = place.narrow or place.index
    if e.contiguous:
        rows.masked_write(e, place.base, where, values[0])
        return
    helper = lanewise_stores.writer(e, element, len(values), ordered, where.type)
    mask = e.mask or Val("splat (i1 true)", "i1", True, True)
    shown = ", ".join(str(b.splat(value)) for value in values)
    b.line(f"call void @{helper}(ptr {place.base}, {where}, {mask}, {shown})")


def _pointer(e: Emitter, place: Place) -> str:
    if place.base == "null":
        return e.body.cast("inttoptr", place.index, "ptr").name
    return e.body.gep(place.base, place.index)


# Hints ---------------------------------------------------------------------------------------------------------------
@handles("prefetch", "prefetchu", "discard", "applypriority")
def hint(e: Emitter, i: Instruction) -> None:
    """Performance hints: no effect, no fault."""
