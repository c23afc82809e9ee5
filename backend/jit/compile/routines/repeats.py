"""The compiled dispatch loop: kernels and copies again and again, without Python in between.

Owns the structures that repeat.ll reads; fixed.py compiles it. One loop serves every list of
operations: a list costs no compile time, and beside a kernel's start the reading of its entry is nothing. Knows nothing of sessions: the caller says which ranges copies may touch, and where the flag is that interrupts.

Source: docs/explanation/systems.md, S1 points 4 and 5.
"""

from __future__ import annotations

import ctypes

from farlane.backend.jit.compile.routines import fixed
from farlane.backend.jit.runtime.structures import Launch

KIND_SPREAD = 7  # a launch that is shared with other threads: done by the call back

DONE, STOPPED, FAILED, INTERRUPTED = range(4)

#: Does the launch of a step; anything but 0 ends the loop.
Callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)


class Hole(ctypes.Structure):
    """Where in an operation's operands a row of the matrix goes."""

    _fields_ = (("at", ctypes.c_uint32), ("width", ctypes.c_uint32), ("row", ctypes.c_uint64))


class Operation(ctypes.Structure):
    """One step. `run`: a kernel's code, or where a record's time goes."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("hole_count", ctypes.c_uint32),
        ("holes", ctypes.c_void_p),
        ("operands", ctypes.c_void_p),
        ("run", ctypes.c_void_p),
        ("launch", ctypes.c_void_p),
        ("worker", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
        ("result_at", ctypes.c_uint64),
    )


class Repeat(ctypes.Structure):
    """One run of the loop."""

    _fields_ = (
        ("operations", ctypes.c_void_p),
        ("operation_count", ctypes.c_uint64),
        ("matrix", ctypes.c_void_p),  # u64[rows][iterations]
        ("iterations", ctypes.c_uint64),
        ("results", ctypes.c_void_p),
        ("result_stride", ctypes.c_uint64),
        ("starts", ctypes.c_void_p),  # u64[allocations], rising
        ("ends", ctypes.c_void_p),
        ("allocations", ctypes.c_uint64),
        ("interrupted", ctypes.c_void_p),  # u32: not 0 ends the loop before the next step
        ("pause", ctypes.c_void_p),  # another such word
        ("callback", Callback),
        ("launches", ctypes.c_uint64),  # so far, counted on
        ("done", ctypes.c_uint64),  # out: iterations
        ("step", ctypes.c_uint64),  # out
    )


_ROUTINE = (("repeat.ll", "transfers.ll"), Launch, Hole, Operation, Repeat)


def load() -> int:
    """The loop's address, compiled if that was not done yet: so that the time of a run is the run's."""
    return fixed.function(*_ROUTINE).address


def run(repeat: Repeat) -> int:
    """Runs the loop on this thread, without the GIL; returns DONE, STOPPED, FAILED or INTERRUPTED."""
    return fixed.function(*_ROUTINE)(repeat)
