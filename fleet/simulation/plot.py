"""The comparison as a picture: waiting, slowdown, use over time, decisions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from farlane.fleet.simulation.running import Report


class PlotError(Exception):
    """The picture cannot be drawn; the message says what to do."""


def require() -> None:
    """Raises PlotError."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise PlotError("--plot needs matplotlib: pip install 'farlane[bench]'") from None


def draw(reports: Mapping[str, Report], path: Path) -> None:
    """By the file's suffix: .svg, .png or .pdf. Raises PlotError, OSError."""
    require()
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7.5), layout="constrained")
    (waits, slowdowns), (use, decisions) = axes
    for name, report in reports.items():
        for axis, values in ((waits, report.waits), (slowdowns, report.slowdowns), (decisions, report.decisions)):
            ordered = np.sort(values)
            axis.plot(ordered, 1 - np.arange(len(ordered)) / max(1, len(ordered)), label=name)
        use.plot([at / 86400 for at, _ in report.work], [share for _, share in report.work], label=name)
    waits.set(
        title="Waiting", xlabel="seconds", ylabel="part of sessions that wait longer", xscale="symlog", yscale="log"
    )
    slowdowns.set(
        title="Slowdown", xlabel="times as long as alone", ylabel="part of sessions above", xscale="log", yscale="log"
    )
    decisions.set(
        title="Decisions",
        xlabel="seconds of the processor",
        ylabel="part of decisions that take longer",
        xscale="log",
        yscale="log",
    )
    use.set(title="Use", xlabel="days", ylabel="part of the fleet's throughput", ylim=(0, 1.05))
    waits.legend()
    try:
        figure.savefig(path)
    except ValueError as error:
        raise PlotError(f"{path}: {error}") from None
    finally:
        pyplot.close(figure)
