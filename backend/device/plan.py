"""Work that a device may repeat by itself: a loop's body as prepared operations, and what changes from one iteration to the next.

Owns the types of `Context.repeat`. Plain data: objects that the context returned, operand bytes with holes, and a matrix of numbers. A
device whose driver has graphs instantiates a graph from the steps once (`Body.prepared` is its place for it) and updates its nodes'
parameters from the columns; the simulated device runs one compiled loop over them; the null device checks them in bulk.

Source: docs/explanation/systems.md, S1 points 4 and 5 (the backend builds a loop and repeats the call).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from farlane.backend.device.base import CudaError, LaunchShape

Columns = npt.NDArray[np.uint64]  # (rows, iterations)
Results = npt.NDArray[np.uint8]  # (iterations, bytes of an iteration's results)


class Kind(IntEnum):
    """What a step does. Its operands are little-endian, u64 unless said otherwise, without gaps."""

    LAUNCH = 0  # the parameter buffer
    SET = 1  # address, pitch, width, height, u32 value, u32 element
    COPY = 2  # destination, destination pitch, source, source pitch, width, height
    WRITE = 3  # address, pitch, width, height, the packed rows
    READ = 4  # address, pitch, width, height; width and height have no holes, and neither is 0
    RECORD = 5  # none; `event` in `stream`
    NOTHING = 6  # a synchronization, or a wait for `event`: nothing to do where work is done in order as it is issued
    ALLOCATE = 8  # address, size
    FREE = 9  # address
    PUT = 10  # address, pitch, width, height, where the packed rows are in the host's memory, how many bytes are there


class Hole(NamedTuple):
    """operands[at : at + width], which are 0, hold the low bytes of a row of the columns."""

    at: int
    width: int
    row: int


class Step(NamedTuple):
    """One operation of the body, its handles resolved.

    Args:
        result_at: where a READ's packed bytes go in an iteration's results.
        result_end: bytes of results that the steps up to this one, itself included, yield.
    """

    kind: Kind
    operands: bytes = b""
    holes: tuple[Hole, ...] = ()
    stream: Any = None
    function: Any = None
    shape: LaunchShape | None = None
    event: Any = None
    result_at: int = 0
    result_end: int = 0


@dataclass
class Body:
    """The steps of one iteration, in order. The replay drops a body when an object that it holds may have ended."""

    steps: tuple[Step, ...]
    prepared: Any = field(default=None, compare=False)  # the device's own, made at the first use


class Stop(NamedTuple):
    """How far a repetition has got.

    Args:
        iterations: done completely.
        step: the step of the next iteration at which it stopped; those before it are done.
        error: what that step failed with. None: it is not done and not to be done here (a copy outside of every allocation,
            say); the replay does it by itself, and so finds the error in the one place that words it.
    """

    iterations: int
    step: int = 0
    error: CudaError | None = None
