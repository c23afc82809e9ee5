"""When a region of a kernel runs lane after lane (serial.py): decided where the vectors' code gets to its first block, by what that code has met before.

Each region has a latch of its own that holds two words. The vectors' code adds to the first, its credit, what it costs, and takes off what its active lanes would
cost one by one. Above zero, the lanes go one by one for LEASE times; then it is tried again. Results do not depend on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.analysis import serial
from farlane.backend.jit.lowering import support
from farlane.backend.jit.lowering.emitters.serial_codegen import SerialEmitter
from farlane.backend.jit.lowering.ir import Val, integer
from farlane.backend.jit.ptx.model import LANES
from farlane.backend.jit.ssa.blocks import Block

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitters.codegen import FunctionEmitter

LEASE = 127
MOST_VALUES = 64  # that lanes bring and take: they lie on the warp's stack
OFTEN = 8  # iterations of a loop, where it is not known how many there are
NEVER, ADAPTIVE, ALWAYS = "never", "adaptive", "always"


def plan(e: FunctionEmitter) -> dict[int, SerialEmitter]:
    """What emits the regions of a kernel's own code, by their first block."""
    options = e.kernel.options
    if options.serial == NEVER or options.tier == 1 or options.checks or options.touches or options.untranslated:
        return {}
    if not e.entry or not options.warp_groups:  # without warp groups, looking at one page may take another away
        return {}
    found = serial.regions(e.graph, e.divergence, options.serial == ALWAYS)
    emitters = (SerialEmitter(e, region) for region in found)
    return {one.region.start: one for one in emitters if len(one.into) + len(one.out) <= MOST_VALUES}


def choose(e: FunctionEmitter, region: SerialEmitter, bits: Val) -> None:
    """At the start of the region's first block, in either version: on to the lanes' code, or not."""
    b, start = e.body, region.region.start
    there, here = b.new_label("alone"), b.new_label("together")
    if start in e.graph.loops:
        # In the loop's next iterations they stay together: what a few lanes would do for its rest says little about the next ones' whole.
        together = b.load("i1", False, _inside(e, region))
        if e.mask is not None:
            # Lanes that got into its middle another way (a warp group's that has ended) may be through, and wait for the others.
            for index in range(start + 1, region.region.end):
                waiting = b.icmp("ne", b.load("i32", False, e.pending(index)), integer(0, "i32"))
                together = b.bin("or", together, waiting)
        first = b.new_label("first")
        b.branch_if(together, here, first)
        b.block(first)
    if e.kernel.options.serial == ALWAYS:
        b.branch(there)
        b.block(there)
    else:
        credit = support.latch(e, region.choice)
        lease = b.gep(credit, 4)
        earned, left = b.load("i32", False, credit), b.load("i32", False, lease)
        leased = b.icmp("ne", left, integer(0, "i32"))
        b.store(b.bin("ashr", earned, integer(1, "i32")), credit)
        b.branch_if(b.bin("or", leased, b.icmp("sgt", earned, integer(0, "i32"))), there, here)
        b.block(there)
        b.store(integer(0, "i32"), credit)
        b.store(b.select(leased, b.bin("sub", left, integer(1, "i32")), integer(LEASE, "i32")), lease)
    if e.mask is None:
        e.parts_full = True
        e.to_vectors(e.live_in[start])
    b.store(bits, e.slot(f"%{region.key}.bits", "i32", False))
    b.branch(region.key)
    b.block(here)
    if start in e.graph.loops:
        b.store(integer(1, "i1"), _inside(e, region))
    # Each lane leaves each of its loops once, and the processor does not know when. This is the start of an iteration, or of all of them.
    loops = sum(OFTEN for header in e.graph.loops if header in region.region and header != start)
    _charge(e, region, bits, 0, (loops + (start in e.graph.loops)) * serial.ALONE_LOOP // OFTEN)


def leave(e: FunctionEmitter, index: int) -> None:
    """In front of a block: regions that lead there are over."""
    for region in e.regions.values():
        if region.region.start in e.graph.loops and (index == region.region.end or index in region.exits):
            e.body.store(integer(0, "i1"), _inside(e, region))


def _inside(e: FunctionEmitter, region: SerialEmitter) -> str:
    """Whether lanes are in the region together."""
    return e.slot(f"%{region.key}.inside", "i1", False)


def count(e: FunctionEmitter, block: Block) -> None:
    """What a block costs, and would cost lane by lane, if it belongs to a region."""
    e.scattered = None
    if e.kernel.options.serial != ADAPTIVE:
        return
    for region in e.regions.values():
        if e.block in region.region:
            _charge(e, region, e.mask_bits, *serial.costs(block))
            e.scattered = support.latch(e, region.choice)


def _charge(e: FunctionEmitter, region: SerialEmitter, bits: Val, vector: int, alone: int) -> None:
    b = e.body
    if e.kernel.options.serial != ADAPTIVE:
        return
    credit = support.latch(e, region.choice)
    active = integer(LANES, "i32") if bits.const else b.call("ctpop", "i32", [bits])
    change = b.bin("sub", integer(vector, "i32"), b.bin("mul", active, integer(alone, "i32")))
    b.store(b.call("sadd.sat", "i32", [b.load("i32", False, credit), change]), credit)
