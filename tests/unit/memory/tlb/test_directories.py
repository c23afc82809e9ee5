"""Directories that hear late: cores take a page together, and what was used or made meanwhile keeps its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from farlane.backend.memory.paging import PAGE_4K, Frames, PageTable
from farlane.backend.memory.tlb import Spec, Stream, layout
from farlane.backend.memory.tlb.fast import FastTlb
from farlane.backend.memory.tlb.spec import Directory, Network, Policy, Private, Shared, Walk
from tlb_reference.model import ReferenceTlb

pytestmark = pytest.mark.xdist_group("tlb")  # compiled once

BASE = 1 << 33
FIRST = BASE >> 12
PAGES = 12


@pytest.fixture(scope="module")
def table() -> PageTable:
    made = PageTable()
    made.map(BASE, Frames(1 << 28, order="scattered").allocate(PAGE_4K, PAGES), PAGE_4K)
    return made


def late(seed: int) -> tuple[Spec, Stream]:
    """A small hierarchy whose directories hear late, and requests for few pages, half the time of all cores together."""
    random = np.random.default_rng(seed)

    def one(*values: Any) -> Any:
        return values[int(random.integers(len(values)))]

    columns, rows, ways = one(2, 3, 5), one(1, 3), one(2, 3, 4)
    spec = Spec(
        cores=columns * rows,
        sharing="directory",
        private=Private(one(1, 2), 1, latency=one(1, 2), mshr=one(1, 2, 3), waiting=one(1, 4)),
        shared=Shared(one(3, 18), 3, latency=one(1, 6, 12), ports=one(1, 2, 6)),
        walk=Walk(walkers=one(1, 3), queue=one(1, 5), level_cycles=one(0, 30), cache_entries=0),
        network=Network(columns=columns),
        directory=Directory(
            ways * one(1, 2),
            ways,
            latency=one(0, 1),
            radius=one(1, 2, 30),
            update_cycles=int(random.integers(10, 90)),
            route=one("first", "nearest", "cheapest"),
        ),
        policy=Policy(fill=one("always", "shared-entries"), peer_fill=one(0, 1), eviction=one("lru", "mru")),
    )
    count, spread = int(random.integers(50, 600)), one(4, 6, 8, PAGES)
    turns = count // spec.cores + 1
    if one(False, True):
        cores, pages = (
            np.tile(random.permutation(spec.cores), turns),
            np.repeat(random.integers(0, spread, turns), spec.cores),
        )
    else:
        cores, pages = (random.integers(0, most, turns * spec.cores) for most in (spec.cores, spread))
    gaps = random.integers(1, int(random.integers(2, 40)), len(pages))
    return spec, Stream.of(spec.cores, cores, FIRST + pages, gaps)


# Of 600, each of these differs if entries that are taken together share a record although one of their cores used another
# entry since, or had heard of a holder, or if `_nothing_between` overlooks what a core took in between.
@pytest.mark.parametrize("seed", [3, 29, 46, 52, 180, 210])
def test_directories_that_hear_late(seed: int, table: PageTable) -> None:
    spec, stream = late(seed)
    fast, reference = FastTlb(spec, table), ReferenceTlb(spec, table)
    assert fast.run(stream) == reference.run(stream)
    assert fast.contents() == reference.contents()


def test_what_cores_take_together_is_one_record(table: PageTable) -> None:
    spec = Spec(cores=12, sharing="directory", network=Network(columns=4), directory=Directory(radius=30))
    fast = FastTlb(spec, table)
    counts = fast.run(Stream.of(12, np.arange(12), np.full(12, FIRST), np.ones(12, np.int64)))
    assert (counts.fills, counts.walks) == (12, 1)
    assert fast._state.named[layout.NAMED, layout.A_EVER] == 1, "as many as have ever been in use at once"
