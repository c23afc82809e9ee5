"""The report for programs: JSON, the same bytes for the same executable, and DOT."""

from __future__ import annotations

import dataclasses
import json

from farlane.analyzer.loops.model import ProgramReport

SCHEMA = 1


def to_json(report: ProgramReport) -> str:
    """The whole report but its time and where the file lay."""
    content = dataclasses.asdict(report)
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
        label = f"{loop.function} {loop.line}\\nloop {loop.header:#x}, class {loop.class_}\\ntrips {trips}"
        text.append(f"  {name} [label={_quoted(label)}, style=filled, fillcolor={colours[loop.class_]}];")
        if loop.parent is not None and any(o.header == loop.parent and o.entry == loop.entry for o in report.loops):
            text.append(f"  loop_{loop.entry:x}_{loop.parent:x} -> {name} [style=dashed];")
        for index, call in enumerate(loop.calls):
            called = f"{name}_{index}"
            text.append(f"  {called} [label={_quoted(call.kernel or call.name)}, shape=ellipse];")
            text.append(f"  {name} -> {called}{' [style=dotted]' if call.conditional else ''};")
    text.append("}")
    return "\n".join(text) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "'") + '"'
