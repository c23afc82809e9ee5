"""Spread: the host with the least work for what it can do, then the one with the most free memory."""

from __future__ import annotations

import numpy as np
from farlane.fleet.placement.hosts import Hosts, Mask, Request, least


def choose(request: Request, hosts: Hosts, fits: Mask) -> int:
    """A row of `fits`, of which there is one at least."""
    return least(
        np.flatnonzero(fits),
        lambda rows: hosts.work(request, rows),
        lambda rows: 1 - hosts.free_memory[rows] / hosts.memory[rows],
    )
