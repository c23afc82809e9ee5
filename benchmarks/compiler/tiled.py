"""Register-tiled matrix products on the simulated device, beside NumPy's OpenBLAS and a plain 16x16 tiled kernel.

The kernels (kernels/tiled.cu) have the shape of fast libraries' ones for GPUs: each thread keeps 8x8 results in
registers, tiles go through shared memory by plain copies, with a check at every access, with two buffers, or by
cp.async. All in one run, rounds of all interleaved, medians; every result is compared with NumPy's.

    python benchmarks/compiler/tiled.py [--side N] [--rounds N] [--threads N] [--only NAME,...] [--processor] [--goal RATIO]

On a machine that others use as well: --processor --threads 1, which takes processor time and the least of the rounds.
With --goal the exit status tells whether every tiled kernel takes at most that many times OpenBLAS's time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent / "kernels"
TILED, SIDE = ("tile_scalar", "tile_edges", "tile_double", "tile_async"), 128  # of tiled.cu
PLAIN, BLAS = "matmul_tiled", "OpenBLAS"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=1024, help="of the matrices, a multiple of 128")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--only", help="tiled kernels whose name contains one of these, separated by commas")
    parser.add_argument("--processor", action="store_true", help="processor time, the least of the rounds")
    parser.add_argument("--goal", type=float, help="the most that a tiled kernel may take, in times of OpenBLAS's")
    options = parser.parse_args()
    if options.side % SIDE or options.side < SIDE:
        parser.error(f"--side has to be a multiple of {SIDE}")
    os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)  # read when NumPy is imported

    import numpy as np
    from farlane.roundtrips.text import Table
    from kernels.runners import Numpy, Runner, Simulated, ptx
    from kernels.suite import Case, Step, matmul_of

    wanted = options.only.split(",") if options.only else [""]
    names = [name for name in TILED if any(part in name for part in wanted)]
    if not names:
        sys.exit(f"no tiled kernel's name contains {options.only}")

    def case(kernel: str, block: tuple[int, int, int], tile: int) -> Case:
        side = options.side // tile
        made = matmul_of(kernel, options.side)
        made.steps = [Step(kernel, (side, side, 1), block, ("c", "a", "b", options.side))]
        return made

    tiled = ptx((FOLDER / "tiled.cu").read_text(), "compute_80")
    runners: dict[str, Runner] = {BLAS: Numpy(matmul_of(BLAS, options.side))}
    runners[PLAIN] = Simulated(case(PLAIN, (16, 16, 1), 16), ptx(), options.threads)
    for name in names:
        runners[name] = Simulated(case(name, (256, 1, 1), SIDE), tiled, options.threads)

    clock, typical = (time.process_time, min) if options.processor else (time.perf_counter, statistics.median)
    times: dict[str, list[float]] = {name: [] for name in runners}
    for number in range(options.rounds + 1):
        for name, runner in runners.items():
            started = clock()
            runner.run()
            if number:  # the first round compiles
                times[name].append(clock() - started)
            elif name != BLAS:
                expected = runners[BLAS].result("c")
                apart = float(np.max(np.abs(runner.result("c") - expected)) / np.max(np.abs(expected)))
                if not apart < 1e-4:
                    sys.exit(f"{name} differs from {BLAS} by {apart:.2g}")
    seconds = {name: typical(values) for name, values in times.items()}
    title = f"Products of matrices of {options.side}, {options.threads} threads, " + (
        "processor time (least)" if options.processor else "medians"
    )
    table = Table(
        title,
        ["kernel", "ms", "GFLOP/s", f"/ {BLAS}", f"/ {PLAIN}"],
        "/ ...: time over the other's; below 1 it is faster.",
    )
    for name, value in seconds.items():
        rate = 2e-9 * options.side**3 / value
        ratios = [f"{value / seconds[other]:.2f}" for other in (BLAS, PLAIN)]
        table.rows.append([name, f"{1000 * value:.1f}", f"{rate:.1f}", *ratios])
    print(table.text())
    for runner in runners.values():
        runner.close()
    worst = max(names, key=seconds.__getitem__)
    if options.goal is not None and seconds[worst] > options.goal * seconds[BLAS]:
        sys.exit(f"{worst} takes {seconds[worst] / seconds[BLAS]:.1f} times {BLAS}'s time (goal {options.goal:g})")


if __name__ == "__main__":
    main()
