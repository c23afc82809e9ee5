"""Pack: the host whose free memory the session fills best, so that others keep room for large ones.

A host that would have more work than it can do comes after all that have not: memory packs, time does not.
"""

from __future__ import annotations

import numpy as np
from farlane.fleet.placement.hosts import Hosts, Mask, Request


def choose(request: Request, hosts: Hosts, fits: Mask) -> int:
    """A row of `fits`, of which there is one at least."""
    rows = np.flatnonzero(fits)
    work = (hosts.load[rows] + request.load) / hosts.throughput[rows]
    left = hosts.free_memory[rows] - request.memory
    return int(rows[np.lexsort((left, np.maximum(work, 1.0)))[0]])
