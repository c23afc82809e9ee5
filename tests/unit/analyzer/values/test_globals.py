"""Global variables beside tables that a loop fills: unchanged where the index is known to stay within the table, and
nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loops.model import Reason

RUNTIME = """
extern "C" int cudaMemset(void *, int, unsigned long) { return 0; }
extern "C" int cudaMalloc(void **, unsigned long) { return 0; }
"""
SOURCE = """
#include <cstdlib>
extern "C" int cudaMemset(void *, int, unsigned long);
extern "C" int cudaMalloc(void **, unsigned long);
#define APART __attribute__((noipa)) void
struct All {
    long before;
    void *table[4];
    long behind;
} all;
APART described_filled(int) {
    for (int i = 0; i < 4; ++i) {
        cudaMalloc(&all.table[i], all.before);
        cudaMemset(all.table[i], 0, all.behind);
    }
}
APART described_below_an_unknown_index(int n) {
    for (int i = 0; i < n; ++i) {
        cudaMemset(nullptr, 0, all.before);
        all.table[i] = malloc(8);
    }
}
APART above_an_unknown_index(int n) {
    for (int i = 0; i < n; ++i) {
        cudaMemset(nullptr, 0, all.behind);
        all.table[i] = malloc(8);
    }
}
APART written_itself(int) {
    for (int i = 0; i < 4; ++i) {
        cudaMalloc(&all.table[i], all.before);
        all.before = rand();
    }
}
APART written_through_a_pointer(long *where) {
    for (int i = 0; i < 4; ++i) {
        cudaMalloc(&all.table[i], all.before);
        where[i] = rand();
    }
}
static APART fill(int i) {
    cudaMalloc(&all.table[i & 3], all.before);
    cudaMemset(all.table[i & 3], 0, all.behind);
    asm volatile("");
}
APART described_in_a_function(int n) {
    for (int i = 0; i < n; ++i) fill(i);
}
APART written_around_the_function(int n) {
    for (int i = 0; i < n; ++i) {
        all.behind = rand();
        fill(i);
    }
}
int main(int n, char **) {
    long somewhere[8];
    described_filled(n), described_below_an_unknown_index(n), above_an_unknown_index(n), written_itself(n);
    written_through_a_pointer(somewhere), described_in_a_function(n), written_around_the_function(n);
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_which_global_variables_stay_what_they_are(build: Callable[..., Path], level: str) -> None:
    program = build(SOURCE, level, "-fno-tree-vectorize", runtime=RUNTIME)
    loops = [loop for loop in analyze(program).loops if "written_through" not in loop.function]
    assert len(loops) == 6
    for loop in loops:
        assert loop.described == ("described" in loop.function), (loop.function, loop.reasons)
        assert loop.described or {Reason.MEMORY_CHANGED, Reason.HOST_CALL} & set(loop.reasons)


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_a_pointer_that_was_given_may_point_to_them(build: Callable[..., Path], level: str) -> None:
    loops = analyze(build(SOURCE, level, "-fno-tree-vectorize", runtime=RUNTIME)).loops
    (loop,) = [loop for loop in loops if "written_through" in loop.function]
    assert loop.assumes_separate or not loop.described
