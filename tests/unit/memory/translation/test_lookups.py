"""The compiled ranges say what the literal first match says, over more than a million random lookups."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pytest
from farlane.backend.memory.translation.groups import Group, Translation
from farlane.backend.memory.translation.ranges import Compiled
from hypothesis import given
from hypothesis import strategies as st

TABLES, ADDRESSES = 2200, 500


def random_groups(source: np.random.Generator, space: int) -> list[Group]:
    count = int(source.integers(0, 24))
    priorities = source.permutation(64)[:count]
    groups = []
    for number in range(count):
        length = int(source.integers(1, space // 2))
        start = int(source.integers(0, space - length + 1))
        physical = int(source.integers(0, 1 << 40))
        groups.append(Group(number, start, physical, length, int(priorities[number]), bool(source.random() < 0.8)))
    return groups


def first_match(groups: Iterable[Group], address: int) -> Translation | None:
    """The definition, literally (S2, point 3): the input is compared with the enabled groups in priority order."""
    for group in sorted(groups, key=lambda each: each.priority):
        if group.enabled and group.start <= address < group.end:
            return Translation(group.physical + address - group.start, group.number)
    return None


def by_first_match(groups: list[Group], addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The definition for an array: the groups in priority order, each answers for what nobody before it did."""
    physical, found = np.full(addresses.shape, -1), np.full(addresses.shape, -1)
    for group in sorted(groups, key=lambda each: each.priority):
        if group.enabled:
            mine = (found < 0) & (addresses >= group.start) & (addresses < group.end)
            physical[mine] = group.physical + addresses[mine] - group.start
            found[mine] = group.number
    return physical, found


@pytest.mark.parametrize("space", [40, 4096, 1 << 47])
def test_a_million_random_lookups(space: int) -> None:
    source = np.random.default_rng(space)
    for _ in range(TABLES // 3 + 1):
        groups = random_groups(source, space)
        compiled = Compiled.of(groups)
        edges = [edge for group in groups for edge in (group.start, group.end, group.start - 1, group.end - 1)]
        addresses = np.concatenate([source.integers(0, space, ADDRESSES), np.array(edges, np.int64)])
        for found, expected in zip(compiled.lookup_many(addresses), by_first_match(groups, addresses), strict=True):
            np.testing.assert_array_equal(found, expected)
        for address in addresses[:3].tolist() + edges[:8]:
            assert compiled.lookup(address) == first_match(groups, address)


def test_at_least_a_million_cases() -> None:
    assert 3 * (TABLES // 3 + 1) * ADDRESSES >= 1_000_000


@given(st.integers(0, 2**32), st.integers(0, 60), st.integers(1, 40))
def test_ranges_are_disjoint_sorted_and_as_few_as_can_be(seed: int, start: int, length: int) -> None:
    groups = random_groups(np.random.default_rng(seed), 100)
    compiled = Compiled.of(groups)
    for one, other in itertools.pairwise(compiled.ranges):
        assert one.start < one.end <= other.start
        assert one.end < other.start or one.group != other.group
    covered = {}
    for piece in compiled.pieces(start, length):
        for address in range(piece.start, piece.end):
            covered[address] = (piece.physical + address - piece.start, piece.group)
    assert covered == {a: t for a in range(start, start + length) if (t := first_match(groups, a)) is not None}
