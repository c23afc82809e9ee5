"""Sessions: many at once, and everything given back when they end."""

from __future__ import annotations

import gc
from itertools import pairwise

import pytest
from farlane.backend.device.base import LEGACY_STREAM, CudaError, LaunchShape, Rows
from farlane.backend.device.sim import SimDevice
from sim_program import Program, pack


def status(field: str) -> int:
    """A field of /proc/self/status, in KiB."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def test_many_contexts_are_apart(device: SimDevice) -> None:
    programs = [Program(device) for _ in range(40)]
    windows = sorted((program.context.window.base, program.context.window.size) for program in programs)
    assert all(low + size <= high for (low, size), (high, _) in pairwise(windows))
    places = [program.allocate(4096, pack("I", number)) for number, program in enumerate(programs)]
    for program in programs:
        program.launch("count", block=3)
    for number, (program, at) in enumerate(zip(programs, places, strict=True)):
        assert program.read(at, 4) == pack("I", number)
        address, _ = program.context.variable(program.module, "counter")
        assert program.read(address, 4) == pack("I", 10)
        program.context.close()


def test_memory_returns_when_it_is_freed_and_when_contexts_close(device: SimDevice) -> None:
    size = 64 << 20
    filler = memoryview(bytes(1 << 20))

    def use(close: bool) -> None:
        context = device.open_context(1 << 30)
        stream = context.default_stream(LEGACY_STREAM)
        for round_ in range(2):
            at = context.window.base + round_ * size
            context.allocate(at, size)
            for offset in range(0, size, len(filler)):
                context.write(Rows(at + offset, len(filler), len(filler), 1), filler, stream)
            context.free(at)
        context.allocate(at, size)
        context.set(Rows(at, size, size, 1), 1, 1, stream)
        if not close:
            context.free(at)
        context.close()

    use(True)
    gc.collect()
    resident, virtual = status("VmRSS"), status("VmSize")
    for _ in range(6):
        use(True)
        use(False)
    gc.collect()
    assert status("VmRSS") - resident < 40 << 10  # KiB; without returns it would be gigabytes
    assert status("VmSize") - virtual < 1 << 20


def test_freed_memory_goes_back_at_once(device: SimDevice) -> None:
    context = device.open_context(1 << 30)
    at, size = context.window.base, 256 << 20
    context.allocate(at, size)
    context.set(Rows(at, size, size, 1), 1, 1, context.default_stream(LEGACY_STREAM))
    resident = status("VmRSS")
    context.free(at)
    assert resident - status("VmRSS") > 250 << 10
    context.close()


def test_close_is_idempotent_and_a_read_that_is_left_over_ends(device: SimDevice) -> None:
    program = Program(device)
    at = program.allocate(4 << 20)
    pieces = program.context.read(Rows(at, 4 << 20, 4 << 20, 1), program.stream)
    next(pieces)
    program.context.close()
    program.context.close()
    assert list(pieces) == []


def test_a_closed_context_refuses_everything_and_touches_nothing(device: SimDevice) -> None:
    program = Program(device)
    at = program.allocate(4096)
    function = program.context.function(program.module, "nothing")
    program.launch("nothing")
    program.context.close()
    rows = Rows(at, 16, 16, 1)
    for call in (
        lambda: program.context.allocate(at + 8192, 16),
        lambda: program.context.free(at),
        lambda: program.context.write(rows, memoryview(bytes(16)), program.stream),
        lambda: program.context.set(rows, 0, 1, program.stream),
        lambda: program.context.copy(rows, rows, program.stream),
        lambda: program.context.read(rows, program.stream),
        lambda: program.context.load_module(program.image),
        lambda: program.context.function(program.module, "nothing"),
        lambda: program.context.launch(function, LaunchShape((1, 1, 1), (1, 1, 1), 0), memoryview(b""), program.stream),
    ):
        with pytest.raises(CudaError):
            call()


def test_reset_is_as_after_opening(program: Program) -> None:
    context = program.context
    at = program.allocate(1 << 20)
    context.reset()
    with pytest.raises(CudaError):
        context.free(at)
    with pytest.raises(CudaError, match="unloaded"):
        context.function(program.module, "count")
    context.allocate(at, context.quota)
    assert context._memory.window.resident_pages == context.quota // 4096


def test_an_impossible_quota_is_refused(device: SimDevice) -> None:
    with pytest.raises(CudaError, match="no room") as found:
        device.open_context(1 << 60)
    assert found.value.code == 2


def test_a_closed_device_closes_its_contexts_and_opens_no_more() -> None:
    device = SimDevice(threads=2)
    context = device.open_context(1 << 20)
    device.close()
    context.close()
    with pytest.raises(CudaError, match="closed"):
        device.open_context(1 << 20)


def test_the_description() -> None:
    device = SimDevice(threads=3)
    description = device.describe()
    assert description.backend == "sim"
    assert (description.takes_ptx, description.takes_machine_code) == (True, False)
    assert description.compute_capability == (12, 0)
    assert len(description.uuid) == 16
    assert description.attributes[16] == 3
    assert description.total_memory > 1 << 30
    device.close()


LEFT = b""".version 7.0
.target sm_75
.address_size 64
.visible .entry leave(.param .u64 seen, .param .u32 turns)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<2>;
    .reg .pred %p<2>;
    .shared .align 4 .b8 room[1024];
    ld.param.u64 %rd1, [seen];
    ld.param.u32 %r1, [turns];
    mov.u32 %r2, %tid.x;
    shl.b32 %r2, %r2, 2;
    mov.u32 %r3, room;
    add.u32 %r2, %r2, %r3;
    ld.shared.u32 %r4, [%r2];
    red.global.or.b32 [%rd1], %r4;
turn:
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra done;
    mov.u32 %r5, 0xdeadbeef;
    st.volatile.shared.u32 [%r2], %r5;
    sub.u32 %r1, %r1, 1;
    bra turn;
done:
    ret;
}
"""


def test_no_session_reads_what_another_s_kernels_left_in_shared_memory() -> None:
    """Not in that of helpers' either: launches that are worth two threads."""
    device = SimDevice(threads=2)
    first, second = Program(device, LEFT), Program(device, LEFT)
    for program, turns, left in [(first, 1000, 0), (second, 0, 0), (first, 0, 0xDEADBEEF), (second, 0, 0)]:
        seen = program.allocate(4)
        program.launch("leave", pack("QI", seen, turns), grid=2000, block=256)
        if turns == 0:
            assert program.read(seen, 4) == pack("I", left)
    first.context.close()
    second.context.close()
    device.close()
