"""Bounds of a median: they hold as often as they say, and come nearer with more values."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from farlane.roundtrips import ratios


def noise(chance: random.Random, count: int) -> list[float]:
    """Ratios as a busy machine gives them: most near the median of 1, some far above."""
    return [chance.uniform(0.98, 1.0) if chance.random() < 0.5 else 1.0 + chance.expovariate(30) for _ in range(count)]


@pytest.mark.parametrize("count", [7, 8, 20, 101])
def test_bounds_hold_as_often_as_they_say(count: int) -> None:
    chance = random.Random(count)
    held = 0
    for _ in range(2000):
        values = noise(chance, count)
        low, high = ratios.bounds(values)
        assert low <= statistics.median(values) <= high
        held += low <= 1.0 <= high
    assert held >= 0.88 * 2000


def test_more_values_tell_more() -> None:
    chance = random.Random(1)
    values = noise(chance, 400)
    assert not ratios.known(values[:7], 0.015)
    assert ratios.known(values, 0.015)


def test_too_few_values_tell_nothing() -> None:
    assert ratios.bounds([1.0] * 6) == (0.0, math.inf)
    assert not ratios.known([1.0] * 6, 0.5)
    assert ratios.known([1.0] * 7, 0.0)
