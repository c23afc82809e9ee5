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
_STYLE = """
:root { color-scheme: light dark; --back: #fbfaf8; --text: #1f2328; --faint: #5d6670; --line: #dcdcd8; --in: #1a8f3c; --out: #c8301f; --bar: #3b6ea8; }
@media (prefers-color-scheme: dark) { :root { --back: #14171c; --text: #e3e6ea; --faint: #97a1ad; --line: #333a44; --in: #57c97a; --out: #ff7a68; } }
body { font: 14px/1.45 system-ui, sans-serif; margin: 0 auto; padding: 1rem clamp(0.8rem, 3vw, 2rem) 3rem; max-width: 76rem; background: var(--back); color: var(--text); }
h1 { font-size: 22px; } h2 { font-size: 17px; margin: 1.6rem 0 0.5rem; } .wide { overflow-x: auto; }
text.size { text-anchor: end; font-size: 10px; fill: var(--faint); } line.in { stroke: var(--in); stroke-width: 2; } line.out { stroke: var(--out); stroke-width: 2; }
.moved { display: grid; grid-template: "name bar bytes" / 17rem minmax(0, 1fr) 9rem; gap: 0.2rem 0.8rem; align-items: center; margin: 0.35rem 0; }
.moved b { grid-area: name; font-weight: 500; } .moved:first-of-type b { font-weight: 700; } .moved em { grid-area: bytes; font-style: normal; text-align: right; color: var(--faint); }
.moved span { grid-area: bar; height: 1.1rem; background: var(--line); border-radius: 4px; overflow: hidden; } .moved i { display: block; height: 100%; background: var(--bar); }
.moved:first-of-type i { background: var(--in); }
@media (max-width: 40rem) { .moved { grid-template: "name bytes" "bar bar" / minmax(0, 1fr) auto; } }
"""


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
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Memory plan</title>
<style>{_STYLE}</style></head><body>
<h1>Memory plan</h1>
<h2>At a glance: bytes moved between host and device</h2>
{_comparison({"this plan": plan.bytes_moved, **rivals})}
<h2>The plan</h2>
<p>{len(plan.assignment)} objects, {trace.footprint:,} bytes, in {len(plan.segments.sizes)} segments of a memory of {trace.memory:,} bytes. {steps} steps to the right,
segments downwards. Green: fetched ({plan.bytes_in:,} bytes). Red: written back ({plan.bytes_out:,} bytes). Point at a bar for its object.</p>
<div class="wide"><svg viewBox="0 0 {WIDTH:.0f} {top:.0f}" width="{WIDTH:.0f}" height="{top:.0f}">{"".join(parts)}</svg></div></body></html>
"""


def _comparison(moved: dict[str, int | None]) -> str:
    """A bar for the plan and for each rival, the longest of full length."""
    most = max([value for value in moved.values() if value is not None] or [0]) or 1
    rows = []
    for name, value in moved.items():
        bar = "" if value is None else f'<i style="width:{value / most:.2%}"></i>'
        shown = "cannot" if value is None else f"{value:,}"
        rows.append(f'<div class="moved"><b>{escape(name)}</b><span>{bar}</span><em>{shown}</em></div>')
    return "".join(rows)
