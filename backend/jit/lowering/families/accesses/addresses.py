"""Where an access goes: from a PTX address operand to checked host memory.

A `Place` is a checked host location: a base pointer (or none: the index is the host address itself) plus a byte index, scalar or per
lane. Every path checks alignment and range before memory is touched:

- global and const: against the site's latch (a run of accessible pages), inline; the runtime walks the page flags on a miss.
- shared, local, dynamic parameter offsets: against the size of the space, inline.
- generic: when a lane's address lies in one of our windows the runtime translates lane by lane, else as global.

Rotating the offset right by log2(size) before the unsigned comparison makes a misaligned one huge: one comparison checks both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from farlane.backend.jit.analysis.strides import row_length
from farlane.backend.jit.lowering import affine, checks, support, touches
from farlane.backend.jit.lowering.checks import PLAIN, Access
from farlane.backend.jit.lowering.families.accesses.limits import (
    check_bounds,
    check_pages,
    corners_outside,
    lane_bases,
    look_at_all,
    shape_of,
)
from farlane.backend.jit.lowering.ir import BITS, REGISTER_LLVM, Val, integer
from farlane.backend.jit.ptx.model import LANES, Address, Instruction, Symbol
from farlane.backend.jit.runtime.structures import GENERIC_WINDOWS_END, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from farlane.backend.jit.ssa.ssa import Value

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

SPACES = {
    "global",
    "const",
    "shared",
    "local",
    "param",
    "shared::cta",
    "shared::cluster",
    "param::entry",
    "param::func",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A checked host location."""

    base: str  # pointer, or "null"
    index: Val  # byte offset from base; a scalar (the first lane's) when `form` is set
    form: affine.Affine | None = None
    narrow: Val | None = None  # the index in 32 bits, where it fits and differs between lanes
    streamed: Val | None = None  # of an affine store: whether it goes past the caches (streaming.py)
    apart: tuple[int, ...] = ()  # each lane's distance from a scalar index, where these are known now (patterned.py)


def space_of(i: Instruction) -> str:
    """The state space named by the modifiers, "" for generic."""
    return next((space_named(item) for item in i.modifiers if item in SPACES), "")


def space_named(modifier: str) -> str:
    """The state space of a modifier; "cluster" is the shared memory of all of a cluster's blocks."""
    return "cluster" if modifier == "shared::cluster" else modifier.split("::")[0]


def symbol_address(e: Emitter, symbol: Symbol) -> Val:
    """The address of a symbol in its own space, as i64."""
    item = e.storage.get(symbol.name)
    b = e.body
    if item is not None:
        if item.space == "shared":
            return integer(e.kernel.shared_offset(item.name, item.size, item.align) + symbol.offset, "i64")
        if e.entry and symbol.name in e.kernel.parameter_offsets:
            return integer(e.kernel.parameter_offsets[symbol.name] + symbol.offset, "i64")
        base = frame_offset(e, symbol.name)
        if base is None:
            raise e.fail(f"the address of parameter '{symbol.name}' is taken")
        return b.bin("add", base, integer(symbol.offset, "i64"))
    index = e.kernel.module.variable_index.get(symbol.name)
    if index is None:
        if symbol.name in e.kernel.module.functions:
            return integer(e.kernel.function_number(symbol.name), "i64")
        raise e.fail(f"unknown symbol '{symbol.name}'")
    variable = e.kernel.module.variables[index]
    if variable.space == "shared":
        if variable.extern:
            return b.bin("add", e.kernel.dynamic_shared(), integer(symbol.offset, "i64"))
        return integer(e.kernel.shared_offset(variable.name, variable.size, variable.align) + symbol.offset, "i64")
    e.kernel.used_variables.add(index)
    return b.bin("add", support.variable(e, index), integer(symbol.offset, "i64"))


def frame_offset(e: Emitter, name: str) -> Val | None:
    """The local-memory offset of something that lives in the frame; None for scalar parameters."""
    if name in e.pointers:
        return Val(e.pointers[name], "i64")
    if name in e.frame:
        return e.once(f"frame.{name}", lambda p: p.bin("add", Val("%lsp", "i64"), integer(e.frame[name], "i64")))
    return None


def symbol_space(e: Emitter, name: str) -> str:
    item = e.storage.get(name)
    if item is not None:
        if item.space == "param" and not (e.entry and name in e.kernel.parameter_offsets):
            return "local"
        return item.space
    variable = e.kernel.module.variable(name)
    return variable.space if variable is not None else ""


def effective(e: Emitter, operand: Any, space: str) -> tuple[str, Val]:
    """(space, address within the space as i64)."""
    if isinstance(operand, Symbol):
        operand = Address(operand)
    if not isinstance(operand, Address):
        raise e.fail("an address operand is needed")
    b = e.body
    if isinstance(operand.base, Symbol):
        named = symbol_space(e, operand.base.name)
        if not named:
            raise e.fail(f"unknown symbol '{operand.base.name}'")
        address = b.bin("add", symbol_address(e, operand.base), integer(operand.offset, "i64"))
        return named, b.bin("and", address, integer(0xFFFF_FFFF, "i64")) if named in ("shared", "local") else address
    if operand.base is None:
        return space, integer(operand.offset, "i64")
    register = operand.base
    if BITS[REGISTER_LLVM[register.type]] == 32:
        address = b.cast("zext", b.bin("add", e.read(register, "i32"), integer(operand.offset, "i32")), "i64")
    else:
        address = e.read(register, "i64")
        if operand.offset:
            address = b.bin("add", address, integer(operand.offset, "i64"))
        if space in ("shared", "cluster", "local", "param"):
            address = b.bin("and", address, integer(0xFFFF_FFFF, "i64"))
    return space, address


def place(e: Emitter, operand: Any, space: str, size: int, write: bool, access: Access = PLAIN, /) -> Place:
    """Checks the access of `size` bytes (a power of two) for the active lanes and says where it is."""
    if e.placed is not None:
        return e.placed
    shape = shape_of(size, write)
    form = _form(e, operand, space, size)
    if form is not None:
        if space == "shared" and e.kernel.options.checks:
            checks.watch(e, space, affine.materialise(e, form), size, write, access)
        found = _affine_place(e, form, space, shape)
        checks.initialised(e, found, space, size, write, access)
        return found
    space, address = effective(e, operand, space)
    return place_at(e, space, address, size, write, access)


def place_at(e: Emitter, space: str, address: Val, size: int, write: bool, access: Access = PLAIN, /) -> Place:
    """The same for an address within its space, as `effective` gives it."""
    # Of a cluster's accesses those to the block's own memory are followed: the others' offsets are beyond it.
    checks.watch(e, "shared" if space == "cluster" else space, address, size, write, access)
    found = _place_at(e, space, address, size, write)
    checks.initialised(e, found, space, size, write, access)
    return found


def unwatched(e: Emitter, space: str, address: Val, size: int, write: bool) -> Place:
    """The same, of what the checks of races hear from elsewhere."""
    return _place_at(e, space, address, size, write)


def _place_at(e: Emitter, space: str, address: Val, size: int, write: bool) -> Place:
    shape = shape_of(size, write)
    b = e.body
    if space in ("global", "const"):
        check_pages(e, address, shape)
        if space == "global":
            touches.record(e, address, write)
        return Place("null", address)
    if space == "shared":
        # In 32 bits, which what lies behind them is not: half the vectors, half the gathers.
        short = b.cast("trunc", address, "i32")
        check_bounds(e, short, support.shared_size(e), SHARED_WINDOW, shape)
        return Place(support.shared_base(e), address, narrow=short if short.vec else None)
    if space == "cluster":
        arguments = f"ptr %warp, {b.splat(address)}, {e.mask_bits}, i32 {shape}, i32 {e.line}"
        with e.reporting():
            distances = b.op(f"call <{LANES} x i64> @farlane_cluster_places({arguments})", "i64", True)
        return Place(support.shared_base(e), distances)
    if space == "local":
        check_bounds(e, address, support.local_size(e), LOCAL_WINDOW, shape)
        return Place("null", b.bin("add", lane_bases(e), address))
    if space == "param":
        if write:
            raise e.fail("a kernel parameter is written")
        check_bounds(e, address, integer(e.kernel.parameter_bytes, "i64"), PARAMETER_WINDOW, shape)
        return Place(support.parameters(e), address)
    return _generic(e, address, shape)


def as_offsets(e: Emitter, place: Place) -> Place:
    """One index per lane (or one for all) in place of an affine form."""
    return place if place.form is None else Place(place.base, affine.materialise(e, place.form))


def affine_operand(e: Emitter, operand: Any, space: str, size: int) -> affine.Affine | None:
    """The register of the address, where it is affine and every lane as aligned as the first."""
    if (
        not isinstance(operand, Address)
        or not isinstance(operand.base, Value)
        or space not in ("global", "const", "shared")
    ):
        return None
    value = e.affine(operand.base)
    return None if value is None or value.stride % size else value


def _form(e: Emitter, operand: Any, space: str, size: int) -> affine.Affine | None:
    """The address as an affine value of 64 bits."""
    value = affine_operand(e, operand, space, size)
    if value is None:
        return None
    b = e.body
    if value.type == "i32":
        # A lane that wraps lies outside of shared memory either way.
        base = b.cast("zext", b.bin("add", value.base, integer(operand.offset, "i32")), "i64")
        step = None if value.step is None else b.cast("sext", value.step, "i64")
        return affine.Affine(base, value.stride, step)
    base = b.bin("add", value.base, integer(operand.offset, "i64"))
    if space == "shared":
        base = b.bin("and", base, integer(0xFFFF_FFFF, "i64"))
    return affine.Affine(base, value.stride, value.step)


def _affine_place(e: Emitter, form: affine.Affine, space: str, shape: int) -> Place:
    """Checks every row's lowest address against what the row's length leaves: the rest is in the same run of pages, or in the same array."""
    b = e.body
    across = form.stride * (row_length(e.kernel.block) - 1)
    firsts = _firsts(e, form)
    lowest = [b.bin("add", first, integer(across, "i64")) for first in firsts] if across < 0 else firsts
    span = abs(across) >> (shape & 255)
    if span >= 1 << 15:
        # Too long for the field that tells the runtime: both ends are checked.
        lowest, span = [*firsts, *(b.bin("add", first, integer(across, "i64")) for first in firsts)], 0
    if e.kernel.options.untranslated and space != "shared":
        return Place("null", form.base, form)
    limit = support.shared_size(e)
    bad, latch = corners_outside(e, space, lowest, span, shape)
    if len(firsts) > 1 and e.group is not None:
        bad = b.bin("or", bad, _far(e, form))
    miss, hit = b.new_label("miss"), b.new_label("hit")
    b.branch_if(bad, miss, hit, unlikely=True)
    b.block(miss)
    if e.group is not None:
        step = form.step or integer(0, "i64")
        start = f"ptr %warp, {form.base}, {step}, i64 {form.stride}"
        if space == "shared":
            b.line(
                f"call void @farlane_group_outside({start}, {limit}, i64 {SHARED_WINDOW}, i32 {shape}, i32 {e.line})"
            )
        else:
            b.line(f"call void @farlane_group_miss({start}, ptr {latch}, i32 {shape | span << 16}, i32 {e.line})")
    else:
        look_at_all(e, space, affine.materialise(e, form), latch, span, shape)
    b.branch(hit)
    b.block(hit)
    if space == "global" and e.kernel.options.touches:
        touches.record(e, affine.materialise(e, form), bool(shape & 256))
    return Place(support.shared_base(e) if space == "shared" else "null", form.base, form)


def _firsts(e: Emitter, form: affine.Affine) -> list[Val]:
    """Where rows begin: all that have to be looked at. Of a warp group's many rows the first and the last tell where the others are, unless a step
    is so large that addresses wrap (_far); and as the number of steps is odd, that those are aligned as well."""
    if form.step is None:
        return [form.base]
    if e.group is None:
        return affine.row_bases(e, form)
    return [form.base, affine.row_base(e, form, affine.rows(e) * e.warps - 1)]


def _far(e: Emitter, form: affine.Affine) -> Val:
    b = e.body
    assert form.step is not None
    return b.icmp("ugt", b.bin("add", form.step, integer(1 << 40, "i64")), integer(1 << 41, "i64"))


def _generic(e: Emitter, address: Val, shape: int) -> Place:
    b = e.body
    address = b.splat(address)
    latch = support.latch(e, e.site())
    inside = b.icmp(
        "ult", b.bin("sub", address, integer(SHARED_WINDOW, "i64")), integer(GENERIC_WINDOWS_END - SHARED_WINDOW, "i64")
    )
    bits = b.bits(inside)
    if e.mask is not None:
        bits = b.bin("and", bits, e.mask_bits)
    special, plain, done = b.new_label("window"), b.new_label("plain"), b.new_label("placed")
    b.branch_if(b.icmp("ne", bits, integer(0, "i32")), special, plain)
    b.block(special)
    arguments = f"ptr %warp, {address}, {e.mask_bits}, ptr {latch}, i32 {shape}, i32 {e.line}"
    translated = b.op(f"call <32 x i64> @farlane_generic({arguments})", "i64", True)
    b.branch(done)
    b.block(plain)
    check_pages(e, address, shape)
    last = b.label
    b.branch(done)
    b.block(done)
    result = b.op(f"phi <32 x i64> [ {translated.name}, %{special} ], [ {address.name}, %{last} ]", "i64", True)
    touches.record(e, result, bool(shape & 256))
    return Place("null", result)
