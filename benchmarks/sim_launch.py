"""The simulated device alone: what a launch costs beside the kernel, and copies beside memcpy.

No guest, no wire, no session: the calls are those the replay makes. Ratios compare with memcpy of the same size between two buffers
of this process, in the same run.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import time
from collections.abc import Callable

from farlane.backend.device.base import LEGACY_STREAM, Context, LaunchShape, Rows
from farlane.backend.device.sim import SimDevice
from farlane.backend.device.sim.runtime import prepared

PTX = b"""
.version 7.5
.target sm_75
.address_size 64
.visible .entry nothing() { ret; }
.visible .entry four(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) { ret; }
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<11>;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [c];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd4, %rd1;
    cvta.to.global.u64 %rd5, %rd2;
    cvta.to.global.u64 %rd6, %rd3;
    mul.wide.s32 %rd7, %r5, 4;
    add.s64 %rd8, %rd4, %rd7;
    add.s64 %rd9, %rd5, %rd7;
    add.s64 %rd10, %rd6, %rd7;
    ld.global.f32 %f1, [%rd8];
    ld.global.f32 %f2, [%rd9];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd10], %f3;
DONE:
    ret;
}
"""
ONE = (1, 1, 1)


def median_us(call: Callable[[], object], rounds: int, repeat: int = 7) -> float:
    """The median over `repeat` batches of the mean time of one call."""
    call()
    batches = []
    for _ in range(repeat):
        started = time.perf_counter()
        for _ in range(rounds):
            call()
        batches.append((time.perf_counter() - started) / rounds * 1e6)
    return statistics.median(batches)


def launches(context: Context) -> None:
    module, stream = context.load_module(PTX), context.default_stream(LEGACY_STREAM)
    print("launch, us each:")
    cases = [
        ("nothing, 1 block of 1 thread", "nothing", LaunchShape(ONE, ONE, 0), b""),
        ("four parameters, 1 block of 1 thread", "four", LaunchShape(ONE, ONE, 0), bytes(28)),
        ("nothing, 16 blocks of 128 threads", "nothing", LaunchShape((16, 1, 1), (128, 1, 1), 0), b""),
        ("nothing, 1024 blocks of 128 threads", "nothing", LaunchShape((1024, 1, 1), (128, 1, 1), 0), b""),
    ]
    for title, name, shape, parameters in cases:
        function, view = context.function(module, name), memoryview(parameters)
        print(
            f"  {title:40} {median_us(lambda f=function, s=shape, v=view: context.launch(f, s, v, stream), 500):8.1f}"
        )


def helpers(context: Context) -> None:
    """The rule about which launches ask for helpers (prepared.py), beside asking them for every grid of 4096 threads and more."""
    module, stream = context.load_module(PTX), context.default_stream(LEGACY_STREAM)
    base, function, rule = context.window.base, context.function(module, "add"), prepared.ALONE_NS
    print("vector adds, us each, by rule and always with helpers:")
    for count in (4096, 16384, 65536, 262144, 1 << 20):
        context.allocate(base, 12 * count)
        parameters = memoryview(
            b"".join((base + i * 4 * count).to_bytes(8, "little") for i in range(3)) + count.to_bytes(4, "little")
        )
        shape = LaunchShape((count // 256, 1, 1), (256, 1, 1), 0)
        timed: dict[int, list[float]] = {rule: [], -1: []}
        for _ in range(5):
            for limit, found in timed.items():
                prepared.ALONE_NS = limit
                found.append(median_us(lambda s=shape, v=parameters: context.launch(function, s, v, stream), 50, 3))
        prepared.ALONE_NS = rule
        ours, always = (statistics.median(found) for found in timed.values())
        print(f"  {count:8} threads: {ours:8.1f} {always:8.1f}  ratio {ours / always:.2f}")
        context.free(base)


def vector_add(context: Context, count: int) -> None:
    module, stream = context.load_module(PTX), context.default_stream(LEGACY_STREAM)
    base, size = context.window.base, 4 * count
    for index in range(3):
        context.allocate(base + index * size, size)
        context.set(Rows(base + index * size, size, size, 1), 0x3F800000, 4, stream)
    parameters = memoryview(
        b"".join((base + i * size).to_bytes(8, "little") for i in range(3)) + count.to_bytes(4, "little")
    )
    function, shape = context.function(module, "add"), LaunchShape((-(-count // 256), 1, 1), (256, 1, 1), 0)
    kernel = median_us(lambda: context.launch(function, shape, parameters, stream), 3)
    source, target = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
    copy = median_us(lambda: ctypes.memmove(target, source, size), 3)
    print(f"vector add of {count} floats: {kernel:.0f} us, {kernel / copy:.2f} times memcpy of one of its arrays")
    for index in range(3):
        context.free(base + index * size)


def copies(context: Context) -> None:
    stream = context.default_stream(LEGACY_STREAM)
    print("copies, ratio to memcpy of the same size:")
    for size in (64 << 10, 1 << 20, 64 << 20):
        base = context.window.base
        context.allocate(base, 2 * size)
        data, target = bytearray(os.urandom(size)), ctypes.create_string_buffer(size)
        source = (ctypes.c_char * size).from_buffer(data)
        view, rows, second = memoryview(data), Rows(base, size, size, 1), Rows(base + size, size, size, 1)
        sink = memoryview(bytearray(size))

        def read(rows: Rows = rows, sink: memoryview = sink) -> None:
            at = 0
            for piece in context.read(rows, stream):
                sink[at : at + len(piece)] = piece
                at += len(piece)

        rounds = max(3, (16 << 20) // size)
        memcpy = median_us(lambda t=target, s=source, n=size: ctypes.memmove(t, s, n), rounds)
        timed = {
            "write": median_us(lambda r=rows, v=view: context.write(r, v, stream), rounds),
            "read": median_us(read, rounds),
            "copy": median_us(lambda d=second, s=rows: context.copy(d, s, stream), rounds),
            "set": median_us(lambda r=rows: context.set(r, 1, 1, stream), rounds),
        }
        ratios = "  ".join(f"{name} {us / memcpy:5.2f}" for name, us in timed.items())
        print(f"  {size >> 10:6} KiB: memcpy {memcpy:8.1f} us;  {ratios}")
        context.free(base)


def allocations(context: Context) -> None:
    base = context.window.base
    for size in (256, 4096, 2 << 20):

        def both(size: int = size) -> None:
            context.allocate(base, size)
            context.free(base)

        print(f"allocate and free {size:8} bytes: {median_us(both, 500):6.1f} us")


def main() -> None:
    device = SimDevice()
    context = device.open_context(1 << 30)
    print(f"device: {device.describe().name}")
    launches(context)
    helpers(context)
    vector_add(context, 1 << 24)
    copies(context)
    allocations(context)
    context.close()
    device.close()


if __name__ == "__main__":
    main()
