"""From a driver's result to the guest's error.

Owns the list of results that ruin a CUDA context. The codes themselves are the same numbers on both sides.

Source: CUDA runtime API, enum cudaError ("the process must be terminated and relaunched").
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from farlane.backend.device.base import CudaError
from farlane.backend.device.gpu.driver.interface import Driver, DriverError
from farlane.backend.plane import DriverFault

STICKY = frozenset({214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999})

P = ParamSpec("P")
R = TypeVar("R")


def to_cuda(error: DriverError) -> CudaError:
    return CudaError(error.code, str(error), sticky=error.code in STICKY)


def called(driver: Driver, method: Callable[P, R], *arguments: P.args, **keywords: P.kwargs) -> R:
    """Calls a method of the plane's that calls the driver: its failure is raised as the driver's own calls raise theirs."""
    try:
        return method(*arguments, **keywords)
    except DriverFault as fault:
        raise driver.error(*fault.args) from None


def translated(method: Callable[P, R]) -> Callable[P, R]:
    """A method of which a driver's error leaves as the guest's."""

    @functools.wraps(method)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        try:
            return method(*arguments, **keywords)
        except DriverError as error:
            raise to_cuda(error) from None

    return call
