"""Locality: the host that holds the most of the session's images, so that nothing is uploaded and compiled again.

A host that would have more work than it can do comes after all that have not; among equals, the one with the least work.
"""

from __future__ import annotations

import numpy as np
from farlane.fleet.placement.hosts import Hosts, Mask, Request


def choose(request: Request, hosts: Hosts, fits: Mask) -> int:
    """A row of `fits`, of which there is one at least."""
    rows = np.flatnonzero(fits)
    work = (hosts.load[rows] + request.load) / hosts.throughput[rows]
    return int(rows[np.lexsort((work, -hosts.held(request)[rows], np.maximum(work, 1.0)))[0]])
