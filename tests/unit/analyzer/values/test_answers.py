"""Branches on what CUDA answers: known where the answer never changes and the question is known, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loops.model import Reason

RUNTIME = """
extern "C" int cudaMemset(void *, int, unsigned long) { return 0; }
extern "C" int cudaMalloc(void **, unsigned long) { return 0; }
extern "C" int cudaMemcpy(void *, const void *, unsigned long, int) { return 0; }
extern "C" int cudaGetDevice(int *) { return 0; }
extern "C" int cudaDeviceGetAttribute(int *, int, int) { return 0; }
"""
SOURCE = """
#include <cstdlib>
extern "C" int cudaMemset(void *, int, unsigned long);
extern "C" int cudaMalloc(void **, unsigned long);
extern "C" int cudaMemcpy(void *, const void *, unsigned long, int);
extern "C" int cudaGetDevice(int *);
extern "C" int cudaDeviceGetAttribute(int *, int, int);
#define APART __attribute__((noipa)) void
APART by_attribute(void *device, int devices) {
    for (int i = 0; i < devices; ++i) {
        int mode = -1, major = 0;
        cudaDeviceGetAttribute(&mode, 20, i);
        cudaDeviceGetAttribute(&major, 75, i);
        if (mode != 2 && major > 3) cudaMemset(device, i, 4);
    }
}
APART by_unknown_attribute(void *device, int devices) {
    for (int i = 0; i < devices; ++i) {
        int mode = -1;
        cudaDeviceGetAttribute(&mode, rand(), i);
        if (mode != 2) cudaMemset(device, i, 4);
    }
}
APART by_the_last_attribute(void *device, int devices) {
    int mode = -1;
    for (int i = 0; i < devices; ++i) {
        if (mode != 2) cudaMemset(device, i, 4);
        cudaDeviceGetAttribute(&mode, 20, i);
    }
}
APART by_current_device(void *device, int devices) {
    for (int i = 0; i < devices; ++i) {
        int current = -1;
        cudaGetDevice(&current);
        if (current == i) cudaMemset(device, i, 4);
    }
}
APART by_allocation(void *, int devices) {
    for (int i = 0; i < devices; ++i) {
        void *memory = 0;
        cudaMalloc(&memory, 64);
        if (memory) cudaMemset(memory, i, 4);
    }
}
APART by_both(void *device, int devices) {
    for (int i = 0; i < devices; ++i) {
        int mode = -1, told = 0;
        cudaDeviceGetAttribute(&mode, 20, i);
        cudaMemcpy(&told, device, 4, 2);
        if (mode != told) cudaMemset(device, i, 4);
    }
}
int main(int n, char **) {
    by_attribute(0, n), by_unknown_attribute(0, n), by_the_last_attribute(0, n), by_current_device(0, n);
    by_allocation(0, n), by_both(0, n);
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_which_answers_tell_beforehand_what_runs(build: Callable[..., Path], level: str) -> None:
    loops = analyze(build(SOURCE, level, runtime=RUNTIME)).loops
    assert len(loops) == 6
    for loop in loops:
        assert loop.described == ("12by_attribute" in loop.function), loop.function
        assert loop.described or Reason.CONDITIONAL in loop.reasons
