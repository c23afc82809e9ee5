"""NVIDIA's libraries, CuPy and Numba on the simulated device, beside NumPy, SciPy and Numba on the processor, in one process.

Runs as a guest of the embedded simulated device; each pair in turns, medians, after runs enough for kernels to be compiled in
full (backend/jit/compile/tiers.py). Two threads on either side. Goals, times of the processor's: cuBLAS sgemm 6, cuFFT 4, CuPy's
x*y+z 1, a Numba kernel 2.

    python benchmarks/guests/arrays.py [--rounds N] [--only NAME,...]

Needs the guests' environment (`make test-guests` makes it).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from _environment import FARLANE_RUN, INTEROP, PYTHON

THREADS = "2"
WARM_S = 12.0  # code of tier 2 of the largest kernels is there by then
PAUSE_S = 0.1  # threads of OpenBLAS and of Numba look for more work for some 25 ms, on the other side's processors

Pair = tuple[str, float, Callable[[], Any], Callable[[], Any]]


def pairs() -> Iterator[Pair]:
    """What is compared: its name, the goal, and the two sides."""
    import cupy
    import numba
    import numpy
    import scipy.fft
    from numba import cuda

    random = numpy.random.default_rng(1)
    a, b = (random.random((1024, 1024), dtype=numpy.float32) for _ in range(2))
    on_a, on_b = cupy.asarray(a), cupy.asarray(b)
    yield "cuBLAS sgemm 1024", 6, lambda: on_a @ on_b, lambda: a @ b
    signal = (random.random(1 << 20) + 1j * random.random(1 << 20)).astype(numpy.complex64)
    on_signal = cupy.asarray(signal)
    yield "cuFFT 2^20", 4, lambda: cupy.fft.fft(on_signal), lambda: scipy.fft.fft(signal)
    x, y, z = (random.random(1 << 24, dtype=numpy.float32) for _ in range(3))
    on_x, on_y, on_z = (cupy.asarray(part) for part in (x, y, z))
    yield "CuPy x*y+z 2^24", 1, lambda: on_x * on_y + on_z, lambda: x * y + z

    @cuda.jit
    def kernel(out: Any, values: Any) -> None:
        i = cuda.grid(1)
        if i < out.size:
            total = 0.0
            for step in range(32):
                total = total * values[i] + step
            out[i] = total

    @numba.njit(parallel=True)
    def loop(out: Any, values: Any) -> None:
        for i in numba.prange(out.size):
            total = 0.0
            for step in range(32):
                total = total * values[i] + step
            out[i] = total

    values = random.random(1 << 20)
    out, there = numpy.empty_like(values), cuda.to_device(values)
    result = cuda.device_array_like(values)

    def launch() -> None:
        kernel[(1 << 20) // 256, 256](result, there)
        cuda.synchronize()

    yield "Numba kernel 2^20", 2, launch, lambda: loop(out, values)


def inside(rounds: int, wanted: list[str]) -> None:
    """The measurements, in the guest."""
    import cupy

    def timed(call: Callable[[], Any]) -> float:
        time.sleep(PAUSE_S)
        call()  # wakes its threads up
        cupy.cuda.runtime.deviceSynchronize()
        start = time.perf_counter()
        call()
        cupy.cuda.runtime.deviceSynchronize()
        return time.perf_counter() - start

    for name, goal, device, processor in pairs():
        if not any(part in name for part in wanted):
            continue
        end = time.perf_counter() + WARM_S
        while time.perf_counter() < end:
            timed(device)
        times = [(timed(device), timed(processor)) for _ in range(rounds)]
        ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
        verdict = "met" if ours / theirs <= goal else "missed"
        print(
            f"{name}: {ours * 1e3:.2f} ms, processor {theirs * 1e3:.2f} ms: {ours / theirs:.1f} times (goal {goal}: {verdict})",
            flush=True,
        )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="those whose name contains one of these, separated by commas")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options.rounds, options.only.split(","))
        return
    if not PYTHON.exists():
        raise SystemExit("the guests' environment is not there: make test-guests makes it")
    threads = {"OPENBLAS_NUM_THREADS": THREADS, "NUMBA_NUM_THREADS": THREADS}
    command = [*FARLANE_RUN, "--", str(PYTHON), "-W", "ignore", __file__, "--inside", *sys.argv[1:]]
    environment = os.environ | threads | INTEROP
    raise SystemExit(subprocess.run(command, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
