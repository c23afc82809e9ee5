"""Pages that hold everything they show: a run's report, and a sweep."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from farlane.backend.simulation import charts, glance
from farlane.backend.simulation.text import migration
from farlane.demangle import demangled, readable

MOST_KERNELS = 12  # in a plot, those with the most requests

_STYLE = """
:root { color-scheme: light dark; --back: #fbfaf8; --card: #fff; --text: #1f2328; --faint: #5d6670; --line: #dcdcd8; --good: #2f9e5b; --bad: #c8503f; }
@media (prefers-color-scheme: dark) { :root { --back: #14171c; --card: #1c2027; --text: #e3e6ea; --faint: #97a1ad; --line: #333a44;
  --good: #3f9a66; --bad: #b9544a; } }
* { box-sizing: border-box; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 0 auto; padding: 1rem clamp(0.8rem, 3vw, 2rem) 3rem; max-width: 70rem; background: var(--back); color: var(--text); }
h1 { font-size: 22px; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 2rem 0 0.5rem; }
svg { display: block; width: 100%; min-width: 40rem; height: auto; font: 11px system-ui, sans-serif; fill: var(--text); }
.grid { stroke: var(--line); stroke-width: 1; } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 12px; } td, th { padding: 2px 9px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
td:first-child, th:first-child { text-align: left; white-space: normal; min-width: 8rem; overflow-wrap: anywhere; } .best { font-weight: bold; }
.changes td.better { background: color-mix(in srgb, var(--good) var(--by), var(--card)); } .changes td.worse { background: color-mix(in srgb, var(--bad) var(--by), var(--card)); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; padding: 0; margin: 0 0 0.6rem; color: var(--faint); font-size: 12px; }
.legend i { display: inline-block; width: 0.7rem; height: 0.7rem; margin-right: 0.3rem; border-radius: 2px; }
.share { display: grid; grid-template: "name bar beside" / minmax(4rem, 12rem) minmax(0, 1fr) 8rem; gap: 0.2rem 0.8rem; align-items: center; margin: 0.35rem 0; }
.share b { grid-area: name; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-weight: 500; }
.share em { grid-area: beside; font-style: normal; color: var(--faint); font-size: 12px; text-align: right; } .bar { grid-area: bar; }
.bar { display: flex; height: 1.5rem; border-radius: 4px; overflow: hidden; background: var(--line); } .bar span { color: #fff; font-size: 11px; text-align: center; overflow: hidden; line-height: 1.5rem; }
@media (max-width: 34rem) { .share { grid-template: "name beside" "bar bar" / minmax(0, 1fr) auto; } .share b { white-space: normal; overflow-wrap: anywhere; } }
details pre { font-size: 11px; overflow-x: auto; background: var(--card); border: 1px solid var(--line); padding: 8px; }
"""


def document(title: str, body: Sequence[str]) -> str:
    head = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title><style>{_STYLE}</style></head>'
    )
    return "\n".join([head, "<body>", f"<h1>{escape(title)}</h1>", *body, "</body></html>"]) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ['<div class="wide"><table><tr>' + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join([*lines, "</table></div>"])


def chart(drawn: str) -> str:
    """A plot, which scrolls where it is wider than the page."""
    return f'<div class="wide">{drawn}</div>'


def _latency(counts: Mapping[str, Any]) -> str:
    return f"{counts['latency'] / max(1, counts['requests']):,.1f} cycles"


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
        "<h2>At a glance: where requests were answered, and after how many cycles on average</h2>",
        glance.shares({name: (_latency(counts), _where(counts)) for name, counts in shown.items()}),
        "<h2>Page walks and network hops</h2>",
        chart(
            charts.bars(
                {
                    name: {"walks": float(counts["walks"]), "hops": float(counts["hops"])}
                    for name, counts in shown.items()
                }
            )
        ),
        "<h2>Slots of shared memory in use</h2>",
        chart(
            charts.steps(
                session["slots"]["over_time"],
                session["slots"]["cycles"],
                max((used for _, used in session["slots"]["over_time"]), default=1),
                f"slots in use, of {session['slots']['there']}, over cycles",
            )
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
