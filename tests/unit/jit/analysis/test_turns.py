"""Warp groups of which the warps take turns in one code (warp_groups.py, more than MOST): what warp groups of few warps do, and large blocks."""

from __future__ import annotations

import re
from collections import OrderedDict
from random import Random

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.analysis import warp_groups
from farlane.backend.jit.compile import kernels as compiled
from hypothesis import given, settings
from jit_tools.comparing import compare
from jit_tools.device import TinyDevice
from jit_tools.random_kernels import Kernel, kernels
from jit_tools.warp_groups import (
    ALONE,
    OPTIONS,
    PUT,
    TREE,
    WRITE,
    check_barriers,
    check_branches,
    check_faults,
    check_some_lanes_and_then_all,
    kernel,
    warps_of_group,
)


@pytest.fixture
def in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of few warps as well."""
    monkeypatch.setattr(warp_groups, "MOST", 1)
    monkeypatch.setattr(compiled, "_compiled", OrderedDict())


@settings(max_examples=8)
@given(kernels(12, group=True))
def test_agree_with_the_interpreter(in_turns: None, random_kernel: Kernel) -> None:
    random_kernel.lines.append("bar.sync 0;")
    compare(random_kernel, OPTIONS)


@pytest.mark.parametrize("limit", [256, 0, 96, 100, 7])
def test_barriers(in_turns: None, device: TinyDevice, limit: int) -> None:
    check_barriers(device, limit)


def test_branches_round_a_few_instructions(in_turns: None, device: TinyDevice) -> None:
    check_branches(device)


@pytest.mark.parametrize(
    ("access", "kind", "thread"),
    [
        ("ld.shared.u32 %r9, [%r8+3500]; st.shared.u32 [%r8], %r9;", "ILLEGAL_ADDRESS", 149),
        ("st.shared.u32 [%r8+2], %r5;", "MISALIGNED_ADDRESS", 0),
        ("ld.shared.u32 %r9, [%r8]; st.global.u32 [%rd4+3500], %r9;", "ILLEGAL_ADDRESS", 149),
        ("mul.lo.u32 %r9, %r0, %r0; shl.b32 %r9, %r9, 2; add.u32 %r9, %r9, %r6; ld.shared.u32 %r9, [%r9];", "ILLEGAL_ADDRESS", 32),
    ],
)  # fmt: skip
def test_faults(in_turns: None, device: TinyDevice, access: str, kind: str, thread: int) -> None:
    check_faults(device, access, kind, thread)


def test_some_lanes_and_then_all(in_turns: None, device: TinyDevice) -> None:
    check_some_lanes_and_then_all(device)


@pytest.mark.parametrize("threads", [512, 1024])
def test_a_tree_in_a_large_block(device: TinyDevice, threads: int) -> None:
    """Of the first 256 threads."""
    module = device.load(kernel(TREE + WRITE))
    assert warps_of_group(module, (threads, 1, 1)) == threads // 32
    values = np.random.default_rng(5).integers(0, 1 << 20, 2 * threads).astype(np.uint32)
    sums = values.reshape(2, threads)[:, :256].sum(1, dtype=np.uint32)
    source, result = device.upload(values), device.upload(np.zeros(2 * threads, np.uint32))
    assert device.launch(module, "k", 2, threads, [source, result, 77], options=OPTIONS) == jit.STATUS_DONE
    found = device.download(result, np.uint32, 2 * threads).reshape(2, threads)
    assert (found[:, :77] == sums[:, None] + np.arange(77, dtype=np.uint32)).all()
    assert not found[:, 77:].any()


# Inclusive sums of a block: of each warp, of the warps' sums by the first warp, and then together. Warps and lanes disagree about three branches.
STEPS = (1, 2, 4, 8, 16)
SUMS = "".join(
    f"shfl.sync.up.b32 %r9, %r5, {step}, 0, -1; setp.lt.u32 %p1, %r10, {step}; selp.b32 %r9, 0, %r9, %p1; add.u32 %r5, %r5, %r9;\n"
    for step in STEPS
)
SCAN = f"""
mul.wide.s32 %rd2, %r3, 4; add.s64 %rd3, %rd0, %rd2; ld.global.u32 %r5, [%rd3]; add.s64 %rd4, %rd1, %rd2;
shr.s32 %r6, %r0, 31; shr.u32 %r7, %r6, 27; add.s32 %r8, %r0, %r7; and.b32 %r9, %r8, -32; sub.s32 %r10, %r0, %r9;
shr.s32 %r11, %r8, 5; shl.b32 %r11, %r11, 2; mov.u32 %r12, s; add.s32 %r11, %r11, %r12;
{SUMS}
mov.u32 %r13, %r5;
setp.ne.u32 %p2, %r10, 31; @%p2 bra A; st.shared.u32 [%r11], %r5;
A:
bar.sync 0;
setp.gt.u32 %p3, %r0, 31; @%p3 bra B;
shl.b32 %r14, %r10, 2; add.s32 %r14, %r14, %r12; ld.shared.u32 %r5, [%r14];
{SUMS}
st.shared.u32 [%r14], %r5;
B:
bar.sync 0;
setp.lt.u32 %p4, %r0, 32; mov.u32 %r15, 0; @%p4 bra C;
ld.shared.u32 %r15, [%r11+-4];
C:
add.u32 %r13, %r13, %r15; st.global.u32 [%rd4], %r13;
"""


@pytest.mark.parametrize("threads", [64, 256, 512, 1024])
def test_sums_of_a_block(device: TinyDevice, threads: int) -> None:
    module = device.load(kernel(SCAN))
    assert warps_of_group(module, (threads, 1, 1)) == threads // 32
    values = np.random.default_rng(8).integers(0, 1 << 20, 3 * threads).astype(np.uint32)
    source, result = device.upload(values), device.allocate(12 * threads)
    for options in (OPTIONS, jit.Options(cache=False)):
        assert device.launch(module, "k", 3, threads, [source, result, 0], options=options) == jit.STATUS_DONE
        found = device.download(result, np.uint32, 3 * threads).reshape(3, threads)
        assert (found == np.cumsum(values.reshape(3, threads), axis=1, dtype=np.uint32)).all()


def loops_of_turns(body: str, block: tuple[int, int, int] = (1024, 1, 1)) -> int:
    """How many times a warp group's code goes through its warps, but for where it ends early."""
    text = jit.translate(jit.parse_module(kernel(body)), "k", block, OPTIONS)[2]
    group = text[text.index("define internal i32 @farlane_group(") :]
    group = group[: group.index("\n}\n")]
    ended = sum("store i32 0, ptr %turn" in part for part in group.split("\nleave")[1:])
    return group.count("store i32 0, ptr %turn") - ended


def test_what_no_warp_waits_for_is_one_loop() -> None:
    """From barrier to barrier, branches round a few instructions and what is behind them included."""
    assert loops_of_turns(SCAN) == SCAN.count("bar.sync") + 1
    guarded = "setp.ge.u32 %p0, %r0, %r4; @%p0 bra A; st.shared.u32 [%r8], %r3;\nA:\nadd.u32 %r5, %r5, 1; st.global.u32 [%rd4], %r5;"
    assert loops_of_turns(PUT + guarded + "bar.sync 0;") == 1
    read = guarded.replace("st.shared.u32 [%r8], %r3;", "ld.shared.u32 %r5, [%r8+4];")
    assert loops_of_turns(PUT + read + "bar.sync 0;") == 2, "a load waits for what all warps have stored"


def test_rows_of_a_square_block(device: TinyDevice) -> None:
    """32 by 32, turned by way of shared memory."""
    body = """mov.u32 %r5, %tid.y; shl.b32 %r6, %r5, 5; add.s32 %r6, %r6, %r0; mul.wide.u32 %rd2, %r6, 4; add.s64 %rd3, %rd0, %rd2;
    ld.global.u32 %r7, [%rd3]; mov.u32 %r8, s; shl.b32 %r9, %r6, 2; add.s32 %r9, %r9, %r8; st.shared.u32 [%r9], %r7; bar.sync 0;
    shl.b32 %r10, %r0, 5; add.s32 %r10, %r10, %r5; shl.b32 %r10, %r10, 2; add.s32 %r10, %r10, %r8; ld.shared.u32 %r7, [%r10];
    add.s64 %rd4, %rd1, %rd2; st.global.u32 [%rd4], %r7;"""
    module = device.load(kernel(body))
    assert warps_of_group(module, (32, 32, 1)) == 32
    values = np.random.default_rng(9).integers(0, 1 << 30, (32, 32)).astype(np.uint32)
    source, result = device.upload(values), device.allocate(4096)
    assert device.launch(module, "k", 1, (32, 32), [source, result, 0], options=OPTIONS) == jit.STATUS_DONE
    assert (device.download(result, np.uint32, 1024).reshape(32, 32) == values.T).all()


@pytest.mark.parametrize("threads", [64, 256, 1024])
def test_what_some_lanes_choose(device: TinyDevice, threads: int) -> None:
    """Phis behind a branch: of a value of the guarded block, of one that is affine, and of one that is known."""
    body = """mul.wide.s32 %rd2, %r3, 4; add.s64 %rd4, %rd1, %rd2; mov.u32 %r5, s; shl.b32 %r6, %r0, 2; add.s32 %r6, %r6, %r5;
    st.shared.u32 [%r6], %r3; mov.u32 %r7, 5; mov.u32 %r8, 7; and.b32 %r10, %r0, 3; mov.u32 %r9, %r10; bar.sync 0;
    setp.ge.u32 %p0, %r0, %r4; @%p0 bra A;
    ld.shared.u32 %r7, [%r6]; mov.u32 %r8, %r0; add.u32 %r9, %r10, %r10;
    A:
    bar.sync 0; mad.lo.u32 %r7, %r7, 100, %r8; mad.lo.u32 %r7, %r7, 100, %r9; st.global.u32 [%rd4], %r7;"""
    module = device.load(kernel(body))
    assert warps_of_group(module, (threads, 1, 1)) == threads // 32
    for count in (0, 33, threads):
        result = device.allocate(4 * threads)
        assert device.launch(module, "k", 1, threads, [0, result, count], options=OPTIONS) == jit.STATUS_DONE
        t = np.arange(threads, dtype=np.uint32)
        taken = (t * 100 + t) * 100 + t % 4 * 2
        expected = np.where(t < count, taken, (5 * 100 + 7) * 100 + t % 4)
        assert (device.download(result, np.uint32, threads) == expected).all()


def test_a_loop_of_their_own_is_not_for_turns() -> None:
    """What lives through it would be in memory."""
    loop = "mov.u32 %r5, 0;\nL:\nmad.lo.u32 %r6, %r5, 3, %r6; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r4; @%p1 bra L;\n"
    assert warps_of_group(jit.parse_module(kernel(PUT + loop + "bar.sync 0;")), (1024, 1, 1)) == 0
    assert (
        warps_of_group(jit.parse_module(kernel(PUT + loop.replace("add.u32", "bar.sync 0; add.u32"))), (1024, 1, 1))
        == 32
    )


def test_after_a_launch_that_ended_in_its_middle(device: TinyDevice) -> None:
    """Warps that a fault has left waiting, or not begun, are nobody's in the next launch: only a warp group that ends early starts any."""
    broken = device.load(
        kernel(PUT + "bar.sync 0; setp.ne.u32 %p1, %r0, 40; @%p1 bra END; ld.global.u32 %r5, [%rd0+-4096]; END:")
    )
    alone = jit.Options(cache=False, optimization=0, warp_groups=False)
    values = np.random.default_rng(6).integers(0, 1 << 20, 1024).astype(np.uint32)
    source, result = device.upload(values), device.upload(np.zeros(1024, np.uint32))
    module = device.load(kernel(TREE + WRITE))
    assert device.launch(module, "k", 1, 1024, [source, result, 77], options=alone) == jit.STATUS_DONE  # reserves
    for limit in (1024, 77):
        assert device.launch(broken, "k", 1, 1024, [source, result, 0], options=alone) == jit.STATUS_FAULT
        assert device.launch(module, "k", 2, 512, [source, result, limit], options=OPTIONS) == jit.STATUS_DONE
        found = device.download(result, np.uint32, 1024).reshape(2, 512)
        sums = values.reshape(2, 512)[:, :256].sum(1, dtype=np.uint32)
        shown = min(limit, 512)
        assert (found[:, :shown] == sums[:, None] + np.arange(shown, dtype=np.uint32)).all()


# Sums of a block by doubling distances, between two rows of shared memory: in each step lanes below the distance only copy.
DOUBLING = """
mul.wide.s32 %rd2, %r3, 4; add.s64 %rd3, %rd0, %rd2; ld.global.u32 %r5, [%rd3]; add.s64 %rd4, %rd1, %rd2;
mov.u32 %r6, s; shl.b32 %r7, %r0, 2; add.s32 %r8, %r6, %r7; st.shared.u32 [%r8], %r5; mov.u32 %r9, 1; mov.u32 %r10, 0; bar.sync 0;
LOOP:
shl.b32 %r11, %r10, 11; add.s32 %r11, %r11, %r6; add.s32 %r12, %r11, %r7; ld.shared.u32 %r5, [%r12];
setp.lt.s32 %p0, %r0, %r9; @%p0 bra A;
sub.s32 %r13, %r0, %r9; shl.b32 %r13, %r13, 2; add.s32 %r13, %r13, %r11; ld.shared.u32 %r14, [%r13]; add.s32 %r5, %r5, %r14;
A:
xor.b32 %r10, %r10, 1; shl.b32 %r11, %r10, 11; add.s32 %r11, %r11, %r6; add.s32 %r12, %r11, %r7; st.shared.u32 [%r12], %r5; bar.sync 0;
shl.b32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, %r2; @%p1 bra LOOP;
st.global.u32 [%rd4], %r5;
"""


@pytest.mark.parametrize("threads", [64, 256, 512])
def test_some_lanes_in_a_loop_with_barriers(device: TinyDevice, threads: int) -> None:
    module = device.load(kernel(DOUBLING))
    assert warps_of_group(module, (threads, 1, 1)) == threads // 32
    values = np.random.default_rng(4).integers(0, 1 << 20, 3 * threads).astype(np.uint32)
    source, result = device.upload(values), device.allocate(12 * threads)
    for options in (OPTIONS, jit.Options(cache=False), ALONE):
        assert device.launch(module, "k", 3, threads, [source, result, 0], options=options) == jit.STATUS_DONE
        found = device.download(result, np.uint32, 3 * threads).reshape(3, threads)
        assert (found == np.cumsum(values.reshape(3, threads), axis=1, dtype=np.uint32)).all()


def test_without_barriers_some_lanes_of_a_loop_have_no_group() -> None:
    """Each of its iterations might end the warp group."""
    text = kernel(DOUBLING.replace("bar.sync 0;", ""))
    assert warps_of_group(jit.parse_module(text), (256, 1, 1)) == 0


# Threads below %r4 (or below a number): those whose index is 7 at least, modulo 32, take three times the value; even ones then also write it.
NESTED = """
and.b32 %r10, %r0, 31; and.b32 %r11, %r0, 1; setp.lt.u32 %p1, %r10, 7; setp.ne.u32 %p2, %r11, 0;
mov.u32 %r12, 1; mov.u32 %r13, 2; mov.u32 %r7, %r5; bar.sync 0;
setp.ge.u32 %p0, %r0, LIMIT; @%p0 bra C;
ld.shared.u32 %r7, [%r8]; @%p1 bra B;
mul.lo.u32 %r7, %r7, 3;
B:
mad.lo.u32 %r12, %r7, 5, %r0; @%p2 bra C;
st.shared.u32 [%r8], %r12; mov.u32 %r13, %r0;
C:
bar.sync 0; ld.shared.u32 %r14, [%r8]; mad.lo.u32 %r12, %r12, 31, %r13; mad.lo.u32 %r12, %r12, 31, %r7; mad.lo.u32 %r12, %r12, 31, %r14;
st.global.u32 [%rd4], %r12;
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("threads", [64, 256, 512, 1024])
@pytest.mark.parametrize("number", [None, 0, 32, 45, 1024])
def test_branches_within_a_branch(device: TinyDevice, threads: int, number: int | None) -> None:
    """Phis behind the inner branch, and behind both, which no lane or some come to from three places."""
    limits = [0, 5, 33, threads] if number is None else [number]
    module = device.load(kernel(PUT + NESTED.replace("LIMIT", "%r4" if number is None else str(number))))
    assert warps_of_group(module, (threads, 1, 1)) == threads // 32
    i, t = np.arange(2 * threads, dtype=np.uint64), np.tile(np.arange(threads, dtype=np.uint64), 2)
    values = np.random.default_rng(3).integers(0, 1 << 32, 2 * threads).astype(np.uint64)
    source, result = device.upload(values.astype(np.uint32)), device.allocate(4 * len(i))
    for limit in limits:
        for options in (OPTIONS, ALONE):
            assert device.launch(module, "k", 2, threads, [source, result, limit], options=options) == jit.STATUS_DONE
            some = t < limit
            tripled = np.where(some & (t % 32 >= 7), values * 3, values)
            first = np.where(some, tripled * 5 + t, 1)
            writing = some & (t % 2 == 0)
            stored = np.where(writing, first, values) % (1 << 32)
            expected = (((first * 31 + np.where(writing, t, 2)) * 31 + tripled) * 31 + stored) % (1 << 32)
            assert (device.download(result, np.uint32, len(i)) == expected).all()


# The sum of a block: of each warp by shuffles, then of the warps' sums by the first warp, of which the first thread writes it.
WARPS = "".join(f"shfl.sync.down.b32 %r9, %r5, {step}, 31, -1; add.u32 %r5, %r5, %r9;\n" for step in (16, 8, 4, 2, 1))
SUM = f"""
mul.wide.s32 %rd2, %r3, 4; add.s64 %rd3, %rd0, %rd2; ld.global.u32 %r5, [%rd3];
mul.wide.u32 %rd2, %r1, 4; add.s64 %rd4, %rd1, %rd2; and.b32 %r10, %r0, 31; shr.u32 %r11, %r0, 5; mov.u32 %r12, s;
{WARPS}
setp.ne.u32 %p0, %r10, 0; @%p0 bra A;
shl.b32 %r13, %r11, 2; add.u32 %r13, %r13, %r12; st.shared.u32 [%r13], %r5;
A:
bar.sync 0; setp.gt.u32 %p1, %r0, 31; @%p1 bra END;
shr.u32 %r14, %r2, 5; setp.ge.u32 %p2, %r0, %r14; mov.u32 %r5, 0; @%p2 bra B;
shl.b32 %r13, %r10, 2; add.u32 %r13, %r13, %r12; ld.shared.u32 %r5, [%r13];
B:
{WARPS}
@%p0 bra END;
st.global.u32 [%rd4], %r5;
END:
"""


@pytest.mark.parametrize("threads", [64, 128, 256, 512, 1024])
def test_a_sum_that_the_first_warp_finishes(device: TinyDevice, threads: int) -> None:
    """No warp group ends, though only some lanes of one warp write what comes out."""
    module = device.load(kernel(SUM))
    assert warps_of_group(module, (threads, 1, 1)) == threads // 32
    values = np.random.default_rng(7).integers(0, 1 << 20, 5 * threads).astype(np.uint32)
    source, result = device.upload(values), device.allocate(20)
    for options in (OPTIONS, jit.Options(cache=False)):
        assert device.launch(module, "k", 5, threads, [source, result, 0], options=options) == jit.STATUS_DONE
        assert (device.download(result, np.uint32, 5) == values.reshape(5, threads).sum(1, dtype=np.uint32)).all()
    text = jit.translate(module, "k", (threads, 1, 1), OPTIONS)[2]
    group = text[text.index("define internal i32 @farlane_group(") :]
    group = group[: group.index("\n}\n")]
    ends = set(re.findall(r"ret i32 (\d+)", group)) - {"0"}
    assert all(int(end) % 2 == 0 for end in ends), "at no branch, if anywhere where a form does not hold"


def phases(random: Random) -> str:
    """Between barriers, branches on the thread's index round arithmetic and accesses of the thread's own word, with branches round parts of that."""
    lines = [PUT, "mov.u32 %r9, %r0; mov.u32 %r10, 5; and.b32 %r11, %r0, 31; shr.u32 %r12, %r0, 5; mov.u32 %r13, 0;"]
    labels = iter(range(1 << 10))

    def condition(number: int) -> str:
        operand = random.choice(("%r0", "%r11", "%r12", "%r3"))
        limit = random.choice((0, 1, 7, 31, 32, 33, 64, 100, "%r4"))
        return f"setp.{random.choice(('lt', 'ge', 'eq', 'ne', 'gt'))}.u32 %p{number}, {operand}, {limit};"

    def work() -> str:
        change = random.choice(("%r5", "%r9", "%r10"))
        return random.choice(
            (
                f"mad.lo.u32 {change}, %r9, 7, %r10;",
                f"add.u32 {change}, %r0, {random.randrange(9)};",
                f"ld.shared.u32 {change}, [%r8];",
                f"xor.b32 {change}, {change}, %r12;",
                "st.shared.u32 [%r8], %r5;",
                f"shl.b32 %r14, %r12, 2; add.u32 %r14, %r14, %r6; ld.shared.u32 {change}, [%r14+2048];",
            )
        )

    for _ in range(3):
        lines.append("bar.sync 0;")
        lines += [work() for _ in range(random.randrange(3))]
        end = f"L{next(labels)}"
        lines.append(f"{condition(0)} {condition(1)} {condition(2)} @{random.choice(('', '!'))}%p0 bra {end};")
        lines += [work() for _ in range(random.randrange(1, 3))]
        for number in (1, 2):
            inner = end if number == 2 and random.random() < 0.4 else f"L{next(labels)}"
            lines.append(f"@{random.choice(('', '!'))}%p{number} bra {inner};")
            lines += [work() for _ in range(random.randrange(1, 3))]
            lines.append(f"{inner}:" if inner != end else "")
        lines.append(f"{end}:")
        lines.append("mad.lo.u32 %r13, %r13, 31, %r9; mad.lo.u32 %r13, %r13, 31, %r10; mad.lo.u32 %r13, %r13, 31, %r5;")
    return "\n".join([*lines, "st.global.u32 [%rd4], %r13;"])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("threads", [256, 512])
def test_branches_agree_with_warps_alone(device: TinyDevice, seed: int, threads: int) -> None:
    module = device.load(kernel(phases(Random(seed))).replace("s[4096]", "s[8192]"))
    assert warps_of_group(module, (threads, 1, 1)) == threads // 32
    source = device.upload(np.random.default_rng(seed).integers(0, 1 << 32, 2 * threads).astype(np.uint32))
    for count in (0, 45, threads):
        found = []
        for options in (OPTIONS, ALONE):
            result = device.allocate(8 * threads)
            assert device.launch(module, "k", 2, threads, [source, result, count], options=options) == jit.STATUS_DONE
            found.append(device.download(result, np.uint32, 2 * threads))
        assert (found[0] == found[1]).all()
