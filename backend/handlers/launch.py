"""LAUNCH.

Owns the decoding and checking of a launch's fixed part, done once for each different one: programs launch the same kernel with the
same shape thousands of times, and the plane finds the prepared launch by those bytes. The parameters are the device's to check.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from farlane.backend.device.base import CudaError, LaunchShape
from farlane.backend.generated_errors import INVALID_CONFIGURATION, INVALID_VALUE
from farlane.backend.generated_limits import MAX_BLOCK, MAX_BLOCK_THREADS, MAX_GRID
from farlane.backend.objects.resources import Resources

COOPERATIVE = 1  # record flag
_CLUSTER, _CLUSTER_GIVEN = 1, 0x1000  # the record flags' number, and what is set in it when there is one


class Prepared(NamedTuple):
    function: Any
    shape: LaunchShape
    stream: Any


def cluster_of(flags: int) -> tuple[int, int, int] | None:
    """The cluster's extents (tape.md, "Clusters"). Raises CudaError: they are not in the form of the tape."""
    number = flags >> _CLUSTER
    if not number & _CLUSTER_GIVEN:
        if number:
            raise CudaError(INVALID_VALUE, f"a cluster of {number:#x}")
        return None
    return (number & 15) + 1, (number >> 4 & 15) + 1, (number >> 8 & 15) + 1


def shape_of(
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
    cooperative: bool,
    cluster: tuple[int, int, int] | None = None,
) -> LaunchShape:
    """The shape, when what every device allows covers it.

    The guest has checked all this; a host does not rely on it.
    """
    if any(not 0 < extent <= limit for extent, limit in zip(grid, MAX_GRID, strict=True)):
        raise CudaError(INVALID_CONFIGURATION, f"a grid of {grid}")
    threads = block[0] * block[1] * block[2]
    if threads > MAX_BLOCK_THREADS or any(
        not 0 < extent <= limit for extent, limit in zip(block, MAX_BLOCK, strict=True)
    ):
        raise CudaError(INVALID_CONFIGURATION, f"a block of {block}")
    return LaunchShape(grid, block, shared_bytes, cooperative, cluster)


def launch(
    resources: Resources,
    flags: int,
    function: int,
    stream: int,
    grid_x: int,
    grid_y: int,
    grid_z: int,
    block_x: int,
    block_y: int,
    block_z: int,
    shared_bytes: int,
) -> Prepared:
    """Everything about a launch but its parameters, resolved and checked; the replay hands it to the device."""
    return Prepared(
        resources.functions.get(function),
        shape_of(
            (grid_x, grid_y, grid_z),
            (block_x, block_y, block_z),
            shared_bytes,
            bool(flags & COOPERATIVE),
            cluster_of(flags),
        ),
        resources.streams.get(stream),
    )
