"""Blocks that only clean up before an exception goes on, or before the program ends: not analyzed, and not forgotten
either."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.flow.function import Analysis
from farlane.analyzer.flow.summary import Functions
from farlane.analyzer.graph.control_flow import EXCEPTION
from farlane.analyzer.graph.program import Program
from farlane.analyzer.loader import elf
from farlane.analyzer.machine.decoder import Decoder

RUNTIME = """
extern "C" int cudaFree(void *) { return 0; }
extern "C" int cudaMemset(void *, int, long) { return 0; }
void may_throw(int) { }
"""
SOURCE = """
extern "C" int cudaFree(void *);
extern "C" int cudaMemset(void *, int, long);
void may_throw(int);
static int size = 1;
struct Held { void *p; ~Held() { size = 5; cudaFree(p); } };
__attribute__((noinline)) void cleans_up(int n) { Held held{0}; may_throw(n); }
__attribute__((noinline)) void loops_in_the_end(int n) {
    struct Many { void *p[4]; int n; ~Many() { for (int i = 0; i < n; ++i) cudaFree(p[i]); } } many{{}, n};
    may_throw(n);
}
__attribute__((noinline)) void catches(int n) {
    size = 1;
    try { cleans_up(n); } catch (...) { for (int i = 0; i < n; ++i) cudaMemset(0, 0, size); }
}
int main(int n, char **) { cleans_up(n); loops_in_the_end(n); catches(n); return size; }
"""


@pytest.fixture(scope="module")
def functions(build: Callable[..., Path]) -> Functions:
    return Functions(Program(elf.load(build(SOURCE, "-O1", runtime=RUNTIME)), Decoder()))


def analysis(functions: Functions, name: str) -> Analysis:
    (start,) = (s for s, f in functions.program.ranges.items() if name in f.name and s not in functions.program.owner)
    found = functions.analysis(start)
    assert found is not None
    return found


def pads(found: Analysis) -> set[int]:
    return {e.target for block in found.structure.flow.blocks.values() for e in block.edges if e.kind == EXCEPTION}


def test_what_cleans_up_is_left_out(functions: Functions) -> None:
    found = analysis(functions, "cleans_up")
    left_out = pads(found)
    assert left_out
    assert left_out.isdisjoint(found.result.frame_stores), "not executed"
    assert left_out <= {target for _, target in found.result.executed}, "but it may run"
    assert found.result.cut


def test_a_loop_with_cuda_calls_is_wanted_wherever_it_is(functions: Functions) -> None:
    found = analysis(functions, "loops_in_the_end")
    behind = pads(found)
    loops = [loop for loop in found.structure.loops.values() if not loop.blocks.isdisjoint(found.result.calls)]
    assert len(loops) == 2, "one for each way out"
    assert behind <= found.result.frame_stores.keys()


def test_a_handler_knows_nothing_of_what_was_stored_on_the_way_to_it(functions: Functions) -> None:
    found = analysis(functions, "catches")
    (call,) = (each for calls in found.result.calls.values() for each in calls if each.name == "cudaMemset")
    assert not dict(call.arguments)["argument 2"].is_constant, "cleans_up's destructor has changed it"
