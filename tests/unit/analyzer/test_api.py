"""`farlane.analyzer.open`: functions, graphs, loops, calls and claims of a program, and the graphs as files."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import farlane.analyzer
import networkx as nx
import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.api.program import Executable
from farlane.analyzer.commands.analyze import command
from farlane.analyzer.graph import digraphs
from farlane.analyzer.limits import AnalysisError

RUNTIME = """
extern "C" int cudaMemset(void *, int, unsigned long) { return 0; }
extern "C" int cudaDeviceSynchronize() { return 0; }
"""
SOURCE = """
#include <stdio.h>
extern "C" int cudaMemset(void *, int, unsigned long);
extern "C" int cudaDeviceSynchronize();
extern "C" __attribute__((noipa)) void work(char *data, int rounds, int columns) {
    for (int i = 0; i < rounds; ++i) {
        for (int j = 0; j < columns; ++j) cudaMemset(data + 64 * i, 7, 64);
        cudaDeviceSynchronize();
    }
}
extern "C" __attribute__((noipa)) int idle(int n) { int sum = 0; while (n) sum += n--; asm volatile("" : "+r"(sum)); return sum; }
int main(int argc, char **) { work(nullptr, argc, argc); printf("%d", idle(argc)); }
"""


@pytest.fixture(scope="module")
def path(build: Callable[..., Path]) -> Path:
    return build(SOURCE, "-O1", runtime=RUNTIME)


@pytest.fixture(scope="module")
def program(path: Path) -> Executable:
    return farlane.analyzer.open(path)


def test_functions(program: Executable) -> None:
    names = {function.name for function in program.functions}
    assert {"main", "work", "idle"} <= names
    assert {function.name for function in program.functions if function.reaches_cuda} == {"main", "work"}
    work = program.function("work")
    assert program.function(work.address).name == "work"
    assert {callee.name for callee in work.callees} == {"cudaMemset", "cudaDeviceSynchronize"}
    with pytest.raises(AnalysisError, match="0 functions are called nothing"):
        program.function("nothing")


def test_graphs_are_networkxs(program: Executable) -> None:
    work = program.function("work")
    flow, loops, calls = work.control_flow, work.loop_graph, program.call_graph
    assert all(isinstance(graph, nx.DiGraph) for graph in (flow, loops, calls))
    assert set(flow) == set(work.structure.flow.blocks)
    assert nx.has_path(flow, work.address, next(node for node, end in flow.nodes(data="end") if end == "return"))
    assert {edge for edge in flow.edges if flow.edges[edge]["back"]} == {
        (latch, loop.header) for loop in work.natural_loops for latch in loop.latches
    }
    (called,) = (attributes for _, attributes in flow.nodes(data=True) if "cudaMemset" in attributes["calls"])
    assert re.search(r"call .*0x", called["text"])
    assert loops.number_of_nodes() == 2
    ((outer, inner),) = loops.edges
    assert (loops.nodes[outer]["depth"], loops.nodes[inner]["depth"]) == (1, 2)
    assert called["loop"] == inner
    assert not program.function("main").loop_graph
    assert nx.has_path(calls, program.function("main").address, "cudaMemset")
    assert not nx.has_path(calls, program.function("idle").address, "cudaMemset")
    assert calls.nodes["cudaMemset"] == {"label": "cudaMemset", "kind": "import", "cuda": True}
    assert not calls.nodes["printf" if "printf" in calls else "__printf_chk"]["cuda"]


def test_dominators_agree_with_networkx(program: Executable) -> None:
    for function in (program.function("work"), program.function("idle"), program.function("main")):
        theirs = nx.immediate_dominators(function.control_flow, function.address)
        ours = {block: function.structure.immediate_dominator(block) for block in function.structure.flow.blocks}
        assert {block: parent for block, parent in theirs.items() if block != function.address} == {
            block: parent for block, parent in ours.items() if block != function.address
        }


def test_loops_and_calls_are_the_analysis(program: Executable, path: Path) -> None:
    assert program.loops == analyze(path).loops
    assert program.identity == program.report.identity
    work = program.function("work")
    assert [loop.depth for loop in sorted(work.loops, key=lambda loop: loop.depth)] == [1, 2]
    assert not program.function("idle").loops
    assert program.function("idle").natural_loops
    assert {call.name for call in program.calls} == {"cudaMemset", "cudaDeviceSynchronize"}


def test_claims_say_whether_they_are_proven(program: Executable) -> None:
    claims = program.claims
    assert {claim.about for claim in claims if claim.proven} == {"LOCAL_SYNC"}
    assert all(claim.basis for claim in claims if claim.proven)
    assert {"class", "trip count", "argument"} == {claim.about for claim in claims if not claim.proven}
    outer = next(loop for loop in program.loops if loop.depth == 1)
    says = {(claim.about, claim.subject): claim.says for claim in claims if claim.header == outer.header}
    assert says["class", ""] == outer.class_ == "2"
    assert outer.trip_count is not None
    assert says["trip count", ""] == outer.trip_count.text
    assert says["argument", "argument 0"].startswith("affine: ")


@pytest.mark.parametrize(("option", "suffix"), [("--graphml", "graphml"), ("--dot", "dot")])
def test_graphs_as_files(
    program: Executable, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, suffix: str
) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert command.run(parser.parse_args([option, str(tmp_path / "graphs"), str(path)])) == 0
    work = program.function("work")
    names = {"call-graph", f"{work.address:x}-work.control-flow", f"{work.address:x}-work.loops"}
    names.add(f"{program.function('main').address:x}-main.control-flow")
    files = {file.name: file for file in (tmp_path / "graphs").iterdir()}
    assert set(files) == {f"{name}.{suffix}" for name in names}
    assert f"{len(names)} graphs" in capsys.readouterr().out
    loops = files[f"{work.address:x}-work.loops.{suffix}"]
    if suffix == "graphml":
        graph = nx.read_graphml(loops, node_type=int)
        assert nx.utils.graphs_equal(nx.DiGraph(graph.edges), nx.DiGraph(work.loop_graph.edges))
        assert {attributes["class"] for _, attributes in graph.nodes(data=True)} == {"1", "2"}
        flow = nx.read_graphml(files[f"{work.address:x}-work.control-flow.{suffix}"], node_type=int)
        assert set(flow.edges) == set(work.control_flow.edges)
        assert any("cudaMemset" in attributes.get("cuda", "") for _, attributes in flow.nodes(data=True))
    elif shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg", "-o", tmp_path / "drawn", loops], check=True)
    else:
        assert re.search(r'"\d+" -> "\d+";', loops.read_text())


def test_dot_without_a_folder_prints_the_loops(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    for arguments in (["--dot", str(path)], [str(path), "--dot"]):
        assert command.run(parser.parse_args(arguments)) == 0
        assert capsys.readouterr().out.startswith("digraph loops {")


def test_names_cannot_break_out_of_dot() -> None:
    graph = nx.DiGraph(name='a"b')
    graph.add_node(1, label='"; x -> y; "', text="one\ntwo\\")
    assert '"a\\"b"' in digraphs.dot(graph)
    assert 'label="\\"; x -> y; \\""' in digraphs.dot(graph)
    assert 'text="one\\ltwo\\\\"' in digraphs.dot(graph)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="not a file"):
        farlane.analyzer.open(tmp_path)
    (tmp_path / "text").write_text("no program")
    with pytest.raises(AnalysisError):
        farlane.analyzer.open(tmp_path / "text")
