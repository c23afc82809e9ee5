"""Several processes, much memory, many modules, each in turn as the arguments say: spawn, fork, large, modules=COUNT-DIFFERENT."""

from __future__ import annotations

import multiprocessing
import os
import sys

import cupy
import numpy as np
from cuda.bindings import driver

PTX = """.version 7.5
.target sm_75
.address_size 64
.visible .entry store_{number}(.param .u64 place) {{
    .reg .u64 %a;
    ld.param.u64 %a, [place];
    st.global.u32 [%a], {number};
    ret;
}}
"""
FEW = 100
MOST_GROWTH = 16 << 20  # bytes of the guest, behind the first FEW modules


def square(value: int) -> int:
    return int((cupy.arange(100) * value).sum())


def spawn() -> None:
    """A pool of processes, each a guest with a session of its own, beside this one's."""
    mine = cupy.arange(100)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(square, [1, 2, 3, 4]) == [4950, 9900, 14850, 19800]
    assert int(mine.sum()) == 4950


def fork() -> None:
    """A process that has used CUDA forks: the child is refused, as CUDA refuses it, and the parent goes on."""
    mine = cupy.arange(100)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        error, _ = driver.cuMemAlloc(64)
        try:
            cupy.arange(3)
            said = "no error"
        except cupy.cuda.runtime.CUDARuntimeError as refused:
            said = str(refused.status)
        os.write(writer, f"{int(error)} {said}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100).decode() == "3 3", "cudaErrorInitializationError"
    assert int(mine.sum()) == 4950


def large() -> None:
    """An array of 2 GiB and 4 bytes: filled, changed at its ends and behind 2 GiB, summed."""
    count = (1 << 29) + 1
    numbers = cupy.ones(count, dtype=cupy.int32)
    numbers[-1] = 7
    numbers[1 << 29 :] += 1
    numbers[0] = 5
    assert int(numbers.sum(dtype=cupy.int64)) == count - 2 + 5 + 8
    here = numbers[-3:].get()
    assert here.tolist() == [1, 1, 8]


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def modules(count: int, different: int) -> None:
    """Many modules, one after the other, so many of them different: loaded, launched, unloaded. The guest does not grow."""
    place = cupy.zeros(1, dtype=cupy.uint32)
    argument = np.array([place.data.ptr], dtype=np.uint64)
    pointers = np.array([argument.ctypes.data], dtype=np.uint64)

    def run(number: int) -> None:
        error, module = driver.cuModuleLoadData(PTX.format(number=number).encode())
        assert error == 0
        error, function = driver.cuModuleGetFunction(module, f"store_{number}".encode())
        assert error == 0
        assert driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, pointers.ctypes.data, 0)[0] == 0
        assert driver.cuModuleUnload(module)[0] == 0

    for number in range(FEW):
        run(number % different)
    cupy.cuda.Device().synchronize()
    before = resident()
    for number in range(FEW, count):
        run(number % different)
    assert int(place[0]) == (count - 1) % different
    grown = resident() - before
    assert grown < MOST_GROWTH, f"{grown} bytes"


if __name__ == "__main__":
    for step in sys.argv[1:]:
        name, _, numbers = step.partition("=")
        globals()[name](*map(int, filter(None, numbers.split("-"))))
        print(name)
