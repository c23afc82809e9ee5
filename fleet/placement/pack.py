"""Pack: the host whose free memory the session fills best, so that others keep room for large ones.

A host that would have more work than it can do comes after all that have not: memory packs, time does not.
"""

from __future__ import annotations

import numpy as np
from farlane.fleet.placement.hosts import Hosts, Mask, Request, least


def choose(request: Request, hosts: Hosts, fits: Mask) -> int:
    """A row of `fits`, of which there is one at least."""
    return least(
        np.flatnonzero(fits),
        lambda rows: np.maximum(hosts.work(request, rows), 1.0),
        lambda rows: hosts.free_memory[rows],
    )
