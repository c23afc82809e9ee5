"""Shared-memory rings between two processes, beside a Unix socket pair and memcpy (frontend/shim/crates/rings).

Usage: python benchmarks/rings.py [--rounds N] [--capacity BYTES] [--processors A,B]

A payload goes one way and the other process acknowledges it; 64 bytes come back whole. Each round measures all variants
in turn; the figures are medians over rounds of the medians over turns. The last column is the ratio to the reference:
the socket that waits in the same way for 64 bytes, memcpy for payloads. With one processor, both processes share it.
"""

from __future__ import annotations

import argparse
import collections
import os
import statistics
import subprocess
from pathlib import Path

SHIM = Path(__file__).resolve().parent.parent / "frontend/shim"
SMALL = "64 B there and back"
REFERENCE = {"ring": "socket", "ring asleep": "socket", "ring spinning": "socket spinning"}
GOALS = {"64 KiB": 25.0, "1 MiB": 3.0, "64 MiB": 1.6}  # times memcpy, of whole copies through a session


def measure(rounds: int, capacity: int, processors: list[str]) -> dict[str, dict[str, float]]:
    """Medians in microseconds, by case and variant."""
    command = ["cargo", "run", "--quiet", "--locked", "--release", "--package", "rings", "--example", "measure", "--"]
    command += [str(rounds), str(capacity), *processors]
    lines = subprocess.run(command, cwd=SHIM, check=True, capture_output=True, text=True).stdout.splitlines()
    times: dict[str, dict[str, list[int]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in lines:
        case, variant, time = line.split("\t")
        times[case][variant].append(int(time))
    return {
        case: {variant: statistics.median(all_) / 1e3 for variant, all_ in found.items()}
        for case, found in times.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--capacity", type=int, default=256 << 10, help="of each ring, a power of two")
    parser.add_argument("--processors", default=",".join(map(str, sorted(os.sched_getaffinity(0))[:2])))
    arguments = parser.parse_args()
    processors = arguments.processors.split(",")
    results = measure(arguments.rounds, arguments.capacity, [processors[0], processors[-1]])
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; rings of {arguments.capacity >> 10} KiB")
    for case, medians in results.items():
        for variant, time in medians.items():
            reference = REFERENCE.get(variant) if case == SMALL else "memcpy"
            ratio = f"{time / medians[reference]:8.2f} of {reference}" if reference and variant != reference else ""
            goal = f", goal {GOALS[case]:g}" if case in GOALS and variant == "ring" else ""
            print(f"{case:20} {variant:16} {time:12.2f} us {ratio}{goal}")


if __name__ == "__main__":
    main()
