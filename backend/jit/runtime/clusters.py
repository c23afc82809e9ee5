"""Clusters of blocks: how addresses name another block's shared memory, and how many blocks a launch's clusters have.

An address of shared::cluster has 32 bits: where in the shared memory, and whose above bit RANK_SHIFT. 0 is the block that uses the address,
so that an address of a block's own shared memory is one of its cluster's too; else it is one more than the rank. What `mapa` gives names
its block, whichever block uses it. A generic address has the same bits in the window of shared memory.

A launch's blocks are numbered cluster by cluster, and a cluster's by their ranks (cluster.ll): a worker that takes as many as a cluster
has takes a whole one, and keeps all of them alive until the last has ended.

Source: PTX ISA, "Cluster of Cooperative Thread Arrays", "State Spaces: Shared", "mapa", "barrier.cluster".
"""

from __future__ import annotations

from farlane.backend.jit.ptx.model import Instruction
from farlane.backend.jit.runtime.structures import Launch

RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1
BARRIER = 1 << 16  # the cluster's barrier in a set of barriers


def size(launch: Launch) -> int:
    """How many blocks a cluster of the launch has."""
    return max(1, int(launch.cluster_blocks))


def is_barrier(instruction: Instruction) -> bool:
    return instruction.base == "barrier" and "cluster" in instruction.modifiers


def names_peers(instruction: Instruction) -> bool:
    """Whether an instruction reaches other blocks of the cluster, or waits for them."""
    several = any(item.startswith("multicast::cluster") for item in instruction.modifiers)
    return instruction.base == "mapa" or is_barrier(instruction) or several
