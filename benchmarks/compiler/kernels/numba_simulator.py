"""Numba's CUDA simulator as a rival: seconds per unit of work of some kernels, at sizes it can do. Prints JSON.

Run as a script, with NUMBA_ENABLE_CUDASIM=1 (which must be set before Numba is imported).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda, float32


@cuda.jit
def saxpy(y, x, a, n):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < n:
        y[i] = a * x[i] + y[i]


@cuda.jit
def matmul(c, a, b, n):  # type: ignore[no-untyped-def]
    column, row = cuda.grid(2)
    if column < n and row < n:
        total = float32(0)
        for k in range(n):
            total += a[row, k] * b[k, column]
        c[row, column] = total


@cuda.jit
def reduction(sums, values, n):  # type: ignore[no-untyped-def]
    partial = cuda.shared.array(256, float32)
    thread = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        total += values[i]
    partial[thread] = total
    cuda.syncthreads()
    half = 128
    while half > 0:
        if thread < half:
            partial[thread] += partial[thread + half]
        cuda.syncthreads()
        half //= 2
    if thread == 0:
        sums[cuda.blockIdx.x] = partial[0]


@cuda.jit
def stencil(to, source, width, height):  # type: ignore[no-untyped-def]
    x, y = cuda.grid(2)
    if 0 < x < width - 1 and 0 < y < height - 1:
        around = source[y, x - 1] + source[y, x + 1] + source[y - 1, x] + source[y + 1, x]
        to[y, x] = 0.5 * source[y, x] + 0.125 * around


@cuda.jit
def gather(out, table, index, n):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < n:
        out[i] = table[index[i]]


def cases() -> dict[str, tuple[int, Callable[[], object]]]:
    """By the name of the case in suite.py: units of work, and what does them."""
    one = np.ones(4096, np.float32)
    square = np.ones((32, 32), np.float32)
    index = np.random.default_rng(1).integers(0, 4096, 4096)
    launch: Any = saxpy, matmul, reduction, stencil, gather
    return {
        "saxpy": (4096, lambda: launch[0][16, 256](one.copy(), one, 2.0, 4096)),
        "matmul naive 1024": (32**3, lambda: launch[1][(2, 2), (16, 16)](square.copy(), square, square, 32)),
        "reduction": (4096, lambda: launch[2][2, 256](np.zeros(2, np.float32), one, 4096)),
        "5-point stencil": (1024, lambda: launch[3][(1, 4), (32, 8)](square.copy(), square, 32, 32)),
        "random gather": (4096, lambda: launch[4][16, 256](one.copy(), one, index, 4096)),
    }


def main() -> None:
    seconds = {}
    for name, (work, run) in cases().items():
        run()
        times = []
        for _ in range(3):
            started = time.perf_counter()
            run()
            times.append(time.perf_counter() - started)
        seconds[name] = sorted(times)[1] / work
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
