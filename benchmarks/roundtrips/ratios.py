"""How well the median of measured ratios is known.

Owns the rule by which two modes are compared once more: until the median lies between bounds near each other, whatever it is, so that the rule does not lean
towards either side. The bounds are order statistics: the number of values below the true median is binomial, so no shape of the noise is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

OUTSIDE = 0.05  # on either side
FEWEST = 7  # values; of fewer the bounds would be the extremes


def bounds(values: Sequence[float]) -> tuple[float, float]:
    """Between which the true median lies, with 90 %; 0 and infinity for too few values."""
    count = len(values)
    if count < FEWEST:
        return 0.0, math.inf
    ordered = sorted(values)
    below, chance = 0, 1 / 2**count
    while chance <= OUTSIDE:  # that no more than `below` values lie below the median
        below += 1
        chance += math.comb(count, below) / 2**count
    return ordered[below - 1], ordered[count - below]


def known(values: Sequence[float], width: float) -> bool:
    """Whether these bounds are no further apart than `width` of the lower."""
    low, high = bounds(values)
    return high - low <= width * low
