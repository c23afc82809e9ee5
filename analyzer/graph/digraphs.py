"""Graphs as NetworkX's: control flow, loops, calls; and their texts as GraphML and DOT.

The analyzer's own passes work on `ControlFlow` and `Structure`, which are made faster; these graphs are for those who
wants to go on with NetworkX. All attributes are numbers, texts and truth values, so every format can hold them.
NetworkX is imported late: that takes longer than most programs take to analyze.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from farlane.analyzer.externals.names import is_cuda
from farlane.analyzer.graph.program import UNKNOWN, Callee, Program
from farlane.analyzer.graph.structure import Structure

DiGraph: TypeAlias = Any  # networkx.DiGraph, which has no types
COMPUTED = "?"  # what a computed call calls, in the call graph


def control_flow_graph(structure: Structure, texts: Mapping[int, str]) -> DiGraph:
    """A function's blocks, by the addresses at which they start.

    Nodes: `label`; `text`, the disassembly; `instructions`, their number; `calls`, the names of what is called; `end`,
        how the function is
    left there ("" where it is not); `loop`, the header of the innermost loop (-1: none). Edges: `kind` (fall, taken,
    jump, table, exception) and `back`, whether it closes a loop.

    Args:
        texts: address of an instruction -> its text.
    """
    import networkx as nx

    flow = structure.flow
    graph = nx.DiGraph(name=flow.name, entry=flow.entry)
    back = {(latch, loop.header) for loop in structure.loops.values() for latch in loop.latches}
    for start, block in sorted(flow.blocks.items()):
        inner = structure.innermost(start)
        called = [flow.calls[each.address] for each in block.instructions if each.address in flow.calls]
        graph.add_node(
            start,
            label=f"{start:#x}",
            text="\n".join(
                f"{each.address:#x} {texts.get(each.address, each.mnemonic)}" for each in block.instructions
            ),
            instructions=len(block.instructions),
            calls=" ".join(callee.name or COMPUTED for callee in called),
            end=block.end,
            loop=-1 if inner is None else inner.header,
        )
    for start, block in sorted(flow.blocks.items()):
        for edge in block.edges:
            graph.add_edge(start, edge.target, kind=edge.kind, back=(start, edge.target) in back)
    return graph


def loop_graph(structure: Structure) -> DiGraph:
    """A function's loops, by their headers; edges lead from a loop to those right inside it.

    Nodes: `label`; `depth`; `blocks`, their number; `latches` and `exits`, the numbers of back edges and of edges that
        leave it towards
    a return; `irreducible`, whether it has several entries.
    """
    import networkx as nx

    graph = nx.DiGraph(name=structure.flow.name, entry=structure.flow.entry)
    for header, loop in sorted(structure.loops.items()):
        graph.add_node(
            header,
            label=f"loop {header:#x}",
            depth=loop.depth,
            blocks=len(loop.blocks),
            latches=len(loop.latches),
            exits=len(loop.exits),
            irreducible=loop.irreducible,
        )
    for header, loop in sorted(structure.loops.items()):
        if loop.parent is not None:
            graph.add_edge(loop.parent, header)
    return graph


def call_graph(program: Program) -> DiGraph:
    """The file's functions, by their addresses, the imported functions that they call, by name, and COMPUTED for
    computed calls.

    Nodes: `label`, the name; `kind`: function, import or computed; `cuda`: whether it is, or may call however deep, a
        CUDA function.
    """
    import networkx as nx

    graph = nx.DiGraph(name=program.image.identity)
    for start in program.functions():
        graph.add_node(start, label=program.ranges[start].name, kind="function", cuda=start in program.cuda)
    for start in program.functions():
        for callee in sorted(program.callees[start], key=lambda each: (each.address or 0, each.name)):
            target = _target(program, callee)
            if target not in graph:
                kind = "computed" if callee == UNKNOWN else "import"
                graph.add_node(target, label=target, kind=kind, cuda=is_cuda(callee.name))
            graph.add_edge(start, target)
    return graph


def _target(program: Program, callee: Callee) -> int | str:
    if callee.address is not None:
        return program.owner.get(callee.address, callee.address)
    return callee.name or COMPUTED


def graphml(graph: DiGraph) -> str:
    """The graph as GraphML, which Gephi, yEd, igraph and NetworkX read."""
    import networkx as nx

    return "\n".join(nx.generate_graphml(graph)) + "\n"


def dot(graph: DiGraph) -> str:
    """The graph for Graphviz, its nodes with all their attributes."""
    lines = [f"digraph {_quoted(str(graph.graph.get('name', '')))} {{", "  node [shape=box, fontname=monospace];"]
    for node, attributes in graph.nodes(data=True):
        lines.append(f"  {_quoted(str(node))} [{_attributes(attributes)}];")
    for source, target, attributes in graph.edges(data=True):
        text = f" [{_attributes(attributes)}]" if attributes else ""
        lines.append(f"  {_quoted(str(source))} -> {_quoted(str(target))}{text};")
    return "\n".join([*lines, "}"]) + "\n"


def _attributes(attributes: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_quoted(str(value))}" for name, value in attributes.items())


def _quoted(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\l")
    return f'"{text}"'
