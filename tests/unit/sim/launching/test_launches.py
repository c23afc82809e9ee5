"""Launching kernels: results, refusals, faults, threads. The kernels are those of kernels.ptx."""

from __future__ import annotations

import gc
import logging
import struct
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.device.base import CudaError, LaunchShape
from farlane.backend.device.plan import Body, Kind, Step, Stop
from farlane.backend.device.sim import SimDevice
from farlane.backend.device.sim.launching import admission, compiling, launches, pool
from farlane.backend.device.sim.runtime import prepared
from sim_program import Program, pack
from waiting import eventually

FACTORS = np.array([1, 2, 3, 4], np.float32)


def refused(program: Program, kernel: str, parameters: bytes = b"", **shape: object) -> CudaError:
    with pytest.raises(CudaError) as found:
        program.launch(kernel, parameters, **shape)  # type: ignore[arg-type]
    return found.value


@pytest.mark.parametrize("count", [1, 33, 1000, 300_001])
def test_results(program: Program, count: int) -> None:
    data = np.arange(count, dtype=np.float32)
    at = program.allocate(4 * count, data.tobytes())
    program.launch("scale", pack("QI", at, count), grid=-(-count // 128), block=128)
    assert program.read(at, 4 * count) == (data * np.resize(FACTORS, count)).tobytes()


def test_dynamic_shared_memory_and_barriers(program: Program) -> None:
    data = np.arange(64 * 200, dtype=np.uint32)
    at = program.allocate(data.nbytes, data.tobytes())
    program.launch("reverse", pack("Q", at), grid=200, block=64, shared=256)
    assert program.read(at, data.nbytes) == data.reshape(200, 64)[:, ::-1].tobytes()


def test_three_dimensional_grids_run_every_block(program: Program) -> None:
    program.launch("count", grid=(5, 7, 11), block=(4, 3, 2))
    address, size = program.context.variable(program.module, "counter")
    assert (size, program.read(address, 4)) == (4, pack("I", 7 + 5 * 7 * 11 * 24))


@pytest.mark.parametrize(
    ("grid", "block", "code"),
    [
        ((0, 1, 1), (1, 1, 1), 9),
        ((1, 65536, 1), (1, 1, 1), 9),
        ((1 << 31, 1, 1), (1, 1, 1), 9),
        ((1, 1, 1), (1025, 1, 1), 9),
        ((1, 1, 1), (1, 1, 65), 9),
        ((1, 1, 1), (32, 33, 1), 9),
        ((1, 1, 1), (0, 1, 1), 9),
    ],
)
def test_shapes_beyond_the_limits(
    program: Program, grid: tuple[int, int, int], block: tuple[int, int, int], code: int
) -> None:
    error = refused(program, "nothing", grid=grid, block=block)
    assert (error.code, error.sticky) == (code, False)
    program.launch("nothing")


def test_parameters_must_have_the_signature_s_size(program: Program) -> None:
    for size in (0, 8, 11, 13, 16, 40_000):
        error = refused(program, "scale", bytes(size))
        assert error.code == 1
        assert f"scale: {size} bytes of parameters; it takes 12" in error.message


def test_launch_bounds(program: Program) -> None:
    program.launch("bounded", block=(8, 8, 1))
    assert "launch bound is 64" in refused(program, "bounded", block=65).message
    program.launch("exact", block=(8, 4, 1))
    assert "requires blocks of (8, 4, 1)" in refused(program, "exact", block=32).message


def test_dynamic_shared_memory_needs_the_attribute_beyond_48_kib(program: Program) -> None:
    at = program.allocate(4096)
    program.launch("reverse", pack("Q", at), block=64, shared=48 << 10)
    assert refused(program, "reverse", pack("Q", at), block=64, shared=(48 << 10) + 1).code == 1
    function = program.context.function(program.module, "reverse")
    program.context.set_function_attribute(function, 8, 99 << 10)
    program.launch("reverse", pack("Q", at), block=64, shared=99 << 10)
    assert refused(program, "reverse", pack("Q", at), block=64, shared=(99 << 10) + 1).code == 1
    program.context.set_function_attribute(function, 8, 1 << 30)
    assert refused(program, "reverse", pack("Q", at), block=64, shared=100 << 10).code == 1


def test_shapes_in_turn(program: Program) -> None:
    """A shape that was launched before is checked again when what it was checked against has changed."""
    data = np.arange(64 * 20, dtype=np.uint32)
    expected = data.reshape(20, 64)[:, ::-1]
    for blocks in (20, 3, 7) * 3:
        at = program.allocate(data.nbytes, data.tobytes())
        program.launch("reverse", pack("Q", at), grid=blocks, block=64, shared=256)
        assert program.read(at, 256 * blocks) == expected[:blocks].tobytes()
    function = program.context.function(program.module, "reverse")
    for limit, fits in ((100 << 10, True), (0, False), (100 << 10, True)):
        program.context.set_function_attribute(function, 8, limit)
        for blocks in (3, 7):
            if fits:
                program.launch("reverse", pack("Q", at), grid=blocks, block=64, shared=60 << 10)
            else:
                assert refused(program, "reverse", pack("Q", at), grid=blocks, block=64, shared=60 << 10).code == 1


def test_what_is_kept_of_many_shapes_is_bounded(program: Program) -> None:
    def kept() -> int:
        gc.collect()
        return sum(isinstance(each, prepared.Prepared) for each in gc.get_objects())

    before = kept()
    for blocks in range(1, launches.MOST_SHAPES * 3):
        program.launch("nothing", grid=blocks)
    assert kept() - before <= launches.MOST_SHAPES + 1


def test_a_launch_knows_from_when_on_it_writes_more_than_caches_hold(program: Program) -> None:
    data = np.arange(64 * 20, dtype=np.uint32)
    at = program.allocate(data.nbytes, data.tobytes())
    function = program.context.function(program.module, "reverse")
    for blocks in (20, 3):
        program.launch("reverse", pack("Q", at), grid=blocks, block=64, shared=256)
        assert function.prepared is not None
        assert function.prepared.launch.streamed == pool.least_bytes(64 * blocks)


def test_a_slow_compilation_says_so_while_it_runs(
    program: Program, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiling, "_SLOW_COMPILE_S", 0.05)
    compiled = jit.compile_kernel
    seen: list[str] = []

    def slow(*arguments: object) -> jit.CompiledKernel:
        eventually(lambda: bool(caplog.records))
        seen.extend(record.getMessage() for record in caplog.records)
        return compiled(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(jit, "compile_kernel", slow)
    monkeypatch.setattr(jit, "ready", lambda *_: None)
    with caplog.at_level(logging.INFO):
        program.launch("nothing", block=7)
        program.launch("nothing", block=7)
    assert seen == ["compiling kernel nothing for blocks of (7, 1, 1) ..."]
    assert len(caplog.records) == 2
    assert caplog.records[1].getMessage().startswith("compiled kernel nothing in ")


def test_ptx_that_cannot_be_compiled(program: Program) -> None:
    text = b".version 7.5\n.target sm_75\n.address_size 64\n.visible .entry broken() { .reg .u32 %r<2>; frobnicate.u32 %r1; ret; }\n"
    program.module = program.context.load_module(text)
    error = refused(program, "broken")
    assert error.code in (218, 801)
    assert not error.sticky
    assert "broken" in error.message
    assert "frobnicate" in error.message


def test_messages_name_a_kernel_as_its_source_does(program: Program) -> None:
    program.module = program.context.load_module(
        b""".version 7.5
.target sm_75
.address_size 64
.visible .entry _ZN4grid4stepIfEEvPT_i() { trap; ret; }
"""
    )
    program.context.function(program.module, "_ZN4grid4stepIfEEvPT_i")
    error = refused(program, "_ZN4grid4stepIfEEvPT_i", block=2048)
    assert error.message.startswith("kernel void grid::step<float>(float*, int): block (2048, 1, 1)")
    error = refused(program, "_ZN4grid4stepIfEEvPT_i")
    assert error.message.startswith("kernel void grid::step<float>(float*, int): trap; block (0, 0, 0)")


# Faults ---------------------------------------------------------------------------------------------------------
def test_out_of_bounds_write(program: Program) -> None:
    at = program.allocate(4096)
    error = refused(program, "poke", pack("QI", at + 4096, 70), grid=2, block=64)
    assert (error.code, error.sticky) == (700, True)
    for words in (
        "kernel poke: illegal write of 4 bytes",
        f"at {at + 4096:#x}",
        f"0 bytes behind the end of the nearest, the allocation of 4096 bytes at {at:#x}",
        "block (1, 0, 0), thread (6, 0, 0)",
    ):
        assert words in error.message


def test_out_of_bounds_read(program: Program) -> None:
    at = program.allocate(4096)
    error = refused(program, "peek", pack("QQ", at - 4, at))
    assert error.code == 700
    assert "illegal read of 4 bytes" in error.message
    assert "4 bytes before the nearest" in error.message


@pytest.mark.parametrize("address", [0, 8, 1 << 20, 0x7FFF_0000_0000, (1 << 64) - 4])
def test_null_and_wild_pointers(program: Program, address: int) -> None:
    error = refused(program, "poke", pack("QI", address, 0))
    assert error.code == 700
    if address < 16:
        assert "null pointer" in error.message


def test_beyond_shared_memory(program: Program) -> None:
    at = program.allocate(4096)
    error = refused(program, "reverse", pack("Q", at), block=64, shared=128)
    assert error.code == 700
    assert (
        "at byte 128 of shared memory, of which the block has 128; block (0, 0, 0), thread (32, 0, 0)" in error.message
    )


def test_misaligned(program: Program) -> None:
    at = program.allocate(4096)
    error = refused(program, "poke", pack("QI", at + 2, 0))
    assert (error.code, error.sticky) == (716, True)
    assert f"misaligned write of 4 bytes at {at + 2:#x}, 2 bytes inside the allocation" in error.message


def test_use_after_free(program: Program) -> None:
    at = program.allocate(4096)
    program.context.free(at)
    error = refused(program, "poke", pack("QI", at + 16, 0))
    assert error.code == 700
    assert f"16 bytes inside the freed allocation of 4096 bytes at {at:#x}" in error.message


def test_another_session_s_memory_is_out_of_reach(device: SimDevice, program: Program) -> None:
    other = Program(device)
    at = other.allocate(4096, b"secret..")
    assert refused(program, "poke", pack("QI", at, 0)).code == 700
    own = program.allocate(4096)
    assert refused(program, "peek", pack("QQ", at, own)).code == 700
    other.launch("poke", pack("QI", at + 8, 0))
    assert other.read(at, 16) == b"secret.." + pack("II", 1, 0)
    other.context.close()


def test_trap(program: Program) -> None:
    error = refused(program, "stop", grid=1000, block=64)
    assert (error.code, error.sticky) == (719, True)
    assert "kernel stop: trap" in error.message


def test_a_fault_ends_only_its_own_launch_and_a_reset_brings_the_session_back(
    device: SimDevice, program: Program
) -> None:
    other = Program(device)
    at = other.allocate(4096)
    assert refused(program, "poke", pack("QI", 0, 0)).sticky
    other.launch("poke", pack("QI", at, 0))
    assert other.read(at, 4) == pack("I", 1)
    other.context.close()
    program.context.reset()
    program.module = program.context.load_module(program.image)
    program.stream = program.context.default_stream(1)
    program.launch("count", grid=10, block=10)
    address, _ = program.context.variable(program.module, "counter")
    assert program.read(address, 4) == pack("I", 107)


# Threads --------------------------------------------------------------------------------------------------------
def test_the_same_bits_whatever_the_number_of_threads() -> None:
    results = set()
    for threads in (1, 2, 5, 8):
        device = SimDevice(threads=threads)
        for _ in range(3):
            program = Program(device)
            count = 100_000
            at = program.allocate(4 * count, np.linspace(0, 1, count, dtype=np.float32).tobytes())
            total = program.allocate(4)
            program.launch("scale", pack("QI", at, count), grid=1000, block=128)
            program.launch("harmonic", pack("Q", total), grid=500, block=96)
            results.add(program.read(at, 4 * count) + program.read(total, 4))
            program.context.close()
        device.close()
    assert len(results) == 1


def test_blocks_are_spread_over_the_threads() -> None:
    device = SimDevice(threads=2)
    program = Program(device)
    flag = program.allocate(4096)
    # Block 0 waits for the last block, so this ends only when two threads run blocks at once.
    watchdog = threading.Timer(20, program.context.interrupt)
    watchdog.start()
    program.launch("meet", pack("Q", flag), grid=64, block=64)
    watchdog.cancel()
    program.context.close()
    device.close()


def test_a_kernel_that_spins_does_not_hold_up_other_sessions(device: SimDevice, program: Program) -> None:
    flag = program.allocate(4096)

    def spin() -> None:
        with suppress(CudaError):
            program.launch("spin", pack("Q", flag), grid=64, block=128)

    spinning = threading.Thread(target=spin)
    spinning.start()
    other = Program(device)
    at = other.allocate(4 * 300_000)
    other.launch("scale", pack("QI", at, 300_000), grid=3000, block=128)
    assert spinning.is_alive()
    program.context.interrupt()
    spinning.join(10)
    assert not spinning.is_alive()
    other.context.close()


def test_interrupt_ends_a_kernel_that_never_would(program: Program) -> None:
    flag = program.allocate(4096)
    caught: list[CudaError] = []

    def run() -> None:
        try:
            program.launch("spin", pack("Q", flag), grid=64, block=128)
        except CudaError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: program.context._launcher._running is not None)
    program.context.interrupt()
    thread.join(60)
    assert not thread.is_alive()
    assert (caught[0].code, caught[0].sticky) == (719, True)
    assert refused(program, "nothing").sticky
    program.context.reset()
    program.module = program.context.load_module(program.image)
    program.stream = program.context.default_stream(1)
    assert refused(program, "nothing").sticky


def test_closing_from_another_thread_ends_a_running_kernel_first(device: SimDevice) -> None:
    program = Program(device)
    flag = program.allocate(4096)
    caught: list[int] = []

    def run() -> None:
        try:
            program.launch("spin", pack("Q", flag), grid=64, block=128)
        except CudaError as error:
            caught.append(error.code)

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: program.context._launcher._running is not None)
    program.context.close()
    thread.join(60)
    assert caught == [719]


def test_sessions_launch_at_the_same_time(device: SimDevice) -> None:
    failures: list[str] = []

    def session(number: int) -> None:
        program = Program(device)
        data = np.full(50_000, number, np.float32)
        at = program.allocate(data.nbytes, data.tobytes())
        for _ in range(20):
            program.launch("scale", pack("QI", at, 50_000), grid=391, block=128)
            program.launch("count", grid=40, block=128)
        address, _ = program.context.variable(program.module, "counter")
        for _ in range(20):
            data *= np.resize(FACTORS, 50_000)
        if program.read(at, data.nbytes) != data.tobytes():
            failures.append(f"session {number}: data")
        if struct.unpack("<I", program.read(address, 4)) != (7 + 20 * 40 * 128,):
            failures.append(f"session {number}: counter")
        program.context.close()

    threads = [threading.Thread(target=session, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_device_time_counts_kernels_and_copies(program: Program) -> None:
    before = program.context.device_nanoseconds
    at = program.allocate(1 << 22, bytes(1 << 22))
    copied = program.context.device_nanoseconds
    assert copied > before
    function = program.context.function(program.module, "scale")
    started = time.monotonic_ns()
    program.context.launch(
        function, LaunchShape((8192, 1, 1), (128, 1, 1), 0), memoryview(pack("QI", at, 1 << 20)), program.stream
    )
    assert copied < program.context.device_nanoseconds <= copied + time.monotonic_ns() - started


def test_a_loop_takes_over_what_a_launch_was_checked_for(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step has a launch of its own, made from the last plain one, whatever has become of that."""
    data = np.arange(300, dtype=np.float32)
    at = [program.allocate(4 * 300, data.tobytes()) for _ in range(2)]
    function = program.context.function(program.module, "scale")
    shape = LaunchShape((3, 1, 1), (128, 1, 1), 0)
    program.context.launch(function, shape, memoryview(pack("QI", at[0], 300)), program.stream)
    function.prepared.launch.abort = 1
    checked: list[LaunchShape] = []
    monkeypatch.setattr(admission.Admission, "check", lambda _, __, shape: checked.append(shape))
    same = LaunchShape((3, 1, 1), (128, 1, 1), 0)
    steps = [Step(Kind.LAUNCH, pack("QI", address, 300), function=function, shape=same) for address in at]
    columns, results = np.empty((0, 2), np.uint64), np.empty((2, 0), np.uint8)
    assert program.context.repeat(Body(tuple(steps)), columns, results) == Stop(2)
    factors = np.resize(FACTORS, 300)
    assert program.read(at[0], 1200) == (data * factors * factors * factors).tobytes()
    assert program.read(at[1], 1200) == (data * factors * factors).tobytes()
    assert checked == []
    program.context.repeat(Body((steps[0]._replace(shape=LaunchShape((4, 1, 1), (128, 1, 1), 0)),)), columns, results)
    assert len(checked) == 1, "another shape"
