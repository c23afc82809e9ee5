"""Which launches are refused before they run: the guest and kernels that launch others have checked them too, and are not trusted.

Owns the comparison of a launch's shape with the device's limits and with what its kernel says of itself.

Source: CUDA programming guide, "Technical specifications per compute capability"; cudaLaunchKernel.
"""

from __future__ import annotations

from farlane.backend.device.base import CudaError, LaunchShape
from farlane.backend.device.limits import Limits
from farlane.backend.device.sim.runtime.modules import SimFunction
from farlane.backend.generated_errors import (
    COOPERATIVE_LAUNCH_TOO_LARGE,
    INVALID_CLUSTER_SIZE,
    INVALID_RESOURCE_HANDLE,
    INVALID_VALUE,
)
from farlane.demangle import demangled

PORTABLE_CLUSTER, MOST_CLUSTER = 8, 16  # blocks
RESIDENT_THREADS = 16384  # of a small grid: a GPU of eight multiprocessors has them at once


class Admission:
    """Raises CudaError for launches that are impossible."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def check(self, function: SimFunction, shape: LaunchShape) -> None:
        if not function.alive:
            raise CudaError(INVALID_RESOURCE_HANDLE, f"kernel {demangled(function.name)}: its module has been unloaded")
        threads = self._limits.check(function.name, shape)
        entry = function.entry
        if entry.required_threads is not None and shape.block != entry.required_threads:
            raise CudaError(
                INVALID_VALUE,
                f"kernel {demangled(function.name)} requires blocks of {entry.required_threads}, not {shape.block}",
            )
        if entry.max_threads is not None:
            most = entry.max_threads[0] * entry.max_threads[1] * entry.max_threads[2]
            if threads > most:
                raise CudaError(
                    INVALID_VALUE,
                    f"kernel {demangled(function.name)}: {threads} threads in a block; its launch bound is {most}",
                )

    def cluster(self, function: SimFunction, shape: LaunchShape) -> tuple[int, int, int] | None:
        """The extents of the launch's clusters; None: the launch has none. Raises CudaError."""
        entry = function.entry
        required, asked = entry.required_cluster, shape.cluster
        if required is not None and asked not in (None, required):
            raise CudaError(
                INVALID_CLUSTER_SIZE,
                f"kernel {demangled(function.name)} is compiled for clusters of {required}, not {asked}",
            )
        cluster = required or asked
        if cluster is None:
            if entry.explicit_cluster:
                raise CudaError(INVALID_CLUSTER_SIZE, f"kernel {demangled(function.name)} is launched without clusters")
            return None
        blocks = cluster[0] * cluster[1] * cluster[2]
        most = MOST_CLUSTER if function.non_portable_clusters else PORTABLE_CLUSTER
        if entry.most_cluster_blocks:
            most = min(most, entry.most_cluster_blocks)
        if blocks > most:
            raise CudaError(
                INVALID_CLUSTER_SIZE,
                f"kernel {demangled(function.name)}: a cluster of {blocks} blocks; it may have {most}",
            )
        if any(extent % part for extent, part in zip(shape.grid, cluster, strict=True)):
            raise CudaError(
                INVALID_CLUSTER_SIZE,
                f"kernel {demangled(function.name)}: a grid of {shape.grid} is not made of clusters of {cluster}",
            )
        return cluster

    def check_cooperative(self, function: SimFunction, shape: LaunchShape) -> None:
        blocks = shape.grid[0] * shape.grid[1] * shape.grid[2]
        threads = -(-shape.block[0] * shape.block[1] * shape.block[2] // 32) * 32
        if blocks * threads > self._limits.resident_threads:
            raise CudaError(
                COOPERATIVE_LAUNCH_TOO_LARGE,
                f"kernel {demangled(function.name)}: a cooperative launch of {blocks} blocks of {threads} threads; "
                f"{self._limits.resident_threads} threads can be there at once",
            )

    def resident(self, shape: LaunchShape) -> bool:
        """Whether a GPU would have all blocks at once, so that programs let them wait for each other in any order, though CUDA promises nothing."""
        blocks = shape.grid[0] * shape.grid[1] * shape.grid[2]
        threads = -(-shape.block[0] * shape.block[1] * shape.block[2] // 32) * 32
        return blocks > 1 and blocks * threads <= max(self._limits.resident_threads, RESIDENT_THREADS)

    def check_shared(self, function: SimFunction, shape: LaunchShape, static: int) -> None:
        limits = self._limits
        if function.max_dynamic_shared:
            allowed = min(function.max_dynamic_shared, limits.shared_opt_in - static)
        else:
            allowed = limits.shared - static
        if shape.shared_bytes > allowed or static > limits.shared:
            raise CudaError(
                INVALID_VALUE,
                f"kernel {demangled(function.name)}: {static} bytes of static and {shape.shared_bytes} of dynamic shared memory; "
                f"the dynamic part may have {max(0, allowed)}",
            )

    def check_nested(self, function: SimFunction, shape: LaunchShape) -> None:
        """A launch of a kernel's: what can be said before the kernel that is launched is compiled."""
        self.check(function, shape)
        self.check_shared(function, shape, 0)
