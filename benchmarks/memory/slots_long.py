"""The full queue and the open loads of `slots.py` for millions of requests: the same rules compiled, so that differences of a tenth of a point are told from chance.

`serve` does for one policy what `queueing.simulate` does; `check` first compares the two on fewer requests, and all stops if they
differ. At most 64 slots. With `--cycle`, releases happen at whole cycles only, so that several come before an allocation. `--lifetimes`: how service times of mean 1 are drawn, which
S5 leaves open; `hyper` has a variance of 4.

    python benchmarks/memory/slots_long.py [--seeds 20] [--jobs 1000000] [--cycle 0.1] [--lifetimes exponential|constant|uniform|hyper] [--only full|waits]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numba
import numpy as np
from farlane.backend.memory.slots.allocator import SlotAllocator
from farlane.backend.memory.slots.policies import POLICIES, SplitEnds
from numpy.typing import NDArray
from queueing import Compacting, Load, simulate
from slots import FULL, LOADS, WAIT_GOAL, interval, ratio_interval, verdict

NAMES = ("two-ended", "first-fit", "best-fit", "split-ends", "bound")
TWO_ENDED, FIRST_FIT, BEST_FIT, SPLIT_ENDS, BOUND = range(len(NAMES))
LIFETIMES = ("exponential", "constant", "uniform", "hyper")
MOST_RESIDENT = 64
CHECKED = 2000  # requests of the comparison with the product's policies


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
def serve(
    policy: int,
    slots: int,
    arrivals: NDArray[np.float64],
    sizes: NDArray[np.int64],
    durations: NDArray[np.float64],
    split: int,
) -> tuple[float, float]:
    """The share of the slots that was in use until the last request was placed, and the mean wait."""
    free = ~np.uint64(0) >> np.uint64(64 - slots)
    ends = np.empty(MOST_RESIDENT)
    masks = np.empty(MOST_RESIDENT, np.uint64)
    held_by = np.empty(MOST_RESIDENT, np.int64)
    resident, held, arrived, next_, now, area, waited = 0, 0, 0, 0, 0.0, 0.0, 0.0
    while True:
        moment = arrivals[arrived] if arrived < len(sizes) else np.inf
        if resident:
            moment = min(moment, ends[:resident].min())
        area += held * (moment - now)
        now = moment
        each = 0
        while each < resident:  # all releases of a moment come before its allocations
            if ends[each] > now:
                each += 1
                continue
            free |= masks[each]
            held -= held_by[each]
            resident -= 1
            ends[each], masks[each], held_by[each] = ends[resident], masks[resident], held_by[resident]
        while arrived < len(sizes) and arrivals[arrived] <= now:
            arrived += 1
        while next_ < arrived:
            wanted = sizes[next_]
            if policy == BOUND:  # as if what is placed moved together: masks mean nothing
                start = 0 if held + wanted <= slots else -1
            else:
                start = place(policy, free, slots, wanted, split)
            if start < 0:
                break
            mask = (~np.uint64(0) >> np.uint64(64 - wanted)) << np.uint64(start)
            free &= ~mask
            ends[resident], masks[resident], held_by[resident] = now + durations[next_], mask, wanted
            waited += now - arrivals[next_]
            resident += 1
            held += wanted
            next_ += 1
        if next_ == len(sizes):
            return area / (slots * now), waited / len(sizes)


def lifetimes(source: np.random.Generator, kind: str, jobs: int) -> NDArray[np.float64]:
    """Service times of mean 1."""
    if kind == "constant":
        return np.ones(jobs)
    if kind == "uniform":
        return source.uniform(0.0, 2.0, jobs)
    times = source.exponential(1.0, jobs)
    if kind == "hyper":  # two rates that take as much of the time each
        share = (1 + (3 / 5) ** 0.5) / 2
        times /= np.where(source.random(jobs) < share, 2 * share, 2 * (1 - share))
    return times


@dataclass(frozen=True)
class Drawn:
    """Random requests: a full queue (every arrival is 0), or Poisson arrivals at a load."""

    arrivals: NDArray[np.float64]
    sizes: NDArray[np.int64]
    durations: NDArray[np.float64]

    @classmethod
    def draw(cls, seed: int, jobs: int, most: int, options: argparse.Namespace, rate: float | None = None) -> Drawn:
        """Service times are rounded up to whole cycles if a cycle is given (as a share of their mean); `rate`: of arrivals."""
        source = np.random.default_rng(seed)
        cycle = options.cycle
        sizes, durations = source.integers(1, most, jobs, endpoint=True), lifetimes(source, options.lifetimes, jobs)
        arrivals = np.zeros(jobs) if rate is None else np.cumsum(source.exponential(1 / rate, jobs))
        return cls(arrivals, sizes, cycle * np.ceil(durations / cycle) if cycle else durations)

    def served(self, policy: int, slots: int, most: int) -> tuple[float, float]:
        found: tuple[float, float] = serve(policy, slots, self.arrivals, self.sizes, self.durations, most // 2)
        return found


def check(drawn: Drawn, slots: int, most: int) -> None:
    """Raises if a compiled rule is not the product's."""
    load = Load(drawn.arrivals.tolist(), drawn.sizes.tolist(), drawn.durations.tolist())
    for number, name in enumerate(NAMES):
        policy = SplitEnds(2 * slots // most) if name == "split-ends" else POLICIES.get(name)
        outcome = simulate(Compacting(slots) if name == "bound" else SlotAllocator(slots, policy), load)
        if not np.allclose(drawn.served(number, slots, most), (outcome.utilisation, outcome.mean_wait), rtol=1e-9):
            raise SystemExit(f"{name}, {slots} slots, U(1..{most}): the compiled rule is not the product's")


def full(slots: int, most: int, goal: float, options: argparse.Namespace) -> None:
    check(Drawn.draw(10**6, CHECKED, most, options), slots, most)
    loads = [Drawn.draw(seed, options.jobs, most, options) for seed in range(options.seeds)]
    reached = [[100 * load.served(number, slots, most)[0] for load in loads] for number in range(len(NAMES))]
    print(f"\nFull queue, {slots} slots, sizes U(1..{most}), {options.seeds} seeds of {options.jobs} requests:", end="")
    print(" utilisation; points over first-fit, 95 % interval")
    for name, values in zip(NAMES, reached, strict=True):
        gain, margin = interval(values, reached[FIRST_FIT])
        print(f"  {name:10} {np.mean(values):.2f} %   {gain:+5.2f} ± {margin:.2f}")
    gain, _ = interval(reached[TWO_ENDED], reached[FIRST_FIT])
    least = min(a - b for a, b in zip(reached[TWO_ENDED], reached[BEST_FIT], strict=True))
    print(f"  goal: at least {goal:+.1f} points: {gain:+.2f}, {verdict(gain >= goal)}", end="")
    print(f"; over best-fit, the least of all seeds: {least:+.2f}, {verdict(least >= 0)}", flush=True)


def waits(load: float, slots: int, most: int, options: argparse.Namespace) -> None:
    rate = load * slots / ((1 + most) / 2)
    check(Drawn.draw(10**6, CHECKED, most, options, rate), slots, most)
    loads = [Drawn.draw(seed, options.jobs, most, options, rate) for seed in range(options.seeds)]
    reached = [[each.served(number, slots, most)[1] for each in loads] for number in range(len(NAMES))]
    print(
        f"\nOpen load {load:.3f}, {slots} slots, sizes U(1..{most}), {options.seeds} seeds of {options.jobs} requests:",
        end="",
    )
    print(" mean wait in service times; share of first-fit's, 95 % interval")
    for name, values in zip(NAMES, reached, strict=True):
        ratio, margin = ratio_interval(values, reached[FIRST_FIT])
        print(f"  {name:10} {np.mean(values):6.2f}   {ratio:.3f} ± {margin:.3f}")
    ratio, _ = ratio_interval(reached[TWO_ENDED], reached[FIRST_FIT])
    print(f"  goal: at most {WAIT_GOAL} of first-fit's: {ratio:.3f}, {verdict(ratio <= WAIT_GOAL)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--cycle", type=float, default=0.0, help="service times are whole numbers of this, in means")
    parser.add_argument("--lifetimes", choices=LIFETIMES, default=LIFETIMES[0])
    parser.add_argument("--only", choices=("full", "waits"))
    options = parser.parse_args()
    if options.only in (None, "full"):
        for slots, most, goal in FULL:
            full(slots, most, goal, options)
    if options.only in (None, "waits"):
        for load in (*LOADS[:1], sum(LOADS) / len(LOADS), *LOADS[1:]):
            waits(load, 32, 16, options)


if __name__ == "__main__":
    main()
