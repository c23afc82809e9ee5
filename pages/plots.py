"""Draws the plots of docs/results from the tables of its pages: a figure stands once, in its table.

A plot takes the first number of each cell. `series` are columns by their place (0 is the label); `rows` says which rows count.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PICTURES = ROOT / "docs/results", ROOT / "docs/pictures"
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*")
Rows = Callable[[list[str]], bool]


class PlotError(Exception):
    """A page does not have the table that its plot is made of; the message says which."""


@dataclass(frozen=True)
class Plot:
    """A plot of one page: `table` is the place of its table in the page, from 0."""

    page: str
    label: str
    table: int
    series: dict[str, int]
    rows: Rows = lambda row: True
    logarithmic: bool = False
    transposed: bool = False  # the series are rows, by their place


PLOTS = (
    Plot("python-guests", "device over processor, time (log)", 0, {"time": 3}, logarithmic=True),
    Plot("latency", "microseconds", 0, {"shared memory": 1, "Unix socket": 2, "TCP": 3}),
    Plot("loops", "milliseconds at 500 us (log)", 0, {"none": 4, "calls": 5, "loops": 6}, logarithmic=True),
    Plot("analyzer", "% of loops described, unseen", 1, {"-O0": 2, "-O2": 3, "-O3": 4}),
    Plot(
        "kernels",
        "times (log); less than 1 is faster",
        0,
        {"over gcc": 0, "over PoCL": 1},
        logarithmic=True,
        transposed=True,
    ),
    Plot("memory-reuse", "MiB to the device", 0, {"lru": 1, "future": 2, "genetic": 3, "dp": 4}),
    Plot("task-switching", "MiB to the host", 0, {"MiB to the host": 3}),
    Plot("slots", "mean wait in service times", 2, {"two-ended": 1, "first-fit": 2, "best-fit": 4, "split-ends": 6}),
    Plot(
        "tlb-programs",
        "mean latency, % beside no sharing",
        0,
        {"s3": 3, "pool": 5, "peers": 6, "larger": 7},
        lambda row: row[0].endswith(", latency"),
    ),
    Plot(
        "tlb-streams",
        "mean latency, % beside no sharing",
        0,
        {"s3": 2, "pool": 4, "peers": 5, "larger": 6},
        lambda row: row[0].endswith(", latency"),
    ),
    Plot("tlb-cost", "processor time with the model over without", 1, {"no sharing": 0, "peers": 1}, transposed=True),
    Plot(
        "faults",
        "trials",
        0,
        {"went on": 2, "said why it failed": 3, "ended by the fault": 4},
        lambda row: row[0] != "together",
    ),
)


def tables(page: str) -> list[list[list[str]]]:
    """A page's tables: their rows, the head first."""
    found: list[list[list[str]]] = []
    inside = False
    for line in (RESULTS / f"{page}.md").read_text().splitlines():
        row = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.lstrip().startswith("|") else None
        if row is None:
            inside = False
        elif not inside:
            found.append([row])
            inside = True
        elif not all(re.fullmatch(r":?-+:?", cell) for cell in row):
            found[-1].append(row)
    return found


def number(cell: str) -> float:
    """The first number of a cell; 0 where there is none."""
    match = NUMBER.search(cell.replace("**", ""))
    return float(match[0].replace(",", "")) if match else 0.0


def data(plot: Plot) -> tuple[list[str], dict[str, list[float]]]:
    """The labels, and the numbers of each series."""
    found = tables(plot.page)
    if plot.table >= len(found):
        raise PlotError(f"docs/results/{plot.page}.md has {len(found)} tables, not {plot.table + 1}")
    head, *rows = found[plot.table]
    if plot.transposed:
        used = [
            place
            for place, name in enumerate(head)
            if name and all(NUMBER.search(rows[row][place]) for row in plot.series.values())
        ]
        return [head[place] for place in used], {
            name: [number(rows[row][place]) for place in used] for name, row in plot.series.items()
        }
    rows = [row for row in rows if plot.rows(row)]
    if not rows or max(plot.series.values()) >= len(head):
        raise PlotError(
            f"docs/results/{plot.page}.md, table {plot.table + 1}, does not have the rows and columns of its plot"
        )
    labels, above = [], ""
    for row in rows:
        above = row[0] or above
        labels.append(above.removesuffix(", latency") + (f", {row[1]}" if plot.page == "task-switching" else ""))
    return labels, {name: [number(row[place]) for row in rows] for name, place in plot.series.items()}


def draw(plot: Plot) -> Path:
    """Writes the plot; the same table gives the same bytes."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": plot.page, "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    labels, series = data(plot)
    height = 0.8 / len(series)
    figure, axes = pyplot.subplots(figsize=(7.5, 1.1 + 0.16 * len(labels) * (1 + len(series))), layout="constrained")
    for place, (name, values) in enumerate(series.items()):
        axes.barh([row + place * height for row in range(len(labels))], values, height, label=name)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(labels))], labels)
    axes.invert_yaxis()
    axes.set_xlabel(plot.label)
    if plot.logarithmic:
        axes.set_xscale("log")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    if len(series) > 1:
        axes.legend(frameon=False)
    path = PICTURES / f"results-{plot.page}.svg"
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path


def draw_all() -> None:
    for plot in PLOTS:
        print(f"drew {draw(plot).relative_to(ROOT)}")
