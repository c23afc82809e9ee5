"""What functions that call themselves may change: no more than what they store through, and no less."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.flow import recursion
from farlane.analyzer.graph.reach import circles
from farlane.analyzer.loops.model import Kind

RUNTIME = 'extern "C" { int cudaMemset(void *, int, unsigned long) { return 0; } void leak(void *) {} }'
SOURCE = """
#include <cstdlib>
#define APART __attribute__((noipa))
extern "C" { int cudaMemset(void *, int, unsigned long); void leak(void *); }
static int counter, other;

APART static int *middle(int *first, int *last) { return first + (last - first) / 2; }

APART static void quick(int *first, int *last) {
    while (last - first > 1) {
        int *cut = middle(first, last);
        for (int *at = first; at < cut; ++at) *at = *cut;
        quick(cut, last);
        last = cut;
    }
}

APART static void by_turns(int *one, int *two, int depth) {
    if (depth == 0) return;
    *one = depth;
    by_turns(two, one, depth - 1);
}

APART static void turning(int *one, int *two, int *three, int depth) {
    int *at = one, *next = two;
    for (int i = 0; i < depth; ++i) {
        *at = i;
        int *before = at;
        at = next;
        next = before;
        if (i == 7) next = three;
    }
    if (depth) turning(one, two, three, depth - 1);
}

static void odd(int depth);
APART static void even(int depth) { if (depth) odd(depth - 1); }
APART static void odd(int depth) { counter = depth; even(depth - 1); }

APART static int *results(int depth, int *out) {
    int mine = 0;
    if (depth) *out = *results(depth - 1, &mine) + mine;
    return out;
}

APART static void unknown_inside(int depth) { if (depth) { leak(nullptr); unknown_inside(depth - 1); } }

struct Node { Node *next; int *where; };
APART static void along(Node *node) { if (node) { *node->where = 1; along(node->next); } }

APART static void allocating(int depth) {
    int *own = (int *)malloc(8);
    *own = depth;
    if (depth) allocating(depth - 1);
}

#define LOOP(name, what, given) \\
    APART void name(void *device, int *heap, int n) { \\
        int kept = n; \\
        leak(&kept); \\
        for (int i = 0; i < n; ++i) { what; cudaMemset(device, given, 4); } \\
    }
LOOP(sorts, quick(heap, heap + n), kept)
LOOP(sorts_in_frame, quick(&kept, &kept + 1), kept)
LOOP(second_argument, by_turns(heap, &kept, n), kept)
LOOP(second_round, by_turns(&kept, heap, n), kept)
LOOP(not_touched, by_turns(heap, heap + 8, n), kept)
LOOP(third_of_a_ring, turning(heap, heap + 8, &kept, n), kept)
LOOP(through_each_other, even(n), counter)
LOOP(another_variable, even(n), kept)
LOOP(by_pointer, results(n, &kept), kept)
LOOP(by_pointer_elsewhere, results(n, heap), kept)
LOOP(unknown, unknown_inside(n), kept)
LOOP(list, along((Node *)heap), kept)
LOOP(allocates, allocating(n), kept)
int main(int argc, char **argv) {
    int *heap = (int *)malloc(64);
    void (*all[])(void *, int *, int) = {sorts, sorts_in_frame, second_argument, second_round, not_touched, third_of_a_ring, through_each_other, another_variable,
                      by_pointer, by_pointer_elsewhere, unknown, list, allocates};
    for (auto each : all) each(heap, heap, argc);
}
"""
STAYS = {"sorts", "not_touched", "another_variable", "allocates"}
CHANGES = {
    "sorts_in_frame",
    "second_argument",
    "second_round",
    "third_of_a_ring",
    "through_each_other",
    "by_pointer",
    "unknown",
    "list",
}


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2"])
def test_what_may_be_stored_to(build: Callable[..., Path], level: str) -> None:
    program = build(SOURCE, level, "-fno-optimize-sibling-calls", runtime=RUNTIME)
    kinds = {}
    for loop in analyze(program).loops:
        (call,) = loop.calls
        kinds[loop.function.removeprefix("_Z").lstrip("0123456789").removesuffix("PvPii")] = call.arguments[1].kind
    assert kinds.keys() >= STAYS | CHANGES
    assert {name for name in STAYS if kinds[name] != Kind.INVARIANT} == set()
    assert {name for name in CHANGES if kinds[name] == Kind.INVARIANT} == set()


def test_circles() -> None:
    assert circles({1: [2], 2: [3], 3: [2, 4], 4: [5], 5: [5], 6: [1]}) == {2: (2, 3), 3: (2, 3), 5: (5,)}


def test_rounds_are_bounded(build: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """What has not converged is an unknown function."""
    monkeypatch.setattr(recursion, "MAXIMUM_ROUNDS", 1)
    program = build(SOURCE, "-O1", "-fno-optimize-sibling-calls", runtime=RUNTIME)
    (found,) = (loop.calls[0].arguments[1].kind for loop in analyze(program).loops if "_Z5sorts" in loop.function)
    assert found != Kind.INVARIANT
