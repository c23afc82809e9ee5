"""Hierarchies on the same recorded requests: S3's directories with their thresholds, the rivals, and what was asked of them (docs/explanation/systems.md, S3).

Every hierarchy begins empty and gets all of a program's requests, group of launches by group. All counts are the same on every run.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any

from farlane.backend.memory import config
from farlane.backend.memory.config import Config
from farlane.backend.memory.cores import ordering
from farlane.backend.memory.cores.pages import Pages
from farlane.backend.memory.cores.trace import TraceReader
from farlane.backend.memory.tlb import rivals
from farlane.backend.memory.tlb.counts import Counts
from farlane.backend.memory.tlb.spec import Spec
from farlane.backend.memory.tlb.stream import Stream
from farlane.backend.simulation import charts, glance, pages
from farlane.terminal.progress import Progress

FILLS, SPARES = (2, 3, 4, 5), (2, 3, 4)
SHARING = 0.5  # a sharing program: the oracle finds at least this part of the private misses in a peer
ORACLE_GAIN, SLOWER = 0.8, 0.01
#: What directories do, besides S3 as it stands: name: (preset, changes to the directory, changes to the policy)
DIRECTORIES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "s3": ("mgpusim-s3", {}, {}),
    "s3-nearest": ("mgpusim-s3", {"route": "nearest"}, {}),
    "pool": ("mgpusim-pool", {}, {}),
    "peers": ("mgpusim-peers", {}, {}),
    "cheapest": ("mgpusim-cheapest", {}, {}),
    "peers-2nd": ("mgpusim-peers", {}, {"peer_fill": 2}),
    "peers-cheap": ("mgpusim-peers", {"route": "cheapest"}, {"peer_fill": 2}),
}
_RIVALS = ("none", "larger", "probe", "oracle", "perfect")
NAMES = ("none", *DIRECTORIES, *_RIVALS[1:])
_KEPT = 4_000_000  # requests that stay in memory between hierarchies


class SweepError(Exception):
    """What cannot be compared; the message is for the user."""


def hierarchies(base: Spec, names: Sequence[str] | None = None) -> dict[str, Spec]:
    """By name, with the sizes and latencies of `base`; all of them, or some and no sharing. Raises SweepError."""
    for name in names or ():
        if name not in NAMES:
            raise SweepError(f"there is no hierarchy {name!r}; there are {', '.join(NAMES)}")
    found = {"none": rivals.baseline(base)}
    for name, (preset, directory, policy) in DIRECTORIES.items():
        spec = config.preset(preset).tlb
        found[name] = dataclasses.replace(
            base,
            sharing="directory",
            directory=dataclasses.replace(spec.directory, **directory),
            policy=dataclasses.replace(spec.policy, **policy),
        )
    for name, spec in rivals.rivals(found["s3"]).items():
        found.setdefault(name, spec)
    return {name: found[name] for name in NAMES if names is None or name in names or name == "none"}


class Program:
    """A program's recorded requests."""

    def __init__(self, name: str, trace: Path) -> None:
        """Raises TraceError."""
        self.name = name
        self._reader = TraceReader(trace)
        self.cores, self.page_bytes = self._reader.cores, self._reader.page_bytes
        self.requests = sum(group.requests for group in self._reader.groups)
        self.groups = len(self._reader.groups)
        self._kept: dict[int, list[Stream]] = {}

    def group(self, number: int) -> Iterator[Stream]:
        """The requests of a group of launches."""
        if self.requests > _KEPT:
            return self._reader.windows(number)
        if number not in self._kept:
            self._kept[number] = list(self._reader.windows(number))
        return iter(self._kept[number])

    def left_out(self, spec: Spec) -> float:
        """The part of the requests that a hierarchy's fast mode leaves out."""
        keep = ordering.recent(spec)
        kept = sum(len(ordering.filtered(stream, keep)) for group in range(self.groups) for stream in self.group(group))
        return 1 - kept / self.requests if self.requests else 0.0

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.close()


@dataclasses.dataclass
class Result:
    """What came of one program."""

    name: str
    requests: int
    pages: int
    counts: dict[str, Counts]
    grid: dict[tuple[int, int], Counts]

    @property
    def sharing(self) -> bool:
        """Whether peers hold what is missed: as the oracle finds."""
        return "oracle" in self.counts and self.counts["oracle"].peer_share >= SHARING

    def to_json(self) -> dict[str, Any]:
        def shown(counts: Counts) -> dict[str, Any]:
            extra = {"mean_latency": counts.mean_latency, "peer_share": counts.peer_share}
            return {**dataclasses.asdict(counts), **extra}

        return {
            "name": self.name,
            "requests": self.requests,
            "pages": self.pages,
            "hierarchies": {name: shown(counts) for name, counts in self.counts.items()},
            "grid": [{"fill": f, "spare": s, **shown(counts)} for (f, s), counts in self.grid.items()],
        }


def compare(
    program: Program, base: Config, specs: Mapping[str, Spec], grid: bool, progress: Progress | None = None
) -> Result:
    """Runs all hierarchies, and with `grid` S3's thresholds. Raises SweepError for requests of another number of cores or size of pages."""
    progress = progress or Progress(program.name)  # which shows nothing: it is not entered
    if (program.cores, program.page_bytes) != (base.tlb.cores, base.tlb.page_bytes):
        raise SweepError(
            f"{program.name}: recorded with {program.cores} cores and pages of {program.page_bytes} bytes;"
            f" the configuration has {base.tlb.cores} and {base.tlb.page_bytes}"
        )
    table = Pages.of(base)
    counts = {}
    progress.expect(len(specs) + (len(FILLS) * len(SPARES) if grid else 0))
    for name, spec in specs.items():
        progress.begin(f"{program.name}: {name}")
        counts[name] = total(program, spec, table)
        progress.advance()
    tried = {}
    if grid:
        s3 = hierarchies(base.tlb, ["s3"])["s3"]
        for fill in FILLS:
            for spare in SPARES:
                policy = dataclasses.replace(s3.policy, fill_threshold=fill, spare_degree=spare)
                progress.begin(f"{program.name}: thresholds {fill}/{spare}")
                tried[fill, spare] = total(program, dataclasses.replace(s3, policy=policy), table)
                progress.advance()
    return Result(program.name, program.requests, len(table), counts, tried)


def total(program: Program, spec: Spec, table: Pages | None = None, fast: bool = False) -> Counts:
    """All groups of a program, one after the other."""
    from farlane.backend.memory.tlb.fast import FastTlb  # compiled code: only where it is needed

    table = Pages.of(Config(tlb=spec)) if table is None else table
    model = FastTlb(spec, table.table)
    counts = Counts()
    for group in range(program.groups):
        for stream in program.group(group):
            table.need(set(stream.page.tolist()))
            model.feed(ordering.filtered(stream, ordering.recent(spec)) if fast else stream)
        counts = counts + model.finish()
    return counts


# Text ----------------------------------------------------------------------------------------------------------------
def _change(now: int, before: int) -> str:
    return f"{now / before - 1:+.1%}" if before else "-"


def text(result: Result) -> str:
    """A program's table."""
    base = result.counts["none"]
    lines = [
        f"\n{result.name}: {result.requests} requests, {result.pages} pages",
        f"  {'':12}{'latency':>9} {'':>8} {'cycles':>8} {'private':>8} {'joined':>7} {'peers':>7} {'shared':>9} {'walks':>8} {'':>8} {'hops':>9}",
    ]
    for name, counts in result.counts.items():
        requests = max(1, counts.requests)
        lines.append(
            f"  {name:12}{counts.mean_latency:9.1f} {_change(counts.latency, base.latency):>8} {_change(counts.cycles, base.cycles):>8}"
            f" {counts.private_hits / requests:8.1%} {counts.merged / requests:7.1%} {counts.peer_share:7.1%} {counts.shared_accesses:9}"
            f" {counts.walks:8} {_change(counts.walks, base.walks):>8} {counts.hops:9}"
        )
    if result.grid:
        lines.append("  thresholds of s3 (fill / spare), latency against none: " + _grid_text(result))
    return "\n".join(lines)


def _grid_text(result: Result) -> str:
    base = result.counts["none"].latency
    return ", ".join(f"{f}/{s} {_change(counts.latency, base)}" for (f, s), counts in result.grid.items())


def best_thresholds(results: Sequence[Result]) -> list[tuple[float, int, int]]:
    """(geometric mean of the latency's ratio to no sharing, fill, spare), the best first."""
    found = []
    for key in [(fill, spare) for fill in FILLS for spare in SPARES]:
        ratios = [
            result.grid[key].latency / result.counts["none"].latency
            for result in results
            if key in result.grid and result.counts["none"].latency
        ]
        if ratios:
            found.append((statistics.geometric_mean(ratios), *key))
    return sorted(found)


def verdict(result: Result, name: str) -> str:
    """What was asked of a hierarchy, on one program."""
    none, ours, oracle = result.counts["none"], result.counts[name], result.counts.get("oracle")
    parts = [f"peers serve {ours.peer_share:6.1%} of private misses"]
    if oracle is not None:
        most, gain = none.latency - oracle.latency, none.latency - ours.latency
        parts[0] += f" (oracle {oracle.peer_share:.1%})"
        if most > 0.01 * none.latency:
            met = "met" if gain >= ORACLE_GAIN * most else "missed"
            parts.append(f"{gain / most:.0%} of the oracle's gain of {most / none.latency:.1%}: {met}")
        else:
            parts.append(f"the oracle gains {most / none.latency:.1%}")
    parts.append(f"walks {_change(ours.walks, none.walks)}")
    in_time = ours.cycles <= none.cycles * (1 + SLOWER)
    parts.append(f"cycles {_change(ours.cycles, none.cycles)}: {'met' if in_time else 'missed'}")
    return "; ".join(parts)


def summary(results: Sequence[Result]) -> str:
    """Goals for each hierarchy with peers, and the best thresholds."""
    lines = []
    for name in DIRECTORIES:
        rows = [result for result in results if name in result.counts]
        if rows:
            lines.append(f"\n{name}:")
            lines += [f"  {result.name:14} {verdict(result, name)}" for result in rows]
    best = best_thresholds(results)
    if best:
        shown = ", ".join(f"{fill}/{spare} {ratio - 1:+.1%}" for ratio, fill, spare in best)
        lines.append(f"\nthresholds (fill / spare), mean change of the latency, best first: {shown}")
    return "\n".join(lines)


# The page ------------------------------------------------------------------------------------------------------------
def page(results: Sequence[Result]) -> str:
    """The comparison, drawn."""

    def against(name: str) -> dict[str, dict[str, float]]:
        return {
            result.name: {
                hierarchy: getattr(counts, name) / max(1, getattr(result.counts["none"], name)) - 1
                for hierarchy, counts in result.counts.items()
                if hierarchy not in ("none", "perfect")
            }
            for result in results
        }

    peers = {
        result.name: {name: counts.peer_share for name, counts in result.counts.items() if counts.peer_requests}
        for result in results
    }
    latency = against("latency")
    names = list(dict.fromkeys(name for values in latency.values() for name in values))
    body = [
        "<h2>At a glance: mean latency of a translation, against no sharing</h2>",
        glance.changes(latency, names),
        "<h2>Page walks, against no sharing</h2>",
        pages.chart(charts.bars(against("walks"), percent=True)),
        "<h2>Private misses that a peer served</h2>",
        pages.chart(charts.bars(peers, percent=True)),
        "<h2>Cycles of the program, against no sharing</h2>",
        pages.chart(charts.bars(against("cycles"), percent=True)),
    ]
    best = best_thresholds(results)
    if best:
        cells = {
            result.name: {
                f"{fill}/{spare}": counts.latency / max(1, result.counts["none"].latency) - 1
                for (fill, spare), counts in result.grid.items()
            }
            for result in results
        }
        ratio, fill, spare = best[0]
        body += [
            "<h2>Thresholds of S3 (fill / spare): latency, against no sharing</h2>",
            glance.changes(cells, list(dict.fromkeys(name for values in cells.values() for name in values))),
            f"<p>Best on average: fill at {fill}, spare from {spare} on ({ratio - 1:+.1%}).</p>",
        ]
    for result in results:
        body += [f"<h2>{escape(result.name)}</h2>", f"<p>{result.requests:,} requests, {result.pages:,} pages</p>"]
        base = result.counts["none"]
        rows = [
            [
                name, f"{counts.mean_latency:.1f}", _change(counts.latency, base.latency), f"{counts.private_hits / max(1, counts.requests):.1%}",
                f"{counts.peer_share:.1%}", f"{counts.shared_accesses:,}", f"{counts.walks:,}", _change(counts.walks, base.walks), f"{counts.hops:,}",
                _change(counts.cycles, base.cycles),
            ]
            for name, counts in result.counts.items()
        ]  # fmt: skip
        head = (
            "hierarchy",
            "latency",
            "",
            "private hits",
            "peers' share",
            "shared accesses",
            "walks",
            "",
            "hops",
            "cycles",
        )
        body.append(pages.table(head, rows))
    return pages.document("farlane sim sweep", body)
