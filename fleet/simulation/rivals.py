"""Policies to compare with: the first host with room, and any."""

from __future__ import annotations

from random import Random

import numpy as np
from farlane.fleet.placement.hosts import Hosts, Mask, Request


def first_fit(request: Request, hosts: Hosts, fits: Mask) -> int:
    return int(np.argmax(fits))


class AnyFit:
    """A random one, the same in each run."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def __call__(self, request: Request, hosts: Hosts, fits: Mask) -> int:
        return int(self._random.choice(np.flatnonzero(fits)))
