"""What is said at a call of whether its loop goes on, compared with what programs do.

The programs run against `recorder.c`, which writes down registers, frame and globals at every call. `exact` claims must
be right at every call; counts too, since no variable here overflows but where a test is about that.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loops.model import Continuation, Formula, Location, LoopReport, Place
from farlane.analyzer.loops.prediction import formula
from farlane.analyzer.loops.prediction.formula import evaluate
from farlane.analyzer.machine.arithmetic import compare
from hypothesis import given
from hypothesis import strategies as st

RECORDER = Path(__file__).with_name("recorder.c")
FRAME = 1024
REGISTERS = {3: 2, 4: 1, 5: 3, 12: 4, 13: 5, 14: 6, 15: 7}

SOURCE = r"""
extern "C" int cudaDeviceSynchronize(), cudaGetLastError(), cudaProfilerStart(), cudaSetDevice(int);
#include <cstdlib>
#include <cstring>
#define KEEP extern "C" __attribute__((noinline, noipa)) void
int total = 7;
long shared_end = 5;
KEEP constant() { for (int i = 0; i < 10; ++i) cudaSetDevice(i); }
KEEP upward(int n) { for (int i = 0; i < n; ++i) cudaSetDevice(i); }
KEEP by_three(int n) { for (int i = 1; i <= n; i += 3) cudaSetDevice(i); }
KEEP by_seven_unsigned(unsigned n) { for (unsigned i = 2; i < n; i += 7) cudaSetDevice(i); }
KEEP downward(long n) { for (long i = n; i > 0; --i) cudaSetDevice(i); }
KEEP downward_to_zero(unsigned n) { while (n-- > 0) cudaSetDevice(n); }
KEEP between(int a, int b) { for (; a != b; a += 2) cudaSetDevice(a); }
KEEP pointers(const int *first, const int *last) { for (; first != last; ++first) cudaSetDevice(*first); }
KEEP over_global() { for (int i = 0; i < total; ++i) cudaDeviceSynchronize(); }
KEEP up_to_global() { for (long i = 0; i <= shared_end; ++i) cudaDeviceSynchronize(); }
KEEP halving(int n) { for (int stride = n; stride > 0; stride >>= 1) cudaSetDevice(stride); }
KEEP doubling(int n) { for (int width = 1; width < n; width *= 2) cudaSetDevice(width); }
KEEP halving_unsigned(unsigned n) { for (; n > 1; n /= 2) cudaSetDevice(n); }
KEEP until_zero(unsigned char n) { do cudaSetDevice(n); while (++n); }
KEEP several(int n) { for (int i = 0; i < n; ++i) { cudaSetDevice(i); cudaDeviceSynchronize(); cudaGetLastError(); } }
KEEP checked(int n) { for (int i = 0; i < n; ++i) { if (cudaSetDevice(i)) return; if (cudaDeviceSynchronize() != 0) exit(2); } }
KEEP two_ends(int n, int m) { for (int i = 0; i < n; ++i) { cudaSetDevice(i); if (i == m) break; cudaDeviceSynchronize(); } }
KEEP tested_in_the_middle(int n) { for (int i = 0;; ++i) { cudaSetDevice(i); if (i >= n) break; cudaDeviceSynchronize(); } }
KEEP nest(int n) { for (int i = 0; i < n; ++i) { for (int j = i; j < n; ++j) cudaSetDevice(j); cudaProfilerStart(); } }
KEEP called(int n) { cudaSetDevice(n); }
KEEP calling(int n) { for (int i = 0; i < n; ++i) called(i); }
struct Simulation { int steps, seed; void run(); };
__attribute__((noinline, noipa)) void Simulation::run() { for (int i = 0; i < steps; ++i) { cudaSetDevice(seed); seed += i; } }
KEEP object(int n) { Simulation s{n, 3}; s.run(); }
KEEP wide_frame(int n) { volatile char room[700]; memset((char *)room, n, 700); for (int i = 0; i < n + room[5]; ++i) cudaSetDevice(room[i]); }
KEEP product(int n, int m) { for (int i = 0; i < n * m; ++i) cudaSetDevice(i); }
KEEP quotient(int n) { int half = (n + 1) / 2; for (int i = 0; i < half; ++i) cudaSetDevice(i); }
KEEP conditional(int n) { for (int i = 0; i < n; ++i) { if (i % 3 == 1) cudaDeviceSynchronize(); cudaSetDevice(i); } }
int main() {
    int numbers[9] = {};
#define RUN(...) __VA_ARGS__; cudaGetLastError();
    RUN(constant()) RUN(by_seven_unsigned(1)) RUN(by_seven_unsigned(100)) RUN(over_global()) RUN(up_to_global()) RUN(pointers(numbers, numbers + 9))
    RUN(until_zero(250)) RUN(nest(5)) RUN(two_ends(9, 4)) RUN(two_ends(4, 9)) RUN(between(-5, 7)) RUN(downward_to_zero(6)) RUN(wide_frame(4))
    for (int n = 0; n < 9; n += 4) {
        RUN(upward(n)) RUN(by_three(n)) RUN(downward(n)) RUN(halving(5 * n)) RUN(halving_unsigned(9 * n)) RUN(doubling(n)) RUN(several(n)) RUN(checked(n))
        RUN(tested_in_the_middle(n)) RUN(calling(n)) RUN(object(n)) RUN(product(n, 3)) RUN(quotient(n)) RUN(conditional(n))
    }
}
"""
# Loops in which every call's continuation must be known, exactly; all others may be.
EXACT = [
    "constant upward by_three by_seven_unsigned downward downward_to_zero between pointers over_global up_to_global halving",
    "doubling halving_unsigned until_zero several checked tested_in_the_middle nest calling wide_frame product quotient conditional",
]


class Record(NamedTuple):
    site: int
    words: tuple[int, ...]
    frame: bytes


@pytest.fixture(scope="module", params=["-O0", "-O2", "-O3"])
def observed(
    request: pytest.FixtureRequest, build: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[tuple[LoopReport, ...], list[Record], dict[tuple[int, int], int]]:
    library = build(RECORDER.read_text(), "-O2", "-shared", "-fPIC", "-fno-stack-protector", language="c")
    options = (
        "-fno-pie",
        "-no-pie",
        "-fcf-protection=none",
        "-x",
        "none",
        str(library),
        f"-Wl,-rpath,{library.parent}",
    )
    program = build(SOURCE, request.param, *options)
    loops = analyze(program).loops
    wanted = sorted(
        {
            (place.displacement, place.size)
            for loop in loops
            for continuation in loop.continuations
            for test in continuation.tests
            for side in (test.left, test.right)
            for place in places(side)
            if place.kind == Place.GLOBAL
        }
    )
    output = tmp_path_factory.mktemp("records") / "records"
    named = ",".join(f"{address}:{size}" for address, size in wanted)
    subprocess.run([program], check=True, env={**os.environ, "RECORDS": str(output), "GLOBALS": named})
    words = 8 + FRAME // 8 + len(wanted)
    content = output.read_bytes()
    records = []
    for start in range(0, len(content), 8 * words):
        block = content[start : start + 8 * words]
        numbers = tuple(int.from_bytes(block[at : at + 8], "little") for at in range(0, len(block), 8))
        records.append(Record(numbers[0], numbers, block[64 : 64 + FRAME]))
    return loops, records, {place: 8 + FRAME // 8 + index for index, place in enumerate(wanted)}


def places(of: Formula) -> Iterator[Location]:
    for _, term in of.terms:
        if isinstance(term, Location):
            yield term
        else:
            for operand in term.operands:
                yield from places(operand)


def test_every_claim_is_right(
    observed: tuple[tuple[LoopReport, ...], list[Record], dict[tuple[int, int], int]],
) -> None:
    loops, records, globals_ = observed
    checked: dict[str, int] = {}
    for loop in loops:
        if loop.function == "main":
            continue  # its calls are those of all the others
        # A call instruction of 5 bytes leads to its return address.
        own = {call.site + 5 for call in loop.calls}
        known = {continuation.site + 5: continuation for continuation in loop.continuations}
        always = {call.site + 5 for call in loop.calls if not call.conditional}
        for index, record in enumerate(records):
            continuation = known.get(record.site)
            if continuation is None or not continuation.complete:
                continue
            again = 0
            for later in records[index + 1 :]:
                if later.site not in own:
                    break
                again += later.site == record.site
            place = f"{loop.function} at {record.site:#x}"
            if continuation.exact and record.site in always:
                assert continuation.again is not None
                assert evaluate(continuation.again, reader(record, globals_)) == (again > 0), place
                if continuation.count is not None:
                    assert evaluate(continuation.count, reader(record, globals_)) == again, place
            elif continuation.exact:
                assert continuation.again is not None
                more = evaluate(continuation.again, reader(record, globals_))
                assert not again or more, place
                assert not more or records[index + 1].site in own, place
            if continuation.exact:
                checked[loop.function] = checked.get(loop.function, 0) + 1
    assert set(" ".join(EXACT).split()) <= set(checked)
    assert sum(checked.values()) > 200


def reader(record: Record, globals_: dict[tuple[int, int], int]) -> Callable[[Location], int]:
    def read(location: Location) -> int:
        if location.kind == Place.REGISTER:
            return record.words[REGISTERS[location.register]]
        if location.kind == Place.GLOBAL:
            return record.words[globals_[location.displacement, location.size]]
        data = record.frame[location.displacement : location.displacement + location.size]
        assert len(data) == location.size
        return int.from_bytes(data, "little")

    return read


def test_all_calls_of_the_plain_loops_are_told(
    observed: tuple[tuple[LoopReport, ...], list[Record], dict[tuple[int, int], int]],
) -> None:
    for loop in observed[0]:
        if loop.function not in " ".join(EXACT).split():
            continue
        innermost = not any(other.parent == loop.header and other.entry == loop.entry for other in observed[0])
        assert len(loop.continuations) == (len(loop.calls) if innermost else 1), loop.function
        for continuation in loop.continuations:
            assert isinstance(continuation, Continuation)
            assert continuation.exact, loop.function


@given(st.integers(-60, 60), st.integers(-7, 7).filter(bool), st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
def test_counts_by_counting(start: int, step: int, relation: str) -> None:
    count = 0
    while count < 500 and compare(relation, start + step * count, 0):
        count += 1
    made = formula.progress(relation, formula.constant(start), step, 8)
    if count < 500 and made is not None:
        assert made == formula.constant(count)
