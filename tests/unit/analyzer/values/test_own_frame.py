"""What is stored in a function's own frame: in arrays of variable length, for a call below them, in an array of a
called function, and by a call that returns a structure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loader import elf
from farlane.analyzer.loops.model import LoopReport
from farlane.analyzer.values.expression import CALL, OPERATION, PHI, Values
from farlane.analyzer.values.memory import Memory
from farlane.analyzer.values.state import State

RUNTIME = """
struct cudaChannelFormatDesc { int x, y, z, w, f; };
extern "C" int cudaMalloc(void **, unsigned long) { return 0; }
extern "C" int cudaMemset(void *, int, unsigned long) { return 0; }
extern "C" int cudaMemcpy(void *, const void *, unsigned long, int) { return 0; }
extern "C" int cudaMallocArray(void **, const cudaChannelFormatDesc *, unsigned long, unsigned long, unsigned) { return 0; }
extern "C" int cudaFreeArray(void *) { return 0; }
extern "C" cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, int f) { return {x, y, z, w, f}; }
"""
SOURCE = """
#include <cstdlib>
struct cudaChannelFormatDesc { int x, y, z, w, f; };
extern "C" int cudaMalloc(void **, unsigned long);
extern "C" int cudaMemset(void *, int, unsigned long);
extern "C" int cudaMemcpy(void *, const void *, unsigned long, int);
extern "C" int cudaMallocArray(void **, const cudaChannelFormatDesc *, unsigned long, unsigned long, unsigned);
extern "C" int cudaFreeArray(void *);
extern "C" cudaChannelFormatDesc cudaCreateChannelDesc(int, int, int, int, int);
volatile int sink;
__attribute__((noipa)) void many(void *device, int a, int b, int c, int d, int e, long f, unsigned long size) { sink = a + b + c + d + e + f + size; }
__attribute__((noipa)) void beside_variable_length(int rounds, int length) {
    int results[length];
    void *device;
    cudaMalloc(&device, length * 4);
    for (int i = 0; i < rounds; ++i) {
        many(device, 1, 2, 3, 4, 5, i, length * 4);
        cudaMemset(device, i, length * 4);
    }
    cudaMemcpy(results, device, length * 4, 2);
    sink = results[0];
}
__attribute__((noipa)) void into_variable_length(int rounds, int length) {
    int sizes[length];
    for (int i = 0; i < length; ++i) sizes[i] = 4;
    for (int i = 0; i < rounds; ++i) {
        cudaMemset(nullptr, i, sizes[0]);
        sizes[0] = rand();
    }
}
__attribute__((noinline)) int prepared(void *device, const float *from, int count) {
    float own[64];
    for (int k = 0; k < count; ++k) own[k] = from[k] * from[k];
    return cudaMemcpy(device, own, 256, 1);
}
__attribute__((noipa)) void around_an_array(int rounds, const float *from, int count) {
    void *device;
    cudaMalloc(&device, 256);
    for (int i = 0; i < rounds; ++i) {
        if (prepared(device, from, count)) return;
        cudaMemset(device, i, 256);
    }
}
__attribute__((noipa)) void with_a_structure(int rounds, int width) {
    for (int i = 0; i < rounds; ++i) {
        void *array;
        cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, 2);
        cudaMallocArray(&array, &format, width, 0, 0);
        cudaFreeArray(array);
    }
}
__attribute__((noipa)) void bits_of_a_structure(int rounds) {
    cudaChannelFormatDesc format = {4, 0, 0, 0, 0};
    for (int i = 0; i < rounds; ++i) {
        cudaMemset(nullptr, i, format.x);
        format = cudaCreateChannelDesc(i, 0, 0, 0, 2);
    }
}
struct Run {
    void *from;
    long size;
};
__attribute__((noipa)) void here_or_elsewhere(Run *run, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        long own = 0;
        long *where = i & 1 ? &own : &run->size;
        *where = i;
        asm volatile("" : : "r"(&own));
        cudaMemset(run->from, 0, run->size);
    }
}
int main(int n, char **names) {
    Run run{names, 8};
    here_or_elsewhere(&run, n);
    float from[64] = {};
    beside_variable_length(n, n), into_variable_length(n, n), around_an_array(n, from, n), with_a_structure(n, n), bits_of_a_structure(n);
}
"""


@pytest.fixture(scope="module", params=["-O0", "-O1", "-O2"])
def loops(build: Callable[..., Path], request: pytest.FixtureRequest) -> tuple[LoopReport, ...]:
    return analyze(build(SOURCE, request.param, runtime=RUNTIME), in_callees=False).loops


@pytest.mark.parametrize(
    ("name", "described"),
    [
        ("beside_variable_length", True),
        ("into_variable_length", False),
        ("around_an_array", True),
        ("with_a_structure", True),
        ("bits_of_a_structure", False),
        ("here_or_elsewhere", False),
    ],
)
def test_loops(loops: tuple[LoopReport, ...], name: str, described: bool) -> None:
    (loop,) = (loop for loop in loops if name in loop.function)
    assert loop.described == described, loop.reasons


@pytest.fixture
def state(build: Callable[..., Path]) -> State:
    return State.at_entry(Memory(Values(), elf.load(build("int main() { return 0; }"))))


@pytest.mark.parametrize("counted", [False, True], ids=["allocated", "indexed"])
def test_a_store_below_what_was_allocated(state: State, counted: bool) -> None:
    """By a length that is not known: variables at fixed places are above. An index that is counted in a loop may be
    negative."""
    values = state.memory.values
    length = values.atom(PHI, 0, 0x100, 3) if counted else values.atom(CALL, 0x5, "rand")
    variable, last = values.add(values.stack_pointer, -64), values.add(values.stack_pointer, -136)
    for place in (variable, last):
        state.write(place, 8, values.constant(5), 0x10)
    below = values.combine(values.add(values.stack_pointer, -136), values.atom(OPERATION, "sx4", length), -16)
    state.write(below, 8, values.constant(6), 0x20)
    state.write(values.add(below, -8), 8, values.constant(7), 0x30)
    assert state.read(variable, 8).is_constant != counted
    assert not state.read(last, 8).is_constant, "the length may be 0"
    assert state.read(values.add(below, -8), 8) is values.constant(7)
    assert counted or state.read(below, 8) is values.constant(6)
