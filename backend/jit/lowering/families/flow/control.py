"""Barriers, fences, traps, sleeping.

A barrier counts arriving threads; the runtime (barriers.ll) completes it. In ordinary mode the whole warp arrives and its fiber
switches away. In the conservative mode (lanes parted round a barrier) lanes park, the others run on, and the fiber switches away only
when nothing else can run.
Source: PTX ISA, "Parallel Synchronization and Communication Instructions", "Miscellaneous Instructions".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering import checks, support
from farlane.backend.jit.lowering.families.base import check, handles, write
from farlane.backend.jit.lowering.ir import Val, integer
from farlane.backend.jit.ptx.model import Instruction
from farlane.backend.jit.runtime import clusters
from farlane.backend.jit.runtime.structures import FaultKind
from farlane.backend.jit.ssa.blocks import Block

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter


@handles("bar", "barrier")
def barrier(e: Emitter, i: Instruction) -> None:
    b = e.body
    if "warp" in i.modifiers:
        check(e, i, {"warp", "sync"}, 1)
        b.line('fence syncscope("singlethread") seq_cst')
        checks.warp_barrier(e)
        return
    if "cluster" in i.modifiers:
        _cluster_barrier(e, i)
        return
    check(e, i, {"sync", "red", "arrive", "aligned", "cta", "popc", "and", "or", "pred", "u32"})
    red = "red" in i.modifiers
    operands = i.sources[:-1] if red else i.sources
    if not 1 <= len(operands) <= 2 or (red and len(i.destinations) != 1):
        raise e.fail(f"malformed {i.text}")
    number = _agreed(e, e.read(operands[0], "i32"))
    expected = _agreed(e, e.read(operands[1], "i32")) if len(operands) == 2 else integer(0, "i32")
    true = integer(0, "i32")
    if red:
        true = b.bin("and", b.bits(e.read(i.sources[-1], "i1")), e.mask_bits)
    if not e.kernel.fibers:
        raise AssertionError("a barrier in a kernel compiled without fibers")
    b.line(f"call void @farlane_arrive(ptr %warp, {number}, {expected}, {e.mask_bits}, {true})")
    if "arrive" in i.modifiers:
        return
    bit = b.bin("shl", integer(1, "i32"), b.bin("and", number, integer(15, "i32")))
    if e.parks:
        slot = e.slot(f"%parked{e.block}", "i32", False)
        b.store(b.bin("or", b.load("i32", False, slot), e.mask_bits), slot)
        b.store(bit, e.slot(f"%id{e.block}", "i32", False))
        return
    b.line(f"call i32 @farlane_wait(ptr %warp, {bit})")
    if red:
        write(e, i, _reduced(e, i, number))


def _cluster_barrier(e: Emitter, i: Instruction) -> None:
    check(e, i, {"cluster", "arrive", "wait", "release", "acquire", "relaxed", "aligned"}, 0)
    b = e.body
    if "arrive" in i.modifiers:
        b.line(f"call void @farlane_cluster_arrive(ptr %warp, {e.mask_bits})")
    elif e.parks:
        slot = e.slot(f"%parked{e.block}", "i32", False)
        b.store(b.bin("or", b.load("i32", False, slot), e.mask_bits), slot)
        b.store(integer(clusters.BARRIER, "i32"), e.slot(f"%id{e.block}", "i32", False))
    else:
        b.line(f"call void @farlane_cluster_wait(ptr %warp, {e.mask_bits})")


def _agreed(e: Emitter, value: Val) -> Val:
    """A barrier's number or count as one value. Unoptimized code keeps it in local memory, where nothing proves that it is uniform:
    then the first active lane's counts, and a launch whose lanes disagree ends."""
    if not value.vec:
        return value
    b = e.body
    first = b.op(f"extractelement {value}, {support.first_lane(e)}", "i32", False)
    others = b.bin("and", b.bits(b.icmp("ne", value, b.splat(first))), e.mask_bits)
    support.fault_if(e, b.icmp("ne", others, integer(0, "i32")), FaultKind.ILLEGAL_INSTRUCTION)
    return first


def _reduced(e: Emitter, i: Instruction, number: Val) -> Val:
    b = e.body
    both = b.op(f"call i64 @farlane_reduced(ptr %warp, {number})", "i64", False)
    true = b.cast("trunc", both, "i32")
    if "popc" in i.modifiers:
        return true
    if "or" in i.modifiers:
        return b.icmp("ne", true, integer(0, "i32"))
    return b.icmp("eq", true, b.cast("trunc", b.bin("lshr", both, integer(32, "i64")), "i32"))


def resume(e: Emitter, index: int, block: Block, released: Val) -> None:
    """Lanes parked at the barrier that ends `block` go on when it is among the released ones."""
    b = e.body
    parked_slot, id_slot = e.slot(f"%parked{index}", "i32", False), e.slot(f"%id{index}", "i32", False)
    hit = b.icmp("ne", b.bin("and", b.load("i32", False, id_slot), released), integer(0, "i32"))
    parked = b.load("i32", False, parked_slot)
    instruction = block.instructions[-1]
    free = parked
    if clusters.is_barrier(instruction):  # others may have come here since, for the next time
        pending = b.op("call i32 @farlane_cluster_pending(ptr %warp)", "i32", False)
        free = b.bin("and", parked, b.invert(pending))
    lanes = b.select(hit, free, integer(0, "i32"))
    b.store(b.bin("xor", parked, lanes), parked_slot)
    e.block, e.mask, e.mask_bits, e.local = index, b.mask(lanes), lanes, {}
    if "red" in instruction.modifiers:
        write(e, instruction, _reduced(e, instruction, _agreed(e, e.read(instruction.sources[0], "i32"))))
    e.part([(block.targets[0], lanes)])


_FENCES = {
    "cta", "gl", "sys", "gpu", "cluster", "sc", "acq_rel", "acquire", "release", "relaxed", "proxy", "alias", "async",
    "async.global", "async.shared::cta", "global", "shared::cta", "mbarrier_init", "sync_restrict::shared::cta",
    "sync_restrict::shared::cluster", "async::generic", "tensormap::generic",
}  # fmt: skip


@handles("membar", "fence")
def fence(e: Emitter, i: Instruction) -> None:
    check(e, i, _FENCES)
    checks.fence(e)
    if "cta" in i.modifiers or "proxy" in i.modifiers or "cluster" in i.modifiers:
        e.body.line('fence syncscope("singlethread") seq_cst')
    else:
        e.body.line("fence seq_cst")


@handles("trap")
def trap(e: Emitter, i: Instruction) -> None:
    support.fault(e, FaultKind.TRAP)


@handles("brkpt", "pmevent", "griddepcontrol", "setmaxnreg")
def nothing(e: Emitter, i: Instruction) -> None:
    """No debugger, no performance monitor, no dependent grids, no registers to give away: no effect."""


@handles("nanosleep")
def sleep(e: Emitter, i: Instruction) -> None:
    check(e, i, {"u32"}, 1)
    if e.kernel.fibers:
        e.body.line("call void @farlane_yield(ptr %warp)")
