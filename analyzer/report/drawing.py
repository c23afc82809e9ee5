"""A function's control-flow graph as SVG: blocks coloured by the class of their loop, CUDA calls named in them."""

from __future__ import annotations

from html import escape

from farlane.analyzer.externals.names import is_cuda
from farlane.analyzer.graph.control_flow import EXCEPTION, TAKEN
from farlane.analyzer.loops.model import Call
from farlane.analyzer.report import layout
from farlane.analyzer.report.listing import Block, Function
from farlane.demangle import readable

CHARACTER, ROW, MARGIN = 6.7, 15.0, 9.0
LONGEST = 34
MAXIMUM_ROWS = 8  # of CUDA calls in a block

CLASS_STYLES = {"1": "c1", "2": "c2", "3": "c3", "mixed": "c4", "-": "c0"}


def label(call: Call) -> str:
    """What a call is called for people: a launch by its kernel."""
    return f"{readable(call.kernel)}<<<>>>" if call.kernel else call.name


def graph(function: Function, prefix: str) -> str:
    """The function's graph.

    Args:
        prefix: of the ids of the blocks' listings, to which the drawn blocks lead.
    """
    rows = {start: _rows(block) for start, block in function.blocks.items()}
    sizes = {
        start: (2 * MARGIN + CHARACTER * max(map(len, texts)), 2 * MARGIN + ROW * len(texts) - 4)
        for start, texts in rows.items()
    }
    kinds = {(block.start, target): kind for block in function.blocks.values() for target, kind in block.targets}
    drawing = layout.draw(function.order, sizes, kinds, function.back)
    parts = [
        f'<svg class="graph" viewBox="0 0 {drawing.width:.0f} {drawing.height:.0f}" '
        f'width="{drawing.width:.0f}" height="{drawing.height:.0f}" role="img">'
        f"<title>control flow of {escape(readable(function.name))}</title>"
    ]
    for edge, points in sorted(drawing.paths.items()):
        style = "edge" + (" back" if edge in function.back else "")
        kind = kinds[edge]
        style += " taken" if kind == TAKEN else " exception" if kind == EXCEPTION else ""
        parts.append(f'<path class="{style}" d="{_curve(points)}"/>')
    for start in function.order:
        left, top, width, height = drawing.boxes[start]
        block = function.blocks[start]
        style = "box"
        if block.loop is not None:
            style += f" {CLASS_STYLES[block.loop.class_]}" + (" head" if block.loop.header == start else "")
        if len(rows[start]) > 1:
            style += " calls"
        texts = "".join(
            f'<text x="{left + MARGIN:.1f}" y="{top + MARGIN + ROW * index + 9:.1f}"'
            f"{'' if index else ' class=where'}>{escape(text)}</text>"
            for index, text in enumerate(rows[start])
        )
        parts.append(
            f'<a href="#{prefix}{start:x}" data-block="{prefix}{start:x}"><rect class="{style}" x="{left:.1f}" y="{top:.1f}" '
            f'width="{width:.1f}" height="{height:.1f}" rx="5"/>{texts}</a>'
        )
    parts.append("</svg>")
    return "".join(parts)


def _rows(block: Block) -> list[str]:
    """The lines of text in a block's box: where it is, then its CUDA calls."""
    calls = []
    for line in block.lines:
        if line.calls:
            calls += [label(call) for call in line.calls]
        elif is_cuda(line.callee):
            calls.append(line.callee)
    if len(calls) > MAXIMUM_ROWS:
        calls[MAXIMUM_ROWS - 1 :] = [f"and {len(calls) - MAXIMUM_ROWS + 1} more"]
    ending = f" · {block.end}" if block.end else ""
    first = f"{block.start:x} · {len(block.lines)} instr{ending}"
    return [first, *(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…" for text in calls)]


def _curve(points: tuple[tuple[float, float], ...]) -> str:
    """Vertical pieces stay straight, the others become curves that leave and arrive vertically."""
    x, y = points[0]
    text = [f"M{x:.1f} {y:.1f}"]
    for across, down in points[1:]:
        if abs(across - x) < 0.5 or abs(down - y) < 0.5:
            text.append(f"L{across:.1f} {down:.1f}")
        else:
            middle = (y + down) / 2
            text.append(f"C{x:.1f} {middle:.1f} {across:.1f} {middle:.1f} {across:.1f} {down:.1f}")
        x, y = across, down
    return "".join(text)
