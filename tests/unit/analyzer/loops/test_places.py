"""Where a count's inputs stand when a loop is entered, and what a handler of exceptions leaves of what is known in a
loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loops.model import LoopReport

RUNTIME = """
extern "C" int cudaMemset(void *, int, unsigned long) { return 0; }
extern "C" int cudaStreamCreate(void **) { return 0; }
extern "C" int cudaStreamDestroy(void *) { return 0; }
"""
SOURCE = """
extern "C" int cudaMemset(void *, int, unsigned long);
extern "C" int cudaStreamCreate(void **);
extern "C" int cudaStreamDestroy(void *);
__attribute__((noipa)) void up_to_the_end(void **items, long count) {
    for (void **each = items, **end = items + count; each != end; ++each) cudaMemset(*each, 0, 4);
}
int *published, cleaned;
struct Held { ~Held() { ++cleaned; } };
__attribute__((noinline)) void held(int value) {
    Held here;
    if (value == 77) throw 1;
}
__attribute__((noipa)) int caught(void *device, int count) {
    int sizes[4] = {4, 8, 12, count};
    published = sizes;
    for (int i = 0; i < count; ++i) {
        try { held(i); } catch (int) { return *published; }
        cudaMemset(device, i, sizes[i & 3]);
    }
    return 0;
}
__attribute__((noipa)) void filled(int count) {
    void *streams[32];
    for (int i = 0; i < count; ++i) cudaStreamCreate(&streams[i]);
    for (int i = 0; i < count; ++i) cudaStreamDestroy(streams[i]);
}
__attribute__((noipa)) void around(int rounds, int count) {
    for (int i = 0; i < rounds; ++i) filled(count);
}
__attribute__((noipa)) void refilled(int rounds, int count, void *(*other)(int)) {
    void *streams[32];
    for (int i = 0; i < rounds; ++i) {
        for (int k = 0; k < count; ++k) cudaStreamCreate(&streams[k]);
        streams[i & 31] = other(i);
        for (int k = 0; k < count; ++k) cudaStreamDestroy(streams[k]);
    }
}
void *null(int) { return 0; }
int main(int n, char **) {
    void *items[4] = {};
    up_to_the_end(items, n), caught(0, n), around(n, n), refilled(n, n, null);
}
"""


@pytest.fixture(scope="module")
def loops(build: Callable[..., Path]) -> tuple[LoopReport, ...]:
    return analyze(build(SOURCE, "-O2", runtime=RUNTIME)).loops


def outermost(loops: tuple[LoopReport, ...], name: str) -> LoopReport:
    return next(loop for loop in loops if name in loop.function and loop.parent is None)


def test_the_end_that_a_pointer_is_compared_with_stands_somewhere(loops: tuple[LoopReport, ...]) -> None:
    count = outermost(loops, "up_to_the_end").trip_count
    assert count is not None
    assert count.places
    assert all(where for _, where in count.places), count


def test_what_a_handler_outside_the_loop_finds_changed_is_not_changed_in_the_loop(
    loops: tuple[LoopReport, ...],
) -> None:
    loop = outermost(loops, "caught")
    assert loop.described, loop.reasons
    assert not loop.assumes_separate


def test_a_table_of_results_is_known_and_one_of_anything_is_not(loops: tuple[LoopReport, ...]) -> None:
    assert outermost(loops, "around").described
    assert not outermost(loops, "refilled").described
