"""Locality: the host that holds the most of the session's images, so that nothing is uploaded and compiled again.

A host that would have more work than it can do comes after all that have not; among equals, the one with the least work.
"""

from __future__ import annotations

import numpy as np
from farlane.fleet.placement.hosts import Hosts, Mask, Request, least


def choose(request: Request, hosts: Hosts, fits: Mask) -> int:
    """A row of `fits`, of which there is one at least."""
    return least(
        np.flatnonzero(fits),
        lambda rows: np.maximum(hosts.work(request, rows), 1.0),
        lambda rows: -hosts.held(request)[rows],
        lambda rows: hosts.work(request, rows),
    )
