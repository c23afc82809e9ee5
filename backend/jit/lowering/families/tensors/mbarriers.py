"""mbarrier objects: who arrives, how many bytes are still to come, who waits.

An mbarrier is a 64-bit object in shared memory; its layout is ours:

    bits 0-19 pending arrivals, 20-39 arrivals expected in each phase, 40-42 number of the phase, 43-63 bytes still expected (signed)

A phase ends when no arrival and no byte is pending. A block stays on one CPU thread, so the updates are plain. A wait that fails lets the
other warps of the block run.

Source: PTX ISA, "mbarrier".
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from farlane.backend.jit.lowering import checks, support
from farlane.backend.jit.lowering.checks import Access
from farlane.backend.jit.lowering.families.accesses import addresses
from farlane.backend.jit.lowering.families.accesses.memory import read_memory, write_memory
from farlane.backend.jit.lowering.families.base import check, handles, write
from farlane.backend.jit.lowering.ir import Val, integer
from farlane.backend.jit.lowering.specials import special
from farlane.backend.jit.ptx.model import LANES, Instruction
from farlane.backend.jit.runtime.clusters import OFFSET_MASK, RANK_SHIFT

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_ORDER = {"release", "acquire", "relaxed", "cta", "cluster", "shared", "shared::cta", "shared::cluster", "b64"}
_COUNT = (1 << 20) - 1
_PHASE, _BYTES = 40, 43
_MOST_RANKS = 16  # of a cluster, as many as multicast has bits


ITSELF = Access(strong=True)


@handles("mbarrier")
def mbarrier(e: Emitter, i: Instruction) -> None:
    action = i.modifiers[0]
    if action in ("init", "inval"):
        check(e, i, {"init", "inval"} | _ORDER)
        place = addresses.place(e, i.sources[0], addresses.space_of(i), 8, True, ITSELF)
        write_memory(e, place, "i64", [_initial(e, i) if action == "init" else integer(0, "i64")])
    elif action == "pending_count":
        check(e, i, {"pending_count", "b64"}, 1)
        state = e.read(i.sources[0], "i64")
        write(e, i, e.body.cast("trunc", e.body.bin("and", state, integer(_COUNT, "i64")), "i32"))
    elif action in ("test_wait", "try_wait"):
        _wait(e, i)
    elif action in ("arrive", "arrive_drop", "expect_tx", "complete_tx"):
        check(e, i, {action, "expect_tx", "noComplete"} | _ORDER)
        count = e.read(i.sources[1], "i32") if len(i.sources) > 1 else integer(1, "i32")
        if "expect_tx" in i.modifiers[1:]:
            action = {"arrive": "arrive_expect", "arrive_drop": "drop_expect"}.get(action, "")
            if not action:
                raise e.fail(f"unsupported {i.text}")
        update(e, i, action, count)
    else:
        raise e.fail(f"unsupported instruction {i.text}")


def _initial(e: Emitter, i: Instruction) -> Val:
    b = e.body
    count = b.bin("and", b.cast("zext", e.read(i.sources[1], "i32"), "i64"), integer(_COUNT, "i64"))
    return b.bin("or", count, b.bin("shl", count, integer(20, "i64")))


def update(e: Emitter, i: Instruction, action: str, count: Val, place: addresses.Place | None = None) -> None:
    """Lane by lane; the result is the object before. `place`: of the object, if it is not the first operand."""
    b = e.body
    if place is None:
        place = addresses.place(e, i.sources[0], addresses.space_of(i), 8, True, ITSELF)
    place = addresses.as_offsets(e, place)
    checks.fence(e)
    helper = _helper(e, action)
    arguments = f"ptr {place.base}, {b.splat(place.index)}, {e.mask_bits}, {b.splat(count)}"
    result = b.op(f"call <{LANES} x i64> @{helper}({arguments})", "i64", True)
    if i.destinations:
        write(e, i, result)


_STEPS = {
    # Text that changes %v by %n (i64) before completion is tested.
    "arrive": ["  %w = sub i64 %old, %n"],
    "arrive_drop": ["  %all = shl i64 %n, 20", "  %kept = sub i64 %old, %all", "  %w = sub i64 %kept, %n"],
    "arrive_expect": [
        f"  %bytes = shl i64 %n, {_BYTES}",
        "  %more.b = add i64 %old, %bytes",
        "  %w = sub i64 %more.b, 1",
    ],
    "drop_expect": [
        f"  %bytes = shl i64 %n, {_BYTES}",
        "  %more.b = add i64 %old, %bytes",
        f"  %w = sub i64 %more.b, {1 << 20 | 1}",
    ],
    "expect_tx": [f"  %bytes = shl i64 %n, {_BYTES}", "  %w = add i64 %old, %bytes"],
    "complete_tx": [f"  %bytes = shl i64 %n, {_BYTES}", "  %w = sub i64 %old, %bytes"],
}


def _helper(e: Emitter, action: str) -> str:
    name = f"farlane_mbarrier_{action}"
    if name in e.kernel.helpers:
        return name
    vec = f"<{LANES} x i64>"
    phase = 7 << _PHASE
    e.kernel.helpers[name] = "\n".join(
        [
            f"define internal {vec} @{name}(ptr %base, {vec} %index, i32 %bits, <{LANES} x i32> %count) noinline {{",
            "entry:",
            f"  %indices = alloca {vec}, align 64",
            f"  store {vec} %index, ptr %indices, align 64",
            f"  %counts = alloca <{LANES} x i32>, align 64",
            f"  store <{LANES} x i32> %count, ptr %counts, align 64",
            f"  %out = alloca {vec}, align 64",
            f"  store {vec} zeroinitializer, ptr %out, align 64",
            "  %empty = icmp eq i32 %bits, 0",
            "  br i1 %empty, label %done, label %loop",
            "loop:",
            "  %left = phi i32 [ %bits, %entry ], [ %next, %loop ]",
            "  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)",
            "  %at = getelementptr i64, ptr %indices, i32 %lane",
            "  %offset = load i64, ptr %at",
            "  %pointer = getelementptr i8, ptr %base, i64 %offset",
            "  %count.p = getelementptr i32, ptr %counts, i32 %lane",
            "  %n32 = load i32, ptr %count.p",
            "  %n = zext i32 %n32 to i64",
            "  %old = load i64, ptr %pointer, align 8",
            *_STEPS[action],
            # Complete: nothing pending and no bytes. The next phase begins with the expected count.
            f"  %open = and i64 %w, {_COUNT | ((1 << 21) - 1) << _BYTES}",
            "  %complete = icmp eq i64 %open, 0",
            f"  %phase = and i64 %w, {phase}",
            f"  %phase.1 = add i64 %phase, {1 << _PHASE}",
            f"  %phase.next = and i64 %phase.1, {phase}",
            f"  %expected = and i64 %w, {_COUNT << 20}",
            "  %pending = lshr i64 %expected, 20",
            "  %fresh.1 = or i64 %expected, %pending",
            "  %fresh = or i64 %fresh.1, %phase.next",
            "  %new = select i1 %complete, i64 %fresh, i64 %w",
            "  store i64 %new, ptr %pointer, align 8",
            "  %to = getelementptr i64, ptr %out, i32 %lane",
            "  store i64 %old, ptr %to",
            "  %minus = sub i32 %left, 1",
            "  %next = and i32 %left, %minus",
            "  %more = icmp ne i32 %next, 0",
            "  br i1 %more, label %loop, label %done",
            "done:",
            f"  %result = load {vec}, ptr %out, align 64",
            f"  ret {vec} %result",
            "}",
        ]
    )
    return name


def _wait(e: Emitter, i: Instruction) -> None:
    """test_wait and try_wait: whether the phase of the state (or of the given parity) is over."""
    check(e, i, {"test_wait", "try_wait", "parity"} | _ORDER)
    b = e.body
    place = addresses.place(e, i.sources[0], addresses.space_of(i), 8, False, ITSELF)
    now = b.bin("lshr", read_memory(e, place, "i64", 1, True)[0], integer(_PHASE, "i64"))
    if "parity" in i.modifiers:
        asked, kept = b.cast("zext", e.read(i.sources[1], "i32"), "i64"), 1
    else:
        asked, kept = b.bin("lshr", e.read(i.sources[1], "i64"), integer(_PHASE, "i64")), 7
    over = b.icmp("ne", b.bin("and", b.bin("xor", now, asked), integer(kept, "i64")), integer(0, "i64"))
    write(e, i, over)
    if not e.kernel.fibers:
        return
    waiting = b.bin("and", b.bits(b.invert(over)), e.mask_bits)
    others, go = b.new_label("others"), b.new_label("go")
    b.branch_if(b.icmp("ne", waiting, integer(0, "i32")), others, go)
    b.block(others)
    b.line("call void @farlane_yield(ptr %warp)")
    b.branch(go)
    b.block(go)


@contextlib.contextmanager
def each_rank(e: Emitter, wanted: Val) -> Iterator[Callable[[Val], Val]]:
    """A loop over the cluster's ranks, for the lanes whose `wanted` bits name the rank; gives what an address is in that block."""
    b = e.body
    wanted, blocks = b.splat(wanted), special(e, "cluster_nctarank")
    with support.counted(e, "%rank", integer(_MOST_RANKS, "i32")) as rank:
        asked = b.icmp("ne", b.bin("and", b.bin("lshr", wanted, rank), integer(1, "i32")), integer(0, "i32"))
        with support.among(e, b.bin("and", b.bits(asked), e.mask_bits)):
            number = b.cast("zext", b.bin("add", rank, integer(1, "i32")), "i64")
            named = b.bin("shl", number, integer(RANK_SHIFT, "i64"))
            prefix = b.select(b.icmp("eq", blocks, integer(1, "i32")), integer(0, "i64"), named)
            yield lambda address: b.bin("or", b.bin("and", address, integer(OFFSET_MASK, "i64")), prefix)
