"""Branches in a loop inside a loop: which of them tell what it leaves behind, and how often its calls run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loops.model import LoopReport

RUNTIME = 'extern "C" int cudaMemset(void *, int, unsigned long) { return 0; }'
SOURCE = """
#include <cstdlib>
extern "C" int cudaMemset(void *, int, unsigned long);
volatile int sink;
int counted;
inline void swap(void *&a, void *&b) { void *t = a; a = b; b = t; }
// Whether something is counted tells nothing of the pointers.
__attribute__((noipa)) void beside(void *a, void *b, int rounds, int inner) {
    for (int i = 0; i < rounds; ++i) {
        for (int k = 0; k < inner; ++k) {
            cudaMemset(a, k, 8);
            if (rand() & 1) sink = ++counted;
            swap(a, b);
        }
        cudaMemset(a, i, 4);
    }
}
__attribute__((noipa)) void swaps(void *a, void *b, int rounds, int inner) {
    for (int i = 0; i < rounds; ++i) {
        for (int k = 0; k < inner; ++k) {
            cudaMemset(a, k, 8);
            if (rand() & 1) { sink = ++counted; swap(a, b); }
        }
        cudaMemset(a, i, 4);
    }
}
__attribute__((noipa)) void leaves(void *a, void *b, int rounds, int inner) {
    for (int i = 0; i < rounds; ++i) {
        for (int k = 0; k < inner; ++k) {
            cudaMemset(a, k, 8);
            if (rand() & 1) { sink = ++counted; break; }
            swap(a, b);
        }
        cudaMemset(a, i, 4);
    }
}
__attribute__((noipa)) void skips(void *a, void *b, int rounds, int inner) {
    for (int i = 0; i < rounds; ++i) {
        for (int k = 0; k < inner; k += rand() & 1) {
            cudaMemset(a, 0, 8);
            swap(a, b);
        }
        cudaMemset(a, i, 4);
    }
}
int main(int n, char **) { beside(0, 0, n, n), swaps(0, 0, n, n), leaves(0, 0, n, n), skips(0, 0, n, n); }
"""


@pytest.fixture(scope="module", params=["-O0", "-O1", "-O3"])
def loops(build: Callable[..., Path], request: pytest.FixtureRequest) -> tuple[LoopReport, ...]:
    return analyze(build(SOURCE, request.param, runtime=RUNTIME), in_callees=False).loops


@pytest.mark.parametrize(
    ("name", "described"), [("beside", True), ("swaps", False), ("leaves", False), ("skips", False)]
)
def test_what_the_inner_loop_leaves(loops: tuple[LoopReport, ...], name: str, described: bool) -> None:
    found = [loop for loop in loops if name in loop.function]
    assert len(found) == 2
    outer = max(found, key=lambda loop: len(loop.calls))
    assert outer.described == described, outer.reasons
