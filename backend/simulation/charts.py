"""Plots as SVG text: bars in groups, and steps over time. No scripts, no fonts, nothing from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

COLORS = ("#3b6ea8", "#c8553d", "#588b3c", "#8a5aa8", "#b98a1d", "#3d9aa0", "#7a7a7a", "#b04a7a", "#4a4a9e", "#937047")
WIDTH, HEIGHT = 860, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 14, 64


def _round_up(value: float) -> float:
    """A round number at or above: for the end of an axis."""
    if value <= 0:
        return 1.0
    scale = float(10 ** math.floor(math.log10(value)))
    return next(step * scale for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * scale >= value * 0.999999)


def _number(value: float) -> str:
    if value and abs(value) < 10:
        return f"{value:.2g}"
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _axes(low: float, high: float, percent: bool, body: list[str], legend: Sequence[str], height: int) -> str:
    lines = [f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">']
    for step in range(5):
        value = low + (high - low) * step / 4
        y = _y(value, low, high, height)
        shown = f"{value:.0%}" if percent else _number(value)
        lines.append(f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        lines.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{shown}</text>')
    lines += body
    x = float(_LEFT)
    for number, name in enumerate(legend):
        lines.append(
            f'<rect x="{x:.0f}" y="{height - 16}" width="10" height="10" fill="{COLORS[number % len(COLORS)]}"/>'
        )
        lines.append(f'<text x="{x + 14:.0f}" y="{height - 7}">{escape(name)}</text>')
        x += 26 + 6.6 * len(name)
    return "\n".join([*lines, "</svg>"])


def _y(value: float, low: float, high: float, height: int) -> float:
    return height - _BOTTOM - (value - low) / (high - low) * (height - _TOP - _BOTTOM)


def bars(groups: Mapping[str, Mapping[str, float]], percent: bool = False) -> str:
    """For each group its values by name; names are the legend. Values below zero hang."""
    names = list(dict.fromkeys(name for values in groups.values() for name in values))
    every = [value for values in groups.values() for value in values.values()] or [0.0]
    high, low = _round_up(max(0.0, *every, 1e-9)), -_round_up(-min(0.0, *every)) if min(every) < 0 else 0.0
    space = (WIDTH - _LEFT - _RIGHT) / max(1, len(groups))
    width = space * 0.84 / max(1, len(names))
    zero = _y(0.0, low, high, HEIGHT)
    body = []
    for place, (group, values) in enumerate(groups.items()):
        start = _LEFT + place * space + space * 0.08
        for number, name in enumerate(names):
            if name not in values:
                continue
            y = _y(values[name], low, high, HEIGHT)
            shown = f"{values[name]:.1%}" if percent else f"{values[name]:,.6g}"
            body.append(
                f'<rect x="{start + number * width:.1f}" y="{min(y, zero):.1f}" width="{max(width - 1, 0.5):.1f}" height="{abs(y - zero):.1f}"'
                f' fill="{COLORS[number % len(COLORS)]}"><title>{escape(group)}, {escape(name)}: {shown}</title></rect>'
            )
        most = max(3, int(space / 6.2))
        label = group if len(group) <= most else group[: most - 1] + "…"
        body.append(
            f'<text x="{start + space * 0.42:.1f}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">{escape(label)}<title>{escape(group)}</title></text>'
        )
    return _axes(low, high, percent, body, names, HEIGHT)


def steps(points: Sequence[Sequence[float]], end: float, most: float, name: str) -> str:
    """A value that holds until the next point; `most`: the axis' end."""
    height = 220
    right = max(end, 1.0)
    body, previous = [], None
    path = []
    for x_value, value in points:
        x = _LEFT + x_value / right * (WIDTH - _LEFT - _RIGHT)
        y = _y(value, 0.0, max(most, 1.0), height)
        path.append(f"M{x:.1f} {y:.1f}" if previous is None else f"H{x:.1f}V{y:.1f}")
        previous = y
    if path:
        path.append(f"H{WIDTH - _RIGHT}")
        body.append(f'<path d="{"".join(path)}" fill="none" stroke="{COLORS[0]}" stroke-width="1.3"/>')
    for part in range(5):
        x = _LEFT + part / 4 * (WIDTH - _LEFT - _RIGHT)
        anchor = "end" if part == 4 else "middle"
        body.append(
            f'<text x="{x:.0f}" y="{height - _BOTTOM + 16}" text-anchor="{anchor}">{_number(right * part / 4)}</text>'
        )
    return _axes(0.0, max(most, 1.0), False, body, [name], height)
