"""A program's graphs as files, GraphML or DOT: the call graph, and of each function that reaches CUDA control flow and
loops.

`call-graph`; for the function at 0x1180, `1180-NAME.control-flow` and `1180-NAME.loops`, where it has any. The nodes of
loops with CUDA calls also have `class`, `trips` and `reasons`; those of blocks with CUDA calls in such loops `cuda`,
what is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from farlane.analyzer.api.program import Executable, Function
from farlane.analyzer.graph import digraphs
from farlane.analyzer.graph.digraphs import DiGraph
from farlane.analyzer.limits import AnalysisError
from farlane.demangle import readable

FORMATS: dict[str, Callable[[DiGraph], str]] = {"graphml": digraphs.graphml, "dot": digraphs.dot}
MAXIMUM_NAME = 60


def write(executable: Executable, folder: Path, form: str) -> list[Path]:
    """Writes the graphs into a folder, which is made where it is not there; the files, in order.

    Args:
        form: a key of FORMATS.

    Raises:
        AnalysisError: a file cannot be written.
    """
    text, written = FORMATS[form], list[Path]()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, graph in _graphs(executable):
            path = folder / f"{name}.{form}"
            path.write_text(text(graph), encoding="utf-8")
            written.append(path)
    except OSError as error:
        raise AnalysisError(f"{folder}: {error.strerror}") from error
    return written


def _graphs(executable: Executable) -> list[tuple[str, DiGraph]]:
    found = [("call-graph", executable.call_graph)]
    for function in executable.functions:
        if not function.reaches_cuda:
            continue
        stem = f"{function.address:x}-{_file_name(function)}"
        try:
            found.append((f"{stem}.control-flow", _control_flow(function)))
        except AnalysisError:
            continue  # it cannot be decoded: `skipped` in the report says so
        loops = _loops(function)
        if len(loops):
            found.append((f"{stem}.loops", loops))
    return found


def _file_name(function: Function) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "_", readable(function.name))[:MAXIMUM_NAME]


def _control_flow(function: Function) -> DiGraph:
    graph = function.control_flow
    for loop in sorted(function.loops, key=lambda loop: loop.depth):
        for call in loop.calls:
            block = function.structure.flow.holding(call.chain[0] if call.chain else call.site)
            if block is not None:
                name = f"launch of {readable(call.kernel)}" if call.kernel else call.name
                known = graph.nodes[block.start].setdefault("cuda", "")
                if name not in known.split(", "):
                    graph.nodes[block.start]["cuda"] = f"{known}, {name}" if known else name
    return graph


def _loops(function: Function) -> DiGraph:
    graph = function.loop_graph
    for loop in function.loops:
        if loop.header in graph:  # a loop with several entries may have been given another header
            trips = loop.trip_count.text if loop.trip_count is not None else "not known"
            reasons = ", ".join(loop.reasons)
            graph.nodes[loop.header].update({"class": str(loop.class_), "trips": trips, "reasons": reasons})
    return graph
