"""A record as one HTML file that needs nothing else: a small diagram for each program, and the tables."""

from __future__ import annotations

import math
from html import escape

from farlane.frontend.shim_library import MODES
from farlane.roundtrips.measure import Record, Row
from farlane.roundtrips.text import circumstances, distance_name, milliseconds, tables

WIDTH, HEIGHT = 270, 170
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 34, 26

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1180px; padding: 0 1em; color: #222; }
body { overflow-wrap: anywhere; }
h1, h2 { font-weight: 600; } svg { background: #fafafa; margin: 3px; }
svg text { font: 11px system-ui, sans-serif; fill: #333; } svg .title { font-weight: 600; font-size: 12px; }
.none { --mode: #b0413e; } .calls { --mode: #e0a030; } .loops { --mode: #2a7f62; }
svg polyline { fill: none; stroke: var(--mode); stroke-width: 2; } svg circle { fill: var(--mode); }
.key { color: var(--mode); font-weight: 600; margin-right: 1em; }
.diagrams { display: flex; flex-wrap: wrap; }
@media (max-width: 640px) { .diagrams svg { width: 100%; height: auto; margin: 3px 0; } }
.table { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; white-space: nowrap; }
th, td { padding: 2px 9px; text-align: right; border-bottom: 1px solid #ddd; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
"""


def _diagram(row: Row, distances: list[float]) -> str:
    """Wall time over the injected round trip; time on a logarithmic scale, distances side by side."""
    walls = [point.wall for point in row.points]
    low, high = math.floor(math.log10(min(walls))), math.ceil(math.log10(max(walls)))
    high = max(high, low + 1)

    def x(k: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (k / max(len(distances) - 1, 1))

    def y(seconds: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - math.log10(seconds)) / (high - low)

    parts = [
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>{escape(row.what)}</title>'
    ]
    parts.append(f'<text class="title" x="8" y="16">{escape(row.name)}</text>')
    for power in range(low, high + 1):
        at = y(10.0**power)
        label = f"{10**power:g} s" if power >= 0 else f"{10 ** (power + 3):g} ms"
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 5}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    for k, away in enumerate(distances):
        parts.append(f'<text x="{x(k):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{distance_name(away)}</text>')
    for mode in MODES:
        points = [(x(k), y(row.point(away, mode).wall), row.point(away, mode)) for k, away in enumerate(distances)]
        parts.append(f'<g class="{mode}"><polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b, _ in points)}"/>')
        for a, b, point in points:
            note = (
                f"{mode}: {milliseconds(point.wall)} ms, {point.round_trips:,} round trips, {point.bytes_up:,} bytes up"
            )
            parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3"><title>{note}</title></circle>')
        parts.append("</g>")
    return "".join([*parts, "</svg>"])


def page(record: Record) -> str:
    """The whole file."""
    parts = ["<!doctype html>", '<html lang="en"><head><meta charset="utf-8">']
    parts.append('<meta name="viewport" content="width=device-width"><title>Farlane: round trips</title>')
    parts.append(f"<style>{STYLE}</style></head><body><h1>Round trips</h1>")
    parts.append(f"<p>{escape(circumstances(record))} Guest and host on one machine, simulated device, a ")
    parts.append("forwarder between them delays each direction by half the round trip. Medians. ")
    parts.append("Wall time over the injected round trip in mode ")
    parts += [f'<span class="key {mode}">{mode}</span>' for mode in MODES]
    parts.append("(the time scale is logarithmic; point at a dot for its figures).</p><div class='diagrams'>")
    parts += [_diagram(row, record.distances) for row in record.rows]
    parts.append("</div>")
    for table in tables(record):
        head = "".join(f"<th>{escape(cell)}</th>" for cell in table.headings)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
        parts.append(f"<h2>{escape(table.title)}</h2>" + (f"<p>{escape(table.remark)}</p>" if table.remark else ""))
        parts.append(f'<div class="table"><table><tr>{head}</tr>{body}</table></div>')
    parts += [f"<p>Left out: {escape(reason)}.</p>" for reason in record.left_out]
    return "\n".join([*parts, "</body></html>", ""])
