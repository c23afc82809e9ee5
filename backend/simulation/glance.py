"""What a page shows first: one comparison at a glance, as HTML that fits a telephone as well as a screen.

`shares` draws one bar for each thing that is compared, divided into parts; `changes` is a grid of changes against a base,
coloured by better and worse (less is better). Both are text of the page, so they need no script and follow its theme.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from farlane.backend.simulation.charts import COLORS

LEAST_LABELLED = 0.07  # of a bar, for a part that has its number in it
STRONGEST = 0.25  # a change of this much has the full colour


def shares(rows: Mapping[str, tuple[str, Mapping[str, float]]]) -> str:
    """A bar for each row.

    Args:
        rows: name -> (what stands behind its bar, the parts of the whole by name).
    """
    names = list(dict.fromkeys(name for _, parts in rows.values() for name in parts))
    colors = {name: COLORS[number % len(COLORS)] for number, name in enumerate(names)}
    legend = "".join(f'<li><i style="background:{colors[name]}"></i>{escape(name)}</li>' for name in names)
    lines = [f'<ul class="legend">{legend}</ul><div class="shares">']
    for row, (beside, parts) in rows.items():
        pieces = "".join(
            f'<span style="width:{share:.2%};background:{colors[name]}" title="{escape(name)}: {share:.1%}">'
            f"{f'{share:.0%}' if share >= LEAST_LABELLED else ''}</span>"
            for name, share in parts.items()
            if share > 0
        )
        name = f'<b title="{escape(row)}">{escape(row)}</b>'
        lines.append(f'<div class="share">{name}<div class="bar">{pieces}</div><em>{escape(beside)}</em></div>')
    return "\n".join([*lines, "</div>"])


def changes(rows: Mapping[str, Mapping[str, float]], columns: Sequence[str]) -> str:
    """A grid of changes; the best of each row is bold, if it is better than the base.

    Args:
        rows: name -> column -> the change, 0.1 for a tenth more; a column may be missing.
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    lines = [f'<div class="wide"><table class="changes"><tr><th></th>{head}</tr>']
    for row, values in rows.items():
        best = min([0.0, *values.values()])
        cells = "".join(
            f'<td class="{"better" if value < 0 else "worse"}{" best" if value == best < 0 else ""}" '
            f'style="--by:{min(1.0, abs(value) / STRONGEST):.0%}">{value:+.1%}</td>'
            if (value := values.get(name)) is not None
            else "<td>-</td>"
            for name in columns
        )
        lines.append(f"<tr><td>{escape(row)}</td>{cells}</tr>")
    return "\n".join([*lines, "</table></div>"])
