"""The report of a program as text: lines for people, JSON (the same bytes for the same executable), and DOT."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

from farlane.analyzer.loops.model import LoopReport, ProgramReport
from farlane.analyzer.report.words import joining
from farlane.analyzer.slices import text as slice_text
from farlane.analyzer.slices.form import Sliced
from farlane.demangle import readable


def lines(report: ProgramReport) -> Iterator[str]:
    """One block of lines for every loop, then what was skipped, then a summary."""
    slices = {(each.entry, each.header): each for each in report.slices}
    for loop in report.loops:
        where = f" ({loop.line})" if loop.line else ""
        yield f"{readable(loop.function)}{where}: loop {loop.header:#x}, depth {loop.depth}"
        yield f"    class {loop.class_}, trip count {loop.trip_count.text if loop.trip_count else 'not known'}"
        for variable in loop.inductions:
            yield f"    {variable.name} = {variable.initial}, step {variable.step}, in {', '.join(variable.places)}"
        for call in loop.calls:
            kernel = readable(call.kernel) if call.kernel else "an unknown kernel"
            name = f"launch of {kernel}" if call.name == "launch" else call.name
            via = f" through {len(call.chain)} call{'s' if len(call.chain) > 1 else ''}" if call.chain else ""
            yield f"    {call.site:#x} {name}{via}{', not in every iteration' if call.conditional else ''}"
            for argument in call.arguments:
                if argument.kind != "invariant":
                    yield f"        {argument.name}: {argument.kind}: {argument.text}"
            permission = call.permission
            if permission is None:
                continue
            here = permission.local_sync or permission.within(loop.entry, loop.header)
            if here and permission.any:
                yield f"        permitted: {', '.join(permission.names)}; {permission.proof}"
            elif (here or call.chain) and permission.refused:
                yield f"        not permitted: {permission.refused}"
        if loop.reasons:
            yield f"    reasons: {', '.join(loop.reasons)}"
        yield from _sliced(slices.get((loop.entry, loop.header)))
    for copy in report.joined:
        where = f" ({copy.line})" if copy.line else ""
        yield f"{readable(copy.name)}{where}: copy to the host at {copy.site:#x}: {joining(copy)}"
    for function, why in report.skipped:
        yield f"skipped: {readable(function)}: {why}"
    yield summary(report)


def _sliced(found: Sliced | None) -> Iterator[str]:
    """What is known of a loop that reads: whether a host can decide it."""
    if found is None:
        return
    if found.slice is not None:
        yield f"    decidable on the host {slice_text.summary(found.slice)}"
    else:
        yield f"    not decidable on the host: {found.reason}: {found.detail}"


def summary(report: ProgramReport) -> str:
    """The last line."""
    classes = ", ".join(f"{name}: {count}" for name, count in sorted(_classes(report.loops).items()))
    counted = sum(loop.trip_count is not None for loop in report.loops)
    return (
        f"{len(report.loops)} loops with CUDA calls ({classes or 'none'}), trip count known for {counted}; "
        f"{report.cuda_functions} of {report.functions} functions reach CUDA; {report.seconds:.2f} s"
    )


def _classes(loops: tuple[LoopReport, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for loop in loops:
        found[f"class {loop.class_}"] = found.get(f"class {loop.class_}", 0) + 1
    return found


SCHEMA = 1


def to_json(report: ProgramReport) -> str:
    """The whole report but its time and where the file lay."""
    content = dataclasses.asdict(dataclasses.replace(report, slices=()))
    content["slices"] = [
        {
            "entry": each.entry,
            "header": each.header,
            "reason": each.reason,
            "detail": each.detail,
            "slice": None if each.slice is None else slice_text.plain(each.slice),
        }
        for each in report.slices
    ]
    del content["seconds"], content["out_of_time"], content["path"]
    for loop in content["loops"]:
        loop["class"] = loop.pop("class_")
    return json.dumps({"schema": SCHEMA, **content}, indent=2, sort_keys=True, default=bytes.hex) + "\n"


def to_dot(report: ProgramReport) -> str:
    """Functions, their loops with CUDA calls, nesting, and the calls, for Graphviz."""
    text = ["digraph loops {", "  rankdir=LR; node [shape=box, fontname=monospace];"]
    colours = {"1": "palegreen", "2": "palegreen", "3": "khaki", "mixed": "khaki", "-": "lightsalmon"}
    for loop in report.loops:
        name = f"loop_{loop.entry:x}_{loop.header:x}"
        trips = loop.trip_count.text if loop.trip_count else "?"
        label = f"{readable(loop.function)} {loop.line}\\nloop {loop.header:#x}, class {loop.class_}\\ntrips {trips}"
        text.append(f"  {name} [label={_quoted(label)}, style=filled, fillcolor={colours[loop.class_]}];")
        if loop.parent is not None and any(o.header == loop.parent and o.entry == loop.entry for o in report.loops):
            text.append(f"  loop_{loop.entry:x}_{loop.parent:x} -> {name} [style=dashed];")
        for index, call in enumerate(loop.calls):
            called = f"{name}_{index}"
            text.append(f"  {called} [label={_quoted(readable(call.kernel or call.name))}, shape=ellipse];")
            text.append(f"  {name} -> {called}{' [style=dotted]' if call.conditional else ''};")
    text.append("}")
    return "\n".join(text) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "'") + '"'
