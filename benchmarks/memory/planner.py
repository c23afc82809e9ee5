"""The planner beside its rivals on the same traces: how often it finds the optimum, how long it takes, and what moves.

    python benchmarks/memory/planner.py [--traces FILE ...] [--instances 80] [--memory 0.5] [--no-recording]

1. Small instances: the search with four seeds each against the best plan there is (every assignment considered).
2. 200 objects: processor time, beside a greedy assignment's.
3. Fourteen generated traces, those of files, and those of real programs (recorded.py), which are recorded first. A file's and a program's memory is `--memory` of its footprint, or as much as its
   largest step needs: bytes moved by the plan, the best plan there is (by dynamic programming; up to 14 objects), a greedy and a random assignment, LRU and known future (free placement and contiguous), and the least
   that any scheme without fragmentation can move. A segment holds one object, as a direct-mapped cache does: LRU with free placement is often better in bytes;
   what the plan has is no fragmentation, no decision while the program runs, and a fixed address for every object.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import recorded
from bound import Bound, least_moved
from farlane.backend.memory.planner.aside import set_aside
from farlane.backend.memory.planner.exhaustive import MOST_OBJECTS, best_plan
from farlane.backend.memory.planner.genetic import GeneticSpec, search
from farlane.backend.memory.planner.greedy import greedily
from farlane.backend.memory.planner.merging import merge_adjacent
from farlane.backend.memory.planner.replay import replay as moved_by
from farlane.backend.memory.planner.segments import choose
from farlane.backend.memory.planner.trace import Access, Trace
from farlane.backend.memory.replacement import LeastRecentlyUsed, NeededLast, Policy
from random_plans import at_random

SEEDS = 4


def training(seed: int, objects: int, segments: int, largest: int = 100) -> Trace:
    """Forward, writing every object, and backward, reading it, with other accesses in between; memory for the `segments` largest."""
    source = random.Random(seed)
    sizes = [source.randint(1, largest) for _ in range(objects)]
    steps = [[Access(n, reads=False, writes=True)] for n in range(objects)]
    steps += [[Access(n, writes=source.random() < 0.3)] for n in reversed(range(objects))]
    for _ in range(source.randint(0, 2 * objects)):
        steps.insert(
            source.randrange(objects, len(steps)), [Access(source.randrange(objects), writes=source.random() < 0.5)]
        )
    return Trace(sizes, steps, sum(sorted(sizes)[-segments:]))


def layers(seed: int, count: int, share: float) -> Trace:
    """A network's layers: each launch reads its input and weights and writes its output; backwards with gradients. Memory for `share` of it."""
    source = random.Random(seed)
    weights, activations = list(range(count)), list(range(count, 2 * count + 1))
    gradients = list(range(2 * count + 1, 3 * count + 2))
    sizes = [source.randint(5, 60) for _ in weights] + [source.randint(20, 40) for _ in activations]
    sizes += sizes[count : 2 * count + 1]
    steps = [[Access(activations[0], reads=False, writes=True)]]
    steps += [
        [Access(activations[n]), Access(weights[n]), Access(activations[n + 1], reads=False, writes=True)]
        for n in range(count)
    ]
    for n in reversed(range(count)):
        steps.append(
            [
                Access(gradients[n + 1]),
                Access(activations[n]),
                Access(weights[n], writes=True),
                Access(gradients[n], reads=False, writes=True),
            ]
        )
    return Trace(
        sizes,
        steps,
        max(int(share * sum(sizes)), max(sum(sizes[a.object] for a in step) for step in steps)),
        frozenset(weights),
    )


def small(instances: int) -> None:
    optimal, worst, times = 0, 0.0, []
    for number in range(instances):
        trace = training(number, 9 + number % 5, 3 + number % 4)
        segments = choose(trace)
        best = best_plan(trace, segments)
        assert best is not None
        for seed in range(SEEDS):
            begun = time.process_time()
            found = search(trace, segments, GeneticSpec(seed=seed), time.process_time)
            times.append(time.process_time() - begun)
            assert found.plan is not None
            optimal += found.plan.bytes_moved == best.bytes_moved
            worst = max(worst, found.plan.bytes_moved / best.bytes_moved - 1 if best.bytes_moved else 0.0)
    runs = instances * SEEDS
    print(f"{runs} runs on {instances} instances of 9 to 13 objects, 3 to 6 segments:")
    print(
        f"  optimum found in {optimal / runs:.1%} (goal 95 %), worst {worst:.1%} above it (goal 2 %), median {statistics.median(times):.3f} s of processor"
    )


def large() -> None:
    print("\n200 objects, 30 segments (goal: under 1 s):")
    for seed in range(3):
        trace = training(seed, 200, 30)
        segments = choose(trace)
        begun = time.process_time()
        greedy = greedily(trace, segments)
        middle = time.process_time()
        found = search(trace, segments, GeneticSpec(seed=seed), time.process_time)
        end = time.process_time()
        assert greedy is not None
        assert found.plan is not None
        print(
            f"  {end - middle:.2f} s, {(end - middle) / (middle - begun):.0f} times greedy's; moves {found.plan.bytes_moved / greedy.bytes_moved:.3f} of it; ended by {found.ending.value}"
        )


def with_less(trace: Trace, share: float) -> Trace:
    """The trace on a device whose memory is a share of what it uses."""
    needed = max(sum(trace.sizes[access.object] for access in step) for step in trace.steps)
    return replace(trace, memory=max(needed, int(share * trace.footprint)))


def compare(name: str, trace: Trace) -> None:
    segments = choose(trace)
    plan = search(trace, segments, GeneticSpec(), time.process_time).plan
    planned, staying, marked = trace, 0, ""
    if plan is None and (aside := set_aside(trace)) is not None:
        planned, staying, marked = aside.trace, aside.bytes_moved, f" ({len(aside.objects)} aside)"
        plan = search(planned, choose(planned), GeneticSpec(), time.process_time).plan
    greedy, drawn = greedily(trace, segments), at_random(trace, segments, 0, 20)
    few = choose(planned)
    best = best_plan(planned, few) if len(few.order) <= MOST_OBJECTS else None

    def evicting(policy: Policy, contiguous: bool) -> Callable[[], int]:
        return lambda: moved_by(trace, policy, contiguous=contiguous).bytes_moved

    figures: dict[str, int | None] = {
        f"plan{marked}": plan.bytes_moved + staying if plan else None,
        "dp": best.bytes_moved + staying if best else None,
        "greedy": greedy.bytes_moved if greedy else None,
        "random": drawn.bytes_moved if drawn else None,
        "lru": evicting(LeastRecentlyUsed(), False)(),
        "lru, contiguous": evicting(LeastRecentlyUsed(), True)(),
        "future": evicting(NeededLast(by_size=True), False)(),
        "future, contiguous": evicting(NeededLast(by_size=True), True)(),
    }
    try:
        bound = least_moved(trace, seconds=20)
    except ValueError:  # too many accesses to be solved exactly
        bound = Bound(0, proven=False)
    shown = "  ".join(f"{key} {'-' if value is None else value}" for key, value in figures.items())
    print(
        f"  {name:14} {len(trace.sizes):4} objects, {trace.footprint / trace.memory:4.1f}x memory:  {shown}  bound {bound.bytes_moved}{'' if bound.proven else ' (not closed)'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", nargs="*", type=Path, default=[])
    parser.add_argument("--instances", type=int, default=80)
    parser.add_argument(
        "--memory", type=float, default=0.5, help="share of a recorded trace's footprint (default: 0.5)"
    )
    parser.add_argument("--no-recording", action="store_true", help="only generated traces and those of files")
    options = parser.parse_args()
    small(options.instances)
    large()
    print(
        "\nBytes moved, by trace ('-': objects that are needed together cannot be kept apart in these segments; dp: or there are too many):"
    )
    for seed, (objects, count) in enumerate(((9, 3), (12, 5), (13, 4), (14, 6), (10, 3), (11, 4), (13, 5), (14, 4))):
        compare(f"small {seed}", training(seed, objects, count))
    for seed in range(5):
        compare(f"training {seed}", training(seed, 12 + 6 * seed, 5 + seed))
    for seed, share in enumerate((0.7, 0.5, 0.35, 0.25, 0.2)):
        compare(f"layers {share:.0%}", layers(seed, 12, share))
    found = {path.stem: Trace.from_json(json.loads(path.read_text())) for path in options.traces}
    if not options.no_recording:
        with tempfile.TemporaryDirectory() as folder:
            found |= recorded.traces(Path(folder))
    for name, trace in found.items():
        compare(name, merge_adjacent(with_less(trace, options.memory)))


if __name__ == "__main__":
    main()
