"""Where a kernel's own code takes up what a warp group has left (warp_groups.py): one entry for each place at which a warp group may end.

A warp group ends at a branch on which its warps or lanes disagree, and at the start of a block where an affine form does not hold. What is alive there lies in the
area that the warp's state names, a vector for each value (group_codegen.py); it goes to where this code keeps it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.analysis.warp_groups import FIRST_ENTRY, place_offset
from farlane.backend.jit.lowering.affine import Affine, rows
from farlane.backend.jit.lowering.emitter import ALL
from farlane.backend.jit.lowering.families import warp_field
from farlane.backend.jit.lowering.ir import BITS, REGISTER_LLVM, Builder, Val, integer
from farlane.backend.jit.ptx.model import LANES
from farlane.backend.jit.ssa.ssa import Value

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitters.codegen import FunctionEmitter
    from farlane.backend.jit.lowering.emitters.group_codegen import GroupEmitter


def dispatch(e: FunctionEmitter, group: GroupEmitter, b: Builder) -> None:
    """At the function's start: on from where the warp group ended, if it did."""
    cases = " ".join(f"i32 {entry}, label %resume{entry}" for entry in group.entries)
    if cases:
        b.line(f"switch {b.load('i32', False, warp_field(b, 'entry'))}, label %fresh [ {cases} ]")
        b.block("fresh")


def emit(e: FunctionEmitter, group: GroupEmitter) -> None:
    """The entries."""
    own = {value.number: value for value in _defined(e)}
    for entry, values in group.entries.items():
        index, branch = divmod(entry - FIRST_ENTRY, 2)
        e.block, e.mask, e.mask_bits, e.local, e.forms = index, None, ALL, {}, {}
        b = e.body
        b.block(f"resume{entry}")
        area = b.load("ptr", False, warp_field(b, "area")).name
        for number, value in enumerate(values):
            place = b.gep(area, place_offset(number, group.warps))
            (_at_branch if branch else _at_start)(e, own[value.number], place)
        if branch:
            e.full_end(index, e.graph.blocks[index])
            continue
        b.store(integer(1, "i1"), e.slot("%plain", "i1", False))
        b.store(ALL, e.pending(index))
        b.branch(f"m{index}.test")


def _defined(e: FunctionEmitter) -> list[Value]:
    found = [phi.value for block in e.graph.blocks for phi in block.phis]
    for block in e.graph.blocks:
        for instruction in block.instructions:
            found += [value for value in instruction.destinations if isinstance(value, Value)]
    return found


def _at_branch(e: FunctionEmitter, value: Value, place: str) -> None:
    b = e.body
    kind = REGISTER_LLVM[value.type]
    if not e.is_affine(value):
        extra = ", align 64" if value.varying else ""
        e.define(
            value, b.load(kind, value.varying, place, extra) if kind != "i1" or value.varying else _predicate(b, place)
        )
        return
    assert value.stride is not None
    first, step = b.load(kind, False, place), None
    if value in e.stepping:
        second = b.load(kind, False, b.gep(place, LANES // rows(e) * BITS[kind] // 8))
        step = b.bin("sub", second, first)
    e.define_affine(value, Affine(first, value.stride, step))


def _at_start(e: FunctionEmitter, value: Value, place: str) -> None:
    b = e.body
    kind = REGISTER_LLVM[value.type]
    if not value.varying:
        e.define(value, b.load(kind, False, place) if kind != "i1" else _predicate(b, place))
        return
    vector = b.load(kind, True, place, ", align 64")
    b.store(vector, e.value_slot(value))
    if value.exported:
        e.export(value, vector)


def _predicate(b: Builder, place: str) -> Val:
    return b.lane(b.load("i1", True, place, ", align 64"), 0)
