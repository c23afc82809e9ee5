"""Kernels on the simulated device beside what a user would run instead: C loops, numpy, PoCL, Numba's CUDA simulator.

Everything in one run, rounds of all runners interleaved, medians. The device is used without a guest, and translates every
access. Goals: geometric mean at most 0.7 of gcc's time (best of plain and OpenMP, same number of threads), none above 1.5;
at least PoCL's speed in geometric mean; 1000 times Numba's simulator, per unit of work, since that one can only do small sizes.

    python benchmarks/compiler/jit.py [--rounds N] [--threads N] [--scale N] [--only NAME,...] [--markdown FILE] [--processor]

On a machine that others use as well: --processor --threads 1, which takes processor time and the least of the rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from farlane.roundtrips.text import Table
from kernels.runners import FOLDER, Library, Loops, Numpy, Runner, Simulated, ptx
from kernels.suite import CASES, Case

PAUSE_S = 0.02  # before each run: libgomp's threads spin for milliseconds behind theirs, on the processor that the next runner's need
GOAL_MEAN, GOAL_WORST, GOAL_NUMBA = 0.7, 1.5, 1000


@dataclass
class Times:
    """Seconds of one case by runner: medians over the rounds."""

    case: Case
    seconds: dict[str, float] = field(default_factory=dict)


def difference(case: Case, one: Runner, other: Runner) -> float:
    """The largest difference of two runners' outputs, relative to the largest value."""
    worst = 0.0
    for name in case.outputs:
        a, b = one.result(name).astype(np.float64), other.result(name).astype(np.float64)
        apart = float(np.quantile(np.abs(a - b), 1 - case.differing))
        worst = max(worst, apart / max(float(np.max(np.abs(b))), 1e-30))
    return worst


def measure(case: Case, runners: Sequence[Runner], rounds: int, processor: bool) -> Times:
    """Times the runners in turn, and compares their results with the first one's.

    Args:
        processor: the least processor time of the rounds, in place of the median of wall time.

    Raises:
        SystemExit: a result differs.
    """
    clock, typical = (time.process_time, min) if processor else (time.perf_counter, statistics.median)
    times: dict[str, list[float]] = {runner.name: [] for runner in runners}
    for number in range(rounds + 1):
        for runner in runners:
            runner.reset()
            time.sleep(PAUSE_S)
            started = clock()
            runner.run()
            if number:  # the first round compiles, and maps memory
                times[runner.name].append(clock() - started)
        if not number:
            for runner in runners[1:]:
                if (found := difference(case, runner, runners[0])) > case.tolerance:
                    sys.exit(f"{case.name}: {runner.name} differs from {runners[0].name} by {found:.2g}")
    return Times(case, {name: typical(values) for name, values in times.items()})


def mean(ratios: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def numba_seconds() -> dict[str, float]:
    """Seconds per unit of work of Numba's simulator, by case."""
    environment = dict(os.environ, NUMBA_ENABLE_CUDASIM="1")
    script = FOLDER / "numba_simulator.py"
    done = subprocess.run([sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def table(all_times: Sequence[Times], ours: str, alone: str, title: str) -> Table:
    """Milliseconds, and ratios below 1 where the simulated device is faster."""
    names = list(dict.fromkeys(name for times in all_times for name in times.seconds))
    result = Table(
        title,
        ["kernel", *names, "sim / best gcc", "sim / numpy", "sim / PoCL", "threads' gain"],
        f"sim / ...: time on the simulated device ({ours}) over the other's; below 1 it is faster.",
    )
    for times in all_times:
        mine = times.seconds[ours]
        gcc = min(times.seconds[name] for name in ("gcc", "gcc, OpenMP"))
        ratios = [mine / gcc, *(mine / times.seconds.get(name, math.nan) for name in ("numpy", "PoCL"))]
        result.rows.append(
            [
                times.case.name,
                *(f"{1000 * times.seconds[name]:.2f}" if name in times.seconds else "-" for name in names),
                *("-" if math.isnan(ratio) else f"{ratio:.2f}" for ratio in ratios),
                f"{times.seconds[alone] / mine:.2f}",
            ]
        )
    return result


def summary(all_times: Sequence[Times], ours: str, numba: dict[str, float]) -> list[str]:
    """The goals, and whether they are met."""

    def verdict(met: bool) -> str:
        return "met" if met else "missed"

    over = {t.case.name: t.seconds[ours] / min(t.seconds["gcc"], t.seconds["gcc, OpenMP"]) for t in all_times}
    worst = max(over, key=over.__getitem__)
    average = mean(list(over.values()))
    lines = [
        f"geometric mean of sim / best gcc: {average:.2f} (goal {GOAL_MEAN}: {verdict(average <= GOAL_MEAN)})",
        f"worst: {worst} {over[worst]:.2f} (goal {GOAL_WORST}: {verdict(over[worst] <= GOAL_WORST)})",
    ]
    pocl = [t.seconds[ours] / t.seconds["PoCL"] for t in all_times if "PoCL" in t.seconds]
    if pocl:
        lines.append(f"geometric mean of sim / PoCL: {mean(pocl):.2f} (goal 1: {verdict(mean(pocl) <= 1)})")
    times_faster = {
        t.case.name: numba[t.case.name] * t.case.work / t.seconds[ours] for t in all_times if t.case.name in numba
    }
    if times_faster:
        least = min(times_faster, key=times_faster.__getitem__)
        lines.append(
            f"times faster than Numba's simulator, per unit of work: {mean(list(times_faster.values())):,.0f} in geometric mean, "
            f"least {times_faster[least]:,.0f} ({least}) (goal {GOAL_NUMBA}: {verdict(times_faster[least] >= GOAL_NUMBA)})"
        )
    return lines


def opener() -> tuple[Callable[[Case], Runner] | None, str]:
    """What opens a case on PoCL; None and the reason where it is not there."""
    try:
        from kernels.pocl import Pocl, Program

        program = Program()
    except (ImportError, LookupError) as error:
        return None, f"PoCL left out: {error}"
    return (lambda case: Pocl(case, program)), f"PoCL: {program.title}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--scale", type=int, default=1, help="divides the number of elements, for a quick try")
    parser.add_argument("--only", help="cases whose name contains one of these, separated by commas")
    parser.add_argument("--markdown", type=Path, help="also write the table there")
    parser.add_argument("--processor", action="store_true", help="processor time, the least of the rounds")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["POCL_MAX_PTHREAD_COUNT"] = str(options.threads)

    image = ptx()
    pocl, remark = opener()
    print(remark)
    wanted = options.only.split(",") if options.only else [""]
    all_times = []
    with Library(False, options.threads) as plain, Library(True, options.threads) as openmp:
        for make in CASES:
            case = make(options.scale)
            if not any(part in case.name for part in wanted):
                continue
            alone = Simulated(case, image, 1)
            runners: list[Runner] = [Simulated(case, image, options.threads)] if options.threads > 1 else []
            runners += [alone, Loops(case, plain), Loops(case, openmp)]
            runners += [Numpy(case)] if case.numpy else []
            runners += [pocl(case)] if pocl else []
            all_times.append(measure(case, runners, options.rounds, options.processor))
            for runner in runners:
                runner.close()
            print(
                f"{case.name}: " + ", ".join(f"{n} {1000 * s:.2f}" for n, s in all_times[-1].seconds.items()),
                flush=True,
            )
    if not all_times:
        sys.exit(f"no case's name contains {options.only}")
    ours, single = next(iter(all_times[0].seconds)), alone.name
    title = "Kernels, ms of processor time (least)" if options.processor else "Kernels, ms (medians)"
    result = table(all_times, ours, single, title)
    lines = summary(all_times, ours, numba_seconds() if options.scale == 1 else {})
    print("\n" + result.text())
    print("\n".join(lines))
    if options.markdown:
        options.markdown.write_text(result.markdown() + "\n\n" + "\n".join(f"- {line}" for line in lines) + "\n")


if __name__ == "__main__":
    main()
