"""The compiled order and filter against the plain ones."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from farlane.backend.memory import config
from farlane.backend.memory.cores import ordering, places
from farlane.backend.memory.cores.touches import WARPS, Ints
from farlane.backend.memory.tlb.stream import MAX_GAP, Stream
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.xdist_group("tlb")  # compiled code


def same(one: Stream, other: Stream) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("offsets", "page", "gap", "left_out")
    )


def plainly(stream: Stream, keep: int) -> list[tuple[int, int, int, int]]:
    """(core, page, gap, left out) of what stays, by the filter's definition; pages below 64, so that none shares a place."""
    found = []
    for core in range(stream.cores):
        kept: list[int] = []
        waited = out = 0
        own = range(int(stream.offsets[core]), int(stream.offsets[core + 1]))
        for i in own:
            page = int(stream.page[i])
            waited += int(stream.gap[i])
            if page in kept[-keep:] and i != own[-1]:
                out += 1 + int(stream.left_out[i])
                continue
            kept.append(page)
            found.append((core, page, waited, out + int(stream.left_out[i])))
            waited = out = 0
    return found


def in_order(cores: int, core: Ints, cycles: Ints, warp: Ints, page: Ints, begin: int, last: Ints) -> Stream:
    """A window's requests by core and time, plainly. Advances `last`."""
    order = np.argsort(core << 52 | (cycles - begin) * WARPS + warp, kind="stable")
    cycles, page = cycles[order], page[order]
    offsets = np.zeros(cores + 1, np.int64)
    np.cumsum(np.bincount(core, minlength=cores), out=offsets[1:])
    gap = np.empty(len(page), np.int64)
    for number in np.flatnonzero(np.diff(offsets)).tolist():
        own = slice(int(offsets[number]), int(offsets[number + 1]))
        # One request a cycle: each as soon as its cycle has come and the one before is out.
        ahead = np.arange(own.stop - own.start)
        made = np.maximum(np.maximum.accumulate(cycles[own] - ahead), last[number] + 1) + ahead
        gap[own] = np.diff(made, prepend=last[number])
        last[number] = made[-1]
    return Stream(offsets, page, np.minimum(gap, MAX_GAP), np.zeros(len(page), np.int64))


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), cores=st.integers(1, 9), keep=st.integers(1, 9))
def test_equals_the_plain_ones(seed: int, cores: int, keep: int) -> None:
    random = np.random.default_rng(seed)
    count, begin = int(random.integers(1, 400)), int(random.integers(0, 50))
    core, warp = random.integers(0, cores, count), random.integers(0, 32, count)
    cycles = begin + random.integers(0, int(random.choice([3, 200, 1 << 20])), count)
    page = random.integers(0, int(random.choice([4, 30, 64])), count)
    first, second = np.full(cores, -1, np.int64), np.full(cores, -1, np.int64)
    plain = in_order(cores, core, cycles, warp, page, begin, first)
    fast = ordering.ordered(core, cycles, warp, page, begin, second)
    assert same(plain, fast)
    assert np.array_equal(first, second)
    less = ordering.filtered(fast, keep)
    assert list(
        zip(less.core_of().tolist(), less.page.tolist(), less.gap.tolist(), less.left_out.tolist(), strict=True)
    ) == plainly(plain, keep)
    assert less.requests == plain.requests
    third = np.full(cores, -1, np.int64)
    assert same(less, ordering.ordered(core, cycles, warp, page, begin, third, keep))
    assert same(fast, ordering.ordered(core, cycles, warp, page, begin, np.full(cores, -1, np.int64)))


@pytest.mark.parametrize("span", [1, 90, 1 << 19])
def test_many_requests_of_a_core(span: int) -> None:
    """More than are put in order by small digits."""
    random = np.random.default_rng(span)
    count, cores = 3 * places.FEW, 2
    core, warp = random.integers(0, cores, count), random.integers(0, 32, count)
    cycles, page = 7 + random.integers(0, span, count), random.integers(0, 1 << places.PAGE_BITS, count)
    first, second = np.full(cores, 5, np.int64), np.full(cores, 5, np.int64)
    assert same(
        in_order(cores, core, cycles, warp, page, 7, first), ordering.ordered(core, cycles, warp, page, 7, second)
    )
    assert np.array_equal(first, second)


def test_how_far_back() -> None:
    assert ordering.recent(config.preset("mgpusim").tlb) == 8
    for name in ("mgpusim-s3", "mgpusim-pool", "mgpusim-peers"):  # fills are refused, or a peer's reply does not fill
        assert ordering.recent(config.preset(name).tlb) == 1
    base = config.preset("mgpusim").tlb
    assert ordering.recent(dataclasses.replace(base, private=dataclasses.replace(base.private, ways=4))) == 1
