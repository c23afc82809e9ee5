"""A record as a picture (PNG), with matplotlib: wall time at 500 us and round trips, by program and mode."""

from __future__ import annotations

from pathlib import Path

from farlane.frontend.shim_library import MODES
from farlane.roundtrips.goals import AT
from farlane.roundtrips.measure import Record
from farlane.roundtrips.text import distance_name

COLOURS = {"none": "#b0413e", "calls": "#e0a030", "loops": "#2a7f62"}


def write(record: Record, path: Path) -> None:
    """Raises ImportError where matplotlib is not installed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    at = AT if AT in record.distances else record.distances[-1]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(13, 0.42 * len(record.rows) + 1.6), sharey=True)
    places = range(len(record.rows))
    for k, mode in enumerate(MODES):
        offset = [place + 0.26 * (k - 1) for place in places]
        points = [row.point(at, mode) for row in record.rows]
        left.barh(offset, [point.wall * 1000 for point in points], 0.25, label=mode, color=COLOURS[mode])
        right.barh(offset, [point.round_trips for point in points], 0.25, label=mode, color=COLOURS[mode])
    left.set_yticks(list(places), [row.name for row in record.rows])
    left.invert_yaxis()
    left.set_title(f"wall time, ms, at {distance_name(at)} round trip")
    right.set_title("round trips")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.grid(axis="x", alpha=0.3)
    left.legend(title="mode", loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=90, metadata={"Software": None})
    pyplot.close(figure)
