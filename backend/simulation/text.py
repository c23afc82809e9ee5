"""A run's report as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from farlane.demangle import readable

_HEAD = (
    f"{'kernel':28} {'launches':>8} {'requests':>10} {'latency':>8} {'private':>8} {'joined':>7} {'peers':>7}"
    f" {'shared':>9} {'walks':>8} {'hops':>9} {'slots':>6} {'blocks':>7}"
)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _line(name: str, row: dict[str, Any], counts: dict[str, Any], slots: str, resident: str) -> str:
    requests = counts["requests"]
    latency = counts["latency"] / requests if requests else 0.0
    shown = name if len(name) <= 28 else name[:25] + "..."
    return (
        f"{shown:28} {row['launches']:8} {row['requests']:10} {latency:8.1f} {_share(counts['private_hits'], requests):>8}"
        f" {_share(counts['merged'], requests):>7} {_share(counts['peer_hits'], counts['misses']):>7} {counts['shared_accesses']:9}"
        f" {counts['walks']:8} {counts['hops']:9} {slots:>6} {resident:>7}"
    )


def report(found: Sequence[dict[str, Any]]) -> str:
    """All sessions of a run."""
    lines = []
    for number, session in enumerate(found, 1):
        if len(found) > 1:
            lines.append(f"session {number}:")
        lines.append(_HEAD)
        for row in session["kernels"]:
            if row["refused"]:
                lines.append(f"{readable(row['name'])[:28]:28} is not modelled: {row['refused']}")
                continue
            lines.append(
                _line(readable(row["name"]), row, row["counts"], f"{row['utilisation']:.1%}", f"{row['resident']:.1f}")
                + (f"  (in {row['parts']} parts)" if row["parts"] > 1 else "")
            )
        rows = session["kernels"]
        total = {name: sum(row[name] for row in rows) for name in ("launches", "requests")}
        lines.append(_line("in total", total, session["total"], "", ""))
        lines += _more(session)
    return "\n".join(lines) + "\n"


def _more(session: dict[str, Any]) -> list[str]:
    total, seconds = session["total"], session["seconds"]
    tlb = session["config"]["tlb"]
    lines = [
        f"{session['pages']} pages of {tlb['page_bytes']} bytes; sharing {tlb['sharing']}; {total['walk_reads']} entries of the page table read;"
        f" waited: {total['walk_wait']} cycles for walkers, {total['shared_wait']} for the shared TLB, {total['network_wait']} in the network"
    ]
    if session["fast"]:
        lines.append("fast mode: requests that a core had made just before are counted as hits and not modelled")
    lines.append(migration(session))
    lines.append(
        f"seconds: kernels {seconds['kernels']:.2f}, placing blocks {seconds['slots']:.2f}, ordering {seconds['order']:.2f}, TLBs {seconds['tlb']:.2f}"
    )
    return lines


def migration(session: dict[str, Any]) -> str:
    """What the host's report has of data that moved between device and host memory."""
    moved = session.get("migration")
    if not moved:
        return "migration: none; the session's data were within its device memory"
    parts = []
    for name, value in moved.items():
        inner = value.items() if isinstance(value, dict) else ((name, value),)
        shown = ", ".join(f"{key.replace('_', ' ')} {count}" for key, count in inner)
        parts.append(f"{name}: {shown}" if isinstance(value, dict) else shown)
    return "migration: " + "; ".join(parts)
