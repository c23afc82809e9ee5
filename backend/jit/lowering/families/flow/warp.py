"""Warp-level operations: shfl, vote, match, redux, activemask, elect, bar.warp.sync.

The lanes of a warp run in lock-step, so these are operations on lane vectors under the active mask. Lanes named by the member mask that
are not here cannot take part (PTX leaves their contribution undefined unless they reach the same instruction).
Source: PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "activemask", "elect.sync".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from farlane.backend.jit.lowering import checks, support
from farlane.backend.jit.lowering.families.base import check, handles, write
from farlane.backend.jit.lowering.ir import LANE_INDEX, Val, integer, lanes
from farlane.backend.jit.ptx.model import LANES, Instruction

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter


@handles("shfl")
def shuffle(e: Emitter, i: Instruction) -> None:
    check(e, i, {"sync", "up", "down", "bfly", "idx", "b32"})
    checks.warp_barrier(e, False)
    mode = next((item for item in i.modifiers if item in ("up", "down", "bfly", "idx")), "")
    if len(i.sources) != (4 if "sync" in i.modifiers else 3) or not mode:
        raise e.fail(f"malformed {i.text}")
    b = e.body
    value = b.splat(e.read(i.sources[0], "i32"))
    distance, clamp = e.constant(i.sources[1]), e.constant(i.sources[2])
    if distance is not None and clamp is not None:
        sources, valid = _static(mode, distance, clamp)
        order = ", ".join(f"i32 {lane}" for lane in sources)
        result = b.op(f"shufflevector {value}, <{LANES} x i32> poison, <{LANES} x i32> <{order}>", "i32", True)
        inside = lanes([int(flag) for flag in valid], "i1")
    else:
        source, inside = _dynamic(e, mode, e.read(i.sources[1], "i32"), e.read(i.sources[2], "i32"))
        result = permute(e, value, source)
    write(e, i, result)
    if len(i.destinations) > 1:
        write(e, i, inside, "", 1)


def _static(mode: str, b: int, c: int) -> tuple[list[int], list[bool]]:
    """Source lane and predicate of each lane, as the manual's pseudocode has it."""
    sources, valid = [], []
    b &= 31
    clamp, segment = c & 31, c >> 8 & 31
    for lane in range(LANES):
        highest = lane & segment | clamp & ~segment
        lowest = lane & segment
        if mode == "up":
            source = lane - b
            inside = source >= highest
        elif mode == "down":
            source = lane + b
            inside = source <= highest
        elif mode == "bfly":
            source = lane ^ b
            inside = source <= highest
        else:
            source = lowest | b & ~segment
            inside = source <= highest
        sources.append(source if inside else lane)
        valid.append(inside)
    return sources, valid


def _dynamic(e: Emitter, mode: str, distance: Val, clamp: Val) -> tuple[Val, Val]:
    b = e.body
    lane = LANE_INDEX["i32"]
    distance = b.bin("and", distance, integer(31, "i32"))
    segment = b.bin("and", b.bin("lshr", clamp, integer(8, "i32")), integer(31, "i32"))
    clamp = b.bin("and", clamp, integer(31, "i32"))
    outside = b.invert(segment)
    lowest = b.bin("and", lane, segment)
    highest = b.bin("or", lowest, b.bin("and", clamp, outside))
    if mode == "up":
        source = b.bin("sub", lane, distance)
        inside = b.icmp("sge", source, highest)
    else:
        if mode == "down":
            source = b.bin("add", lane, distance)
        elif mode == "bfly":
            source = b.bin("xor", lane, distance)
        else:
            source = b.bin("or", lowest, b.bin("and", distance, outside))
        inside = b.icmp("sle", source, highest)
    return b.select(inside, source, lane), inside


def permute(e: Emitter, value: Val, source: Val) -> Val:
    """value[source[lane]] for each lane, through a small table in memory."""
    b = e.body
    table = e.slot("%shuffle", "i32", True, initial=False)
    b.store(value, table)
    pointers = b.op(f"getelementptr i32, ptr {table}, {b.bin('and', source, integer(31, 'i32'))}", "ptr", True)
    vec = f"<{LANES} x i32>"
    full = f"@llvm.masked.gather.v{LANES}i32.v{LANES}p0"
    e.kernel.declare(f"declare {vec} {full}(<{LANES} x ptr>, i32 immarg, <{LANES} x i1>, {vec})")
    return b.op(
        f"call {vec} {full}({pointers}, i32 4, <{LANES} x i1> splat (i1 true), {vec} zeroinitializer)", "i32", True
    )


def _members(e: Emitter, i: Instruction, index: int) -> Val:
    return e.read(i.sources[index], "i32") if "sync" in i.modifiers else integer(-1, "i32")


@handles("vote")
def vote(e: Emitter, i: Instruction) -> None:
    check(e, i, {"sync", "all", "any", "uni", "ballot", "pred", "b32"})
    checks.warp_barrier(e, False)
    b = e.body
    mode = next((item for item in i.modifiers if item in ("all", "any", "uni", "ballot")), "")
    members = _members(e, i, len(i.sources) - 1)
    here = b.bin("and", members, e.mask_bits)
    true = (
        b.bin("and", b.bits(e.read(i.sources[0], "i1")), e.mask_bits)
        if not here.vec
        else b.splat(b.bin("and", b.bits(e.read(i.sources[0], "i1")), e.mask_bits))
    )
    true = b.bin("and", true, here)
    if mode == "ballot":
        write(e, i, true)
        return
    zero = integer(0, "i32")
    if mode == "any":
        result = b.icmp("ne", true, zero)
    else:
        result = b.icmp("eq", true, here)
        if mode == "uni":
            result = b.bin("or", result, b.icmp("eq", true, zero))
    write(e, i, result)


@handles("activemask")
def active_mask(e: Emitter, i: Instruction) -> None:
    check(e, i, {"b32"}, 0)
    write(e, i, e.mask_bits)


@handles("elect")
def elect(e: Emitter, i: Instruction) -> None:
    check(e, i, {"sync"}, 1)
    b = e.body
    here = b.splat(b.bin("and", e.read(i.sources[0], "i32"), e.mask_bits))
    leader = b.call("cttz", "i32", [here], "i1 false")
    write(e, i, leader)
    if len(i.destinations) > 1:
        write(e, i, b.icmp("eq", leader, LANE_INDEX["i32"]), "", 1)


def _each_lane(e: Emitter, value: Val, lane: int) -> Val:
    return e.body.lane(value, lane)


@handles("match")
def match(e: Emitter, i: Instruction) -> None:
    check(e, i, {"any", "all", "sync", "b32", "b64"}, 2)
    checks.warp_barrier(e, False)
    b = e.body
    kind = "i64" if i.modifiers[-1] == "b64" else "i32"
    value = b.splat(e.read(i.sources[0], kind))
    here = b.bin("and", e.read(i.sources[1], "i32"), e.mask_bits)
    if "any" in i.modifiers:
        result: Val = b.splat(integer(0, "i32"))
        for lane in range(LANES):
            same = b.icmp("eq", value, _each_lane(e, value, lane))
            result = b.bin("or", result, b.select(same, integer(1 << lane, "i32"), integer(0, "i32")))
        write(e, i, b.bin("and", result, here))
        return
    members = b.lane(here, support.first_lane(e)) if here.vec else here
    leader = b.bin("and", b.call("cttz", "i32", [members], "i1 false"), integer(31, "i32"))
    equal = b.bin("and", b.bits(b.icmp("eq", value, b.lane(value, leader))), members)
    all_equal = b.icmp("eq", equal, members)
    write(e, i, b.splat(b.select(all_equal, members, integer(0, "i32"))))
    if len(i.destinations) > 1:
        write(e, i, b.splat(all_equal), "", 1)


_IDENTITY = {
    "add": 0, "or": 0, "xor": 0, "and": -1, "umin": -1, "umax": 0, "smin": 0x7FFF_FFFF, "smax": -0x8000_0000,
}  # fmt: skip


@handles("redux")
def reduce(e: Emitter, i: Instruction) -> None:
    check(e, i, {"sync", "add", "min", "max", "and", "or", "xor", "u32", "s32", "b32", "f32", "abs", "NaN"}, 2)
    checks.warp_barrier(e, False)
    b = e.body
    operation, name = i.modifiers[1], i.modifiers[-1]
    if (name == "f32") != (operation in ("min", "max") and name == "f32") or (
        {"abs", "NaN"} & set(i.modifiers) and name != "f32"
    ):
        raise e.fail(f"unsupported {i.text}")
    value = b.splat(e.read(i.sources[0], "i32"))
    members = e.read(i.sources[1], "i32")
    if name == "f32":
        value, operation = _ordered_bits(e, i, value), "s" + operation
    elif operation in ("min", "max"):
        operation = ("s" if name == "s32" else "u") + operation
    full = f"@llvm.vector.reduce.{operation}.v{LANES}i32"
    e.kernel.declare(f"declare i32 {full}(<{LANES} x i32>)")
    identity = integer(_IDENTITY[operation], "i32")

    def over(group: Val) -> Val:
        return b.op(f"call i32 {full}({b.select(b.mask(group), value, identity)})", "i32", False)

    if not members.vec:
        result = over(b.bin("and", members, e.mask_bits))
    else:
        # Groups with masks of their own: one reduction for each different mask.
        result = _by_group(e, b.bin("and", members, e.mask_bits), over)
    if name == "f32":
        result = _from_ordered(e, i, result)
    write(e, i, result)


def _by_group(e: Emitter, members: Val, over: Callable[[Val], Val]) -> Val:
    """over(mask) for each lane's own mask: a loop over the different masks of the active lanes."""
    b = e.body
    shown = f"<{LANES} x i32>"
    start, loop, done = b.label, b.new_label("groups"), b.new_label("reduced")
    entered = b.new_label("each")
    b.branch(entered)
    b.block(entered)
    start = b.label
    b.branch(loop)
    b.block(loop)
    left_name, result_name = b.name("left"), b.name("all")
    at = len(b.lines)
    left, sofar = Val(left_name, "i32"), Val(result_name, "i32", True)
    leader = b.bin("and", b.call("cttz", "i32", [left], "i1 false"), integer(LANES - 1, "i32"))
    mask = b.lane(members, leader)
    same = b.bin("and", b.bits(b.icmp("eq", members, mask)), left)
    result = b.select(b.mask(same), over(mask), sofar)
    rest = b.bin("and", left, b.invert(same))
    end = b.label
    b.lines[at:at] = [
        f"  {left_name} = phi i32 [ {e.mask_bits.name}, %{start} ], [ {rest.name}, %{end} ]",
        f"  {result_name} = phi {shown} [ zeroinitializer, %{start} ], [ {result.name}, %{end} ]",
    ]
    b.branch_if(b.icmp("ne", rest, integer(0, "i32")), loop, done)
    b.block(done)
    return result


def _ordered_bits(e: Emitter, i: Instruction, value: Val) -> Val:
    """f32 as integers of the same order. NaN goes where it loses, or with .NaN where it wins."""
    b = e.body
    if "abs" in i.modifiers:
        value = b.bin("and", value, integer(0x7FFF_FFFF, "i32"))
    negative = b.bin("ashr", value, integer(31, "i32"))
    keyed = b.bin("xor", value, b.bin("and", negative, integer(0x7FFF_FFFF, "i32")))
    nan = b.icmp("ugt", b.bin("and", value, integer(0x7FFF_FFFF, "i32")), integer(0x7F80_0000, "i32"))
    smallest = ("min" in i.modifiers) == ("NaN" in i.modifiers)
    return b.select(nan, integer(-0x8000_0000 if smallest else 0x7FFF_FFFF, "i32"), keyed)


def _from_ordered(e: Emitter, i: Instruction, keyed: Val) -> Val:
    b = e.body
    negative = b.bin("ashr", keyed, integer(31, "i32"))
    value = b.bin("xor", keyed, b.bin("and", negative, integer(0x7FFF_FFFF, "i32")))
    smallest = ("min" in i.modifiers) == ("NaN" in i.modifiers)
    none = b.icmp("eq", keyed, integer(-0x8000_0000 if smallest else 0x7FFF_FFFF, "i32"))
    return b.select(none, integer(0x7FFF_FFFF, "i32"), value)
