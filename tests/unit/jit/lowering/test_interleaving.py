"""Blocks that go through a loop together (interleaving.py): the same results as one after the other, the same faults, and that they do."""

from __future__ import annotations

import re

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.lowering import interleaving
from farlane.backend.jit.runtime.structures import INTERLEAVED
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

OPTIONS = jit.Options(cache=False, optimization=0)
ALONE = jit.Options(cache=False, optimization=0, team=False)
CALL = "call void @farlane_beside(ptr %warp)"
BLOCK, GRID = 256, 64
STEP = BLOCK * GRID  # values; 64 KiB
LARGE = interleaving.LEAST_ARRAY // 4 + 5 * STEP


def kernel(loop: str = "", after: str = "", width: int = 4) -> str:
    """A block's threads add up what lies the size of the grid apart, and then, through shared memory, in a row."""
    return f"""{HEADER}
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n, .param .u64 seen)
{{
.reg .pred %p<8>; .reg .f32 %f<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .shared .align 4 .b8 s[4096];
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.s32 %r3, %r1, %r2, %r0;
ld.param.u64 %rd0, [p]; ld.param.u64 %rd1, [q]; ld.param.u32 %r4, [n]; ld.param.u64 %rd7, [seen];
mul.wide.s32 %rd8, %r1, 4; add.s64 %rd8, %rd7, %rd8; mov.u32 %r11, 1; st.global.u32 [%rd8], %r11;
mov.f32 %f0, 0f00000000; mov.u32 %r5, %nctaid.x; mul.lo.s32 %r5, %r5, %r2; mov.u32 %r6, %r3;
setp.ge.s32 %p0, %r6, %r4; @%p0 bra END;
LOOP:
mul.wide.s32 %rd2, %r6, {width}; add.s64 %rd3, %rd0, %rd2; ld.global.f32 %f1, [%rd3]; add.f32 %f0, %f0, %f1; {loop}
add.s32 %r6, %r6, %r5; setp.lt.s32 %p1, %r6, %r4; @%p1 bra LOOP;
END:
{after}
mov.u32 %r7, s; shl.b32 %r8, %r0, 2; add.s32 %r7, %r7, %r8; st.shared.f32 [%r7], %f0;
bar.sync 0;
xor.b32 %r9, %r0, 1; shl.b32 %r9, %r9, 2; mov.u32 %r10, s; add.s32 %r10, %r10, %r9; ld.shared.f32 %f2, [%r10]; add.f32 %f0, %f0, %f2;
mul.wide.s32 %rd4, %r3, 4; add.s64 %rd5, %rd1, %rd4; st.global.f32 [%rd5], %f0;
ret;
}}
"""


def added(atomic: str) -> str:
    """At its end a thread of each block does something to the value at `seen` + 2048."""
    return kernel().replace(
        "ret;", f"add.s64 %rd10, %rd7, 2048; setp.ne.s32 %p4, %r0, 0; @%p4 bra OUT; {atomic} OUT: ret;"
    )


# Whether the next block had begun when this one was through its loop: what a program may not ask, and a test may.
LOOK = "add.s64 %rd9, %rd8, 4; ld.global.u32 %r12, [%rd9]; setp.ne.u32 %p3, %r12, 0; selp.f32 %f0, 0f3F800000, 0f00000000, %p3;"


def expected(values: np.ndarray, count: int) -> np.ndarray:
    sums = np.zeros(STEP, np.float32)
    for start in range(0, count, STEP):
        part = values[start : min(start + STEP, count)]
        sums[: len(part)] += part
    return sums + sums.reshape(-1, 2)[:, ::-1].reshape(-1)


def test_which_loops() -> None:
    def calls(text: str, block: int = BLOCK, options: jit.Options = OPTIONS) -> tuple[int, int]:
        info, _, ir = jit.translate(jit.parse_module(text), "k", (block, 1, 1), options)
        constant = re.search(r"@farlane_interleaved_blocks = internal constant i32 (\d+)", ir)
        assert constant is not None
        assert int(constant.group(1)) == info.interleaved
        return info.interleaved, ir.count(CALL)

    assert calls(kernel()) == (INTERLEAVED, 1)
    assert calls(kernel(loop="bar.sync 0;")) == (0, 0)
    # What tells the order of the blocks: there are no teams with atomics.
    assert calls(added("red.global.add.f32 [%rd10], %f0;")) == (0, 0)
    assert calls(added("atom.global.inc.u32 %r13, [%rd10], 7; st.global.u32 [%rd5], %r13;")) == (0, 0)
    assert calls(kernel(width=8)) == (0, 0)  # not what lies beside each other
    assert calls(kernel(), 1024) == (0, 0)  # long pieces
    assert calls(kernel(), options=ALONE) == (0, 0)
    assert calls(kernel(), options=jit.Options(cache=False, light=True)) == (0, 0)
    assert calls(kernel().replace("bar.sync 0;", "")) == (0, 0)  # without barriers, blocks have no fibers


@pytest.mark.parametrize("count", [LARGE, LARGE - 77, LARGE + 1, 100, 0])
def test_results(device: TinyDevice, count: int) -> None:
    module = device.load(kernel())
    values = np.random.default_rng(1).random(LARGE + 1, np.float32)
    source, result, seen = device.upload(values), device.allocate(4 * STEP), device.allocate(4096)
    wanted = expected(values, count)
    for options, threads, chunk in ((OPTIONS, 1, 32), (OPTIONS, 2, 11), (OPTIONS, 1, 1), (ALONE, 1, 1)):
        arguments = [source, result, count, seen]
        status = device.launch(module, "k", GRID, BLOCK, arguments, options=options, threads=threads, chunk=chunk)
        assert status == jit.STATUS_DONE
        assert (device.download(result, np.float32, STEP) == wanted).all()


def test_additions_in_floating_point_have_the_blocks_order(device: TinyDevice) -> None:
    """Some blocks have an iteration more than others, and would come later."""
    module = device.load(added("red.global.add.f32 [%rd10], %f0;"))
    values, count = np.random.default_rng(3).random(LARGE, np.float32), LARGE - STEP + 1000
    source, result = device.upload(values), device.allocate(4 * STEP)
    found = []
    for options, chunk in ((OPTIONS, 32), (ALONE, 1), (jit.Options(cache=False, light=True), 1)):
        seen = device.upload(np.zeros(1024, np.uint32))
        arguments = [source, result, count, seen]
        assert (
            device.launch(module, "k", GRID, BLOCK, arguments, options=options, threads=1, chunk=chunk)
            == jit.STATUS_DONE
        )
        found.append(device.download(seen + 2048, np.float32, 1)[0])
    assert len(set(found)) == 1


def together(device: TinyDevice, count: int, grid: int = GRID) -> float:
    """The share of blocks that found the next one begun."""
    module = device.load(kernel(after=LOOK))
    source, result, seen = (
        device.allocate(4 * count),
        device.allocate(4 * STEP),
        device.upload(np.zeros(1024, np.uint32)),
    )
    status = device.launch(module, "k", grid, BLOCK, [source, result, count, seen], options=OPTIONS, chunk=32)
    assert status == jit.STATUS_DONE
    return float(device.download(result, np.float32, BLOCK * grid)[::BLOCK].mean() / 2)


def test_they_go_together(device: TinyDevice) -> None:
    """All but the last one of each group, where the array is large and the steps are wide."""
    assert together(device, LARGE) == 1 - 1 / INTERLEAVED


def test_small_arrays_block_by_block(device: TinyDevice) -> None:
    assert together(device, LARGE // 2) == 0


def test_short_steps_block_by_block(device: TinyDevice) -> None:
    assert together(device, LARGE // 2, 8) == 0


def test_a_fault_of_one_block(device: TinyDevice) -> None:
    """What is behind the array is the business of the last blocks' threads; the launch after it is not disturbed."""
    module = device.load(kernel())
    values = np.random.default_rng(2).random(LARGE, np.float32)
    source, result, seen = device.upload(values), device.allocate(4 * STEP), device.allocate(4096)
    most = -(-LARGE * 4 // 4096) * 1024 + 1  # one value more than there are pages
    arguments = [source, result, most, seen]
    status = device.launch(module, "k", GRID, BLOCK, arguments, options=OPTIONS, chunk=32)
    assert status == jit.STATUS_FAULT
    assert device.fault.kind == jit.FaultKind.ILLEGAL_ADDRESS
    assert device.fault.address == source + 4 * (most - 1)
    assert device.fault.block[0] * BLOCK + device.fault.thread[0] == (most - 1) % STEP
    arguments[2] = LARGE
    assert device.launch(module, "k", GRID, BLOCK, arguments, options=OPTIONS, chunk=32) == jit.STATUS_DONE
    assert (device.download(result, np.float32, STEP) == expected(values, LARGE)).all()


def test_arenas_stay_where_they_are() -> None:
    """A copy of a worker's state is good as long as its generation stays."""
    worker, text = jit.Worker(), kernel()
    small = jit.compile_kernel(jit.parse_module(text), "k", (BLOCK, 1, 1), OPTIONS)
    grown = jit.compile_kernel(jit.parse_module(text.replace("s[4096]", "s[40960]")), "k", (BLOCK, 1, 1), OPTIONS)
    launch = jit.Launch(grid=(GRID, 1, 1))
    worker.reserve(small, launch)
    first = worker.generation, worker.state.beside
    assert worker.state.beside
    worker.reserve(small, launch)
    assert (worker.generation, worker.state.beside) == first
    worker.reserve(grown, launch)
    assert worker.generation > first[0]
    held = worker.generation
    worker.reserve(small, launch)
    assert worker.generation == held
    worker.reserve(small, jit.Launch(grid=(4, 1, 1)))
    assert not worker.state.beside
