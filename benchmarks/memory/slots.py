"""Slot policies on the same random requests: utilisation with a full queue, waits under open load, and the source's own experiment.

    python benchmarks/memory/slots.py [--only full|waits|queues] [--seeds 20] [--jobs 20000] [--queues 200] [--jobs-per-queue 200]

Every policy gets the same requests. Figures are means over the seeds, with the 95 % interval of the difference to first-fit. The goals are
printed beside what was reached; the bound is what compaction for nothing would give. `split-ends` calls large what is above the middle of the sizes.
`slots_long.py` does the full queue for millions of requests.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Callable, Sequence

from farlane.backend.memory.slots.allocator import SlotAllocator
from farlane.backend.memory.slots.policies import POLICIES, SplitEnds
from queueing import Compacting, Load, Slots, full_queue, open_load, simulate, uniform

BOUND = "bound"
# slots, largest size, points over first-fit that are wanted
FULL = ((32, 8, 1.4), (32, 16, 4.5), (64, 32, 5.0))
LOADS = (0.60, 0.65)
WAIT_GOAL = 0.55


def cores(slots: int, most: int) -> dict[str, Callable[[], Slots]]:
    policies = POLICIES | {"split-ends": SplitEnds(2 * slots // most)}
    found: dict[str, Callable[[], Slots]] = {
        name: lambda policy=policy: SlotAllocator(slots, policy)  # type: ignore[misc]
        for name, policy in policies.items()
    }
    found[BOUND] = lambda: Compacting(slots)
    return found


def interval(values: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """The mean of the paired differences and half of its 95 % interval (normal, with Student's 2.1 for some 20 seeds)."""
    differences = [a - b for a, b in zip(values, others, strict=True)]
    return statistics.fmean(differences), 2.1 * statistics.stdev(differences) / len(differences) ** 0.5


def ratio_interval(values: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """The ratio of the means and half of its 95 % interval (the spread of the residuals from that ratio)."""
    ratio = statistics.fmean(values) / statistics.fmean(others)
    _, margin = interval(values, [ratio * other for other in others])
    return ratio, margin / statistics.fmean(others)


def verdict(reached: bool) -> str:
    return "met" if reached else "missed"


def utilisation(slots: int, most: int, goal: float, seeds: Sequence[int], jobs: int) -> None:
    loads = [full_queue(seed, jobs, uniform(most)) for seed in seeds]
    reached = {
        name: [100 * simulate(core(), load).utilisation for load in loads] for name, core in cores(slots, most).items()
    }
    first = reached["first-fit"]
    print(f"\nFull queue, {slots} slots, sizes U(1..{most}), {len(seeds)} seeds of {jobs} requests: utilisation")
    for name, values in reached.items():
        gain, margin = interval(values, first)
        print(f"  {name:10} {statistics.fmean(values):.2f} %   over first-fit {gain:+5.2f} ± {margin:.2f} points")
    gain, _ = interval(reached["two-ended"], first)
    least = min(a - b for a, b in zip(reached["two-ended"], reached["best-fit"], strict=True))
    print(f"  goal: at least {goal:+.1f} points over first-fit: {gain:+.2f}, {verdict(gain >= goal)}", end="")
    print(f"; over best-fit, the least of all seeds: {least:+.2f}, {verdict(least >= 0)}", flush=True)


def waiting(load: float, slots: int, most: int, seeds: Sequence[int], jobs: int) -> None:
    loads = [open_load(seed, jobs, uniform(most), slots, load) for seed in seeds]
    reached = {name: [simulate(core(), each).mean_wait for each in loads] for name, core in cores(slots, most).items()}
    first = reached["first-fit"]
    print(
        f"\nOpen load {load:.2f}, {slots} slots, sizes U(1..{most}), {len(seeds)} seeds of {jobs} requests: mean wait"
    )
    for name, waits in reached.items():
        ratio, margin = ratio_interval(waits, first)
        print(f"  {name:10} {statistics.fmean(waits):7.2f} service times   {ratio:5.2f} ± {margin:.2f} of first-fit's")
    ratio, _ = ratio_interval(reached["two-ended"], first)
    print(f"  goal: at most {WAIT_GOAL} of first-fit's: {ratio:.2f}, {verdict(ratio <= WAIT_GOAL)}", flush=True)


def queues(count: int, jobs: int, slots: int, most: int) -> None:
    """The source's experiment: random queues, the time until each is done, two-ended against lowest address first."""
    gains = []
    for seed in range(count):
        load: Load = full_queue(10_000 + seed, jobs, uniform(most))
        first, two = (
            simulate(SlotAllocator(slots, POLICIES[name]), load).finish for name in ("first-fit", "two-ended")
        )
        gains.append(100 * (first - two) / first)
    positive = sum(gain > 0 for gain in gains)
    print(
        f"\n{count} random queues of {jobs} requests, {slots} slots, sizes U(1..{most}): time to finish, % saved over lowest address first"
    )
    print(
        f"  positive {positive / count:.0%}, equal {sum(gain == 0 for gain in gains) / count:.0%}, median {statistics.median(gains):+.2f} %"
    )
    bins = Counter(int(gain // 2) * 2 for gain in gains)
    for lower in range(min(bins), max(bins) + 1, 2):
        print(f"  {lower:+4d} to {lower + 2:+4d} %  {'#' * bins[lower]} {bins[lower]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("full", "waits", "queues"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--queues", type=int, default=200)
    parser.add_argument("--jobs-per-queue", type=int, default=200)
    options = parser.parse_args()
    seeds = range(options.seeds)
    if options.only in (None, "full"):
        for slots, most, goal in FULL:
            utilisation(slots, most, goal, seeds, options.jobs)
    if options.only in (None, "waits"):
        for load in LOADS:
            waiting(load, 32, 16, seeds, options.jobs)
    if options.only in (None, "queues"):
        queues(options.queues, options.jobs_per_queue, 128, 64)


if __name__ == "__main__":
    main()
