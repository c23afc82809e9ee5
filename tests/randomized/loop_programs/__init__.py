"""Random CUDA programs of loop nests, for the claim that deferral is invisible: see `program.py` for what is made of what.

    program.py      a whole program, and a translation unit of several
    loops.py        kinds of loops and their bodies
    statements.py   statements with CUDA calls
    shared.py       the same, about memory that host and device share, functions of the host in streams, graphs
    host.py         statements and conditions of the host
    scope.py        what a statement may use at a place, and random expressions over it
    support.cuh     the kernels and what every program uses
    emulated.h      the runtime API on the CPU, synchronous: compiles the same text with a C++ compiler

A new kind of statement is a function in one of the three tables (`STATEMENTS` of statements, shared and host) and, where it
needs one, a kernel in support.cuh and a function in emulated.h.
"""

from loop_programs.program import HEADERS, THEMES, program, translation_unit

__all__ = ["HEADERS", "THEMES", "program", "translation_unit"]
