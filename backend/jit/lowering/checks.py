"""The IR that checks what kernels do to memory: in front of and behind each access (runtime/checks.py says what is looked for)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from farlane.backend.jit.lowering import support
from farlane.backend.jit.lowering.ir import Val, integer
from farlane.backend.jit.ptx.declarations import SCALAR_BYTES
from farlane.backend.jit.ptx.instructions import Trait, having
from farlane.backend.jit.ptx.model import LANES
from farlane.backend.jit.runtime.checks import INIT, RACE, Findings
from farlane.backend.jit.runtime.structures import SHARED_WINDOW

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter
    from farlane.backend.jit.lowering.families.accesses.addresses import Place
    from farlane.backend.jit.ptx.model import Body

_STRONG = 512

# Before emission -----------------------------------------------------------------------------------------------------
_ALIGNED_WORDS = {"mbarrier": 8, "wmma": 2, "wgmma": 2, "ldmatrix": 16, "stmatrix": 16, "cp": 4}
_TOUCHING = having(Trait.ACCESS)


def granule_log(bodies: Iterable[Body]) -> int:
    """Log2 of the smallest access to shared memory in a kernel, at most 2: what a shadow entry stands for."""
    smallest = 4
    for body in bodies:
        for item in body.instructions:
            if item.base in _TOUCHING:
                if {"global", "const", "local", "param", "param::entry", "param::func"} & set(item.modifiers):
                    continue
                kind = item.modifiers[-1] if item.modifiers else ""
                smallest = min(smallest, SCALAR_BYTES.get(kind, 1))
            elif item.base in _ALIGNED_WORDS:
                smallest = min(smallest, _ALIGNED_WORDS[item.base])
    return smallest.bit_length() - 1


# Emission ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Access:
    """What the checks want to know of an access beyond its address."""

    strong: bool = False  # atomic, volatile, relaxed, ...: two of them never race
    reads: bool = False  # a write that reads first
    texel: bool = False  # of a texture unit, which also reads what it then drops: not asked whether it was written
    values: tuple[Val, ...] = ()  # what is stored: integers, all of one type


PLAIN = Access()


def watch(e: Emitter, space: str, address: Val, size: int, write: bool, access: Access) -> None:
    """In front of an access: notes it for races. `address` is one within its space."""
    if not e.kernel.options.checks & RACE or space not in ("shared", ""):
        return
    b = e.body
    where = b.splat(address)
    if space == "shared":
        where = b.bin("or", where, integer(SHARED_WINDOW, "i64"))
    pointer, layout = "null", 0
    if access.values:
        kind = access.values[0].type
        width = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "i128": 16}[kind]
        pointer, layout = _stored(e, access.values, width), width.bit_length() - 1
    shape = size.bit_length() - 1 | (256 if write else 0) | (_STRONG if access.strong else 0)
    b.line(
        f"call void @farlane_watch(ptr %warp, {where}, {e.mask_bits}, i32 {shape}, i32 {e.line}, ptr {pointer}, i32 {layout})"
    )


def _stored(e: Emitter, values: Sequence[Val], width: int) -> str:
    """The values in memory, one vector behind the other."""
    b = e.body
    count = len(values)
    name = f"%stored.{width}.{count}"
    if name not in e.slots:
        e.slots.add(name)
        e.allocas.append(f"  {name} = alloca [{count} x <{LANES} x i{8 * width}>], align 64")
    for index, value in enumerate(values):
        b.store(b.splat(value), b.gep(name, index * LANES * width), f", align {width}")
    return name


def fence(e: Emitter) -> None:
    """A fence, or an operation on an mbarrier: a synchronization that is not followed."""
    if e.kernel.options.checks & RACE:
        e.body.line("call void @farlane_watch_fence(ptr %warp)")


def warp_barrier(e: Emitter, barrier: bool = True) -> None:
    """The lanes of a warp have met: at a barrier, or where they exchange values, which orders what they have read only."""
    if e.kernel.options.checks & RACE:
        e.body.line(f"call void @farlane_watch_warp(ptr %warp, i1 {'true' if barrier else 'false'})")


def initialised(e: Emitter, place: Place, space: str, size: int, write: bool, access: Access) -> None:
    """Behind the check of a global access: is what it reads written, and notes what it writes."""
    if not e.kernel.options.checks & INIT or space not in ("global", "") or access.texel:
        return
    from farlane.backend.jit.lowering import affine  # these know this module
    from farlane.backend.jit.lowering.families.accesses import addresses, memory

    b = e.body
    check = e.once("check", lambda p: p.load("ptr", False, support.launch_field(e, p, "check"))).name
    delta = e.once("delta", lambda p: p.load("i64", False, p.gep(check, Findings.delta.offset)))
    saved = e.mask, e.mask_bits
    # What is outside of the window has no shadow: another space, or a host mapping.
    base = e.once("window_base", lambda p: p.load("i64", False, support.launch_field(e, p, "window_base")))
    room = e.once("window_size", lambda p: p.load("i64", False, support.launch_field(e, p, "window_size")))
    lanes = addresses.as_offsets(e, place).index
    inside = b.bits(b.splat(b.icmp("ult", b.bin("sub", lanes, base), room)))
    shadowed, over = b.new_label("shadowed"), b.new_label("over")
    if place.form is None:
        e.mask_bits = b.bin("and", e.mask_bits, inside)
        e.mask = b.mask(e.mask_bits)
        b.branch_if(b.icmp("ne", e.mask_bits, integer(0, "i32")), shadowed, over)
    else:  # a row of lanes lies in one run of pages
        b.branch_if(b.icmp("eq", b.bin("and", e.mask_bits, inside), e.mask_bits), shadowed, over)
    b.block(shadowed)
    moved = b.bin("add", place.index, delta)
    form = place.form and affine.Affine(moved, place.form.stride, place.form.step)
    shadow = addresses.Place("null", moved, form)
    element, count = {1: "i8", 2: "i16", 4: "i32"}.get(size, "i64"), max(1, size // 8)
    all_ones = integer(-1, element)
    if not write or access.reads:
        bad = integer(0, "i1")
        for value in memory.read_memory(e, shadow, element, count):
            bad = b.bin("or", bad, b.icmp("ne", value, all_ones))
        bits = b.bin("and", b.bits(bad), e.mask_bits)
        unwritten, written = b.new_label("unwritten"), b.new_label("written")
        b.branch_if(b.icmp("ne", bits, integer(0, "i32")), unwritten, written, unlikely=True)
        b.block(unwritten)
        where = b.splat(addresses.as_offsets(e, place).index)
        b.line(f"call void @farlane_unwritten(ptr %warp, {where}, {bits}, i32 {size}, i32 {e.line})")
        b.branch(written)
        b.block(written)
    if write:
        memory.write_memory(e, shadow, element, [all_ones] * count)
    b.branch(over)
    b.block(over)
    e.mask, e.mask_bits = saved
