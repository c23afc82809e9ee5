"""A plan as a self-contained page: who is in which segment when, and what moves.

Time goes to the right (steps), the device memory downwards (segments, as high as they are large). A bar is an object's stay in its segment; a mark at its beginning
is a fetch, one at its end a write-back. Names come from trace files: everything is escaped.
"""

from __future__ import annotations

from html import escape

from farlane.backend.memory.planner.cost import Plan
from farlane.backend.memory.planner.trace import Trace

WIDTH, HEIGHT, LEFT = 1100.0, 640.0, 90.0
LEAST_HEIGHT = 6.0


def stays(trace: Trace, plan: Plan) -> list[tuple[int, int, int, int]]:
    """(segment, object, first step, step behind its last access there), in order of segment and step."""
    accesses: dict[int, list[tuple[int, int]]] = {}
    for number, segment in plan.assignment.items():
        accesses.setdefault(segment, []).extend((step, number) for step, _ in trace.accesses[number])
    found: list[tuple[int, int, int, int]] = []
    for segment, rows in sorted(accesses.items()):
        for step, number in sorted(rows):
            if found and found[-1][:2] == (segment, number):
                found[-1] = (segment, number, found[-1][2], step + 1)
            else:
                found.append((segment, number, step, step + 1))
    return found


def page(trace: Trace, plan: Plan, rivals: dict[str, int | None]) -> str:
    """HTML. `rivals`: bytes that others move on the same trace, None where they cannot."""
    steps = max(len(trace.steps), 1)
    total = sum(plan.segments.sizes)
    across = (WIDTH - LEFT) / (steps + 1)
    tops, top = [], 0.0
    for size in plan.segments.sizes:
        tops.append(top)
        top += max(LEAST_HEIGHT, HEIGHT * size / total)
    tops.append(top)
    parts = [
        f'<text x="{LEFT - 6:.0f}" y="{(tops[n] + tops[n + 1]) / 2 + 4:.1f}" class="size">{size:,}</text>'
        for n, size in enumerate(plan.segments.sizes)
        if tops[n + 1] - tops[n] >= 11
    ]
    for segment, number, first, end in stays(trace, plan):
        y, height = tops[segment], tops[segment + 1] - tops[segment] - 1
        x, width = LEFT + first * across, max((end - first) * across - 0.5, 1.0)
        title = f"{escape(trace.name(number))}: {trace.sizes[number]:,} bytes, steps {first} to {end - 1}"
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="hsl({number * 137 % 360},55%,70%)">'
            f"<title>{title}</title></rect>"
        )
    for move in plan.moves:
        x, y, bottom = LEFT + move.step * across, tops[move.segment], tops[move.segment + 1] - 1
        what = f"{escape(trace.name(move.object))} to the {'host' if move.out else 'device'}, {trace.sizes[move.object]:,} bytes"
        parts.append(
            f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" class="{"out" if move.out else "in"}"><title>{what}</title></line>'
        )
    rows = [("this plan", plan.bytes_moved), *rivals.items()]
    table = "".join(
        f"<tr><td>{escape(name)}</td><td>{'cannot' if value is None else f'{value:,}'}</td></tr>"
        for name, value in rows
    )
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Memory plan</title>
<style>body{{font:14px sans-serif;margin:24px}}text.size{{text-anchor:end;font-size:10px;fill:#555}}
line.in{{stroke:#0a0;stroke-width:2}}line.out{{stroke:#c00;stroke-width:2}}td{{padding:2px 14px 2px 0}}td+td{{text-align:right}}</style>
<h1>Memory plan</h1>
<p>{len(plan.assignment)} objects, {trace.footprint:,} bytes, in {len(plan.segments.sizes)} segments of a memory of {trace.memory:,} bytes. {steps} steps to the right,
segments downwards. Green: fetched ({plan.bytes_in:,} bytes). Red: written back ({plan.bytes_out:,} bytes). Point at a bar for its object.</p>
<svg viewBox="0 0 {WIDTH:.0f} {top:.0f}" width="{WIDTH:.0f}" height="{top:.0f}">{"".join(parts)}</svg>
<h2>Bytes moved</h2><table>{table}</table></html>
"""
