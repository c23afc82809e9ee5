"""The report as one page of HTML that needs nothing else: no network, no other file.

Owns the page's structure; its style and behaviour are page.css and page.js beside this file, which are put into it. All
that comes from the executable (names above all) goes through `escape` where it enters the markup, and never into the
script.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from html import escape
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Protocol

from farlane.analyzer.api.program import Executable
from farlane.analyzer.loops.model import Call, Class, LoopReport, ProgramReport
from farlane.analyzer.report import listing
from farlane.analyzer.report.drawing import CLASS_STYLES, graph, label
from farlane.analyzer.report.listing import Function, Line
from farlane.analyzer.report.sources import Place
from farlane.analyzer.report.words import CLASSES, KINDS, REASONS, joining
from farlane.analyzer.slices import text as slice_text
from farlane.demangle import readable

_ZOOM = (
    '<p class="zoom"><button type="button" data-zoom="in" aria-label="larger">+</button>'
    '<button type="button" data-zoom="out" aria-label="smaller">&minus;</button>'
    '<button type="button" data-zoom="fit">fit</button></p>'
)


class Permitted(Protocol):
    """What is permitted at a call site, with its proof, or why it is not."""

    @property
    def site(self) -> int: ...
    @property
    def local_sync(self) -> bool: ...
    @property
    def defer_read(self) -> bool: ...
    @property
    def complete_at_call(self) -> bool: ...
    @property
    def more_text(self) -> str: ...
    @property
    def proof(self) -> str: ...
    @property
    def refused(self) -> str: ...


def page(executable: Executable, permissions: Iterable[Permitted] | None = None) -> str:
    """The page of an executable.

    Args:
        permissions: what is shown as permitted; None: what the report says.
    """
    path, report = executable.path, executable.report
    shown_permissions: Iterable[Permitted] = report.permissions if permissions is None else permissions
    by_site = {permission.site: permission for permission in shown_permissions}
    shown = listing.read(executable)
    body = [_head(path, report), _summary(report, by_site), _table(report, by_site)]
    body += [_function(function, by_site) for function in shown.functions]
    body += [_slices(report), _joined(report), _rest(report, shown.left_out)]
    files = resources.files(__package__ or "")
    style = (files / "page.css").read_text("utf-8")
    script = (files / "page.js").read_text("utf-8")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(path.name)}: loops with CUDA calls</title><style>{style}</style></head>\n"
        f"<body>{''.join(body)}<script>{script}</script></body></html>\n"
    )


def _head(path: Path, report: ProgramReport) -> str:
    return (
        f'<header><h1>{escape(path.name)}</h1><p class="identity">{escape(report.identity)}</p>'
        '<button id="theme" type="button" aria-label="light or dark">◐</button></header>'
    )


def _summary(report: ProgramReport, permissions: Mapping[int, Permitted]) -> str:
    classes = Counter(loop.class_ for loop in report.loops)
    counted = sum(loop.trip_count is not None for loop in report.loops)
    given = sum(bool(_granted(permission)) for permission in permissions.values())
    tiles = [(str(len(report.loops)), "loops with CUDA calls", "")]
    for class_ in Class:
        name = "without a class" if class_ is Class.NONE else f"class {class_}"
        tiles.append((str(classes[class_]), name, CLASS_STYLES[class_]))
    tiles.append((str(counted), "trip count known", ""))
    tiles.append((str(given), "calls with a permission", ""))
    tiles.append((f"{report.cuda_functions}/{report.functions}", "functions reach CUDA", ""))
    cells = "".join(f'<li class="{style}"><b>{number}</b>{escape(text)}</li>' for number, text, style in tiles)
    classes_list = "".join(
        f'<dt class="{CLASS_STYLES[class_]}">{escape(class_)}</dt><dd>{escape(text)}</dd>'
        for class_, text in CLASSES.items()
    )
    reasons = "".join(f"<dt>{escape(reason)}</dt><dd>{escape(text)}</dd>" for reason, text in REASONS.items())
    return (
        f'<ul class="tiles">{cells}</ul><details class="legend"><summary>What the words mean</summary>'
        f"<dl>{classes_list}</dl><dl>{reasons}</dl></details>"
    )


def _table(report: ProgramReport, permissions: Mapping[int, Permitted]) -> str:
    rows = "".join(_row(loop, permissions) for loop in report.loops)
    options = "".join(f'<option value="{escape(class_)}">class {escape(class_)}</option>' for class_ in Class)
    return (
        '<section><div class="tools"><input id="search" type="search" placeholder="search: function, kernel, reason, source line">'
        f'<select id="class"><option value="">all classes</option>{options}</select>'
        '<label><input id="permitted" type="checkbox"> with a permission</label><label><input id="all" type="checkbox"> blocks without CUDA</label><span id="count"></span></div>'
        '<table id="loops"><thead><tr><th>function</th><th>line</th><th>loop</th><th>class</th><th>trip count</th>'
        f"<th>calls</th><th>reasons, permissions</th></tr></thead><tbody>{rows}</tbody></table></section>"
    )


def _row(loop: LoopReport, permissions: Mapping[int, Permitted]) -> str:
    calls = Counter(label(call) for call in loop.calls)
    texts = ", ".join(f"{name} (x {count})" if count > 1 else name for name, count in calls.items())
    marks = "".join(
        f'<span class="reason" title="{escape(REASONS.get(r, ""))}">{escape(r)}</span>' for r in loop.reasons
    )
    given = sorted({name for call in loop.calls for name in _granted(permissions.get(call.site))})
    marks += "".join(f'<span class="given">{escape(name)}</span>' for name in given)
    count = loop.trip_count.text if loop.trip_count else "not known"
    indent = f' style="padding-left:{0.6 + 0.9 * (loop.depth - 1):.1f}em"'
    return (
        f'<tr data-class="{escape(loop.class_)}" data-permitted="{int(bool(given))}"><td{indent}>'
        f'<a href="#{_block_id(loop.entry, loop.header)}" title="{escape(loop.function)}">{escape(readable(loop.function))}</a></td>'
        f"<td>{escape(loop.line)}</td><td><code>{loop.header:#x}</code></td>"
        f'<td class="{CLASS_STYLES[loop.class_]}"><b>{escape(loop.class_)}</b></td>'
        f"<td><code>{escape(count)}</code></td><td>{escape(texts)}</td><td>{marks}</td></tr>"
    )


def _granted(permission: Permitted | None) -> list[str]:
    if permission is None:
        return []
    given = {"LOCAL_SYNC": permission.local_sync, "DEFER_READ": permission.defer_read}
    given["COMPLETE_AT_CALL"] = permission.complete_at_call
    return [name for name, is_given in given.items() if is_given]


def _block_id(entry: int, block: int) -> str:
    return f"f{entry:x}-{block:x}"


def _function(function: Function, permissions: Mapping[int, Permitted]) -> str:
    loops = "".join(_loop(loop) for loop in function.loops)
    blocks = "".join(_block(function, start, permissions) for start in sorted(function.blocks))
    opened = " open" if function.loops else ""
    return (
        f'<details class="function"{opened}><summary><b title="{escape(function.name)}">{escape(readable(function.name))}</b> '
        f"<code>{function.entry:#x}</code> {len(function.blocks)} blocks, {len(function.loops)} loops with CUDA calls</summary>"
        f'{loops}<div class="both"><div class="canvas">{_ZOOM}<div class="drawing">'
        f"{graph(function, f'f{function.entry:x}-')}</div></div>"
        f'<div class="listing">{blocks}</div></div></details>'
    )


def _loop(loop: LoopReport) -> str:
    variables = "".join(
        f"<li><code>{escape(v.name)} = {escape(v.initial)}, step {escape(v.step)}, in {escape(', '.join(v.places))}</code></li>"
        for v in loop.inductions
    )
    reasons = "".join(f"<li><b>{escape(r)}</b>: {escape(REASONS.get(r, ''))}</li>" for r in loop.reasons)
    count = loop.trip_count
    places = (
        "" if count is None else "; ".join(f"{name} in {', '.join(where)}" for name, where in count.places if where)
    )
    text = "not known" if count is None else count.text
    return (
        f'<div class="loop {CLASS_STYLES[loop.class_]}"><a href="#{_block_id(loop.entry, loop.header)}">loop {loop.header:#x}</a> '
        f"{escape(loop.line)} — class {escape(loop.class_)}: {escape(CLASSES[loop.class_])} Trip count "
        f"<code>{escape(text)}</code>{f' ({escape(places)})' if places else ''}.<ul>{variables}{reasons}</ul></div>"
    )


def _block(function: Function, start: int, permissions: Mapping[int, Permitted]) -> str:
    block = function.blocks[start]
    rows = "".join(_lines(place, lines, permissions) for place, lines in groupby(block.lines, lambda line: line.place))
    targets = " ".join(
        f'<a href="#{_block_id(function.entry, target)}">{escape(kind)} {target:x}</a>'
        if target in function.blocks
        else f"{escape(kind)} {target:x}"
        for target, kind in block.targets
    )
    style = CLASS_STYLES[block.loop.class_] if block.loop is not None else ""
    opened = " open" if block.touches_cuda else ""
    first = next((f" · {line.place.line}" for line in block.lines if line.place is not None), "")
    return (
        f'<details class="block {style}"{opened} id="{_block_id(function.entry, start)}">'
        f"<summary>{start:x} · {len(block.lines)} instr{escape(first)}</summary>{rows}"
        f'<p class="targets">{targets}{escape(block.end)}</p></details>'
    )


def _lines(place: Place | None, lines: Iterable[Line], permissions: Mapping[int, Permitted]) -> str:
    """Instructions of one source line, with that line beside them."""
    text = "".join(_line(line, permissions) for line in lines)
    if place is None:
        return f"<pre>{text}</pre>"
    source = f'<p class="source"><i>{escape(place.line)}</i> <code>{escape(place.text)}</code></p>'
    return f'<div class="row">{source}<pre>{text}</pre></div>'


def _line(line: Line, permissions: Mapping[int, Permitted]) -> str:
    note = f' <i class="callee">{escape(line.callee)}</i>' if line.callee else ""
    calls = "".join(_call(call, permissions.get(call.site)) for call in line.calls)
    return f'<span class="at">{line.address:x}</span>  {escape(line.text)}{note}\n{calls}'


def _call(call: Call, permission: Permitted | None) -> str:
    via = f" through {len(call.chain)} call{'s' if len(call.chain) > 1 else ''}" if call.chain else ""
    conditional = ", not in every iteration" if call.conditional else ""
    arguments = "".join(
        f'<tr class="k-{escape(argument.kind)}" title="{escape(KINDS[argument.kind])}"><td>{escape(argument.name)}</td>'
        f"<td>{escape(argument.text)}</td><td>{escape(argument.kind)}{_because(argument.reasons)}</td></tr>"
        for argument in call.arguments
    )
    granted = "".join(f'<span class="given">{escape(name)}</span>' for name in _granted(permission))
    proof = ""
    if permission is not None:
        proof += f"<p>{escape(permission.proof)}</p>" if permission.proof else ""
        proof += f"<p>again when <code>{escape(permission.more_text)}</code></p>" if permission.more_text else ""
        proof += f'<p class="refused">{escape(permission.refused)}</p>' if permission.refused else ""
    return (
        f'<div class="call"><b title="{escape(call.kernel or call.name)}">{escape(label(call))}</b>{via}{conditional} {granted}'
        f"<table>{arguments}</table>{proof}</div>"
    )


def _because(reasons: Iterable[str]) -> str:
    text = ", ".join(reasons)
    return f" ({escape(text)})" if text else ""


def _slices(report: ProgramReport) -> str:
    """The loops that read: their slices, or why they have none."""
    names = {(loop.entry, loop.header): readable(loop.function) for loop in report.loops}
    items = []
    for each in report.slices:
        name = names.get((each.entry, each.header), f"{each.entry:#x}")
        where = f'<a href="#{_block_id(each.entry, each.header)}">{escape(name)}, loop {each.header:#x}</a>'
        if each.slice is None:
            items.append(f"<li>{where}: <b>{escape(each.reason)}</b>: {escape(each.detail)}</li>")
        else:
            listing_ = escape("\n".join(slice_text.lines(each.slice)))
            summary = escape(slice_text.summary(each.slice))
            items.append(f"<li>{where}: <details><summary>{summary}</summary><pre>{listing_}</pre></details></li>")
    if not items:
        return ""
    return f'<section class="slices"><h2>Loops that read</h2><ul>{"".join(items)}</ul></section>'


def _joined(report: ProgramReport) -> str:
    """Copies to the host in a row: which wait with the next call, or why one waits by itself."""
    given = '<span class="given">JOIN_NEXT_WAIT</span>'
    rows = "".join(
        f"<tr><td>{escape(readable(copy.name))}</td><td>{escape(copy.line)}</td><td><code>{copy.site:#x}</code></td>"
        f"<td>{given if copy.proof else ''}</td><td>{escape(joining(copy))}</td></tr>"
        for copy in report.joined
    )
    if not rows:
        return ""
    return (
        '<section class="joined"><h2>Copies in a row</h2><table><thead><tr><th>function</th><th>line</th><th>call</th>'
        f"<th>permission</th><th>proof, or what stands in the way</th></tr></thead><tbody>{rows}</tbody></table></section>"
    )


def _rest(report: ProgramReport, left_out: Iterable[str]) -> str:
    items = [f"{readable(name)}: {why}" for name, why in report.skipped]
    items += [f"{readable(name)}: not shown, the page would become too large" for name in left_out]
    if not items:
        return ""
    return f"<section><h2>Not here</h2><ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul></section>"
