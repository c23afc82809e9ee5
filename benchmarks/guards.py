"""Lazy readbacks on and off, in turn, at injected round-trip times: what they save where the program reads after its loop, and what they cost where it
reads in each iteration, until the place is given up. Pairs of runs, so that what else the machine does hits both; of their ratios the median and the quartiles.

The recorder works without a manifest, so that no permission does what they are for.
"""

from __future__ import annotations

import resource
import statistics
from dataclasses import dataclass
from functools import partial

from _guest import PROGRAMS
from farlane.frontend.devtools.guest import Guest, Outcome
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install
from farlane.frontend.embedded import EmbeddedHost
from farlane.roundtrips.distance import at_distance

DISTANCES = (0, 50, 500)  # microseconds
TURNS = 21  # pairs


@dataclass(frozen=True)
class Loop:
    """When the program reads, its iterations, bytes of a copy, bytes of the block."""

    reads: str
    count: int
    bytes: int
    block: int

    def arguments(self) -> list[str]:
        return [self.reads, *(str(number) for number in (self.count, self.bytes, self.block))]


LOOPS = (
    Loop("after", 400, 64, 1 << 20),
    Loop("after", 100, 64 << 10, 8 << 20),
    Loop("each", 400, 64, 1 << 20),
    Loop("each", 400, 64, 64 << 20),
)


def run(guest: Guest, program: str, loop: Loop, guards: str) -> tuple[float, str, Outcome]:
    """Microseconds of an iteration, and what else the program printed."""
    extra = {"FARLANE_MANIFESTS": "off", "FARLANE_GUARDS": guards}
    outcome = guest.run([program, *loop.arguments()], "loops", extra=extra)
    if outcome.status:
        raise SystemExit(f"the guest failed (status {outcome.status}): {outcome.stderr}")
    took, _, total = outcome.stdout.partition(",")
    return float(took.split(":")[1]), total, outcome


def main() -> None:
    program = str(compile_program(install("13.0"), [PROGRAMS / "guards.cu"], "guards", Build()))
    with EmbeddedHost("sim") as host:
        for distance in DISTANCES:
            with at_distance(host.url, distance) as url:
                for loop in LOOPS:
                    compare(distance, loop, partial(run, Guest(url), program, loop))


def compare(distance: int, loop: Loop, run: partial[tuple[float, str, Outcome]]) -> None:
    """Prints two lines: wall time and processor time, on beside off in pairs that begin with either in turn; of their ratios the median and the quartiles."""
    walls: list[float] = []
    processor: list[float] = []
    times: dict[str, list[float]] = {"on": [], "off": []}
    trips = {}
    totals = set()
    for turn in range(TURNS):
        wall, used = {}, {}
        for guards in ("on", "off") if turn % 2 else ("off", "on"):
            before = seconds()
            wall[guards], total, outcome = run(guards)
            used[guards] = seconds() - before
            times[guards].append(wall[guards])
            totals.add(total)
            trips[guards] = outcome.report.round_trips
        walls.append(wall["on"] / wall["off"])
        processor.append(used["on"] / used["off"])
    if len(totals) != 1:
        raise SystemExit(f"the output differs: {totals}")
    on, off = (statistics.median(times[guards]) for guards in ("on", "off"))
    print(
        f"{distance:4} us  read {loop.reads:5} {loop.count:4} copies of {loop.bytes:6} B into {loop.block >> 20:3} MiB:"
        f" on {on:8.1f} us ({trips['on']:4} round trips), off {off:8.1f} us ({trips['off']:4})\n"
        f"         on / off: wall time {spread(walls)}, processor time of the program {spread(processor)}",
        flush=True,
    )


def seconds() -> float:
    """Processor time of the programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def spread(ratios: list[float]) -> str:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


if __name__ == "__main__":
    main()
