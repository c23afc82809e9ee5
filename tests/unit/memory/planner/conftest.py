"""Random traces, small enough to check in every way."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from farlane.backend.memory.planner.trace import Access, Trace


@pytest.fixture(scope="session")
def training() -> Callable[..., Trace]:
    return _training


def _training(seed: int, objects: int, segments: int, *, together: int = 1) -> Trace:
    """Forward and backward over the objects, with other accesses in between; memory for the `segments` largest."""
    source = random.Random(seed)
    sizes = [source.randint(1, 100) for _ in range(objects)]
    steps = [[Access(number, reads=False, writes=True)] for number in range(objects)]
    steps += [[Access(number, writes=source.random() < 0.3)] for number in reversed(range(objects))]
    for _ in range(source.randint(0, 20)):
        chosen = source.sample(range(objects), source.randint(1, together))
        steps.insert(
            source.randrange(objects, len(steps)),
            [Access(n, source.random() < 0.9, source.random() < 0.5) for n in chosen],
        )
    kept = frozenset(number for number in range(objects) if source.random() < 0.3)
    return Trace(sizes, steps, sum(sorted(sizes)[-segments:]), kept)
