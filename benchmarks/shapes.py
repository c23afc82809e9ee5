"""What mode loops costs beside mode calls in programs whose loops are not worth recording: short ones in random order, and other shapes.

Pairs of runs on one host, which begin with either mode in turn: the ratio of processor time (guest and host together) and of wall time, loops over calls,
their medians and quartiles. The kernels do nothing, so that what is measured is the calls' own cost: programs that compute have ratios closer to 1. The host
compiles kernels by tier 2 at once, and nothing else runs on it.

    python benchmarks/shapes.py                        # all rows
    python benchmarks/shapes.py --only random-loops --turns 31
    python benchmarks/shapes.py --distance 500         # microseconds of round trip injected between guest and host: what a user waits
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from _guest import PROGRAMS
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install
from farlane.frontend.embedded import EmbeddedHost
from farlane.roundtrips.distance import at_distance

GOAL = 1.02  # loops over calls
TURNS = 11  # pairs


@dataclass(frozen=True)
class Shape:
    """A shape of shapes.cu, how many calls it makes, and the fewest and most iterations of one of its loops."""

    name: str
    calls: int = 40_000
    least: int = 1
    most: int = 1

    def arguments(self) -> list[str]:
        return [self.name, str(self.calls), str(self.least), str(self.most)]

    def __str__(self) -> str:
        return self.name if self.most == 1 else f"{self.name} {self.least}-{self.most}"


SHAPES = (
    Shape("random-loops", 40_000, 2, 5),
    Shape("random-loops", 40_000, 7, 15),
    Shape("random-loops", 40_000, 16, 75),
    Shape("random-loops", 40_000, 100, 400),
    Shape("loops-in-turn", 2_500, 40, 40),
    Shape("loops-in-turn", 20_000, 3, 10),
    Shape("waiting-loops", 10_000, 2, 5),
    Shape("waiting-loops", 10_000, 7, 15),
    Shape("waiting-loops", 20_000, 16, 75),
    Shape("sometimes-waiting", 20_000, 2, 15),
    Shape("few-kernels"),
    Shape("many-kernels"),
    Shape("interrupted", 40_000, 2, 15),
    Shape("streams", 40_000, 2, 15),
    Shape("sets", 20_000),
    Shape("graphs"),
    Shape("threads", 40_000, 2, 15),
    Shape("allocations", 20_000, 2, 15),
    Shape("phases", 40_000, 2, 15),
    Shape("trees", 40_000, 0, 4),
    Shape("reading", 10_000, 2, 15),
)


def processor_of(pid: int) -> float:
    """Seconds of processor time that a process has used (its clock as clock_getcpuclockid names it)."""
    return time.clock_gettime(~pid << 3 | 2)


def of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass
class Times:
    """Seconds of one run."""

    wall: float
    guest: float
    host: float

    @property
    def processor(self) -> float:
        return self.guest + self.host


def run(guest: Guest, host: int, words: list[str], mode: str) -> tuple[Times, str]:
    before = time.perf_counter(), of_children(), processor_of(host)
    outcome = guest.run(words, mode, extra={"FARLANE_MANIFESTS": "off"})
    after = time.perf_counter(), of_children(), processor_of(host)
    if outcome.status:
        raise SystemExit(f"{' '.join(words)} failed in mode {mode} (status {outcome.status}): {outcome.stderr}")
    return Times(*(end - start for start, end in zip(before, after, strict=True))), outcome.stdout


def pairs(guest: Guest, host: int, words: list[str], turns: int) -> Iterator[tuple[Times, Times]]:
    for turn in range(turns + 1):
        modes = ("calls", "loops") if turn % 2 else ("loops", "calls")
        found = {mode: run(guest, host, words, mode) for mode in modes}
        if found["calls"][1] != found["loops"][1]:
            raise SystemExit(f"{' '.join(words)} prints something else in mode loops")
        if turn:  # the first one fills the host's caches
            yield found["calls"][0], found["loops"][0]


def spread(ratios: list[float]) -> str:
    lower, median, upper = statistics.quantiles(ratios, n=4)
    return f"{median:5.2f} ({lower:.2f} to {upper:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help="names of shapes, separated by commas")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--device", default="sim", choices=("sim", "null"))
    parser.add_argument(
        "--distance", type=float, help="round trip to inject, in microseconds; the verdict is the wall time's then"
    )
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else [shape.name for shape in SHAPES]
    program = str(compile_program(install("13.0"), [PROGRAMS / "shapes.cu"], "shapes", Build()))
    print(f"{'loops over calls':26} {'processor time':>21} {'wall time':>21}   ms in mode calls: guest, host; loops")
    os.environ["FARLANE_JIT_TIERS"] = "off"
    with EmbeddedHost(options.device) as host, ExitStack() as stack:
        away = options.distance is not None
        guest = Guest(stack.enter_context(at_distance(host.url, options.distance)) if away else host.url)
        for shape in SHAPES:
            if shape.name not in wanted:
                continue
            found = list(pairs(guest, host.pid, [program, *shape.arguments()], options.turns))
            processor = [loops.processor / calls.processor for calls, loops in found]
            wall = [loops.wall / calls.wall for calls, loops in found]
            each = [
                1000 * statistics.median(getattr(times[mode], part) for times in found)
                for mode in (0, 1)
                for part in ("guest", "host")
            ]
            verdict = "reached" if statistics.median(wall if away else processor) <= GOAL else "missed"
            print(
                f"{shape!s:26} {spread(processor):>21} {spread(wall):>21}   "
                f"{each[0]:.0f}, {each[1]:.0f}; {each[2]:.0f}, {each[3]:.0f}   {verdict}",
                flush=True,
            )


if __name__ == "__main__":
    main()
