"""Finding runs of free slots: the literal definition, the shifted copies and the leading-one prediction against brute force."""

from __future__ import annotations

import itertools

import pytest
from farlane.backend.memory.slots import search
from hypothesis import given
from hypothesis import strategies as st

CASES = st.integers(1, 128).flatmap(
    lambda slots: st.tuples(st.just(slots), st.integers(0, 2**slots - 1), st.integers(1, slots + 2))
)


def brute(free: int, slots: int, wanted: int) -> list[int]:
    return [start for start in range(slots - wanted + 1) if all(free >> (start + i) & 1 for i in range(wanted))]


def available_by_masks(free: int, slots: int, wanted: int) -> int:
    """Bit i: slots i to i + wanted - 1 are free. Bit i is the AND over all bits of (NOT mask_i OR free)."""
    everything = (1 << slots) - 1
    found = 0
    for start in range(slots - wanted + 1):
        mask = ((1 << wanted) - 1) << start
        if (~mask & everything) | free == everything:
            found |= 1 << start
    return found


@given(CASES)
def test_both_searches_are_brute_force(case: tuple[int, int, int]) -> None:
    slots, free, wanted = case
    expected = sum(1 << start for start in brute(free, slots, wanted))
    assert available_by_masks(free, slots, wanted) == expected
    assert search.available(free, wanted) == expected


@given(st.integers(1, 2**200))
def test_the_leading_one_prediction_finds_both_ends(bits: int) -> None:
    ones = [i for i in range(bits.bit_length()) if bits >> i & 1]
    assert (search.lowest(bits), search.highest(bits)) == (ones[0], ones[-1])


@given(st.integers(0, 2**100))
def test_runs_are_all_the_ones(free: int) -> None:
    found = search.runs(free)
    assert sum(((1 << length) - 1) << start for start, length in found) == free
    assert all(a + length < b for (a, length), (b, _) in itertools.pairwise(found))
    assert search.longest(free) == max((length for _, length in found), default=0)


def test_nothing_and_nonsense() -> None:
    assert search.available(0b1011, 3) == 0
    with pytest.raises(ValueError, match="at least one"):
        search.available(1, 0)
    with pytest.raises(ValueError, match="no bit"):
        search.lowest(0)
