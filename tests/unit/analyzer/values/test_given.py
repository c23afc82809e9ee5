"""What a called function stores through pointers that it made of those that it was given is seen in its caller's
frame."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loops.model import LoopReport

RUNTIME = 'extern "C" int cudaMemset(void *, int, unsigned long) { return 0; }'
SOURCE = """
extern "C" int cudaMemset(void *, int, unsigned long);
volatile int sink;
struct Span { int *begin, *end; int used; };
#define APART __attribute__((noinline, noclone))
APART void each(int *from, int *to) { for (int *q = from; q != to; ++q) *q += sink; }
APART void outer(int *p) { each(p, p + 4); sink = 5; }
APART void rows(int *p, int *end, int w) { for (int *row = p; row != end; row += w) for (int *q = row; q != row + w; ++q) *q += sink; }
APART void outer_rows(int *p) { rows(p, p + 4, 2); sink = 3; }
APART void span(Span *s) { for (int *q = s->begin; q != s->end; ++q) *q += sink; }
APART void outer_span(Span *s) { span(s); sink = 3; }
APART void late(Span *s, int n) { s->used = n; sink = n; for (int k = 0; k < n; ++k) s->used += k; int *q = s->begin; *q += 1, q[1] += 1; }
APART void outer_late(Span *s, int n) { late(s, n); sink = 3; }
APART void either(int *p, int c) { int *q = c > 3 ? p : p + 1; for (int k = 0; k < 3; ++k) *q++ += sink; }
APART int *second(int *p, int n) { for (int k = 0; k < n; ++k) p += k & 1; return p; }
APART int *outer_second(int *p, int n) { int *q = second(p, n); sink = *q; return q; }
APART int total(int *from, int *to) { int sum = 0; for (int *q = from; q != to; ++q) sum += *q; return sum; }
APART int outer_total(int *p) { return total(p, p + 4) + 1; }
#define ARGUMENT(name, ...) __attribute__((noipa)) void as_argument_##name(int rounds) { \\
    int sizes[4] = {4, 4, 4, 4}; Span s{sizes, sizes + 4, 0}; (void)s; \\
    for (int i = 0; i < rounds; ++i) { cudaMemset(nullptr, i, sizes[1]); __VA_ARGS__; } }
#define BOUND(name, ...) __attribute__((noipa)) void as_bound_##name(int rounds) { \\
    int sizes[4] = {rounds, rounds, rounds, rounds}; Span s{sizes, sizes + 4, 0}; (void)s; \\
    for (int i = 0; i < sizes[1]; ++i) { cudaMemset(nullptr, i, 4); __VA_ARGS__; } }
#define BOTH(name, ...) ARGUMENT(name, __VA_ARGS__) BOUND(name, __VA_ARGS__)
BOTH(outer, outer(sizes))
BOTH(rows, rows(sizes, sizes + 4, 2))
BOTH(nested_rows, outer_rows(sizes))
BOTH(span, span(&s))
BOTH(nested_span, outer_span(&s))
BOTH(late, late(&s, rounds))
BOTH(nested_late, outer_late(&s, rounds))
BOTH(either, either(sizes, rounds))
BOTH(returned, *second(sizes, 3) = i)
BOTH(nested_returned, *outer_second(sizes, 3) = i)
BOTH(read_only, sink = outer_total(sizes))
#define CALL(name) as_argument_##name(n), as_bound_##name(n)
int main(int n, char **) {
    CALL(outer), CALL(rows), CALL(nested_rows), CALL(span), CALL(nested_span), CALL(late), CALL(nested_late), CALL(either), CALL(returned);
    CALL(nested_returned), CALL(read_only);
}
"""
CHANGED = ["outer", "rows", "nested_rows", "span", "nested_span", "either", "returned", "nested_returned"]
LOADED_LATE = [
    "late",
    "nested_late",
]  # a pointer that is read from memory is assumed not to point into the frame, and that is marked


@pytest.fixture(scope="module", params=["-O0", "-O1", "-O2"])
def loops(build: Callable[..., Path], request: pytest.FixtureRequest) -> tuple[LoopReport, ...]:
    return analyze(build(SOURCE, request.param, runtime=RUNTIME), in_callees=False).loops


def by_name(loops: tuple[LoopReport, ...], name: str) -> LoopReport:
    (found,) = (loop for loop in loops if f"{name}i" in loop.function)
    return found


@pytest.mark.parametrize("name", CHANGED)
def test_what_is_stored_in_the_callers_frame_is_seen(loops: tuple[LoopReport, ...], name: str) -> None:
    assert not by_name(loops, f"as_argument_{name}").described
    bound = by_name(loops, f"as_bound_{name}")
    assert not bound.described
    assert not any(continuation.exact for continuation in bound.continuations)


@pytest.mark.parametrize("name", LOADED_LATE)
def test_nothing_exact_rests_on_what_pointers_in_memory_point_to(loops: tuple[LoopReport, ...], name: str) -> None:
    for loop in (by_name(loops, f"as_argument_{name}"), by_name(loops, f"as_bound_{name}")):
        assert not loop.described or loop.assumes_separate
    assert not any(continuation.exact for continuation in by_name(loops, f"as_bound_{name}").continuations)


def test_what_is_only_read_is_unchanged(loops: tuple[LoopReport, ...]) -> None:
    for kind in ("argument", "bound"):
        loop = by_name(loops, f"as_{kind}_read_only")
        assert loop.described
        assert not loop.assumes_separate
