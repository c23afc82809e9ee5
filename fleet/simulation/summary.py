"""The figures of a run, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from farlane.fleet.simulation.running import Report

GIB = float(1 << 30)


def _quantile(values: Sequence[float], part: float) -> float:
    return float(np.quantile(values, part)) if len(values) else 0.0


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def figures(report: Report) -> dict[str, float]:
    """Seconds, shares, bytes; the names say which."""
    return {
        "decision_seconds_median": _quantile(report.decisions, 0.5),
        "decision_seconds_p99": _quantile(report.decisions, 0.99),
        "decision_seconds_max": max(report.decisions, default=0.0),
        "waited_share": _mean([float(wait > 0) for wait in report.waits]),
        "wait_seconds_mean": _mean(report.waits),
        "wait_seconds_p99": _quantile(report.waits, 0.99),
        "slowdown_median": _quantile(report.slowdowns, 0.5),
        "slowdown_mean": _mean(report.slowdowns),
        "slowdown_p99": _quantile(report.slowdowns, 0.99),
        "memory_reserved_mean": _mean([share for _, share in report.memory]),
        "throughput_used_mean": _mean([share for _, share in report.work]),
        "queue_max": float(max((length for _, length in report.queue), default=0)),
        "images_moved_bytes": float(report.moved_bytes),
        "lost_with_hosts": float(report.lost),
        "refused": float(report.refused),
        "length_seconds": report.length,
    }


def table(reports: Mapping[str, Report]) -> str:
    """One row for each policy, in Markdown."""
    lines = [
        "| policy | decision, median; 99 % | waited | wait, mean; 99 % | slowdown, mean; 99 % | memory reserved | throughput used | images moved |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, report in reports.items():
        found = figures(report)
        lines.append(
            f"| {name} | {found['decision_seconds_median'] * 1e6:.0f}; {found['decision_seconds_p99'] * 1e6:.0f} us"
            f" | {found['waited_share']:.1%}"
            f" | {found['wait_seconds_mean']:.0f}; {found['wait_seconds_p99']:.0f} s"
            f" | {found['slowdown_mean']:.2f}; {found['slowdown_p99']:.2f}"
            f" | {found['memory_reserved_mean']:.1%} | {found['throughput_used_mean']:.1%}"
            f" | {found['images_moved_bytes'] / GIB:.0f} GiB |"
        )
    return "\n".join(lines)
