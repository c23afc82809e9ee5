"""Numba, unchanged: kernels, shared memory, atomics, reductions, ufuncs, random numbers, streams, events, pinned and managed memory."""

from __future__ import annotations

import math
import warnings

import numpy as np
from numba import cuda, float32, guvectorize, int32, vectorize
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

warnings.simplefilter("ignore")
THREADS = 128


@cuda.jit
def axpy(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@cuda.jit
def transpose(source, out):
    tile = cuda.shared.array((16, 17), dtype=float32)
    x, y = cuda.grid(2)
    if x < source.shape[1] and y < source.shape[0]:
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = source[y, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * 16 + cuda.threadIdx.x
    y = cuda.blockIdx.x * 16 + cuda.threadIdx.y
    if x < out.shape[1] and y < out.shape[0]:
        out[y, x] = tile[cuda.threadIdx.x, cuda.threadIdx.y]


@cuda.jit
def histogram(values, bins):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(bins, values[i], 1)


@cuda.reduce
def total(a, b):
    return a + b


@vectorize(["float64(float64, float64)"], target="cuda")
def hypotenuse(a, b):
    return math.sqrt(a * a + b * b)


@guvectorize(["(float64[:], float64[:])"], "(n)->(n)", target="cuda")
def running_sum(values, out):
    sum_ = 0.0
    for i in range(values.shape[0]):
        sum_ += values[i]
        out[i] = sum_


@cuda.jit
def throw(states, inside):
    i = cuda.grid(1)
    x = xoroshiro128p_uniform_float32(states, i)
    y = xoroshiro128p_uniform_float32(states, i)
    inside[i] = x * x + y * y <= 1


@cuda.jit
def printed(n):
    i = cuda.grid(1)
    if i < n:
        print("thread", i)


def blocks(count: int) -> int:
    return (count + THREADS - 1) // THREADS


def main() -> None:
    random = np.random.default_rng(1)
    x, y = (random.random(10_000, dtype=np.float32) for _ in range(2))
    out = np.zeros_like(x)
    axpy[blocks(x.size), THREADS](np.float32(2), x, y, out)
    np.testing.assert_allclose(out, 2 * x + y, rtol=1e-6)
    print("host arrays")

    device_x, device_y, device_out = cuda.to_device(x), cuda.to_device(y), cuda.device_array_like(x)
    for _ in range(100):
        axpy[blocks(x.size), THREADS](np.float32(3), device_x, device_y, device_out)
    np.testing.assert_allclose(device_out.copy_to_host(), 3 * x + y, rtol=1e-6)
    np.testing.assert_allclose(device_out[100:200:3].copy_to_host(), (3 * x + y)[100:200:3], rtol=1e-6)
    print("device arrays")

    source = random.random((70, 45), dtype=np.float32)
    turned = np.zeros((45, 70), dtype=np.float32)
    transpose[(3, 5), (16, 16)](source, turned)
    assert (turned == source.T).all()
    print("shared memory")

    values = random.integers(0, 16, 20_000, dtype=np.int32)
    bins = np.zeros(16, dtype=np.int32)
    histogram[blocks(values.size), THREADS](values, bins)
    assert (bins == np.bincount(values, minlength=16)).all()
    print("atomics")

    assert total(np.arange(5_000, dtype=np.int64)) == 5_000 * 4_999 // 2
    np.testing.assert_allclose(hypotenuse(x.astype(np.float64), y.astype(np.float64)), np.hypot(x, y), rtol=1e-7)
    rows = random.random((8, 50))
    np.testing.assert_allclose(running_sum(rows), np.cumsum(rows, axis=1), rtol=1e-12)
    print("reductions and ufuncs")

    states = create_xoroshiro128p_states(THREADS * 64, seed=7)
    inside = cuda.device_array(THREADS * 64, dtype=np.bool_)
    throw[64, THREADS](states, inside)
    assert abs(4 * inside.copy_to_host().mean() - math.pi) < 0.1
    print("random numbers")

    stream, start, end = cuda.stream(), cuda.event(), cuda.event()
    pinned, mapped = cuda.pinned_array(1_000, dtype=np.float32), cuda.mapped_array(1_000, dtype=np.float32)
    pinned[:], mapped[:] = np.arange(1_000), 0
    start.record(stream)
    there = cuda.to_device(pinned, stream=stream)
    axpy[blocks(1_000), THREADS, stream](np.float32(1), there, there, mapped)
    end.record(stream)
    stream.synchronize()
    assert (mapped == 2 * np.arange(1_000)).all()
    assert cuda.event_elapsed_time(start, end) >= 0
    managed = cuda.managed_array(500, dtype=np.float32)
    managed[:] = 1
    axpy[blocks(500), THREADS](np.float32(4), managed, managed, managed)
    cuda.synchronize()
    assert (managed == 5).all()
    print("streams, pinned, mapped, managed")

    printed[1, 2](2)
    cuda.synchronize()
    signature = (int32[::1], int32[::1])
    histogram.compile(signature)
    assert ".visible .entry" in histogram.inspect_asm(signature)
    print("PASS")


main()
