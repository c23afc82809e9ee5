"""Cooperative launches: every block is there at once; who waits for whom ends, whatever the order."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.device.base import CudaError, LaunchShape, Rows
from farlane.backend.device.sim import SimDevice
from farlane.backend.jit.runtime import concurrent_blocks
from sim_program import Program, pack

# `meet`: grid.sync() as nvcc writes it, then each block reads what the next one has written. `backwards`: each block waits for the one behind
# it. `never`: a counter that nobody raises.
MODULE = """.version 9.0
.target sm_75
.address_size 64
.visible .entry meet(.param .u64 out)
{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<10>; .shared .align 4 .b8 own[4];
ld.param.u64 %rd0, [out]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %nctaid.x; mov.u32 %r2, %tid.x;
mov.u32 %r3, %envreg2; cvt.u64.u32 %rd1, %r3; mov.u32 %r4, %envreg1; cvt.u64.u32 %rd2, %r4; bfi.b64 %rd1, %rd2, %rd1, 32, 32;
setp.ne.s64 %p0, %rd1, 0;
@%p0 bra $there;
trap;
$there:
st.shared.u32 [own], %r0;
mul.wide.u32 %rd3, %r0, 4; add.u64 %rd3, %rd0, %rd3; mul.lo.u32 %r5, %r0, 7; st.global.u32 [%rd3], %r5;
barrier.sync 0;
setp.ne.u32 %p1, %r2, 0;
@%p1 bra $met;
setp.eq.u32 %p2, %r0, 0; mov.u32 %r6, -2147483647; sub.s32 %r6, %r6, %r1; selp.b32 %r7, %r6, 1, %p2;
atom.add.release.gpu.u32 %r8, [%rd1+4], %r7;
$spin:
ld.acquire.gpu.u32 %r9, [%rd1+4]; xor.b32 %r10, %r9, %r8; setp.gt.s32 %p3, %r10, -1;
@%p3 bra $spin;
$met:
barrier.sync 0;
ld.shared.u32 %r0, [own];
add.u32 %r11, %r0, 1; rem.u32 %r11, %r11, %r1; mul.wide.u32 %rd4, %r11, 4; add.u64 %rd4, %rd0, %rd4; ld.global.u32 %r12, [%rd4];
add.u32 %r13, %r0, %r1; mul.wide.u32 %rd5, %r13, 4; add.u64 %rd5, %rd0, %rd5; st.global.u32 [%rd5], %r12;
ret;
}
.visible .entry backwards(.param .u64 flags)
{
.reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<6>;
ld.param.u64 %rd0, [flags]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %nctaid.x; mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd0, %rd1;
add.u32 %r2, %r0, 1; setp.eq.u32 %p0, %r2, %r1;
@%p0 bra $mine;
$spin:
ld.volatile.global.u32 %r3, [%rd1+4]; setp.eq.u32 %p1, %r3, 0;
@%p1 bra $spin;
$mine:
bar.sync 0;
st.volatile.global.u32 [%rd1], 1;
ret;
}
.visible .entry plain(.param .u64 out)
{
.reg .b32 %r<4>; .reg .b64 %rd<4>;
ld.param.u64 %rd0, [out]; mov.u32 %r0, %ctaid.x; mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd0, %rd1; st.global.u32 [%rd1], %r0;
ret;
}
"""


def launch(program: Program, kernel: str, at: int, grid: tuple[int, int, int], block: int) -> None:
    shape = LaunchShape(grid, (block, 1, 1), 0, cooperative=True)
    function = program.context.function(program.module, kernel)
    program.context.launch(function, shape, memoryview(pack("Q", at)), program.stream)


@pytest.mark.parametrize(("blocks", "threads"), [(1, 32), (2, 1), (7, 100), (16, 256)])
def test_blocks_meet(program: Program, blocks: int, threads: int) -> None:
    at = program.allocate(8 * blocks)
    for _ in range(2):  # the second launch finds the first one's arenas
        launch(program, "meet", at, (blocks, 1, 1), threads)
        values = np.frombuffer(program.read(at + 4 * blocks, 4 * blocks), np.uint32)
        assert values.tolist() == [(block + 1) % blocks * 7 for block in range(blocks)]


def test_a_block_may_wait_for_a_later_one(program: Program) -> None:
    at = program.allocate(4 * 50)
    launch(program, "backwards", at, (50, 1, 1), 64)
    assert program.read(at, 200) == pack("I", 1) * 50


@pytest.mark.parametrize("blocks", [2, 60])
def test_blocks_of_a_small_grid_wait_for_later_ones_without_a_cooperative_launch(program: Program, blocks: int) -> None:
    at = program.allocate(4 * blocks)
    program.launch("backwards", pack("Q", at), grid=blocks, block=64)
    assert program.read(at, 4 * blocks) == pack("I", 1) * blocks


@pytest.mark.parametrize(("blocks", "threads"), [(300, 96), (40, 1024)])
def test_blocks_of_a_larger_grid_wait_for_later_ones(program: Program, blocks: int, threads: int) -> None:
    """More threads than a small GPU has: the blocks that are waited for begin beside those that wait; the second launch knows that."""
    at = program.allocate(4 * blocks)
    for _ in range(2):
        program.context.write(Rows(at, 0, 4 * blocks, 1), memoryview(bytes(4 * blocks)), program.stream)
        program.launch("backwards", pack("Q", at), grid=blocks, block=threads)
        assert program.read(at, 4 * blocks) == pack("I", 1) * blocks


def test_what_shows_that_a_kernel_waits_for_later_blocks(program: Program) -> None:
    """One thread that needed more blocks at once, or that most of the grid had to be there; then the next launch waits less."""
    at = program.allocate(4 * 2000)
    program.launch("backwards", pack("Q", at), grid=300, block=96)
    function = program.context.function(program.module, "backwards")
    prepared = function.prepared
    assert prepared is not None
    assert prepared.reserve is not None
    known, prepared.launch.patience = prepared.launch.patience, concurrent_blocks.PATIENCE
    assert known == concurrent_blocks.KNOWN_PATIENCE
    kernel = concurrent_blocks.Reserve(prepared.kernel, prepared.launch)
    few = [kernel.more(ctypes.addressof(jit.WorkerState())) for _ in range(20)]
    kernel.ended(False)
    assert None not in few
    assert prepared.launch.patience == concurrent_blocks.PATIENCE
    kernel.ended(True)
    assert prepared.launch.patience == concurrent_blocks.PATIENCE  # it has given them back
    assert kernel.more(ctypes.addressof(jit.WorkerState())) is not None
    kernel.ended(True)
    assert prepared.launch.patience == concurrent_blocks.KNOWN_PATIENCE


@pytest.mark.parametrize("most", [8, 16])
def test_waves_of_blocks_that_wait_for_later_ones(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """A grid of more blocks than there can be at once; each waits for one of its own eight. What is in memory at once is bounded.

    Two threads share it, neither so far ahead that its blocks hold what the other's need.
    """
    monkeypatch.setattr(concurrent_blocks, "BLOCKS", most)
    device = SimDevice(threads=2)
    program = Program(device)
    text = MODULE.replace("setp.eq.u32 %p0, %r2, %r1;", "and.b32 %r2, %r0, 7; setp.eq.u32 %p0, %r2, 7;")
    program.module = program.context.load_module(text.encode())
    at = program.allocate(4 * 4000)
    program.launch("backwards", pack("Q", at), grid=4000, block=32)
    assert program.read(at, 16000) == pack("I", 1) * 4000
    program.context.close()
    device.close()


def test_a_kernel_that_waits_for_nobody_runs_as_usual(program: Program) -> None:
    at = program.allocate(4 * 5000)
    launch(program, "plain", at, (5000, 1, 1), 32)
    assert program.read(at, 20000) == np.arange(5000, dtype=np.uint32).tobytes()


def test_grid_synchronization_without_a_cooperative_launch_is_a_failure(program: Program) -> None:
    at = program.allocate(4096)
    with pytest.raises(CudaError) as found:
        program.launch("meet", pack("Q", at), grid=2, block=32)
    assert (found.value.code, found.value.sticky) == (719, True)


def test_a_launch_that_cannot_be_there_at_once_is_refused(program: Program) -> None:
    at = program.allocate(4096)
    with pytest.raises(CudaError) as found:
        launch(program, "meet", at, (1 << 20, 1, 1), 1024)
    assert (found.value.code, found.value.sticky) == (720, False)


def test_a_fault_in_one_block_ends_all(program: Program) -> None:
    at = program.allocate(4096) + 4096 - 64
    with pytest.raises(CudaError) as found:
        launch(program, "meet", at, (20, 1, 1), 32)
    assert (found.value.code, found.value.sticky) == (700, True)


def test_an_interrupt_ends_blocks_that_wait_for_ever(program: Program) -> None:
    at = program.allocate(4096)
    # The last block's flag is never looked at, so start one block too few: block 0 of one waits for nobody; of a grid where the
    # last block waits as well, everybody waits.
    module = program.context.load_module(
        MODULE.replace("setp.eq.u32 %p0, %r2, %r1;", "setp.eq.u32 %p0, %r2, 0;").encode()
    )
    function = program.context.function(module, "backwards")
    shape = LaunchShape((3, 1, 1), (64, 1, 1), 0, cooperative=True)
    timer = threading.Timer(0.5, program.context.interrupt)
    timer.start()
    started = time.monotonic()
    with pytest.raises(CudaError) as found:
        program.context.launch(function, shape, memoryview(pack("Q", at)), program.stream)
    assert found.value.code == 719
    assert time.monotonic() - started < 60
    timer.cancel()
