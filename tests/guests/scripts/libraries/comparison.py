"""What the comparisons of NVIDIA's libraries share: a list of cases, random operands, tolerances."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable

import cupy
import numpy

RANDOM = numpy.random.default_rng(7)
# Of one operation, relative to the largest element.
TOLERANCE = {"e": 1e-3, "f": 1e-5, "d": 1e-12, "F": 1e-5, "D": 1e-12}

Case = Callable[[], None]


class Cases:
    """The cases of one library, in the order in which they are written."""

    def __init__(self) -> None:
        self.cases: list[Case] = []

    def __call__(self, case: Case) -> Case:
        self.cases.append(case)
        return case

    def run(self, wanted: list[str], every: int) -> list[str]:
        """The names of those of each `every`-th case that fail."""
        failed = []
        for case in self.cases[::every]:
            if wanted and case.__name__ not in wanted:
                continue
            started = time.monotonic()
            try:
                case()
            except Exception:  # every case has its turn
                failed.append(case.__name__)
                print(f"{case.__name__}:", traceback.format_exc(), file=sys.stderr, flush=True)
            if os.environ.get("LIBRARIES_TIMES"):
                print(f"{case.__name__}: {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)
        return failed


def close(found: object, expected: object, tolerance: float) -> None:
    """Every element is right within `tolerance`, relative to the largest one."""
    there = cupy.asnumpy(found)
    right = numpy.asarray(expected)
    assert there.shape == right.shape, (there.shape, right.shape)
    wide = numpy.result_type(there.dtype, right.dtype, "d")
    apart = numpy.max(numpy.abs(there.astype(wide) - right.astype(wide)), initial=0)
    apart /= max(1.0, float(numpy.max(numpy.abs(right.astype(wide)), initial=0)))
    assert apart <= tolerance, apart


def of(kind: str, *shape: int) -> numpy.ndarray:
    """Random elements, of -1 to 1 or the square of that in the complex plane."""
    if numpy.dtype(kind).kind == "c":
        return (2 * RANDOM.random(shape) - 1 + 1j * (2 * RANDOM.random(shape) - 1)).astype(kind)
    return (2 * RANDOM.random(shape) - 1).astype(kind)
