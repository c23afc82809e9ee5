"""Pages that hold everything they show: a run's report, and a sweep."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from farlane.backend.simulation import charts
from farlane.backend.simulation.text import migration
from farlane.demangle import demangled, readable

MOST_KERNELS = 12  # in a plot, those with the most requests

_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 24px auto; max-width: 900px; color: #222; }
h1 { font-size: 22px; } h2 { font-size: 17px; margin-top: 32px; }
svg { max-width: 100%; height: auto; font: 11px system-ui, sans-serif; fill: #333; }
.grid { stroke: #ddd; stroke-width: 1; }
table { border-collapse: collapse; font-size: 12px; } td, th { padding: 2px 9px; text-align: right; border-bottom: 1px solid #e5e5e5; }
td:first-child, th:first-child { text-align: left; } .wide { overflow-x: auto; } .best { font-weight: bold; }
details pre { font-size: 11px; overflow-x: auto; background: #f7f7f7; padding: 8px; }
"""


def document(title: str, body: Sequence[str]) -> str:
    head = f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style></head>'
    return "\n".join([head, "<body>", f"<h1>{escape(title)}</h1>", *body, "</body></html>"]) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ['<div class="wide"><table><tr>' + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join([*lines, "</table></div>"])


def _where(counts: Mapping[str, Any]) -> dict[str, float]:
    """Where requests were answered, as parts of all."""
    requests = max(1, counts["requests"])
    joined_walks = counts["shared_merged"]
    return {
        "private TLB": counts["private_hits"] / requests,
        "joined a miss": counts["merged"] / requests,
        "peer": counts["peer_hits"] / requests,
        "shared TLB": counts["shared_hits"] / requests,
        "joined a walk": joined_walks / requests,
        "walk": counts["walks"] / requests,
    }


def run(title: str, sessions: Sequence[dict[str, Any]]) -> str:
    """The page of `farlane sim run`."""
    body: list[str] = []
    for number, session in enumerate(sessions, 1):
        if len(sessions) > 1:
            body.append(f"<h2>Session {number}</h2>")
        body += _session(session)
    return document(title, body)


def _session(session: dict[str, Any]) -> list[str]:
    kernels = [row for row in session["kernels"] if not row["refused"]]
    largest = sorted(kernels, key=lambda row: -row["requests"])[:MOST_KERNELS]
    short = Counter(readable(row["name"]) for row in largest)  # overloads share theirs
    shown = {
        name if short[name := readable(row["name"])] == 1 else demangled(row["name"]): row["counts"] for row in largest
    }
    if len(kernels) != 1:
        shown["in total"] = session["total"]
    total = session["total"]
    body = [
        "<h2>Where requests were answered</h2>",
        charts.bars({name: _where(counts) for name, counts in shown.items()}, percent=True),
        "<h2>Mean latency of a translation, cycles</h2>",
        charts.bars(
            {name: {"latency": counts["latency"] / max(1, counts["requests"])} for name, counts in shown.items()}
        ),
        "<h2>Page walks and network hops</h2>",
        charts.bars(
            {
                name: {"walks": float(counts["walks"]), "hops": float(counts["hops"])}
                for name, counts in shown.items()
            }
        ),
        "<h2>Slots of shared memory in use</h2>",
        charts.steps(
            session["slots"]["over_time"],
            session["slots"]["cycles"],
            max((used for _, used in session["slots"]["over_time"]), default=1),
            f"slots in use, of {session['slots']['there']}, over cycles",
        ),
        "<h2>Migration</h2>",
        f"<p>{escape(migration(session))}</p>",
        "<h2>Kernels</h2>",
        table(
            ("kernel", "launches", "blocks", "requests", "latency", "private hits", "joined", "peer hits", "shared accesses", "walks", "hops",
             "slots in use", "blocks a core", "cycles"),
            [_row(row) for row in kernels],
        ),
    ]  # fmt: skip
    for row in session["kernels"]:
        if row["refused"]:
            body.append(f"<p>{escape(demangled(row['name']))} is not modelled: {escape(row['refused'])}</p>")
    body.append(f"<p>{session['pages']} pages were touched; {total['faults']} walks found no translation.</p>")
    shown_config = escape(json.dumps(session["config"], indent=1))
    body.append(f"<details><summary>Configuration</summary><pre>{shown_config}</pre></details>")
    body.append(f"<details><summary>All counts</summary><pre>{escape(json.dumps(total, indent=1))}</pre></details>")
    return body


def _row(row: dict[str, Any]) -> list[str]:
    counts = row["counts"]
    requests = max(1, counts["requests"])
    return [
        demangled(row["name"]), f"{row['launches']:,}", f"{row['blocks']:,}", f"{row['requests']:,}", f"{counts['latency'] / requests:.1f}",
        f"{counts['private_hits'] / requests:.1%}", f"{counts['merged'] / requests:.1%}", f"{counts['peer_hits']:,}",
        f"{counts['shared_accesses']:,}", f"{counts['walks']:,}", f"{counts['hops']:,}", f"{row['utilisation']:.1%}", f"{row['resident']:.1f}",
        f"{counts['cycles']:,}",
    ]  # fmt: skip
