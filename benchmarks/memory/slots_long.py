"""The full queue of `slots.py` for millions of requests: the same rules compiled, so that differences of a tenth of a point are told from chance.

`utilisation` does for one policy what `queueing.simulate` does with a full queue; `main` first compares the two on shorter queues, and stops if they
differ. At most 64 slots. With `--cycle`, releases happen at whole cycles only, so that several come before an allocation.

    python benchmarks/memory/slots_long.py [--seeds 20] [--jobs 1000000] [--cycle 0.1]
"""

from __future__ import annotations

import argparse

import numba
import numpy as np
from farlane.backend.memory.slots.allocator import SlotAllocator
from farlane.backend.memory.slots.policies import POLICIES, SplitEnds
from farlane.backend.memory.slots.queueing import Load, simulate
from numpy.typing import NDArray
from slots import FULL, interval, verdict

NAMES = ("two-ended", "first-fit", "best-fit", "split-ends")
TWO_ENDED, FIRST_FIT, BEST_FIT, SPLIT_ENDS = range(len(NAMES))
MOST_RESIDENT = 64


@numba.njit(cache=False)
def place(policy: int, free: np.uint64, slots: int, wanted: int, split: int) -> int:
    """The start of the run, or -1."""
    one = np.uint64(1)
    starts, width = free, 1
    while 2 * width <= wanted:
        starts &= starts >> np.uint64(width)
        width *= 2
    if width < wanted:
        starts &= starts >> np.uint64(wanted - width)
    if starts == 0:
        return -1
    low = 0
    while not starts >> np.uint64(low) & one:
        low += 1
    if policy == FIRST_FIT or (policy == SPLIT_ENDS and wanted <= split):
        return low
    if policy == BEST_FIT:
        found, shortest, position = -1, slots + 1, 0
        while position < slots:
            length = 0
            while position + length < slots and free >> np.uint64(position + length) & one:
                length += 1
            if wanted <= length < shortest:
                found, shortest = position, length
            position += length + 1
        return found
    high = slots - wanted
    while not starts >> np.uint64(high) & one:
        high -= 1
    if policy == SPLIT_ENDS:
        return high
    return low if low + high <= slots - wanted else high


@numba.njit(cache=False)
def utilisation(policy: int, slots: int, sizes: NDArray[np.int64], durations: NDArray[np.float64], split: int) -> float:
    """Requested slots in use over all slots, until the last request was placed."""
    free = ~np.uint64(0) >> np.uint64(64 - slots)
    ends = np.empty(MOST_RESIDENT)
    masks = np.empty(MOST_RESIDENT, np.uint64)
    held_by = np.empty(MOST_RESIDENT, np.int64)
    resident, held, next_, now, area = 0, 0, 0, 0.0, 0.0
    while True:
        while next_ < len(sizes):
            wanted = sizes[next_]
            start = place(policy, free, slots, wanted, split)
            if start < 0:
                break
            mask = (~np.uint64(0) >> np.uint64(64 - wanted)) << np.uint64(start)
            free &= ~mask
            ends[resident], masks[resident], held_by[resident] = now + durations[next_], mask, wanted
            resident += 1
            held += wanted
            next_ += 1
        if next_ == len(sizes):
            return area / (slots * now)
        first = ends[:resident].min()
        area += held * (first - now)
        now = first
        each = 0
        while each < resident:  # all releases of a moment come before its allocations
            if ends[each] > now:
                each += 1
                continue
            free |= masks[each]
            held -= held_by[each]
            resident -= 1
            ends[each], masks[each], held_by[each] = ends[resident], masks[resident], held_by[resident]


def drawn(seed: int, jobs: int, most: int, cycle: float = 0.0) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Sizes and service times, these rounded up to whole cycles if a cycle is given (as a share of the mean service time)."""
    source = np.random.default_rng(seed)
    sizes, durations = source.integers(1, most, jobs, endpoint=True), source.exponential(1.0, jobs)
    return sizes, np.ceil(durations / cycle) if cycle else durations


def check(slots: int, most: int, cycle: float) -> None:
    """Raises if a compiled rule is not the product's."""
    sizes, durations = drawn(10**6, 2000, most, cycle)
    load = Load([0.0] * len(sizes), sizes.tolist(), durations.tolist())
    for number, name in enumerate(NAMES):
        policy = SplitEnds(2 * slots // most) if name == "split-ends" else POLICIES[name]
        expected = simulate(SlotAllocator(slots, policy), load).utilisation
        found = utilisation(number, slots, sizes, durations, most // 2)
        if abs(found - expected) > 1e-9:
            raise SystemExit(
                f"{name}, {slots} slots, U(1..{most}): {found} compiled, {expected} by the product's policy"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--cycle", type=float, default=0.0, help="service times are whole numbers of this, in means")
    options = parser.parse_args()
    for slots, most, goal in FULL:
        check(slots, most, options.cycle)
        loads = [drawn(seed, options.jobs, most, options.cycle) for seed in range(options.seeds)]
        reached = [
            [100 * utilisation(number, slots, *load, most // 2) for load in loads] for number in range(len(NAMES))
        ]
        print(
            f"\nFull queue, {slots} slots, sizes U(1..{most}), {options.seeds} seeds of {options.jobs} requests:",
            end="",
        )
        print(" utilisation; points over first-fit, 95 % interval")
        gains = {}
        for name, values in zip(NAMES, reached, strict=True):
            gains[name] = interval(values, reached[FIRST_FIT])
            print(f"  {name:10} {np.mean(values):.2f} %   {gains[name][0]:+5.2f} ± {gains[name][1]:.2f}")
        gain = gains["two-ended"][0]
        least = min(a - b for a, b in zip(reached[TWO_ENDED], reached[BEST_FIT], strict=True))
        print(f"  goal: at least {goal:+.1f} points: {gain:+.2f}, {verdict(gain >= goal)}", end="")
        print(f"; over best-fit, the least of all seeds: {least:+.2f}, {verdict(least >= 0)}")


if __name__ == "__main__":
    main()
