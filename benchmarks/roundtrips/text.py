"""A record as text: for the terminal, and as Markdown for docs/."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from farlane.frontend.shim_library import MODES
from farlane.roundtrips.goals import AT, faster, verdicts
from farlane.roundtrips.measure import Record


def milliseconds(seconds: float) -> str:
    value = seconds * 1000
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def distance_name(microseconds: float) -> str:
    return f"{microseconds / 1000:g} ms" if microseconds >= 1000 else f"{microseconds:g} us"


class Table:
    """Rows under headings; the first column is left-aligned."""

    def __init__(self, title: str, headings: Sequence[str], remark: str = "") -> None:
        self.title = title
        self.headings = list(headings)
        self.remark = remark
        self.rows: list[list[str]] = []

    def text(self) -> str:
        widths = [max(len(row[k]) for row in [self.headings, *self.rows]) for k in range(len(self.headings))]
        lines = [self.title]
        for row in [self.headings, *self.rows]:
            cells = [
                cell.ljust(width) if k == 0 else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  " + "  ".join(cells).rstrip())
        return "\n".join([*lines, *([self.remark] if self.remark else []), ""])

    def markdown(self) -> str:
        lines = [f"### {self.title}", "", *textwrap.wrap(self.remark, 120), *([""] if self.remark else [])]
        lines.append("| " + " | ".join(self.headings) + " |")
        lines.append("|---" + "|---:" * (len(self.headings) - 1) + "|")
        return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in self.rows), ""])


def tables(record: Record) -> list[Table]:
    """Everything that was measured."""
    return [_distances(record), _goals(record), _counts(record), _times(record), _processor(record), _recorder(record)]


def _distances(record: Record) -> Table:
    table = Table(
        "Round trips: injected and achieved, us",
        ["injected", "median", "10 %", "90 %"],
        "A bare exchange of 64 bytes over Unix sockets. The difference is the forwarder's own cost and late wake-ups of idle "
        "processors; it is the same in all modes.",
    )
    table.rows.append(["without the forwarder", *(f"{record.bare[k]:.0f}" for k in ("median", "p10", "p90"))])
    for away in record.distances:
        found = record.achieved[f"{away:g}"]
        table.rows.append([distance_name(away), *(f"{found[k]:.0f}" for k in ("median", "p10", "p90"))])
    return table


def _counts(record: Record) -> Table:
    counted = record.distances[0]
    headings = ["program", "CUDA calls", *(f"round trips, {mode}" for mode in MODES)]
    headings += [*(f"KB up, {mode}" for mode in MODES), *(f"KB down, {mode}" for mode in MODES)]
    table = Table(f"Round trips and bytes, at {distance_name(counted)}", headings)
    for row in record.rows:
        points = [row.point(counted, mode) for mode in MODES]
        cells = [row.name, f"{row.calls:,}", *(f"{point.round_trips:,}" for point in points)]
        cells += [
            *(f"{point.bytes_up / 1000:,.1f}" for point in points),
            *(f"{point.bytes_down / 1000:,.1f}" for point in points),
        ]
        table.rows.append(cells)
    return table


def _times(record: Record) -> Table:
    headings = ["program"]
    for away in record.distances:
        headings += [f"{distance_name(away)}: none", "calls", "loops", "none / loops", "loops / calls"]
    table = Table(
        "Wall time in milliseconds, by injected round trip",
        headings,
        "From the start of the process to its end. none / loops: how many times faster. loops / calls: below 1 is faster "
        "than without loops (median of the ratios of neighbouring runs).",
    )
    for row in record.rows:
        cells = [row.name]
        for away in record.distances:
            cells += [milliseconds(row.point(away, mode).wall) for mode in MODES]
            cells += [f"{faster(row, away):.1f}", f"{row.point(away, 'loops').against_calls:.2f}"]
        table.rows.append(cells)
    return table


def _processor(record: Record) -> Table:
    away = record.distances[0]
    deferring = [mode for mode in MODES if mode != "none"]
    headings = [
        "program",
        *(f"{side}, {mode}" for side in ("guest", "host") for mode in deferring),
        "sum, loops / calls",
    ]
    table = Table(
        f"Processor time in milliseconds, at {distance_name(away)}",
        headings,
        "Of the program's process from its start to its end, and of the host's meanwhile; means. Other work on the machine disturbs "
        "it less than wall time.",
    )
    for row in record.rows:
        calls, loops = (row.point(away, mode) for mode in deferring)
        used = [point.guest_processor + point.host_processor for point in (calls, loops)]
        cells = [f"{1000 * point.guest_processor:.1f}" for point in (calls, loops)]
        cells += [f"{1000 * point.host_processor:.1f}" for point in (calls, loops)]
        table.rows.append([row.name, *cells, f"{used[1] / used[0]:.2f}" if used[0] else ""])
    return table


def _goals(record: Record) -> Table:
    found = verdicts(record)
    met = sum(verdict.met for verdict in found)
    table = Table(
        f"Goals at {distance_name(AT)}",
        ["program", "goal", "wanted", "reached", "verdict"],
        f"{met} of {len(found)} met. In brackets: between which the median lies with 90 %, by the order of the runs' ratios.",
    )
    for verdict in found:
        short = verdict.reached / verdict.wanted
        if verdict.met:
            judged = "met"
        elif "over" in verdict.goal:
            judged = f"missed by {100 * (short - 1):.1f} %"
        else:
            judged = f"missed: {short:.2f} of it"
        wanted = f"{verdict.wanted:g}" if verdict.wanted >= 10 else f"{verdict.wanted:.2f}"
        reached = f"{verdict.reached:.1f}" if verdict.reached >= 10 else f"{verdict.reached:.2f}"
        if verdict.bounds:
            reached += f" ({verdict.bounds[0]:.2f} to {verdict.bounds[1]:.2f})"
        table.rows.append([verdict.program, verdict.goal, wanted, reached, judged])
    return table


def _recorder(record: Record) -> Table:
    table = Table(
        "What a launch costs the calling thread in a long loop, ns",
        ["mode", "equal launches", "affine arguments", "an append of its bytes"],
        "On the null device, so that nothing else keeps the processor busy but the host's replay. Goal: 150 ns counted, 500 ns recorded.",
    )
    for found in record.recorder:
        table.rows.append([found["mode"], *(f"{found[kind]:,.0f}" for kind in ("constant", "affine", "append"))])
    return table


def programs(record: Record) -> Table:
    """What the programs are."""
    table = Table("Programs", ["program", "what"])
    table.rows += [[row.name, row.what] for row in record.rows]
    return table


def circumstances(record: Record) -> str:
    """When and where it was measured, and what else the machine did."""
    told = f"Measured on {record.date}: {record.machine}."
    if record.load:
        told += " Load of the machine over a minute, before and after: " + ", ".join(
            f"{one:.1f}" for one in record.load
        )
        told += (
            ". A load above 1 beforehand is other work, which disturbs these figures." if record.load[0] > 1 else "."
        )
    return " ".join([told, *record.remarks])


def text(record: Record) -> str:
    parts = [circumstances(record), ""]
    parts += [table.text() for table in tables(record)]
    parts += [f"left out: {reason}" for reason in record.left_out]
    return "\n".join(parts)


MARKDOWN_HEAD = """# Round trips

What deferral saves at a distance. `farlane bench roundtrips --output docs/results/roundtrips` writes this page (also part of
`make bench`). The same figures are in [roundtrips.html](roundtrips.html) and [roundtrips.json](roundtrips.json).

    farlane bench roundtrips                       # everything, about twenty minutes
    farlane bench roundtrips --only repeated,cg-host --distances 500
    farlane bench roundtrips --output FOLDER       # roundtrips.json, .md, .html, .png

Guest and host run on one machine over a Unix socket with the simulated device. Between them is a forwarder
([delay_proxy.cpp](../../../benchmarks/roundtrips/delay_proxy.cpp)), which delays each direction by half the round trip.
It does not limit bandwidth. All programs print the same in all modes; a difference ends the benchmark. The modes take
turns; figures are medians. The host compiles kernels by tier 2 at once (`FARLANE_JIT_TIERS=off`): else a mode whose runs
come later would have faster kernels.

![wall time at 500 us, and round trips](roundtrips.png)
"""


def markdown(record: Record) -> str:
    parts = [MARKDOWN_HEAD, *textwrap.wrap(circumstances(record), 120), ""]
    parts += [table.markdown() for table in [*tables(record), programs(record)]]
    parts += [f"Left out: {reason}." for reason in record.left_out]
    return "\n".join(parts).rstrip() + "\n"
