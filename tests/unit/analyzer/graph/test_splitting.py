"""Loops that are entered behind their exit test as well: one entry, by copies; the same ways; values of copies are
others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.flow.engine import Engine
from farlane.analyzer.flow.result import Result
from farlane.analyzer.graph import splitting, structure
from farlane.analyzer.graph.program import Program
from farlane.analyzer.graph.splitting import COPIED
from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.loader import elf
from farlane.analyzer.loops.model import Kind, LoopReport, Reason
from farlane.analyzer.machine.decoder import Decoder

RUNTIME = 'extern "C" int cudaMemset(void *, int, unsigned long) { return 0; }'
SOURCE = """
#include <cstdlib>
extern "C" int cudaMemset(void *, int, unsigned long);
int level;
void behind_the_test(void *device, int count, int known) {
    int i = 0;
    if (known) goto body;
test:
    if (i >= count) return;
body:
    cudaMemset(device, i, 8);
    ++i;
    goto test;
}
void behind_a_loop(void *device, int count, int known, int *table) {
    int i = 0, sum = 0;
    if (known) goto body;
test:
    sum = 0;
    for (int k = 0; k < count; ++k) sum += table[k] & 1;
    if (i >= count) return;
body:
    cudaMemset(device, i, 8);
    ++i;
    goto test;
}
void drawn(void *device, int count, int known) {
    int i = 0, value = known;
    if (known) goto body;
test:
    value = rand();
    if (i >= count) return;
body:
    cudaMemset(device, value, 8);
    ++i;
    goto test;
}
void raised(void *device, int count, int known) {
    int i = 0;
    if (known) goto body;
test:
    level += 3;
    if (i >= count) return;
body:
    cudaMemset(device, level, 8);
    ++i;
    goto test;
}
void both_call(void *device, int count, int known) {
    int i = 0;
    if (known) goto body;
test:
    cudaMemset(device, 1, 4);
    if (i >= count) return;
body:
    cudaMemset(device, i, 8);
    ++i;
    goto test;
}
void may_call(void *device, int count, int known, void (*call)()) {
    int i = 0;
    if (known) goto body;
test:
    call();
    if (i >= count) return;
body:
    cudaMemset(device, i, 8);
    ++i;
    goto test;
}
int main(int n, char **) {
    int table[4] = {};
    behind_the_test(0, n, n), behind_a_loop(0, n, n, table), drawn(0, n, n), raised(0, n, n), both_call(0, n, n);
    may_call(0, n, n, 0);
}
"""


@pytest.fixture(scope="module")
def program(build: Callable[..., Path]) -> Path:
    return build(SOURCE, "-O0", runtime=RUNTIME)  # optimization would copy more by itself


def of(program: Path, name: str) -> LoopReport:
    (loop,) = [loop for loop in analyze(program).loops if f"{len(name)}{name}P" in loop.function]
    return loop


@pytest.mark.parametrize("name", ["behind_the_test", "behind_a_loop"])
def test_a_loop_that_is_entered_behind_its_test_is_described(program: Path, name: str) -> None:
    loop = of(program, name)
    assert loop.described, loop.reasons
    assert loop.trip_count is not None
    assert loop.trip_count.constant is None
    assert all(call.site < COPIED for call in loop.calls)
    assert loop.header < COPIED


def test_what_a_copy_computes_is_not_what_the_loop_computes(program: Path) -> None:
    loop = of(program, "drawn")
    value = next(argument for call in loop.calls for argument in call.arguments if argument.name == "argument 1")
    assert value.kind == Kind.UNKNOWN
    assert Reason.HOST_CALL in loop.reasons
    raised = of(program, "raised")
    value = next(argument for call in raised.calls for argument in call.arguments if argument.name == "argument 1")
    assert value.kind != Kind.INVARIANT


@pytest.mark.parametrize("name", ["both_call", "may_call"])
def test_what_may_call_cuda_is_not_copied(program: Path, name: str) -> None:
    assert Reason.IRREDUCIBLE in of(program, name).reasons


def test_where_copies_are_too_much_the_graph_stays_as_it_is(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Engine.run

    def failing(engine: Engine) -> Result:
        if any(start >= COPIED for start in engine._flow.blocks):
            raise AnalysisError("values do not converge")
        return run(engine)

    monkeypatch.setattr(Engine, "run", failing)
    report = analyze(program)
    assert not report.skipped
    (loop,) = [loop for loop in report.loops if "15behind_the_testP" in loop.function]
    assert Reason.IRREDUCIBLE in loop.reasons


def test_ways_stay_the_same(program: Path) -> None:
    made = Program(elf.load(program), Decoder())
    split = 0
    for start in made.cuda:
        before, after = structure.build(made, start), splitting.build(made, start)
        assert before is structure.build(made, start)
        if before is after:
            continue
        split += 1
        assert before.tangles
        assert not after.tangles
        assert not any(loop.irreducible for loop in after.loops.values())
        for block in after.flow.blocks.values():
            original = before.flow.blocks[block.start % COPIED]
            assert [(edge.target % COPIED, edge.kind) for edge in block.edges] == list(original.edges)
            assert [(i.address % COPIED, *i[1:]) for i in block.instructions] == [
                tuple(i) for i in original.instructions
            ]
            assert block.end == original.end
            for instruction in block.instructions:
                callee = before.flow.calls.get(instruction.address % COPIED)
                assert after.flow.calls.get(instruction.address) == callee
    assert split == 4
