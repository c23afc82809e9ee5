"""Control flow, the call graph and loops, on host programs whose shape is known."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.graph import control_flow
from farlane.analyzer.graph.program import Program
from farlane.analyzer.graph.structure import Structure
from farlane.analyzer.loader import elf
from farlane.analyzer.machine.decoder import Decoder

SOURCE = r"""
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
extern "C" {
int sink(int);
__attribute__((noinline)) void die(const char *why) { puts(why); exit(3); }
__attribute__((noinline)) void die_too(int n) { if (n) die("one"); else die("two"); }
__attribute__((noinline)) int checked(int n) { if (n < 0) die_too(n); return n + 1; }
__attribute__((noinline)) int choose(int n) {
    switch (n) { case 0: return sink(7); case 1: return sink(1) + 1; case 2: return sink(3) * 9; case 3: return sink(8) - 2;
                 case 4: return sink(4) / 3; case 5: return sink(2) ^ 5; case 6: return sink(0); default: return 5; }
}
__attribute__((noinline)) int switching(int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i)
        switch (sink(i)) { case 0: sum += sink(1); break; case 1: sum -= sink(2); break; case 2: sum ^= sink(3); break;
                           case 3: sum *= sink(4); break; case 4: sum |= sink(5); break; case 5: sum += 3 * sink(6); break; }
    return sum;
}
__attribute__((noinline)) int nested(int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < i; ++j) sum += sink(j);
        for (int j = 0; j < n; ++j) { if (sink(j) == 4) return sum; sum += j; }
        if (sum > 900) die("large");
    }
    return sum;
}
__attribute__((noinline)) int catching(int n) {
    int failed = 0;
    for (int i = 0; i < n; ++i) { try { sink(i); } catch (const std::exception &) { ++failed; continue; } sink(-i); }
    return failed;
}
__attribute__((noinline)) int tail(int n) { return nested(n + 1); }
}
int main(int argc, char **) { return choose(argc) + nested(argc) + checked(argc) + switching(argc) + catching(argc) + tail(argc); }
__attribute__((noinline)) int sink(int n) { if (n > 1000) throw std::runtime_error("sink"); return rand() % (n + 3); }
"""

IRREDUCIBLE = """
.globl main
.type main, @function
main:
    .cfi_startproc
    test %edi, %edi
    je 2f
1:  dec %esi
    jle 3f
2:  dec %edi
    jg 1b
3:  xor %eax, %eax
    ret
    .cfi_endproc
.size main, .-main
.section .note.GNU-stack,"",@progbits
"""

LEVELS = ("-O0", "-O2", "-O3")


@pytest.fixture(params=LEVELS)
def program(request: pytest.FixtureRequest, build: Callable[..., Path]) -> Program:
    return Program(elf.load(build(SOURCE, request.param)), Decoder())


def start(program: Program, name: str) -> int:
    return next(start for start in program.functions() if program.ranges[start].name == name)


def graph(program: Program, name: str) -> Structure:
    return Structure(control_flow.build(program, start(program, name)))


def test_functions_that_never_return(program: Program) -> None:
    names = {program.ranges[start].name for start in program.never_returns}
    assert {"die", "die_too"} <= names
    assert not names & {"checked", "choose", "nested", "sink", "main", "catching"}
    blocks = control_flow.build(program, start(program, "checked")).blocks.values()
    assert sum(block.end == control_flow.STOP for block in blocks) == 1


def test_every_case_of_a_switch_is_reached(program: Program) -> None:
    for name, cases in (("choose", 7), ("switching", 6)):
        flow = control_flow.build(program, start(program, name))
        assert flow.unresolved == ()
        tables = [
            block for block in flow.blocks.values() if any(edge.kind == control_flow.TABLE for edge in block.edges)
        ]
        assert len(tables) == 1
        assert len(tables[0].edges) >= cases
        sinks = [callee for callee in flow.calls.values() if callee.name == "sink"]
        assert len(sinks) >= cases


def test_nested_loops(program: Program) -> None:
    loops = list(graph(program, "nested").loops.values())
    assert sorted(loop.depth for loop in loops) == [1, 2, 2]
    outer = next(loop for loop in loops if loop.depth == 1)
    assert all(loop.parent == outer.header for loop in loops if loop.depth == 2)
    assert not any(loop.irreducible for loop in loops)
    # Left by its test and by the return inside; the call of `die` is no way out.
    assert len(outer.exits) == 2
    assert len(outer.error_exits) == 1


def test_a_loop_through_a_handler(program: Program) -> None:
    structure = graph(program, "catching")
    (loop,) = structure.loops.values()
    inside = {
        structure.flow.calls[i.address].name
        for b in loop.blocks
        for i in structure.flow.blocks[b].instructions
        if i.address in structure.flow.calls
    }
    assert {"sink", "__cxa_begin_catch", "__cxa_end_catch"} <= inside


def test_dominators(program: Program) -> None:
    structure = graph(program, "nested")
    entry = structure.flow.entry
    for block in structure.order:
        assert structure.dominates(entry, block)
        assert structure.dominates(block, block)
        assert block == entry or not structure.dominates(block, entry)
    for loop in structure.loops.values():
        assert all(structure.dominates(loop.header, block) for block in loop.blocks)


def test_tail_calls_are_calls(build: Callable[..., Path]) -> None:
    program = Program(elf.load(build(SOURCE, "-O2")), Decoder())
    flow = control_flow.build(program, start(program, "tail"))
    assert [block.end for block in flow.blocks.values()] == [control_flow.TAIL]
    assert [callee.name for callee in flow.calls.values()] == ["nested"]
    assert "nested" in {callee.name for callee in program.callees[start(program, "tail")]}


@pytest.mark.parametrize("level", LEVELS)
def test_stripped_programs_have_the_same_graphs(build: Callable[..., Path], tmp_path: Path, level: str) -> None:
    path = build(SOURCE, level)
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, path], check=True)
    whole, bare = (Program(elf.load(each), Decoder()) for each in (path, stripped))
    for name in ("checked", "choose", "switching", "nested", "catching"):
        at = start(whole, name)
        first, second = (Structure(control_flow.build(each, at)) for each in (whole, bare))
        assert first.flow.blocks == second.flow.blocks
        assert first.loops == second.loops


def test_irreducible_regions_are_reported(build: Callable[..., Path]) -> None:
    program = Program(elf.load(build(IRREDUCIBLE, language="assembler")), Decoder())
    (loop,) = graph(program, "main").loops.values()
    assert loop.irreducible
    assert len(loop.blocks) == 2


def test_calls_without_a_plt_are_resolved(build: Callable[..., Path]) -> None:
    program = Program(elf.load(build(SOURCE, "-O2", "-fno-plt")), Decoder())
    assert "puts" in {callee.name for callee in program.callees[start(program, "die")]}
    assert start(program, "die") in program.never_returns


def test_a_variable_with_a_functions_address_may_be_given_another(build: Callable[..., Path]) -> None:
    """The loader fills it in, as it does a table of imports; but the program may write to it."""
    source = r"""
    #include <stdlib.h>
    static void own(int) {}
    int (*imported)(int) = abs;
    void (*local)(int) = own;
    extern "C" int caller(int x) { local(x); return imported(x) + labs(x); }
    int main(int n, char **) { if (n > 3) { imported = toupper; local = exit; } return caller(n); }
    """
    options = ("-O1", "-fno-builtin", "-include", "cctype")
    for more in ((), ("-fno-pie", "-no-pie"), ("-fno-plt",)):
        program = Program(elf.load(build(source, *options, *more)), Decoder())
        calls = control_flow.build(program, start(program, "caller")).calls
        assert sorted(callee.name for callee in calls.values()) == ["", "", "labs"]
