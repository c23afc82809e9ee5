"""Spread: the host with the least work for what it can do, then the one with the most free memory."""

from __future__ import annotations

import numpy as np
from farlane.fleet.placement.hosts import Hosts, Mask, Request


def choose(request: Request, hosts: Hosts, fits: Mask) -> int:
    """A row of `fits`, of which there is one at least."""
    rows = np.flatnonzero(fits)
    work = (hosts.load[rows] + request.load) / hosts.throughput[rows]
    used = 1 - hosts.free_memory[rows] / hosts.memory[rows]
    return int(rows[np.lexsort((used, work))[0]])
