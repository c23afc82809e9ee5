"""Special registers: thread and block coordinates, lane masks, clocks.

Coordinates are computed once at a function's entry. The block's shape is a compile-time constant, so %tid is uniform along axes that do
not change within a warp (`varying_axes`). A cluster's shape is the launch's.
Source: PTX ISA, "Special Registers".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.analysis.strides import varying_axes
from farlane.backend.jit.lowering import support
from farlane.backend.jit.lowering.ir import LANE_INDEX, Builder, Val, integer, lanes
from farlane.backend.jit.ptx.model import LANES

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_AXIS = {"x": 0, "y": 1, "z": 2}
_LANE_MASKS = {
    "lanemask_eq": [1 << lane for lane in range(LANES)],
    "lanemask_le": [(2 << lane) - 1 for lane in range(LANES)],
    "lanemask_lt": [(1 << lane) - 1 for lane in range(LANES)],
    "lanemask_ge": [-(1 << lane) for lane in range(LANES)],
    "lanemask_gt": [-(2 << lane) for lane in range(LANES)],
}
# The part of shared memory that a compiler may use for itself (from compute capability 8.0 on): its halves are regions 0 and 1.
RESERVED_SHARED = "reserved_smem_offset_"
RESERVED_SHARED_BYTES = 1024
_CONSTANTS = {
    "aggr_smem_size": 0, "nsmid": 1, "current_graph_exec": 0,
}  # fmt: skip
WARP_RANGE = ", !range !2"  # the metadata that kernel.py writes: indices of the block's warps


def special(e: Emitter, name: str) -> Val:
    """The value of a special register, without its percent sign."""
    base, _, axis = name.partition(".")
    block = e.kernel.block
    if axis and axis not in _AXIS:
        if axis == "w":
            return integer(0, "i32")
        raise e.fail(f"unknown special register %{name}")
    at = _AXIS.get(axis, 0)
    if base == "tid":
        return e.once(f"tid.{axis}", lambda b: _tid(e, b, axis))
    if base == "ntid":
        return integer(block[at], "i32")
    if base == "ctaid":
        return e.once(f"ctaid.{axis}", lambda b: b.load("i32", False, support.warp_field(b, "block", at)))
    if base == "nctaid":
        return e.once(name, lambda b: b.load("i32", False, support.launch_field(e, b, "grid", at)))
    if base == "laneid":
        return LANE_INDEX["i32"]
    if base in _LANE_MASKS:
        return lanes(_LANE_MASKS[base], "i32")
    if base == "warpid":
        return e.once("warpid", lambda b: b.load("i32", False, support.warp_field(b, "index"), WARP_RANGE))
    if base == "nwarpid":
        return integer((e.kernel.threads + LANES - 1) // LANES, "i32")
    if base == "smid":
        return e.once("smid", lambda b: b.load("i32", False, support.worker_field(e, b, "index")))
    if base == "gridid":
        return e.once("gridid", lambda b: b.load("i64", False, support.launch_field(e, b, "grid_id")))
    if base == "dynamic_smem_size":
        return e.once("dynamic_smem", lambda b: b.load("i32", False, support.launch_field(e, b, "dynamic_shared")))
    if base == "total_smem_size":
        return e.once(
            "total_smem",
            lambda b: b.cast("trunc", b.load("i64", False, support.worker_field(e, b, "shared_size")), "i32"),
        )
    if base in ("envreg1", "envreg2"):  # where grid.sync finds its barrier: high and low half of an address
        half = 1 if base == "envreg1" else 0
        return e.once(base, lambda b: b.load("i32", False, support.launch_field(e, b, "workspace", half)))
    if base in ("clock", "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi"):
        return _time(e, base)
    if base in ("clusterid", "nclusterid", "cluster_ctaid"):
        whole = special(e, f"{'nctaid' if base == 'nclusterid' else 'ctaid'}.{axis}")
        extent = _cluster_extent(e, axis)
        return e.once(name, lambda b: b.bin("urem" if base == "cluster_ctaid" else "udiv", whole, extent))
    if base == "cluster_nctaid":
        return _cluster_extent(e, axis)
    if base == "cluster_ctarank":
        return e.once(name, lambda b: _cluster_rank(e, b))
    if base == "cluster_nctarank":
        return e.once(
            name, lambda b: _at_least_one(b, b.load("i32", False, support.launch_field(e, b, "cluster_blocks")))
        )
    if base == "is_explicit_cluster":
        explicit = e.once(name, lambda b: b.load("i32", False, support.launch_field(e, b, "cluster_explicit")))
        return e.body.icmp("ne", explicit, integer(0, "i32"))
    if base.startswith(RESERVED_SHARED):
        begin = e.kernel.shared[RESERVED_SHARED]
        known = {
            "begin": begin, "end": begin + RESERVED_SHARED_BYTES, "cap": RESERVED_SHARED_BYTES, "0": begin, "1": begin + RESERVED_SHARED_BYTES // 2,
        }  # fmt: skip
        if (which := base.removeprefix(RESERVED_SHARED)) in known:
            return integer(known[which], "i32")
    if base in _CONSTANTS:
        return integer(_CONSTANTS[base], "i64" if base == "current_graph_exec" else "i32")
    raise e.fail(f"unsupported special register %{name}")


def _at_least_one(b: Builder, value: Val) -> Val:
    """A launch that says nothing of clusters has those of one block."""
    return b.call("umax", "i32", [value, integer(1, "i32")])


def _cluster_extent(e: Emitter, axis: str) -> Val:
    at = _AXIS.get(axis, 0)
    return e.once(
        f"cluster.{axis}", lambda b: _at_least_one(b, b.load("i32", False, support.launch_field(e, b, "cluster", at)))
    )


def _cluster_rank(e: Emitter, b: Builder) -> Val:
    x, y, z = (special(e, f"cluster_ctaid.{axis}") for axis in "xyz")
    row = b.bin("add", y, b.bin("mul", z, _cluster_extent(e, "y")))
    return b.bin("add", x, b.bin("mul", row, _cluster_extent(e, "x")))


def _first_thread(e: Emitter, b: Builder) -> Val:
    """The number of the warp's first thread in its block."""
    if e.group is not None and e.group.warps * LANES == e.kernel.threads:
        return integer(0, "i32")
    return b.bin("shl", b.load("i32", False, support.warp_field(b, "index"), WARP_RANGE), integer(5, "i32"))


def _tid(e: Emitter, b: Builder, axis: str) -> Val:
    """%tid of the warp's lanes from the warp index; uniform where `varying_axes` says so (device functions: always a vector)."""
    block = e.kernel.block
    x, y, z = block
    first = _first_thread(e, b)
    linear = b.bin("add", first, LANE_INDEX["i32"])
    if axis not in varying_axes(block):
        extent = {"x": x, "y": y, "z": z}[axis]
        step = {"x": 1, "y": x, "z": x * y}[axis]
        value = integer(0, "i32") if extent == 1 else b.bin("udiv", first, integer(step, "i32"))
        if extent > 1 and axis != "z":
            value = b.bin("urem", value, integer(extent, "i32"))
        return value if e.entry else b.splat(value)
    if axis == "x":
        if x >= LANES and x % LANES == 0:
            return b.bin("add", b.bin("urem", first, integer(x, "i32")), LANE_INDEX["i32"])
        return linear if y == z == 1 else b.bin("urem", linear, integer(x, "i32"))
    if axis == "y":
        row = b.bin("udiv", linear, integer(x, "i32"))
        return row if z == 1 else b.bin("urem", row, integer(y, "i32"))
    return b.bin("udiv", linear, integer(x * y, "i32"))


def first_tid(e: Emitter, b: Builder, axis: str) -> Val:
    """%tid of the warp's first lane. Not taken from the vector: LLVM follows ranges through a few instructions only."""
    x, y, z = e.kernel.block
    first = _first_thread(e, b)
    if axis == "x":
        return first if y == z == 1 else b.bin("urem", first, integer(x, "i32"))
    row = b.bin("udiv", first, integer(x if axis == "y" else x * y, "i32"))
    return row if axis == "z" or z == 1 else b.bin("urem", row, integer(y, "i32"))


def _time(e: Emitter, base: str) -> Val:
    b = e.body
    if base.startswith("clock"):
        e.kernel.declare("declare i64 @llvm.readcyclecounter()")
        value = b.op("call i64 @llvm.readcyclecounter()", "i64", False)
    else:
        e.kernel.declare("declare i32 @clock_gettime(i32, ptr)")
        slot = e.slot("%timespec", "i128", False)
        b.line(f"call i32 @clock_gettime(i32 1, ptr {slot})")
        seconds = b.load("i64", False, slot)
        nanoseconds = b.load("i64", False, b.gep(slot, 8))
        value = b.bin("add", b.bin("mul", seconds, integer(1_000_000_000, "i64")), nanoseconds)
    if base in ("clock", "globaltimer_lo"):
        return b.cast("trunc", value, "i32")
    if base in ("clock_hi", "globaltimer_hi"):
        return b.cast("trunc", b.bin("lshr", value, integer(32, "i64")), "i32")
    return value
