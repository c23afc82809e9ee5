"""Random CUDA programs that compare what their kernels leave with what the host computes: see `test_kernel_programs.py`.

    kinds.py         types and literals
    expressions.py   expressions of a type, and conditions
    statements.py    assignments and control flow of one thread
    functions.py     functions: recursive, by pointer, virtual, with structures by value
    program.py       programs whose threads run functions, each for itself
    collective.py    programs whose threads meet
    twice.py         the text of such a kernel, for the device and for the host
    warps.py         steps of lanes: shuffles, votes, reductions, loops that lanes leave one by one
    blocks.py        steps of blocks: shared memory, atomics, barriers
    support.cuh      operations that mean the same on both sides
    floats.cuh       those on floats
    collective.cuh   a thread's variables, and the host's model of masks

A new operation is a function in support.cuh and a form in expressions.py; a new statement one in the table of statements.py, warps.py or blocks.py.
"""

from collections.abc import Callable

from kernel_programs import collective
from kernel_programs import program as single
from kernel_programs.collective import collective_program
from kernel_programs.program import program

HEADERS = single.HEADERS + collective.HEADERS
KINDS: dict[str, Callable[[int], str]] = {"alone": program, "together": collective_program}

__all__ = ["HEADERS", "KINDS", "collective_program", "program"]
