"""Runs the programs in the three modes at several distances.

Owns the record of a measurement (`Record`, which goes through JSON) and the order of runs: the modes alternate, so that what
else the machine does hits all of them; a ratio between modes is the median of the ratios of one turn's runs. Wall time is
a process's, from its start to its end, as its user sees it. Each mode of a program runs until its
turns or its seconds are used up, at least once; the two modes that defer go on in pairs until their ratio is known to about a per cent (ratios.py) or
more seconds are used up. The first, unmeasured, run fills the host's cache of compiled kernels. The host compiles kernels by tier 2 at once
(FARLANE_JIT_TIERS=off): else a mode whose runs come later would have faster kernels.
Mode loops has the analyzer's manifest, made beforehand, as `farlane run` makes it on first use.
"""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from farlane.frontend import manifests
from farlane.frontend import report as reports
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.embedded import EmbeddedHost
from farlane.frontend.shim_library import MODES
from farlane.roundtrips import distance
from farlane.roundtrips import ratios as ratio
from farlane.roundtrips.programs import PROGRAMS, Program, command
from farlane.terminal.progress import Progress

DISTANCES = (0.0, 50.0, 500.0, 5000.0)
SECONDS = 6.0
PAIRS_SECONDS = 6.0  # of further pairs of the modes that defer
RATIO_WIDTH = 0.015  # how far apart the bounds of their ratio may lie
ANALYZE_SECONDS = 120.0
HOST_ENVIRONMENT = {"FARLANE_JIT_TIERS": "off"}


@dataclass
class Point:
    """A program in a mode at a distance. Times are medians in seconds."""

    distance: float
    mode: str
    wall: float
    fastest: float
    runs: int
    round_trips: int
    bytes_up: int
    bytes_down: int
    against_calls: float = 1.0  # wall time over mode calls' of the same turn, median
    guest_processor: float = 0.0  # processor time of the program's process, seconds, mean
    host_processor: float = 0.0  # the same of the host's
    against_calls_bounds: list[float] = field(default_factory=list)  # as ratios.py has them; empty for too few runs


@dataclass
class Row:
    """A program's points."""

    name: str
    what: str
    family: str
    calls: int = 0
    points: list[Point] = field(default_factory=list)

    def point(self, distance: float, mode: str) -> Point:
        return next(point for point in self.points if (point.distance, point.mode) == (distance, mode))


@dataclass
class Record:
    """A whole measurement."""

    date: str
    machine: str
    distances: list[float]
    bare: dict[str, float]
    achieved: dict[str, dict[str, float]]
    rows: list[Row] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    recorder: list[dict[str, Any]] = field(default_factory=list)
    load: list[float] = field(default_factory=list)  # of the machine over a minute, before and after
    remarks: list[str] = field(default_factory=list)  # what a reader has to know besides: whole sentences

    def json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Record:
        rows = [Row(**{**row, "points": [Point(**point) for point in row["points"]]}) for row in data["rows"]]
        return Record(**{**data, "rows": rows})


def machine() -> str:
    """The processor and how many of them: what figures depend on."""
    model = platform.processor() or platform.machine()
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return f"{model}, {os.cpu_count()} processors, Linux, Python {platform.python_version()}"


class OutputDiffers(Exception):
    """A program failed, or printed something else in another mode."""


def _host_seconds(pid: int) -> float:
    """Processor time of a process so far. Counted in hundredths: good for sums over many runs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _guest_seconds() -> float:
    """Processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(guest: Guest, words: list[str], mode: str, known: Path | None) -> tuple[float, str, reports.Report]:
    with tempfile.TemporaryDirectory(prefix="farlane-bench-") as folder:
        environment = guest.environment(words[0], mode, Path(folder))
        if mode == "loops" and known is not None:
            environment["FARLANE_MANIFESTS"] = str(known)
        start = time.perf_counter()
        done = subprocess.run(words, env=environment, capture_output=True, text=True, errors="replace", timeout=600)
        wall = time.perf_counter() - start
        report = reports.collect(Path(folder), mode, wall, done.returncode)
    if done.returncode or report.processes != 1:
        raise OutputDiffers(f"{' '.join(words)} failed in mode {mode} (status {done.returncode}):\n{done.stderr}")
    return wall, done.stdout, report


def _points(
    guest: Guest, host: int, words: list[str], known: Path | None, away: float, turns: int, expected: str
) -> list[Point]:
    walls: dict[str, list[float]] = {mode: [] for mode in MODES}
    processor = {mode: [0.0, 0.0] for mode in MODES}
    last: dict[str, reports.Report] = {}

    def once(mode: str) -> None:
        before = _guest_seconds(), _host_seconds(host)
        wall, output, last[mode] = _run(guest, words, mode, known)
        walls[mode].append(wall)
        processor[mode][0] += _guest_seconds() - before[0]
        processor[mode][1] += _host_seconds(host) - before[1]
        if output != expected:
            raise OutputDiffers(f"{' '.join(words)}: mode {mode} prints something else:\n{expected}---\n{output}")

    def ratios(mode: str) -> list[float]:
        return [own / calls for own, calls in zip(walls[mode], walls["calls"], strict=False)]

    for turn in range(turns):
        # Each turn starts with another mode: none always runs behind the same one.
        for mode in (*MODES[turn % len(MODES) :], *MODES[: turn % len(MODES)]):
            if not turn or sum(walls[mode]) <= SECONDS:
                once(mode)
    pair = [mode for mode in MODES if mode != "none"]
    end = time.perf_counter() + PAIRS_SECONDS
    while turns >= ratio.FEWEST and not ratio.known(ratios("loops"), RATIO_WIDTH) and time.perf_counter() < end:
        for mode in pair:
            once(mode)
        pair.reverse()
    return [
        Point(
            distance=away,
            mode=mode,
            wall=statistics.median(walls[mode]),
            fastest=min(walls[mode]),
            runs=len(walls[mode]),
            round_trips=last[mode].round_trips,
            bytes_up=last[mode].bytes_up,
            bytes_down=last[mode].bytes_down,
            against_calls=statistics.median(ratios(mode)),
            against_calls_bounds=list(ratio.bounds(ratios(mode))) if len(walls[mode]) >= ratio.FEWEST else [],
            guest_processor=processor[mode][0] / len(walls[mode]),
            host_processor=processor[mode][1] / len(walls[mode]),
        )
        for mode in MODES
    ]


def measure(distances: Sequence[float], turns: int, names: Sequence[str], progress: Progress) -> Record:
    """Runs everything.

    Args:
        distances: injected round-trip times in microseconds.
        turns: runs of each mode of each program at each distance, unless its seconds are used up before.
        names: the programs wanted; empty for all.
        progress: shows what is done now.

    Raises:
        OutputDiffers: a program failed or a mode changed what it prints.
    """
    progress.begin("measuring the proxy")
    load = os.getloadavg()[0]
    record = Record(
        date=time.strftime("%Y-%m-%d"),
        machine=machine(),
        distances=list(distances),
        bare=asdict(distance.achieved(None, 2000)),
        achieved={f"{away:g}": asdict(distance.achieved(away, 400 if away > 1000 else 2000)) for away in distances},
    )
    chosen: list[tuple[Program, list[str]]] = []
    for program in PROGRAMS:
        if not names or program.name in names:
            words = command(program)
            if words is None:
                record.left_out.append(f"{program.name}: its source is in tests/native, which is not here")
            else:
                chosen.append((program, words))
    with ExitStack() as stack:
        os.environ.update(HOST_ENVIRONMENT)  # this process is the benchmark's own
        host = stack.enter_context(EmbeddedHost("sim"))
        near = Guest(host.url)
        far = {away: Guest(stack.enter_context(distance.at_distance(host.url, away))) for away in distances}
        progress.expect(len(chosen) * (1 + len(far)))
        for program, words in chosen:
            progress.begin(f"analyzing {program.name}")
            known = manifests.prepare(Path(words[0]), os.environ, ANALYZE_SECONDS, progress.begin)
            _, expected, report = _run(near, words, "none", known)
            row = Row(program.name, program.what, program.family, sum(report.calls.values()))
            progress.advance()
            for away, guest in far.items():
                progress.begin(f"{program.name} at {away:g} us")
                row.points += _points(guest, host.pid, words, known, away, turns, expected)
                progress.advance()
            record.rows.append(row)
    record.load = [load, os.getloadavg()[0]]
    return record
