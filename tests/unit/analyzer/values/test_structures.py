"""Structures that CUDA fills: what is read of one is the call's answer, and what lies beside it or is stored behind the
call is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loops.model import Kind

RUNTIME = """
extern "C" int cudaMemset(void *, int, unsigned long) { return 0; }
extern "C" int cudaGetDeviceProperties(void *, int) { return 0; }
"""
SOURCE = """
#include <cstdlib>
extern "C" int cudaMemset(void *, int, unsigned long);
extern "C" int cudaGetDeviceProperties(void *, int);
#define APART __attribute__((noipa)) void
struct Properties { char name[256]; int parts[188]; };
struct More { Properties told; int behind; };
static APART one(void *device, int n) {
    Properties told;
    cudaGetDeviceProperties(&told, 0);
    cudaMemset(device, n, told.parts[3] * 16l);
}
APART described_here(void *device, int n) {
    for (int i = 0; i < n; ++i) {
        Properties told;
        cudaGetDeviceProperties(&told, 0);
        if (told.parts[2] > 5) cudaMemset(device, i, told.parts[3]);
    }
}
APART described_in_a_function(void *device, int n) {
    for (int i = 0; i < n; ++i) one(device, i);
}
APART of_a_device_that_is_not_known(void *device, int n) {
    for (int i = 0; i < n; ++i) {
        Properties told;
        cudaGetDeviceProperties(&told, rand());
        if (told.parts[2] > 5) cudaMemset(device, i, 4);
    }
}
APART behind_it(void *device, int n) {
    More more;
    for (int i = 0; i < n; ++i) {
        more.behind = rand();
        asm volatile("" : : "r"(&more) : "memory");
        cudaGetDeviceProperties(&more.told, 0);
        cudaMemset(device, i, more.behind);
    }
}
APART stored_over(void *device, int n) {
    for (int i = 0; i < n; ++i) {
        Properties told;
        cudaGetDeviceProperties(&told, 0);
        told.parts[3] = rand();
        asm volatile("" : : "r"(&told) : "memory");
        cudaMemset(device, i, told.parts[3]);
    }
}
int main(int n, char **) {
    described_here(0, n), described_in_a_function(0, n), of_a_device_that_is_not_known(0, n);
    behind_it(0, n), stored_over(0, n);
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_what_is_told_by_a_structure(build: Callable[..., Path], level: str) -> None:
    loops = analyze(build(SOURCE, level, runtime=RUNTIME)).loops
    assert len(loops) == 5
    for loop in loops:
        assert loop.described == ("described" in loop.function), (loop.function, loop.reasons)
        if loop.described:
            (told,) = [call for call in loop.calls if call.name == "cudaMemset"]
            assert told.arguments[-1].kind == Kind.RESULT
