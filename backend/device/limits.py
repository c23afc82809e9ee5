"""The launch limits of a device, from its attributes: what CUDA's runtime refuses before a kernel is looked at.

Source: CUDA programming guide, "Technical specifications per compute capability"; cudaLaunchKernel.
"""

from __future__ import annotations

from collections.abc import Mapping

from farlane.backend.device.base import CudaError, LaunchShape
from farlane.backend.device.generated_attributes import Attribute
from farlane.backend.generated_errors import INVALID_CONFIGURATION
from farlane.demangle import demangled


class Limits:
    """See the module."""

    def __init__(self, attributes: Mapping[int, int]) -> None:
        a = Attribute
        self.attributes = attributes
        self.threads = attributes[a.MAX_THREADS_PER_BLOCK]
        self.block = tuple(attributes[d] for d in (a.MAX_BLOCK_DIM_X, a.MAX_BLOCK_DIM_Y, a.MAX_BLOCK_DIM_Z))
        self.grid = tuple(attributes[d] for d in (a.MAX_GRID_DIM_X, a.MAX_GRID_DIM_Y, a.MAX_GRID_DIM_Z))
        self.resident_threads = attributes[a.MULTIPROCESSOR_COUNT] * attributes[a.MAX_THREADS_PER_MULTIPROCESSOR]
        self.shared = attributes[a.MAX_SHARED_MEMORY_PER_BLOCK]
        self.shared_opt_in = attributes[a.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN]

    def check(self, name: str, shape: LaunchShape) -> int:
        """The threads of a block. Raises CudaError: a launch of kernel `name` in this shape is impossible."""
        for what, dimensions, maxima in (("grid", shape.grid, self.grid), ("block", shape.block, self.block)):
            if any(not 1 <= value <= most for value, most in zip(dimensions, maxima, strict=True)):
                raise CudaError(
                    INVALID_CONFIGURATION, f"kernel {demangled(name)}: {what} {dimensions}; limits {maxima}"
                )
        threads = shape.block[0] * shape.block[1] * shape.block[2]
        if threads > self.threads:
            raise CudaError(
                INVALID_CONFIGURATION, f"kernel {demangled(name)}: {threads} threads in a block; limit {self.threads}"
            )
        return threads
