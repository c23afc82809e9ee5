"""Draws the plots of docs/results from the tables of its data (tables.py): a figure stands once.

A plot takes the first number of each cell. `series` are columns by their place (0 is the label); `rows` says which rows count.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import tables

ROOT = tables.ROOT
PICTURES = ROOT / "docs/pictures"
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*")
Rows = Callable[[list[str]], bool]


@dataclass(frozen=True)
class Plot:
    """A plot of one table of a page."""

    page: str
    label: str
    table: str
    series: dict[str, int]
    rows: Rows = lambda row: True
    logarithmic: bool = False
    labels: int = 1  # how many cells of a row are its label


LATENCY = "mean latency, % beside no sharing"


def latency(row: list[str]) -> bool:
    return row[0].endswith(", latency")


PLOTS = (
    Plot("python-guests", "device over processor, time (log)", "arrays", {"time": 3}, logarithmic=True),
    Plot("latency", "microseconds", "round-trips", {"shared memory": 1, "Unix socket": 2, "TCP": 3}),
    Plot("gpu", "milliseconds (log)", "workloads", {"natively": 1, "through Farlane": 2}, logarithmic=True),
    Plot("loops", "milliseconds at 500 us (log)", "reading", {"none": 4, "calls": 5, "loops": 6}, logarithmic=True),
    Plot("analyzer", "% of loops described, unseen", "unseen", {"-O0": 2, "-O2": 3, "-O3": 4}),
    Plot("kernels", "times (log); less than 1 is faster", "kernels", {"over gcc": 1, "over PoCL": 2}, logarithmic=True),
    Plot("memory-reuse", "MiB to the device", "policies", {"lru": 1, "future": 2, "genetic": 3, "dp": 4}),
    Plot("task-switching", "MiB to the host", "moved", {"MiB to the host": 3}, labels=2),
    Plot(
        "slots",
        "mean wait in service times",
        "waits",
        {"two-ended": 1, "first-fit": 2, "best-fit": 4, "split-ends": 6},
    ),
    Plot("tlb-programs", LATENCY, "hierarchies", {"s3": 3, "pool": 5, "peers": 6, "larger": 8}, latency),
    Plot("tlb-streams", LATENCY, "streams", {"s3": 2, "pool": 4, "peers": 5, "larger": 6}, latency),
    Plot("tlb-cost", "processor time with the model over without", "whole", {"no sharing": 1, "peers": 3}),
    Plot("fleet", "mean slowdown", "placement", {"mean slowdown": 4}),
    Plot(
        "faults",
        "trials",
        "campaign",
        {"went on": 2, "said why it failed": 3, "ended by the fault": 4},
        lambda row: row[0] != "together",
    ),
)


def number(cell: str) -> float:
    """The first number of a cell; 0 where there is none."""
    match = NUMBER.search(cell.replace("**", ""))
    return float(match[0].replace(",", "")) if match else 0.0


def data(plot: Plot) -> tuple[list[str], dict[str, list[float]]]:
    """The labels, and the numbers of each series."""
    table = tables.load(plot.page).get(plot.table)
    rows = [row for row in table.rows if plot.rows(row)] if table else []
    if not table or not rows or max(plot.series.values()) >= len(table.head):
        raise tables.TablesError(
            f"data/{plot.page}.json does not have the table {plot.table}, or not the rows and columns of its plot"
        )
    labels = [", ".join(row[: plot.labels]).removesuffix(", latency") for row in rows]
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
        axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(series))  # above the bars
    path = PICTURES / f"results-{plot.page}.svg"
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path


def draw_all() -> None:
    for plot in PLOTS:
        print(f"drew {draw(plot).relative_to(ROOT)}")
