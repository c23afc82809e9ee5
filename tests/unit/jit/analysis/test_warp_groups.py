"""Warps that run together (warp_groups.py): the same results as alone, wherever the warp group ends, and the same faults."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.lowering import processors
from hypothesis import given, settings
from jit_tools.comparing import compare
from jit_tools.device import TinyDevice
from jit_tools.random_kernels import Kernel, kernels
from jit_tools.warp_groups import (
    ALONE,
    OPTIONS,
    check_barriers,
    check_branches,
    check_faults,
    check_some_lanes_and_then_all,
    kernel,
    warps_of_group,
)

# q[i] = p[i] + p[i + stride] + ..., as far as n; stride: all threads.
STRIDING = """
mov.f32 %f0, 0f00000000; mov.u32 %r5, %nctaid.x; mul.lo.s32 %r5, %r5, %r2; mov.u32 %r6, %r3;
setp.ge.s32 %p0, %r6, %r4; @%p0 bra END;
LOOP:
mul.wide.s32 %rd2, %r6, 4; add.s64 %rd3, %rd0, %rd2; ld.global.f32 %f1, [%rd3]; add.f32 %f0, %f0, %f1;
add.s32 %r6, %r6, %r5; setp.lt.s32 %p1, %r6, %r4; @%p1 bra LOOP;
END:
mul.wide.s32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2; st.global.f32 [%rd3], %f0;
"""


@settings(max_examples=6)
@given(kernels(12, group=True))
def test_warp_groups_agree_with_the_interpreter(random_kernel: Kernel) -> None:
    compare(random_kernel, OPTIONS)


@pytest.mark.parametrize("count", [4096, 4000, 4097, 100, 0])
def test_a_loop_that_lanes_leave_at_different_iterations(device: TinyDevice, count: int) -> None:
    module = device.load(kernel(STRIDING))
    # A processor without AVX-512 has room for the loop's values of fewer warps.
    assert warps_of_group(module, (256, 1, 1)) == (8 if "+avx512f" in processors.host()[1].split(",") else 2)
    values = np.random.default_rng(1).random(5000, np.float32)
    source, result = device.upload(values), device.allocate(4 * 1024)
    assert device.launch(module, "k", 4, 256, [source, result, count], options=OPTIONS, threads=2) == jit.STATUS_DONE
    expected = np.zeros(1024, np.float32)
    for start in range(0, count, 1024):
        part = values[start : min(start + 1024, count)]
        expected[: len(part)] += part
    assert (device.download(result, np.float32, 1024) == expected).all()


@pytest.mark.parametrize("limit", [256, 0, 96, 100, 7])
def test_barriers(device: TinyDevice, limit: int) -> None:
    check_barriers(device, limit)


def test_branches_round_a_few_instructions(device: TinyDevice) -> None:
    check_branches(device)


@pytest.mark.parametrize(
    ("access", "kind", "thread"),
    [
        ("ld.shared.u32 %r9, [%r8+3500]; st.shared.u32 [%r8], %r9;", "ILLEGAL_ADDRESS", 149),
        ("st.shared.u32 [%r8+2], %r5;", "MISALIGNED_ADDRESS", 0),
        ("ld.shared.u32 %r9, [%r8]; st.global.u32 [%rd4+3500], %r9;", "ILLEGAL_ADDRESS", 149),
        # Of those, from 170 on only.
        ("setp.lt.s32 %p1, %r0, 170; @%p1 bra N; ld.shared.u32 %r9, [%r8+3500];\nN:\nadd.u32 %r10, %r9, 1;", "ILLEGAL_ADDRESS", 170),
        ("setp.lt.s32 %p1, %r0, 170; @%p1 bra END; st.shared.u32 [%r8+3500], %r5;", "ILLEGAL_ADDRESS", 170),
    ],
)  # fmt: skip
def test_faults_of_some_lanes(device: TinyDevice, access: str, kind: str, thread: int) -> None:
    check_faults(device, access, kind, thread)


def test_some_lanes_and_then_all(device: TinyDevice) -> None:
    check_some_lanes_and_then_all(device)


def test_narrow_vectors(device: TinyDevice) -> None:
    """Without the registers of AVX-512, warp groups are as large as what lives in their loops allows."""
    narrow = jit.Options(cache=False, optimization=0, cpu="haswell", features="")
    module = device.load(kernel(STRIDING))
    values = np.random.default_rng(4).random(1024, np.float32)
    source, result = device.upload(values), device.allocate(4 * 256)
    text = jit.translate(module, "k", (256, 1, 1), narrow)[2]
    assert "@farlane_group_warps = internal constant i32 2" in text
    assert device.launch(module, "k", 1, 256, [source, result, 1000], options=narrow) == jit.STATUS_DONE
    expected = np.zeros(256, np.float32)
    for start in range(0, 1000, 256):
        part = values[start : min(start + 256, 1000)]
        expected[: len(part)] += part
    assert (device.download(result, np.float32, 256) == expected).all()


def test_a_block_of_several_groups(device: TinyDevice) -> None:
    """1024 threads, of which those from 500 on return at once: one warp group runs to its end, one leaves, two never begin anything."""
    module = device.load(
        kernel(
            "setp.ge.s32 %p0, %r0, %r4; @%p0 bra END; mul.wide.s32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r3;\nEND:"
        )
    )
    assert warps_of_group(module, (1024, 1, 1)) == 8
    result = device.allocate(4 * 2048)
    assert device.launch(module, "k", 2, 1024, [0, result, 500], options=OPTIONS) == jit.STATUS_DONE
    found = device.download(result, np.uint32, 2048).reshape(2, 1024)
    expected = np.arange(2048, dtype=np.uint32).reshape(2, 1024) * (np.arange(1024) < 500)
    assert (found == expected).all()


# The address of thread 200 of the second block lies on the page after the last, or in the middle of a word.
@pytest.mark.parametrize(
    ("body", "kind", "offset", "thread"),
    [
        ("mul.wide.s32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r3;", "ILLEGAL_ADDRESS", 4096 - 4 * 456, 200),
        ("mul.wide.s32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3+2], %r3;", "MISALIGNED_ADDRESS", 0, 0),
        ("xor.b32 %r5, %r3, 1; mul.wide.s32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r3;", "ILLEGAL_ADDRESS", 4096 - 4 * 456, 200),
        ("shl.b32 %r5, %r0, 4; add.s32 %r5, %r5, 896; mov.u32 %r6, s; add.s32 %r6, %r6, %r5; st.shared.u32 [%r6], %r3;", "ILLEGAL_ADDRESS", 0, 200),
    ],
)  # fmt: skip
def test_faults_name_the_thread(device: TinyDevice, body: str, kind: str, offset: int, thread: int) -> None:
    module = device.load(kernel(body))
    assert warps_of_group(module, (256, 1, 1)) == 8
    page = device.allocate(4096)
    faults = []
    for options in (OPTIONS, ALONE):
        assert device.launch(module, "k", 2, 256, [0, page + offset, 0], options=options) == jit.STATUS_FAULT
        fault = device.fault
        faults.append((fault.kind, fault.address, fault.line, list(fault.block), list(fault.thread)))
    assert faults[0] == faults[1]
    assert faults[0][0] == jit.FaultKind[kind]
    assert faults[0][4] == [thread, 0, 0]


def test_rows_in_separate_allocations(device: TinyDevice) -> None:
    """Rows of 16 lanes, a page and a gap apart: no run of pages holds all of them, and the gaps are not accessed."""
    body = "mov.u32 %r5, %tid.y; mul.wide.u32 %rd2, %r5, 8192; mul.wide.u32 %rd3, %r0, 4; add.s64 %rd4, %rd0, %rd2; add.s64 %rd4, %rd4, %rd3; ld.global.u32 %r6, [%rd4];"
    body += (
        "mad.lo.u32 %r7, %r5, 16, %r0; mul.wide.u32 %rd5, %r7, 4; add.s64 %rd6, %rd1, %rd5; st.global.u32 [%rd6], %r6;"
    )
    module = device.load(kernel(body))
    assert warps_of_group(module, (16, 16, 1)) == 8
    rows = np.random.default_rng(3).integers(0, 1 << 30, (16, 1024)).astype(np.uint32)
    places = [device.upload(row) for row in rows]
    assert [place - places[0] for place in places] == [8192 * number for number in range(16)]
    result = device.allocate(1024)
    assert device.launch(module, "k", 1, (16, 16), [places[0], result, 0], options=OPTIONS) == jit.STATUS_DONE
    assert (device.download(result, np.uint32, 256).reshape(16, 16) == rows[:, :16]).all()
    device.flags[(places[9] - device.base) >> 12] = 0
    assert device.launch(module, "k", 1, (16, 16), [places[0], result, 0], options=OPTIONS) == jit.STATUS_FAULT
    assert device.fault.address == places[9]
    assert list(device.fault.thread) == [0, 9, 0]


def test_an_address_that_wraps_in_some_lanes(device: TinyDevice) -> None:
    """0xffffffff + thread as 32 bits without sign, extended: an affine form does not hold, each warp finds its lanes' addresses alone."""
    body = "add.u32 %r5, %r3, %r4; mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd0, %rd2; ld.global.u32 %r6, [%rd3];"
    body += "mul.wide.u32 %rd5, %r3, 4; add.s64 %rd6, %rd1, %rd5; st.global.u32 [%rd6], %r6;"
    module = device.load(kernel(body))
    values = np.arange(256, dtype=np.uint32) * 3
    source, result = device.upload(values), device.allocate(1024)
    # Threads 0 to 99 read far beyond the window, unless they wrap: all do from 100 on.
    status = device.launch(module, "k", 1, 256, [source, result, 2**32 - 100], options=OPTIONS)
    assert status == jit.STATUS_FAULT
    assert list(device.fault.thread) == [0, 0, 0]
    far = source - (4 << 32) + 4 * 100
    status = device.launch(module, "k", 1, 256, [far, result, 2**32 - 100], options=OPTIONS)
    assert status == jit.STATUS_FAULT
    assert list(device.fault.thread) == [100, 0, 0]


def test_what_has_no_group() -> None:
    def warps(body: str, block: tuple[int, int, int] = (256, 1, 1)) -> int:
        return warps_of_group(jit.parse_module(kernel(body)), block)

    store = "mul.wide.s32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r3;"
    assert warps(store) == 8
    assert warps(store, (96, 1, 1)) == 0
    assert warps(store, (64, 1, 1)) == 2
    assert warps(store, (40, 8, 1)) == 0
    assert warps(store + "red.global.add.u32 [%rd1], 1;") == 0
    assert warps("ld.volatile.global.u32 %r3, [%rd0];" + store) == 0
    assert warps("shfl.sync.idx.b32 %r3, %r3, 0, 31, -1;" + store) == 8  # among a warp's lanes only
    assert warps("shfl.sync.idx.b32 %r3, %r3, 0, 31, %r4;" + store) == 0
    assert warps("shfl.sync.idx.b32 %r3, %r3, 0, 31, 0xffff;" + store) == 0
    assert warps("vote.sync.ballot.b32 %r3, %p0, -1;" + store) == 0
    load = "ld.global.u32 %r5, [%rd3]; setp.eq.s32 %p0, %r5, 0; @%p0 bra END; st.global.u32 [%rd3], 1;\nEND:"
    assert warps("mul.wide.s32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2;" + load) == 0


def ended_early(module: jit.Module, device: TinyDevice, block: tuple[int, int, int]) -> int:
    """What the last launch of a kernel has counted."""
    text = jit.translate(module, "k", block, OPTIONS)[2]
    found = re.search(r"@farlane_group_latch = internal constant i64 (\d+)", text)
    assert found is not None
    return ctypes.c_uint32.from_address(device.workers[0].state.latches + int(found.group(1))).value


def test_blocks_at_an_edge_do_not_decide_for_the_others(device: TinyDevice) -> None:
    """Lanes of the first 40 blocks disagree. The warp groups of all others run to their end, and are soon tried again."""
    body = """mul.wide.s32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2;
    setp.lt.u32 %p0, %r1, 40; setp.ge.u32 %p1, %r0, 100; and.pred %p2, %p0, %p1; @%p2 bra END;
    st.global.u32 [%rd3], %r3;
    END:"""
    module = device.load(kernel(body))
    assert warps_of_group(module, (256, 1, 1)) == 8
    for blocks, counted in ((40, range(57, 73)), (240, range(1))):
        result = device.upload(np.full(256 * blocks, 7, np.uint32))
        assert device.launch(module, "k", blocks, 256, [0, result, 0], options=OPTIONS) == jit.STATUS_DONE
        i = np.arange(256 * blocks, dtype=np.uint32)
        expected = np.where((i // 256 < 40) & (i % 256 >= 100), 7, i)
        assert (device.download(result, np.uint32, 256 * blocks) == expected).all()
        assert ended_early(module, device, (256, 1, 1)) in counted


# Inside of an image of n by 20: as nvcc has it, with `and` and `not`, and with a side that is the same for all lanes.
INSIDE = {
    "or": "or.pred %p4, %p0, %p1; or.pred %p4, %p2, %p4; or.pred %p4, %p3, %p4; @%p4 bra END;",
    "and": "not.pred %p0, %p0; not.pred %p1, %p1; and.pred %p4, %p0, %p1; or.pred %p5, %p2, %p3; not.pred %p5, %p5; and.pred %p4, %p4, %p5; @!%p4 bra END;",
    "uniform": "setp.eq.u32 %p5, %r4, 3; or.pred %p4, %p0, %p5; or.pred %p4, %p1, %p4; or.pred %p4, %p4, %p2; or.pred %p4, %p4, %p3; @%p4 bra END;",
}


@pytest.mark.parametrize("name", INSIDE)
@pytest.mark.parametrize("width", [3, 34, 70, 96])
def test_conditions_of_several_comparisons(device: TinyDevice, name: str, width: int) -> None:
    body = f"""mov.u32 %r5, %tid.y; mov.u32 %r6, %ctaid.y; mad.lo.u32 %r6, %r6, 8, %r5; mad.lo.u32 %r7, %r6, 96, %r3;
    setp.lt.s32 %p0, %r3, 1; add.s32 %r8, %r4, -1; setp.ge.s32 %p1, %r3, %r8; setp.lt.s32 %p2, %r6, 1; setp.ge.s32 %p3, %r6, 19;
    {INSIDE[name]}
    mul.wide.s32 %rd2, %r7, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r7;
    END:"""
    module = device.load(kernel(body))
    assert warps_of_group(module, (32, 8, 1)) == 8
    result = device.upload(np.full(96 * 24, 7, np.uint32))
    assert device.launch(module, "k", (3, 3), (32, 8), [0, result, width], options=OPTIONS) == jit.STATUS_DONE
    y, x = np.mgrid[:24, :96]
    inside = (x >= 1) & (x < width - 1) & (y >= 1) & (y < 19) & ((name != "uniform") | (width != 3))
    found = device.download(result, np.uint32, 96 * 24).reshape(24, 96)
    assert (found == np.where(inside, 96 * y + x, 7)).all()
    text = jit.translate(module, "k", (32, 8, 1), OPTIONS)[2]
    group = text[text.index("define internal i32 @farlane_group(") :]
    assert group.index("neither") < group.index("bitcast <32 x i1>"), "lanes are looked at where bounds do not tell"


@pytest.mark.parametrize(
    ("reads", "distances"), [(1, {"znver4": 2, "skylake-avx512": 2}), (4, {"znver4": 1, "skylake-avx512": 0})]
)
def test_how_far_a_loop_asks_ahead(reads: int, distances: dict[str, int]) -> None:
    """Log2 of the iterations: of an unrolled loop more where that is for the second-level cache."""
    loads = "".join(f"ld.global.f32 %f1, [%rd3+{4096 * at}]; add.f32 %f0, %f0, %f1;\n" for at in range(reads))
    body = STRIDING.replace("ld.global.f32 %f1, [%rd3]; add.f32 %f0, %f0, %f1;", loads)
    assert body.count("ld.global") == reads
    for cpu, distance in distances.items():
        options = jit.Options(cache=False, optimization=0, cpu=cpu)
        text = jit.translate(jit.parse_module(kernel(body)), "k", (256, 1, 1), options)[2]
        group = text[text.index("define internal i32 @farlane_group(") :]
        group = group[: group.index("\n}\n")]
        steps = re.findall(r"= sub i64 (?:%\w+), (?:%\w+)\n  store i64 .*\n  %\w+ = shl i64 %\w+, (\d+)", group)
        assert steps == [str(distance)] * reads
