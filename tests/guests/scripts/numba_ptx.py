"""Kernels of the kinds that Numba programs have, compiled to PTX by Numba; no device is needed.

`numba_ptx.py FOLDER` writes a file for each; `make test` runs these (tests/unit/sim/test_numba_kernels.py), which has no Numba.
`numba_ptx.py --check FOLDER` fails where a file is not what Numba gives now.
"""

import math
import operator
import re
import sys
from pathlib import Path

from numba import complex64, cuda, float32, float64, int32, int64, types, uint32, void

ROW = types.Array(float32, 1, "C")
MATRIX = types.Array(float32, 2, "C")
INTEGERS = types.Array(int32, 1, "C")


def axpy(factor, x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = factor * x[i] + y[i]


def transpose(source, target):
    tile = cuda.shared.array((16, 17), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row, column = cuda.blockIdx.y * 16 + y, cuda.blockIdx.x * 16 + x
    if row < source.shape[0] and column < source.shape[1]:
        tile[y, x] = source[row, column]
    cuda.syncthreads()
    row, column = cuda.blockIdx.x * 16 + y, cuda.blockIdx.y * 16 + x
    if row < target.shape[0] and column < target.shape[1]:
        target[row, column] = tile[x, y]


def histogram(values, bins):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(bins, values[i] % bins.size, 1)


def extremes(values, found):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.max(found, 0, values[i])
        cuda.atomic.min(found, 1, values[i])


def block_sum(values, sums):
    shared = cuda.shared.array(128, float32)
    thread = cuda.threadIdx.x
    shared[thread] = values[cuda.grid(1)]
    step = 64
    while step:
        cuda.syncthreads()
        if thread < step:
            shared[thread] += shared[thread + step]
        step //= 2
    if thread == 0:
        sums[cuda.blockIdx.x] = shared[0]


def warp_sum(values, sums):
    value = values[cuda.grid(1)]
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
    if cuda.laneid == 0:
        sums[cuda.grid(1) // 32] = value


def votes(values, counts):
    vote = cuda.ballot_sync(0xFFFFFFFF, values[cuda.grid(1)] > 0)
    if cuda.laneid == 0:
        counts[cuda.grid(1) // 32] = cuda.popc(vote)


def roots(values):
    i = cuda.grid(1)
    if i < values.size:
        x = values[i]
        values[i] = math.sqrt(abs(x)) + math.floor(x) + max(x, 0.5) / (1 + x * x)


def rotate(values, factor):
    i = cuda.grid(1)
    if i < values.size:
        values[i] = values[i] * factor


def mandelbrot(counts):
    column, row = cuda.grid(2)
    if row < counts.shape[0] and column < counts.shape[1]:
        c = complex(column * 3.0 / counts.shape[1] - 2.0, row * 2.0 / counts.shape[0] - 1.0)
        z, count = c, 0
        while count < 50 and z.real * z.real + z.imag * z.imag < 4:
            z = z * z + c
            count += 1
        counts[row, column] = count


def medians(values, found):
    """Of five neighbours, sorted in local memory."""
    i = cuda.grid(1)
    if 2 <= i < values.size - 2:
        window = cuda.local.array(5, float32)
        for k in range(5):
            window[k] = values[i - 2 + k]
        for k in range(1, 5):
            value, place = window[k], k
            while place > 0 and window[place - 1] > value:
                window[place] = window[place - 1]
                place -= 1
            window[place] = value
        found[i] = window[2]


def divide(values, divisors, quotients, remainders):
    """Python's division rounds down."""
    i = cuda.grid(1)
    if i < values.size:
        quotients[i] = values[i] // divisors[i]
        remainders[i] = operator.mod(values[i], divisors[i])


KERNELS = {
    axpy: (float32, ROW, ROW),
    transpose: (MATRIX, MATRIX),
    histogram: (INTEGERS, INTEGERS),
    extremes: (types.Array(float64, 1, "C"), types.Array(float64, 1, "C")),
    block_sum: (ROW, ROW),
    warp_sum: (ROW, ROW),
    votes: (INTEGERS, types.Array(uint32, 1, "C")),
    roots: (types.Array(float64, 1, "C"),),
    rotate: (types.Array(complex64, 1, "C"), complex64),
    mandelbrot: (types.Array(int32, 2, "C"),),
    medians: (ROW, ROW),
    divide: tuple(types.Array(int64, 1, "C") for _ in range(4)),
}


def compiled(kernel, signature):
    """The kernel's PTX under its own name, without the comments, which name the compiler's build."""
    text, _ = cuda.compile_ptx(kernel, void(*signature), device=False, cc=(9, 0))
    mangled, short = re.search(r"\.entry (\w+)", text)[1], kernel.__name__
    text = text.replace(mangled, short).replace(mangled.removeprefix("_ZN"), short)
    return "\n".join(line for line in text.splitlines() if line and not line.lstrip().startswith("//")) + "\n"


def main():
    folder = Path(sys.argv[-1])
    for kernel, signature in KERNELS.items():
        path, text = folder / f"{kernel.__name__}.ptx", compiled(kernel, signature)
        if "--check" not in sys.argv:
            path.write_text(text)
        elif path.read_text() != text:
            sys.exit(f"{path} is not what Numba gives")


if __name__ == "__main__":
    main()
