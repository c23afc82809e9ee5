"""How much the analyzer does for its answers: counts of what it executes and makes, which no machine's load changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.analysis.reading import may_hold
from farlane.analyzer.flow.engine import Engine
from farlane.analyzer.flow.summary import Functions
from farlane.analyzer.graph.control_flow import Block
from farlane.analyzer.graph.program import Program
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.graph.structure import build as structure
from farlane.analyzer.loader import elf
from farlane.analyzer.loops.dependence.judging import LoopValues
from farlane.analyzer.loops.dependence.stored import Stores
from farlane.analyzer.loops.shape import rewriting
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.permissions.abstract.facts import Regions
from farlane.analyzer.permissions.abstract.walk import Walker
from farlane.analyzer.permissions.prove import Prover
from farlane.analyzer.slices.extract import Extractor
from farlane.analyzer.values.memory import FrameStore
from farlane.analyzer.values.state import State

RUNTIME = 'extern "C" int cudaFree(void *) { return 0; } void thrower(int) {}'
SOURCE = """
#include <cstdlib>
extern "C" int cudaFree(void *);
#define APART __attribute__((noipa))
struct Node { Node *next; long more, value; };
static int bits;
APART static void some(int n) { bits += n; }
#define BRANCH(k) if (n & 1 << k) some(k);
#define BRANCHES(k) BRANCH(k) BRANCH(k + 1) BRANCH(k + 2) BRANCH(k + 3) BRANCH(k + 4) BRANCH(k + 5)

// What the pointer is turns out in the first blocks: first a place in what was allocated, then something read.
APART void doubtful(int n) {
    Node *at = static_cast<Node *>(malloc(4096)), *left = at;
    while (at->value != 3) {
        Node *next = left;
        left = at->next;
        if (at->more) { next = at + 1; some(1); }
        next->value = n;
        at = next;
    }
    BRANCHES(0) BRANCHES(6) BRANCHES(12) BRANCHES(18)
    n *= 3;
    BRANCHES(0) BRANCHES(6) BRANCHES(12) BRANCHES(18)
    cudaFree(at);
}
APART void straight(int n) { if (n) cudaFree(nullptr); some(n); }
APART void aside(int n) { do some(n); while (--n); cudaFree(nullptr); }
APART void backward(int n) { do cudaFree(nullptr); while (--n); }
APART void chosen(int n) { for (;;) switch (n++) { case 0: some(1); case 1: some(2); case 2: cudaFree(nullptr); break; case 3: some(3);
                                                   case 4: return; } }
#define DRAW seed ^= seed << 13, seed ^= seed >> 17, seed ^= seed << 5;
#define DRAWS DRAW DRAW DRAW DRAW DRAW DRAW DRAW DRAW
APART void drawn(int n, unsigned *to, unsigned seed) {
    for (int i = 0; i < n; ++i) {
        DRAWS DRAWS
        for (unsigned *at = to; at != to + (seed & 63); ++at) *at = seed;
        cudaFree(to);
    }
}
APART void nested(int n) {
    for (int a = 0; a < n; ++a) {
        for (int b = 0; b < a; ++b)
            for (int c = 0; c < b; ++c)
                for (int d = 0; d < c; ++d)
                    for (int e = 0; e < d; ++e) some(a + b + c + d + e);
        cudaFree(nullptr);
    }
    BRANCHES(0)
}
struct Held { ~Held() { some(7); } };
void thrower(int);
APART void tries(int n) {
again:
    try { Held held; thrower(n); } catch (int caught) { if (n += caught) goto again; }
    cudaFree(nullptr);
}
int main(int n, char **) { doubtful(n); straight(n); aside(n); backward(n); chosen(n); tries(n); drawn(n, nullptr, n); nested(n); return bits; }
"""

# Each of the variables depends on all of them in more ways than can be followed.
MINGLED = """
extern "C" int cudaFree(void *);
#define APART __attribute__((noipa))
APART int opaque(int n) { return n; }
APART void mingled(int n, char *to) {
    int a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;
    for (int i = 0; i < n; ++i) {
#define STEP(x, y, z) if (x & 1) { y ^= z; opaque(0); } else { z += y; opaque(1); } if (y > z) { x = opaque(x) ^ y; }
#define STEPS(x) STEP(a, b, c) STEP(d, e, f) STEP(g, h, a) STEP(b, d, g) STEP(c, f, h) STEP(e, a, x)
        STEPS(a) STEPS(b) STEPS(c)
        cudaFree(to + (a ^ b ^ c ^ d ^ e ^ f ^ g ^ h));
    }
}
int main(int n, char **) { mingled(n, nullptr); return 0; }
"""


@pytest.fixture(scope="module")
def program(build: Callable[..., Path]) -> Program:
    return Program(elf.load(build(SOURCE, "-O1", "-fno-reorder-blocks", runtime=RUNTIME)), Decoder())


def start(program: Program, name: str) -> int:
    (found,) = (s for s, f in program.ranges.items() if name in f.name and s not in program.owner)
    return found


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Block -> how often it is executed from now on."""
    executed: Counter[int] = Counter()
    execute = Engine._execute

    def counting(engine: Engine, block: Block, state: State) -> object:
        executed[block.start] += 1
        return execute(engine, block, state)

    monkeypatch.setattr(Engine, "_execute", counting)
    return executed


def test_loops_in_loops_find_their_phis_once(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    executed = counted(monkeypatch)
    found = Functions(program).analysis(start(program, "nested"))
    assert found is not None
    assert max(loop.depth for loop in found.structure.loops.values()) == 5
    innermost = max(found.structure.loops.values(), key=lambda loop: loop.depth)
    assert executed[innermost.header] <= 8, "twice as often for each loop around it are 32"


def test_what_lies_behind_the_wanted_loops_is_not_executed(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    functions, each = Functions(program), start(program, "nested")
    (wanted,) = functions.loops(functions.structure(each))
    executed = counted(monkeypatch)
    found = functions.analysis(each, headers=frozenset({wanted}))
    assert found is not None
    assert wanted in found.result.headers
    own = executed.keys() & found.structure.flow.blocks.keys()
    assert own == found.structure.leading_to([wanted])
    assert len(own) < len(found.structure.flow.blocks) - 10
    whole = functions.analysis(each)
    assert whole is not None
    assert whole.result.end is not None


def test_what_begins_in_doubt_is_given_up_at_once(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    executed = counted(monkeypatch)
    found = Functions(program).analysis(start(program, "doubtful"))
    assert found is not None
    (loop,) = found.structure.loops.values()
    phis = [phi for phi in found.result.phis if phi.arguments[1] == loop.header and phi.allocations is not None]
    assert any(phi.allocations == () for phi in phis), "a pointer that may point anywhere"
    behind = found.structure.flow.blocks.keys() - found.structure.leading_to([loop.header])
    assert len(behind) > 40
    again = [each for each in behind if executed[each] > 1]
    assert len(again) <= 1, "only where the way past the loop meets the one out of it"


@pytest.mark.parametrize("name", ["straight", "aside"])
def test_no_graph_is_made_where_no_jump_leads_back_to_a_call_of_cuda(program: Program, name: str) -> None:
    fresh = Program(program.image, Decoder())
    each = start(fresh, name)
    assert each in fresh.cuda
    assert not may_hold(Functions(fresh), each)
    assert each not in fresh.graphs


def test_where_no_loop_may_be_there_is_none(program: Program) -> None:
    without = {each for each in program.functions() if not program.may_loop(each)}
    assert start(program, "straight") in without
    assert without.isdisjoint(start(program, name) for name in ("backward", "chosen", "tries", "doubtful"))
    for each in without:
        assert not structure(program, each).loops, hex(each)


def test_where_no_call_may_be_in_a_loop_there_is_none(program: Program) -> None:
    without = {each for each in program.functions() if not program.may_repeat(each)}
    assert start(program, "aside") in without
    assert without.isdisjoint(start(program, name) for name in ("backward", "chosen", "drawn"))
    functions = Functions(program)
    for each in without:
        found = structure(program, each)
        calling = functions.calling(found.flow)
        assert all(loop.blocks.isdisjoint(calling) for loop in found.loops.values()), hex(each)


def test_what_the_proofs_have_executed_is_not_executed_again(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    executed: Counter[int] = Counter()
    regions = Walker.regions

    def counted(walker: Walker, at: int) -> Regions:
        executed[at] += 1
        return regions(walker, at)

    monkeypatch.setattr(Walker, "regions", counted)
    each = start(program, "backward")
    prover = Prover(program)
    Extractor(program, proven=prover.found)._executed(each)
    assert prover.found(each) is None, "the proofs did not ask for it"
    assert prover._codes.regions(each) is prover.found(each)
    assert Extractor(program, proven=prover.found)._executed(each) is prover.found(each)
    assert executed == {each: 2}


def test_where_an_inner_loop_ends_is_found_however_its_bound_was_computed(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generator of random numbers uses each value several times: from the bound 8**16 ways lead down to its seed."""
    functions, rewritten = Functions(program), list[Loop]()
    monkeypatch.setattr(rewriting, "_rewrite", lambda result, values, loop, *_: rewritten.append(loop))
    found = functions.analysis(start(program, "drawn"))
    assert found is not None
    rewriting.final_values(found, functions.values)
    assert [loop.depth for loop in rewritten] == [2]


def test_what_depends_on_itself_in_too_many_ways_is_given_up_soon(
    build: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    judges = list[LoopValues]()
    begin = LoopValues.__init__
    monkeypatch.setattr(LoopValues, "__init__", lambda self, scope: (begin(self, scope), judges.append(self))[0])
    report = analyze(build(MINGLED, "-O1", runtime=RUNTIME), 3600.0, in_callees=False)
    (loop,) = report.loops
    assert not loop.described
    assert any(judge._unanswered for judge in judges)
    # Of one answer 10,000, of all together less than twice as many.
    assert max(judge._asked for judge in judges) < 20_000 + 1_000


def test_stores_in_the_frame_are_found_by_their_places_as_by_looking_at_all() -> None:
    places = [None, -200, -130, -129, -128, -66, -65, -64, -63, -8, 0, 8]
    kept = [FrameStore(start, end) for start in places for end in places]
    loop = SimpleNamespace(blocks=frozenset({1, 2}), header=1)
    result = SimpleNamespace(frame_stores={1: kept[::2], 2: kept[1::2]})
    stores = Stores(*[cast("Any", each) for each in (None, result, None, loop, {}, None)])
    for low in (-200, -131, -129, -128, -72, -64, -1, 0):
        for end in (None, *range(low - 1, low + 140, 3)):
            near = [stores._in_frame[index] for index in stores._near(low, end)]
            touching = [
                (block, store)
                for block in loop.blocks
                for store in result.frame_stores[block]
                if not (store.end is not None and store.end <= low)
                and not (end is not None and store.start is not None and store.start >= end)
            ]
            assert [each for each in near if each in touching] == touching, (low, end)
    assert len(list(stores._near(-64, -56))) < len(kept), "not all of them are looked at"
