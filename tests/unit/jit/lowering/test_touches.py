"""Which pages kernels touch: one entry per distinct page of each warp instruction, whatever the address looks like."""

from __future__ import annotations

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.runtime import touches
from jit_tools.device import PAGE_SHIFT, TinyDevice
from jit_tools.instructions import HEADER

TEXT = (
    HEADER
    + """
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 step) {
 .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<4>; .reg .pred %p; .shared .align 8 .b8 s[256];
 ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r5, [step];
 mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r4, %r2, %r3, %r1;
 mul.lo.u32 %r6, %r4, %r5; mul.wide.u32 %rd3, %r6, 4; add.s64 %rd4, %rd1, %rd3;
 ld.global.f32 %f1, [%rd4];
 setp.lt.u32 %p, %r1, 16;
 mul.wide.u32 %rd5, %r4, 4; add.s64 %rd6, %rd2, %rd5;
 @%p st.global.f32 [%rd6], %f1;
 mov.u64 %rd7, s; cvta.shared.u64 %rd7, %rd7; selp.b64 %rd7, %rd7, %rd6, %p;
 st.f32 [%rd7], %f1;
 red.global.add.u32 [%rd2], 1;
 bar.sync 0;
 ld.global.u32 %r7, [%rd2+4096];
 ret; }
"""
)


class Log:
    """The entries of one worker, as (page from the window's start, warp, write, block, issued)."""

    def __init__(self, device: TinyDevice, entries: int = touches.MIN_ENTRIES) -> None:
        self.pieces: list[np.ndarray] = []
        self.buffer = touches.Buffer(lambda words: self.pieces.append(words.copy()), PAGE_SHIFT, entries)
        self.buffer.attach(device.workers[0])
        self.base = device.base >> PAGE_SHIFT

    def entries(self) -> list[tuple[int, int, int, int, int]]:
        self.buffer.flush()
        first, second = np.concatenate(self.pieces).T
        page = (first & np.uint64((1 << 42) - 1)).astype(np.int64) - self.base
        columns = (page, first >> np.uint64(42) & np.uint64(31), first >> np.uint64(47), second >> np.uint64(32))
        return list(zip(*(column.tolist() for column in (*columns, second & np.uint64(0xFFFFFFFF))), strict=True))


@pytest.mark.parametrize("dual", [True, False])
def test_entries_are_exact(device: TinyDevice, dual: bool) -> None:
    module = device.load(TEXT)
    a, b = device.allocate(1 << 20), device.allocate(8192)
    log = Log(device)
    options = jit.Options(cache=False, touches=True, dual=dual)
    # Lanes 256 bytes apart: a warp's load has two pages. The predicated store is of the first warp's lower half.
    assert device.launch(module, "k", 2, 64, [a, b, 64], options=options) == jit.STATUS_DONE
    first, second = (a - device.base) >> PAGE_SHIFT, (b - device.base) >> PAGE_SHIFT
    expected = set()
    for block in range(2):
        for warp in range(2):
            start = first + 4 * block + 2 * warp
            taken = warp == 0  # an instruction that no lane of the warp takes is not issued
            issued = [11, 15, 18 + taken, 19 + taken, 21 + taken]
            expected |= {(start, warp, 0, block, issued[0]), (start + 1, warp, 0, block, issued[0])}
            if taken:
                expected.add((second, warp, 1, block, issued[1]))
            expected.add((second, warp, 1, block, issued[2]))  # lanes in the window; the others write shared memory
            expected.add((second, warp, 1, block, issued[3]))
            expected.add((second + 1, warp, 0, block, issued[4]))
    found = log.entries()
    assert len(found) == len(set(found))
    assert set(found) == expected
    for block in range(2):  # each warp's own are in the order in which it issued them
        for warp in range(2):
            own = [entry[4] for entry in found if entry[1] == warp and entry[3] == block]
            assert own == sorted(own)


def test_results_are_the_same_and_a_worker_without_a_buffer_records_nothing(device: TinyDevice) -> None:
    module = device.load(TEXT)
    a, b = device.upload(np.arange(1 << 12, dtype="f4")), device.allocate(8192)
    for option in (False, True):
        assert device.launch(module, "k", 1, 32, [a, b, 1], options=jit.Options(cache=False, touches=option)) == 0
        assert device.download(b, "u4", 1)[0] == 32  # the store of a[0], then one more for each lane
        assert np.array_equal(device.download(b + 4, "f4", 15), np.arange(1, 16))


LOOP = (
    HEADER
    + """
.visible .entry k(.param .u64 a, .param .u32 rounds) {
 .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p;
 ld.param.u64 %rd1, [a]; ld.param.u32 %r5, [rounds]; mov.u32 %r1, 0; mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4096; add.s64 %rd3, %rd1, %rd2;
LOOP:
 ld.global.u32 %r3, [%rd3]; add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, %r5;
 @%p bra LOOP;
 ret; }
"""
)


def test_a_full_buffer_is_handed_over(device: TinyDevice) -> None:
    module = device.load(LOOP)
    a = device.allocate(32 * 4096)
    log = Log(device)
    rounds = 200
    assert device.launch(module, "k", 1, 32, [a, rounds], options=jit.Options(cache=False, touches=True)) == 0
    found = log.entries()
    assert len(log.pieces) > 2
    assert all(len(piece) <= touches.MIN_ENTRIES for piece in log.pieces)
    first = (a - device.base) >> PAGE_SHIFT
    assert found == [(first + lane, 0, 0, 0, 7 + 3 * turn) for turn in range(rounds) for lane in range(32)]


def test_a_failing_sink_is_heard_of_at_the_end(device: TinyDevice) -> None:
    def fail(words: np.ndarray) -> None:
        raise ValueError("no room")

    module = device.load(LOOP)
    a = device.allocate(32 * 4096)
    buffer = touches.Buffer(fail, PAGE_SHIFT, touches.MIN_ENTRIES)
    buffer.attach(device.workers[0])
    assert device.launch(module, "k", 1, 32, [a, 100], options=jit.Options(cache=False, touches=True)) == 0
    with pytest.raises(ValueError, match="no room"):
        buffer.flush()


TILE = (
    HEADER
    + """
.visible .entry k(.param .u64 a) {
 .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .f32 %f<9>;
 ld.param.u64 %rd1, [a];
 wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, [%rd1], 512;
 ret; }
"""
)


def test_an_instruction_of_many_accesses_enters_a_page_once(device: TinyDevice) -> None:
    module = device.load(TILE)
    a = device.allocate(16 * 2048)  # rows of 2 KiB: 16 of them lie on 8 pages
    log = Log(device)
    assert device.launch(module, "k", 1, 32, [a], options=jit.Options(cache=False, touches=True)) == 0
    first = (a - device.base) >> PAGE_SHIFT
    assert sorted(entry[0] for entry in log.entries()) == [first + page for page in range(8)]
