"""Kernels whose lanes run on fibers of their own: they wait for each other in functions that cannot be put where they are called."""

from __future__ import annotations

import numpy as np
import pytest
from farlane.backend import jit
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

OPTIONS = [jit.Options(cache=False), jit.Options(cache=False, tier=1)]
# Takes the lock at the bottom of a recursion.
RECURSIVE = """
.func acquire(.param .b64 where, .param .b32 depth) {
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %a<4>; ld.param.u64 %a0, [where]; ld.param.u32 %r0, [depth];
    setp.eq.u32 %p0, %r0, 0; @%p0 bra TAKE; sub.u32 %r0, %r0, 1;
    { .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %a0; st.param.b32 [p1], %r0; call.uni acquire, (p0, p1); } ret;
    TAKE: atom.global.cas.b32 %r1, [%a0], 0, 1; setp.ne.s32 %p0, %r1, 0; @%p0 bra TAKE; membar.gl; ret; }
"""
BY_NAME = (
    "{ .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %a0; st.param.b32 [p1], %r7; call.uni acquire, (p0, p1); }"
)
BY_POINTER = """mov.u64 %a3, acquire;
    { .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %a0; st.param.b32 [p1], 0;
    proto: .callprototype _ (.param .b64 _, .param .b32 _); call %a3, (p0, p1), proto; }"""
TAKER = """
.visible .entry k(.param .u64 lock, .param .u64 count) {{
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %a<4>;
    ld.param.u64 %a0, [lock]; ld.param.u64 %a1, [count]; mov.u32 %r7, %laneid; and.b32 %r7, %r7, 3;
    {take}
    ld.global.u32 %r2, [%a1]; add.u32 %r2, %r2, 1; st.global.u32 [%a1], %r2; membar.gl; atom.global.exch.b32 %r3, [%a0], 0; ret; }}
"""


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("take", [BY_NAME, BY_POINTER])
def test_a_lock_in_a_function_that_cannot_be_inlined(device: TinyDevice, take: str, options: jit.Options) -> None:
    lock, count = device.upload(np.zeros(1, "u4")), device.upload(np.zeros(1, "u4"))
    module = device.load(HEADER + RECURSIVE + TAKER.format(take=take))
    assert device.launch(module, "k", 3, 70, [lock, count], options=options, threads=2) == 0
    assert device.download(count, "u4", 1)[0] == 210
    assert device.kernel.info.lane_fibers


def test_whose_address_nobody_takes_is_not_called(device: TinyDevice) -> None:
    """A lock in a function that pointers of another function's shape could name is no reason."""
    other = RECURSIVE.replace("acquire(", "other(").replace("TAKE: atom.global.cas.b32 %r1, [%a0], 0, 1;", "TAKE:")
    take = BY_POINTER.replace("mov.u64 %a3, acquire;", "mov.u64 %a3, other;")
    other = other.replace("setp.ne.s32 %p0, %r1, 0; @%p0 bra TAKE;", "").replace("call.uni acquire", "call.uni other")
    module = device.load(HEADER + RECURSIVE + other + TAKER.format(take=take))
    lock, count = device.upload(np.zeros(1, "u4")), device.upload(np.zeros(1, "u4"))
    assert device.launch(module, "k", 1, 1, [lock, count]) == 0
    assert not device.kernel.info.lane_fibers


# What lanes do together, in a function that is called behind a lock: lanes that had it early come there long before the others.
TOGETHER = """
.func (.param .b32 result) together(.param .b32 value, .param .b32 members) {{
    .reg .pred %p<4>; .reg .b32 %r<12>; ld.param.u32 %r0, [value]; ld.param.u32 %r1, [members]; mov.u32 %r2, 0;
    {code} st.param.b32 [result], %r2; ret; }}
.visible .entry k(.param .u64 lock, .param .u64 count) {{
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %a<4>;
    ld.param.u64 %a0, [lock]; ld.param.u64 %a1, [count]; mov.u32 %r0, %laneid; mov.u32 %r6, %tid.x;
    setp.ge.u32 %p1, %r0, 24; mov.u32 %r5, {low}; @%p1 mov.u32 %r5, {high}; setp.eq.u32 %p2, %r0, 3; @%p2 ret;
    TAKE: atom.global.cas.b32 %r1, [%a0], 0, 1; setp.ne.s32 %p0, %r1, 0; @%p0 bra TAKE;
    ld.global.u32 %r2, [%a1]; add.u32 %r2, %r2, 1; st.global.u32 [%a1], %r2; membar.gl; atom.global.exch.b32 %r3, [%a0], 0;
    mul.lo.u32 %r7, %r6, 3;
    {{ .param .b32 p0; .param .b32 p1; .param .b32 r; st.param.b32 [p0], %r7; st.param.b32 [p1], %r5; call.uni (r), together, (p0, p1); ld.param.b32 %r4, [r]; }}
    mul.wide.u32 %a2, %r6, 4; add.u64 %a2, %a1, %a2; st.global.u32 [%a2+4], %r4; ret; }}
"""
THREADS = np.arange(70)
LANE = THREADS % 32
WHOLE = np.where(THREADS < 64, 0xFFFF_FFF7, 0x37).astype("u4")  # those that are there; lane 3 has ended


def expected(code: str) -> np.ndarray:
    low, high = np.uint32(0x00FF_FFFF), np.uint32(0xFF00_0000)
    group = np.where(LANE >= 24, high, low) & WHOLE
    members = [
        [t for t in range(70) if t // 32 == thread // 32 and group[thread] >> t % 32 & 1] for thread in range(70)
    ]
    if code == "shfl":
        return np.where((LANE ^ 1) != 3, (THREADS ^ 1) * 3, 0)  # nothing from lane 3
    if code == "ballot":
        return np.array([sum(1 << m % 32 for m in each if m * 3 % 2) for each in members])
    if code == "redux":
        return np.array([sum(3 * m for m in each) for each in members])
    return np.array(
        [sum(1 << m % 32 for m in each if m * 3 % 4 == thread * 3 % 4) for thread, each in enumerate(members)]
    )


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("shfl", "shfl.sync.bfly.b32 %r2, %r0, 1, 31, %r1;"),
        ("ballot", "and.b32 %r3, %r0, 1; setp.ne.u32 %p0, %r3, 0; vote.sync.ballot.b32 %r2, %p0, %r1;"),
        ("redux", "redux.sync.add.u32 %r2, %r0, %r1;"),
        ("match", "and.b32 %r3, %r0, 3; match.any.sync.b32 %r2, %r3, %r1; bar.warp.sync %r1;"),
    ],
)
def test_lanes_meet_in_functions_behind_a_lock(device: TinyDevice, name: str, code: str, options: jit.Options) -> None:
    """In two groups for a warp. Those that have ended are waited for no longer."""
    module = device.load(HEADER + TOGETHER.format(code=code, low="0x00ffffff", high="0xff000000"))
    lock, count = device.upload(np.zeros(1, "u4")), device.upload(np.zeros(71, "u4"))
    assert device.launch(module, "k", 1, 70, [lock, count], options=options) == 0, device.fault.kind
    result = device.download(count, "u4", 71)
    there = (LANE != 3) & ((name != "shfl") | (LANE != 2))  # what a lane that is not there has, is not said
    assert result[0] == 67
    assert np.array_equal(result[1:][there], expected(name)[there])


def test_a_matrix_is_transposed_behind_a_lock(device: TinyDevice) -> None:
    text = TOGETHER.format(code="movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r0;", low="-1", high="-1")
    module = device.load(HEADER + text.replace("@%p2 ret;", ""))
    lock, count = device.upload(np.zeros(1, "u4")), device.upload(np.zeros(33, "u4"))
    assert device.launch(module, "k", 1, 32, [lock, count]) == 0, device.fault.kind
    matrix = (3 * np.arange(32, dtype="u4")).view("u2").reshape(8, 8)
    assert np.array_equal(device.download(count, "u4", 33)[1:].view("u2").reshape(8, 8), matrix.T)


def test_lanes_that_can_never_meet_are_a_fault(device: TinyDevice) -> None:
    """One of them waits at the block's barrier."""
    text = TOGETHER.format(code="shfl.sync.bfly.b32 %r2, %r0, 1, 31, %r1;", low="-1", high="-1")
    text = text.replace(
        "mul.lo.u32 %r7, %r6, 3;", "mul.lo.u32 %r7, %r6, 3; setp.ne.u32 %p3, %r0, 9; @%p3 bra ON; bar.sync 0; ON:"
    )
    lock, count = device.upload(np.zeros(1, "u4")), device.upload(np.zeros(71, "u4"))
    assert device.launch(device.load(HEADER + text), "k", 1, 64, [lock, count]) == 1
    assert device.fault.kind == jit.FaultKind.BARRIER_DEADLOCK


def test_lanes_on_the_same_way_are_active_together(device: TinyDevice) -> None:
    """Behind a lock, in a function that both ways call; `activemask` is what lanes of the same way see of each other, and votes without a member mask go by that."""
    code = "activemask.b32 %r2; setp.ne.u32 %p0, %r0, 15; vote.ballot.b32 %r3, %p0; xor.b32 %r2, %r2, %r3;"
    text = TOGETHER.format(code=code, low="0", high="0")
    call = next(line for line in text.splitlines() if "call.uni (r), together" in line)
    ways = f"setp.lt.u32 %p3, %r0, 12; @%p3 bra ONE; {call} bra BOTH; ONE: {call} BOTH:"
    lock, count = device.upload(np.zeros(1, "u4")), device.upload(np.zeros(71, "u4"))
    module = device.load(HEADER + text.replace(call, ways))
    assert device.launch(module, "k", 1, 70, [lock, count]) == 0, device.fault.kind
    result = device.download(count, "u4", 71)[1:]
    active = WHOLE & np.where(LANE < 12, 0xFFF, 0xFFFF_F000)
    ballot = [
        sum(1 << t % 32 for t in range(70) if t // 32 == w and active[32 * w + lane] >> t % 32 & 1 and 3 * t != 15)
        for w, lane in zip(THREADS // 32, LANE, strict=True)
    ]
    there = LANE != 3
    assert np.array_equal(result[there], (active ^ np.array(ballot, "u4"))[there])


def test_lanes_meet_again_behind_a_branch(device: TinyDevice) -> None:
    """Who is early there waits for those that are still on the other way. A lane that does not name itself waits for nobody."""
    code = """and.b32 %r3, %r0, 1; setp.eq.u32 %p0, %r3, 0; @%p0 bra EVEN; activemask.b32 %r2; bra JOIN;
    EVEN: activemask.b32 %r2; vote.sync.ballot.b32 %r4, %p0, 0x55; JOIN: activemask.b32 %r3; xor.b32 %r2, %r2, %r3;"""
    module = device.load(HEADER + TOGETHER.format(code=code, low="0", high="0"))
    lock, count = device.upload(np.zeros(1, "u4")), device.upload(np.zeros(71, "u4"))
    assert device.launch(module, "k", 1, 70, [lock, count]) == 0, device.fault.kind
    way = WHOLE & np.where(LANE % 2, 0xAAAA_AAAA, 0x5555_5555).astype("u4")
    there = LANE != 3
    assert np.array_equal(device.download(count, "u4", 71)[1:][there], (way ^ WHOLE)[there])
