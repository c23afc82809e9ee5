"""Threads that wait for each other in loops: across blocks, warps of a block, and lanes of a warp."""

from __future__ import annotations

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.analysis import spins
from farlane.backend.jit.ptx.parser import body_of
from farlane.backend.jit.ssa import cfg
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

LOCK = """
    .visible .entry k(.param .u64 lock, .param .u64 count) {{
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %a<4>;
    ld.param.u64 %a0, [lock]; ld.param.u64 %a1, [count]; mov.u32 %r0, %laneid;
    TAKE: atom.global.cas.b32 %r1, [%a0], 0, 1; setp.ne.s32 %p0, %r1, 0; @%p0 bra TAKE;
    membar.gl; ld.global.u32 %r2, [%a1]; add.u32 %r2, %r2, 1; st.global.u32 [%a1], %r2;
    membar.gl; atom.global.exch.b32 %r3, [%a0], 0;
    {after} ret; }}
"""


@pytest.mark.parametrize("dual", [True, False])
def test_lock_between_lanes(device: TinyDevice, dual: bool) -> None:
    """Every lane takes the lock in turn: those that have it must get to the unlock while others of their warp spin."""
    module = device.load(HEADER + LOCK.format(after=""))
    lock, count = device.upload(np.zeros(1, "u4")), device.upload(np.zeros(1, "u4"))
    options = jit.Options(cache=False, dual=dual)
    assert device.launch(module, "k", 3, 70, [lock, count], options=options, threads=2) == 0
    assert device.download(count, "u4", 1)[0] == 210


def test_lanes_meet_after_a_lock(device: TinyDevice) -> None:
    """A warp-wide instruction behind the lock waits for the lanes that still spin."""
    after = """
    setp.ge.u32 %p1, %r0, 0; shfl.sync.bfly.b32 %r4, %r0, 31, 31, -1; bar.warp.sync -1; vote.sync.ballot.b32 %r5, %p1, -1;
    mul.wide.u32 %a2, %r0, 8; add.s64 %a2, %a1, %a2; st.global.v2.u32 [%a2+8], {%r4, %r5};
    """
    module = device.load(HEADER + LOCK.format(after=after))
    lock, count = device.upload(np.zeros(1, "u4")), device.upload(np.zeros(80, "u4"))
    assert device.launch(module, "k", 1, 32, [lock, count]) == 0
    result = device.download(count, "u4", 66)
    assert result[0] == 32
    assert np.array_equal(result[2:].reshape(32, 2), [[31 - lane, 0xFFFFFFFF] for lane in range(32)])


@pytest.mark.parametrize("wait", ["ld.volatile.shared.u32", "ld.shared.u32", "ld.acquire.cta.shared.u32"])
def test_warps_of_a_block(device: TinyDevice, wait: str) -> None:
    """Warp w waits, without a barrier, for what warp w + 1 stores; a lane of a warp for its neighbour."""
    pause = "membar.cta;" if wait == "ld.shared.u32" else ""
    text = f"""{HEADER}
    .visible .entry k(.param .u64 out) {{
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %a<4>; .shared .align 4 .b8 area[1024];
    mov.u32 %r0, %tid.x; mov.u32 %r1, area; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2;
    mov.u32 %r6, 1; setp.eq.u32 %p0, %r0, 127; @%p0 bra DONE;
    WAIT: {wait} %r4, [%r3+4]; {pause} setp.eq.u32 %p1, %r4, 0; @%p1 bra WAIT;
    add.u32 %r6, %r4, 1;
    DONE: st.volatile.shared.u32 [%r3], %r6;
    ld.param.u64 %a0, [out]; mul.wide.u32 %a1, %r0, 4; add.s64 %a0, %a0, %a1; st.global.u32 [%a0], %r6; ret; }}"""
    out = device.upload(np.zeros(128, "u4"))
    assert device.launch(device.load(text), "k", 1, 128, [out]) == 0, device.fault.kind
    assert list(device.download(out, "u4", 128)) == list(range(128, 0, -1))


def test_blocks_in_order(device: TinyDevice) -> None:
    """Block b waits for block b - 1, as scans with look-back do."""
    text = f"""{HEADER}
    .visible .entry k(.param .u64 flags) {{
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %a<4>;
    mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0; @%p0 bra END;
    mov.u32 %r1, %ctaid.x; ld.param.u64 %a0, [flags]; mul.wide.u32 %a1, %r1, 4; add.s64 %a0, %a0, %a1;
    WAIT: ld.relaxed.gpu.global.u32 %r2, [%a0]; setp.eq.u32 %p1, %r2, 0; @%p1 bra WAIT;
    add.u32 %r2, %r2, 1; st.release.gpu.global.u32 [%a0+4], %r2;
    END: bar.sync 0; ret; }}"""
    flags = device.upload(np.array([1] + [0] * 64, "u4"))
    assert device.launch(device.load(text), "k", 64, 64, [flags], threads=2) == 0
    assert list(device.download(flags, "u4", 65)) == list(range(1, 66))


def test_which_loops_wait() -> None:
    """A retry with a new expected value and a counted loop round an atomic do not wait."""

    def loops(code: str) -> int:
        text = f"{HEADER}.visible .entry k(.param .u64 x) {{ .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %a; ld.param.u64 %a, [x]; {code} ret; }}"
        module = jit.parse_module(text)
        body = body_of(module, module.functions["k"])
        return len(spins.prepare(body, cfg.build(body))[1])

    assert (
        loops(
            "ld.global.u32 %r0, [%a]; L: mov.u32 %r1, %r0; atom.global.cas.b32 %r0, [%a], %r1, 5; setp.ne.u32 %p, %r0, %r1; @%p bra L;"
        )
        == 0
    )
    assert (
        loops(
            "mov.u32 %r0, 0; L: atom.global.add.u32 %r1, [%a], 1; add.u32 %r0, %r0, 1; setp.ne.u32 %p, %r0, 9; @%p bra L;"
        )
        == 0
    )
    assert loops("L: ld.global.u32 %r1, [%a]; setp.ne.u32 %p, %r1, 9; @%p bra L;") == 0
    assert loops("L: ld.global.u32 %r1, [%a]; nanosleep.u32 10; setp.ne.u32 %p, %r1, 9; @%p bra L;") == 1
    assert loops("L: atom.global.exch.b32 %r1, [%a], 1; setp.ne.u32 %p, %r1, 0; @%p bra L;") == 1
    assert (
        loops("L: ld.volatile.global.u32 %r1, [%a]; and.b32 %r2, %r1, 3; setp.ne.u32 %p, %r2, 0; @!%p bra E; bra L; E:")
        == 1
    )


def waits_in(code: str) -> bool:
    """Whether a loop waits in code with an address in %a."""
    registers = ".reg .pred %p, %q; .reg .b32 %r<8>; .reg .b64 %a, %b;"
    module = jit.parse_module(
        f"{HEADER}.visible .entry k(.param .u64 x) {{ {registers} ld.param.u64 %a, [x]; {code} ret; }}"
    )
    body = body_of(module, module.functions["k"])
    return bool(spins.prepare(body, cfg.build(body))[1])


AGAIN = """
    mov.u32 %r6, 0; A: mov.u32 %r1, 0; mov.u32 %r0, %tid.x; N: mul.wide.u32 %b, %r0, 4; add.s64 %b, %a, %b; {ask} add.s32 %r1, %r1, %r2;
    add.u32 %r0, %r0, 64; setp.lt.u32 %p, %r0, 999; @%p bra N; setp.ne.u32 %q, %r1, 0; @%q bra A;
"""


@pytest.mark.parametrize(
    ("ask", "waits"),
    [
        ("ld.volatile.global.u32 %r2, [%b];", True),
        ("ld.global.u32 %r4, [%b]; mul.wide.u32 %b, %r4, 4; ld.volatile.global.u32 %r2, [%b];", True),
        (
            "ld.volatile.global.u32 %r4, [%b]; mov.u32 %r2, 0; setp.ne.u32 %p, %r4, 0; @%p bra M; mov.u32 %r2, 1; M:",
            True,
        ),
        (
            "ld.volatile.global.u32 %r4, [%b]; mov.u32 %r2, 0; setp.ne.u32 %p, %r4, 0; @%p bra M; st.global.u32 [%a], 1; M:",
            False,
        ),
        ("ld.global.u32 %r2, [%b];", False),
        ("atom.global.cas.b32 %r2, [%b], 0, 1;", True),
        ("ld.global.u32 %r4, [%b]; atom.global.cas.b32 %r2, [%b], %r4, 7;", False),  # a retry
        ("add.u32 %r6, %r6, 1; mul.wide.u32 %b, %r6, 4; ld.volatile.global.u32 %r2, [%b];", False),  # what is next
    ],
)
def test_loops_that_ask_about_many_again(ask: str, waits: bool) -> None:
    """A loop round a walk over many items, which is left when none of them has asked for another round."""
    assert waits_in(AGAIN.format(ask=ask)) == waits


def test_rounds_over_many_items(device: TinyDevice) -> None:
    """Each thread has two items, and goes round until all are done; an item is done after the next one, the last one first."""
    threads = 128
    text = f"""{HEADER}
    .visible .entry k(.param .u64 flags) {{
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %a<4>;
    mov.u32 %r0, %tid.x; ld.param.u64 %a0, [flags];
    ROUND: mov.u32 %r5, 0; mov.u32 %r2, %r0;
    ITEM: mul.wide.u32 %a1, %r2, 4; add.s64 %a1, %a0, %a1; ld.volatile.global.u32 %r3, [%a1+4];
    setp.eq.u32 %p0, %r3, 0; @%p0 bra LATER; st.volatile.global.u32 [%a1], %r3; bra NEXT;
    LATER: mov.u32 %r5, 1;
    NEXT: add.u32 %r2, %r2, {threads}; setp.lt.u32 %p1, %r2, {2 * threads}; @%p1 bra ITEM;
    setp.ne.u32 %p2, %r5, 0; @%p2 bra ROUND; ret; }}"""
    flags = device.upload(np.array([0] * (2 * threads) + [9], "u4"))
    assert device.launch(device.load(text), "k", 1, threads, [flags]) == 0
    assert list(device.download(flags, "u4", 2 * threads + 1)) == [9] * (2 * threads + 1)


STALLS = """
    mov.u32 %r0, 0; L: mul.wide.u32 %b, %r0, 4; add.s64 %b, %a, %b; {ask} %r1, [%b]{more}; setp.eq.u32 %p, %r1, 0; @%p bra N;
    add.u32 %r0, %r0, 1; N: {always} setp.lt.u32 %q, %r0, 9; @%q bra L;
"""


@pytest.mark.parametrize(
    ("ask", "more", "always", "waits"),
    [
        ("ld.volatile.global.u32", "", "", True),  # the next item only once this one is ready
        ("atom.global.exch.b32", ", 1", "", True),
        ("ld.global.u32", "", "", False),
        ("ld.volatile.global.u32", "", "add.u32 %r0, %r0, 1;", False),  # on to the next item in any case
    ],
)
def test_loops_whose_progress_waits(ask: str, more: str, always: str, waits: bool) -> None:
    assert waits_in(STALLS.format(ask=ask, more=more, always=always)) == waits


def test_progress_that_another_warp_makes(device: TinyDevice) -> None:
    """Thread t may count up once thread t + 1 has: a loop over three rounds, on which a lane goes ahead when it may."""
    text = f"""{HEADER}
    .visible .entry k(.param .u64 flags) {{
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %a<4>;
    mov.u32 %r0, %tid.x; ld.param.u64 %a0, [flags]; mul.wide.u32 %a1, %r0, 4; add.s64 %a0, %a0, %a1; mov.u32 %r1, 0;
    L: ld.volatile.global.u32 %r2, [%a0+4]; setp.le.u32 %p0, %r2, %r1; @%p0 bra N;
    add.u32 %r1, %r1, 1; st.volatile.global.u32 [%a0], %r1;
    N: setp.lt.u32 %p1, %r1, 3; @%p1 bra L; ret; }}"""
    flags = device.upload(np.array([0] * 96 + [9], "u4"))
    assert device.launch(device.load(text), "k", 1, 96, [flags]) == 0
    assert list(device.download(flags, "u4", 97)) == [3] * 96 + [9]


# Functions as compilers leave them that do not inline: the atomic operation, the lock and what takes it are functions of their own.
FUNCTIONS = """
.func (.param .b32 result) cas(.param .b64 where, .param .b32 old, .param .b32 new) {
    .reg .b32 %r<8>; .reg .b64 %a<4>;
    ld.param.u64 %a0, [where]; ld.param.u32 %r0, [old]; ld.param.u32 %r1, [new];
    atom.global.cas.b32 %r2, [%a0], %r0, %r1; st.param.b32 [result+0], %r2; ret; }
.func lock(.param .b64 where) {
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %a<4>; ld.param.u64 %a0, [where];
    AGAIN: { .param .b64 p0; .param .b32 p1; .param .b32 p2; .param .b32 r;
    st.param.b64 [p0+0], %a0; st.param.b32 [p1+0], 0; st.param.b32 [p2+0], 1; call.uni (r), cas, (p0, p1, p2); ld.param.b32 %r0, [r+0]; }
    setp.ne.u32 %p0, %r0, 0; @%p0 bra AGAIN; membar.gl; ret; }
.func (.param .b32 sum) enter(.param .b64 where, .param .align 8 .b8 pair[16]) {
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %a<4>; .local .align 4 .b8 own[8];
    ld.param.u64 %a0, [where]; ld.param.u32 %r0, [pair+4]; ld.param.u32 %r1, [pair+8]; mov.u32 %r3, 7;
    setp.eq.u32 %p0, %r0, 31; st.local.u32 [own], %r0;
    { .param .b64 p0; st.param.b64 [p0+0], %a0; call.uni lock, (p0); }
    @%p0 st.param.b32 [sum+0], %r3; @%p0 ret;
    ld.local.u32 %r4, [own]; add.u32 %r2, %r4, %r1; st.param.b32 [sum+0], %r2; ret; }
"""
TAKER = """
.visible .entry k(.param .u64 lock, .param .u64 count) {
    .reg .pred %p<8>; .reg .b32 %r<12>; .reg .b64 %a<8>;
    ld.param.u64 %a0, [lock]; ld.param.u64 %a1, [count]; mov.u32 %r0, %laneid; mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
    setp.eq.u32 %p0, %r0, 5;
    ROUND: mov.u32 %r3, 0;
    @%p0 bra REST;
    { .param .b64 p0; .param .align 8 .b8 p1[16]; .param .b32 r;
    st.param.b64 [p0+0], %a0; st.param.b32 [p1+4], %r0; st.param.b32 [p1+8], 100; call.uni (r), enter, (p0, p1); ld.param.b32 %r3, [r+0]; }
    ld.global.u32 %r4, [%a1]; add.u32 %r4, %r4, 1; st.global.u32 [%a1], %r4; membar.gl; atom.global.exch.b32 %r5, [%a0], 0;
    REST: add.u32 %r6, %r6, %r3; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 2; @%p1 bra ROUND;
    mul.wide.u32 %a2, %r1, 4; add.u64 %a2, %a1, %a2; st.global.u32 [%a2+4], %r6; ret; }
"""


@pytest.mark.parametrize("options", [jit.Options(cache=False), jit.Options(cache=False, tier=1)])
def test_a_lock_that_is_taken_in_functions(device: TinyDevice, options: jit.Options) -> None:
    """The lanes that have it are let out of the functions, to give it back, while the others wait inside."""
    module = device.load(HEADER + FUNCTIONS + TAKER)
    lock, count = device.upload(np.zeros(1, "u4")), device.upload(np.zeros(100, "u4"))
    assert device.launch(module, "k", 1, 70, [lock, count], options=options) == 0
    found = device.download(count, "u4", 71)
    assert found[0] == 2 * (70 - 3)
    lane = np.arange(70) % 32
    assert found[1:].tolist() == (2 * np.select([lane == 5, lane == 31], [0, 7], lane + 100)).tolist()


# As libcu++ without optimization: what asks is passed its place in a structure, answers by reference, and has a loop of its own; another function compares.
LARGER_FUNCTIONS = """
.func ask(.param .align 8 .b8 what[16]) {
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %a<4>;
    ld.param.u64 %a0, [what]; ld.param.u64 %a1, [what+8]; mov.u32 %r0, 0;
    L: add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 3; @%p0 bra L;
    atom.exch.b32 %r1, [%a0], 1; st.u32 [%a1], %r1; ret; }
.func (.param .b32 free) is_free(.param .b64 place) {
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %a<4>;
    ld.param.u64 %a0, [place]; ld.u32 %r0, [%a0]; setp.eq.u32 %p0, %r0, 0; selp.b32 %r1, 1, 0, %p0; st.param.b32 [free], %r1; ret; }
.func acquire(.param .b64 lock) {
    .local .align 8 .b8 depot[16]; .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %a<4>, %SP, %SPL;
    mov.u64 %SPL, depot; cvta.local.u64 %SP, %SPL; ld.param.u64 %a0, [lock]; st.u64 [%SP], %a0;
    L: ld.u64 %a1, [%SP]; add.u64 %a2, %SP, 8;
    { .param .align 8 .b8 p0[16]; st.param.b64 [p0], %a1; st.param.b64 [p0+8], %a2; call.uni ask, (p0); }
    { .param .b64 p0; .param .b32 r; st.param.b64 [p0], %a2; call.uni (r), is_free, (p0); ld.param.b32 %r0, [r]; }
    setp.eq.u32 %p0, %r0, 0; @%p0 bra L; ret; }
.func never(.param .b64 lock) {
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %a<4>;
    ld.param.u64 %a0, [lock]; mov.u32 %r0, 0;
    L: { .param .b64 p0; .param .b32 r; st.param.b64 [p0], %a0; call.uni (r), is_free, (p0); ld.param.b32 %r1, [r]; }
    add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 2; @%p0 bra L; ret; }
.visible .entry k(.param .u64 lock, .param .u64 count) {
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %a<4>;
    ld.param.u64 %a0, [lock]; ld.param.u64 %a1, [count];
    { .param .b64 p0; st.param.b64 [p0], %a0; call.uni never, (p0); }
    { .param .b64 p0; st.param.b64 [p0], %a0; call.uni acquire, (p0); }
    ld.volatile.global.u32 %r0, [%a1]; add.u32 %r0, %r0, 1; st.volatile.global.u32 [%a1], %r0; membar.gl; atom.global.exch.b32 %r1, [%a0], 0; ret; }
"""


@pytest.mark.parametrize("tier", [1, 2])
def test_a_loop_that_asks_through_larger_functions(device: TinyDevice, tier: int) -> None:
    """What such a loop asks is seen with everything that it calls in its place; what waits for nobody stays a function."""
    lock, count = device.upload(np.zeros(1, "u4")), device.upload(np.zeros(1, "u4"))
    options = jit.Options(cache=False, tier=tier, keep_ir=True)
    assert device.launch(device.load(HEADER + LARGER_FUNCTIONS), "k", 1, 70, [lock, count], options=options) == 0
    assert device.download(count, "u4", 1)[0] == 70
    kept = {name for name in ("ask", "is_free", "acquire", "never") if f'@"f.{name}"' in device.kernel.ir}
    assert kept == {"is_free", "never"}


def test_functions_that_wait_for_nobody_stay_functions(device: TinyDevice) -> None:
    """An atomic operation of its own that no loop asks about, and one that calls itself."""
    text = (
        HEADER
        + FUNCTIONS.split(".func lock")[0]
        + """.func walk(.param .b64 where) { .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %a<4>; ld.param.u64 %a0, [where];
    L: ld.volatile.global.u32 %r0, [%a0]; setp.eq.u32 %p0, %r0, 0; @%p0 bra L; setp.eq.u32 %p1, %r0, 1; @%p1 ret;
    add.u64 %a0, %a0, 4; { .param .b64 p0; st.param.b64 [p0+0], %a0; call.uni walk, (p0); } ret; }
    .visible .entry k(.param .u64 where) { .reg .b32 %r<4>; .reg .b64 %a<4>; ld.param.u64 %a0, [where];
    { .param .b64 p0; .param .b32 p1; .param .b32 p2; .param .b32 r; st.param.b64 [p0+0], %a0; st.param.b32 [p1+0], 3; st.param.b32 [p2+0], 5;
    call.uni (r), cas, (p0, p1, p2); ld.param.b32 %r0, [r+0]; }
    { .param .b64 p0; st.param.b64 [p0+0], %a0; call.uni walk, (p0); } ret; }"""
    )
    options = jit.Options(cache=False, keep_ir=True)
    where = device.upload(np.array([3, 2, 1], "u4"))
    assert device.launch(device.load(text), "k", 1, 32, [where], options=options) == 0
    assert list(device.download(where, "u4", 3)) == [5, 2, 1]
    assert all(f'@"f.{name}"' in device.kernel.ir for name in ("cas", "walk"))


def test_a_barrier_in_a_function_behind_a_loop_that_one_lane_waits_in(device: TinyDevice) -> None:
    """Lanes that are through the loop go ahead, and the barrier is not theirs alone: as a grid's barrier is, without optimization."""
    text = (
        HEADER
        + """.func meet(.param .b32 number) { .reg .b32 %r<4>; ld.param.u32 %r0, [number]; barrier.sync %r0; ret; }
    .visible .entry k(.param .u64 flag, .param .u64 out) {
    .reg .pred %p<8>; .reg .b32 %r<12>; .reg .b64 %a<8>;
    ld.param.u64 %a0, [flag]; ld.param.u64 %a1, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, 0;
    mul.wide.u32 %a2, %r0, 4; add.u64 %a3, %a0, %a2; add.u64 %a1, %a1, %a2;
    setp.ne.u32 %p0, %r0, 32; @%p0 bra WAITS;
    SLOW: nanosleep.u32 20; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 50; @%p1 bra SLOW;
    mov.u32 %r2, 7; st.volatile.global.u32 [%a0], %r2;
    WAITS: setp.ne.u32 %p2, %r0, 0; @%p2 bra BEHIND;
    L: ld.volatile.global.u32 %r3, [%a3]; setp.eq.u32 %p3, %r3, 0; @%p3 bra L;
    BEHIND: { .param .b32 p0; st.param.b32 [p0+0], 0; call.uni meet, (p0); }
    ld.global.u32 %r4, [%a0]; st.global.u32 [%a1], %r4; ret; }"""
    )
    flag, out = device.upload(np.zeros(64, "u4")), device.upload(np.zeros(64, "u4"))
    assert device.launch(device.load(text), "k", 1, 64, [flag, out]) == 0, device.fault.kind
    assert list(device.download(out, "u4", 64)) == [7] * 64


FRAME = """.local .align 8 .b8 depot[48]; .reg .b64 %SP, %SPL, %b<2>; mov.u64 %SPL, depot; cvta.local.u64 %SP, %SPL;
    add.u64 %b, %SP, 40; st.u64 [%SP+32], %b; st.global.u64 [%a], %b; st.u64 [%SP], %a;
    L: ld.u64 %b0, [%SP]; {body} ld.u32 %r5, [%SP+20]; setp.ne.u32 %p, %r5, 9; @%p bra L;
"""


@pytest.mark.parametrize(
    ("body", "waits"),
    [
        ("ld.acquire.gpu.u32 %r1, [%b0]; st.u32 [%SP+20], %r1;", True),
        ("ld.acquire.gpu.u32 %r1, [%b0]; st.u32 [%SP+16], %r1; ld.u32 %r2, [%SP+16]; st.u32 [%SP+20], %r2;", True),
        ("ld.acquire.gpu.u32 %r1, [%b0]; st.v2.u32 [%SP+16], {%r1, %r1};", True),
        # By reference: the place's address is in another one.
        ("ld.u64 %b1, [%SP+32]; ld.acquire.gpu.u32 %r1, [%b0]; st.u32 [%b1], %r1; ld.u32 %r2, [%SP+40]; st.u32 [%SP+20], %r2;", True),
        # Another place, a step to the next address, a retry, a counter behind a fence.
        ("ld.acquire.gpu.u32 %r1, [%b0]; st.u32 [%SP+24], %r1;", False),
        ("ld.acquire.gpu.u32 %r1, [%b0]; st.u32 [%SP+20], %r1; add.u64 %b0, %b0, 4; st.u64 [%SP], %b0;", False),
        ("ld.u32 %r2, [%SP+20]; atom.cas.b32 %r1, [%b0], %r2, 5; st.u32 [%SP+20], %r1;", False),
        ("membar.gl; ld.u32 %r1, [%SP+20]; add.u32 %r1, %r1, 1; st.u32 [%SP+20], %r1;", False),
    ],
)  # fmt: skip
def test_loops_whose_variables_are_in_memory(body: str, waits: bool) -> None:
    """Unoptimized code whose frame no register can stand for, since an address in it goes elsewhere."""
    assert waits_in(FRAME.format(body=body)) == waits


def test_a_lane_waits_for_a_warp_with_its_variables_in_memory(device: TinyDevice) -> None:
    """As a grid's barrier does without optimization. The other warp has its turn when the loop lets it."""
    text = (
        HEADER
        + """.visible .entry k(.param .u64 flag) {
    .local .align 8 .b8 depot[16]; .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %a<4>, %SP, %SPL;
    mov.u64 %SPL, depot; cvta.local.u64 %SP, %SPL; ld.param.u64 %a0, [flag]; st.u64 [%SP], %a0; st.global.u64 [%a0+8], %SP;
    mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 63; @%p0 st.global.u32 [%a0], %r0; setp.ne.u32 %p0, %r0, 0; @%p0 bra MEET;
    L: ld.u64 %a1, [%SP]; ld.acquire.gpu.u32 %r3, [%a1]; st.u32 [%SP+8], %r3; ld.u32 %r4, [%SP+8]; setp.eq.u32 %p1, %r4, 0; @%p1 bra L;
    st.global.u32 [%a0+4], %r4;
    MEET: bar.sync 0; ret; }"""
    )
    flag = device.upload(np.zeros(4, "u4"))
    assert device.launch(device.load(text), "k", 1, 64, [flag]) == 0, device.fault.kind
    assert list(device.download(flag, "u4", 2)) == [63, 63]
