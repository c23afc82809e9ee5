"""The decisions of S3, one by one, and what follows from them in a small hierarchy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from farlane.backend.memory.paging import Frames, PageTable
from farlane.backend.memory.tlb import Spec, SpecError, Stream, mesh, rivals
from farlane.backend.memory.tlb.fast import FastTlb
from farlane.backend.memory.tlb.spec import Directory, Network, Policy, Private, Shared, Walk
from tlb_reference.decisions import choose_target, choose_victim, may_fill
from tlb_reference.model import ReferenceTlb

pytestmark = pytest.mark.xdist_group("tlb")

GRID = Spec(cores=16, network=Network(columns=4))


def with_policy(**values: object) -> Spec:
    return dataclasses.replace(GRID, policy=Policy(**values))  # type: ignore[arg-type]


def test_the_first_set_bit_is_asked() -> None:
    assert choose_target(GRID, 15, [0, 14], shared=True) == 0


@pytest.mark.parametrize(("shared", "answer"), [(False, 0), (True, None)])
def test_cheapest_prefers_a_nearer_shared_tlb(shared: bool, answer: int | None) -> None:
    spec = dataclasses.replace(GRID, directory=Directory(route="cheapest"), shared=Shared(latency=10))
    assert choose_target(spec, 15, [0], shared) == answer  # six hops there and back
    assert choose_target(spec, 15, [0, 14], shared) == 14


@pytest.mark.parametrize("threshold", [2, 3, 4, 5])
def test_fill_needs_the_count(threshold: int) -> None:
    spec = with_policy(fill="shared-entries", fill_threshold=threshold)
    assert [may_fill(spec, False, 1, False, count) for count in range(6)] == [count >= threshold for count in range(6)]
    assert may_fill(spec, False, 1, True, 0), "a free entry is filled"


def test_a_peers_reply_fills_when_told_so() -> None:
    assert [may_fill(with_policy(peer_fill=2), True, replies, True, 9) for replies in (1, 2, 3)] == [False, True, True]
    assert not may_fill(with_policy(peer_fill=0), True, 7, True, 9)


def test_mru_spares_what_is_shared() -> None:
    degrees = {1: 1, 2: 2, 3: 3, 4: 4}
    by_use = [1, 2, 3, 4]  # 4 was used last
    assert choose_victim(with_policy(eviction="mru"), by_use, degrees) == (4, 0)
    assert choose_victim(with_policy(eviction="mru", spare_degree=4), by_use, degrees) == (3, 1)
    assert choose_victim(with_policy(eviction="mru", spare_degree=2), by_use, degrees) == (1, 3)
    assert choose_victim(with_policy(eviction="mru", spare_degree=2, candidates=2), by_use, degrees) == (4, 2), (
        "none qualifies: MRU evicts"
    )
    assert choose_victim(with_policy(eviction="lru", spare_degree=2, candidates=2), by_use[1:], degrees) == (2, 2)


def test_messages_go_along_the_row_first() -> None:
    assert mesh.links(0, 5, 4) == [0 * 4 + mesh.EAST, 1 * 4 + mesh.SOUTH]
    assert mesh.links(5, 0, 4) == [5 * 4 + mesh.WEST, 4 * 4 + mesh.NORTH]
    hops = mesh.distances(12, 4)
    assert all(len(mesh.links(a, b, 4)) == hops[a, b] == mesh.distance(a, b, 4) for a in range(12) for b in range(12))


def test_latencies_add_up() -> None:
    """One request alone: the private TLB, then each way of getting the answer."""
    table = PageTable()
    table.map(0, Frames(1 << 21).allocate(4096, 8))
    spec = dataclasses.replace(GRID, walk=Walk(cache_entries=0), private=Private(entries=2, ways=2))
    alone = Stream.of(16, [0], [3])
    later = Stream.of(16, [5, 0], [3, 3], [1, 1000])  # core 5 is two hops away
    assert FastTlb(spec, table).run(alone).latency == 1 + 10 + 4 * 100
    assert FastTlb(spec, table).run(later).latency == 411 + 1 + 10
    directory = dataclasses.replace(spec, sharing="directory", directory=Directory(radius=2, latency=1))
    counts = FastTlb(directory, table).run(later)
    assert counts.latency == 412 + 1 + 1 + 2 + 1 + 2
    assert (counts.peer_hits, counts.hops, counts.walks) == (1, 4, 1)
    near = dataclasses.replace(directory, directory=Directory(radius=1))
    assert FastTlb(near, table).run(later).peer_hits == 0, "a directory knows nothing beyond its radius"


def test_links_and_ports_are_waited_for() -> None:
    table = PageTable()
    table.map(0, Frames(1 << 21).allocate(4096, 8))
    spec = dataclasses.replace(GRID, sharing="directory", directory=Directory(radius=6), shared=Shared(ports=1))
    model = FastTlb(spec, table)
    model.run(Stream.of(16, [0], [3]))
    many = model.run(Stream.of(16, range(1, 16), [3] * 15))
    assert many.peer_hits == 15
    assert many.network_wait > 0
    apart = FastTlb(dataclasses.replace(spec, sharing="none"), table).run(Stream.of(16, range(16), [0, 1] * 8))
    assert apart.shared_wait == sum(range(16)), "one port, sixteen requests at once"
    assert (apart.walks, apart.shared_merged) == (2, 14)


@pytest.mark.parametrize("kind", [FastTlb, ReferenceTlb])
def test_a_private_tlb_answers_one_peer_a_cycle(kind: type[FastTlb] | type[ReferenceTlb]) -> None:
    """The four neighbours of the middle of a mesh of 3 x 3 ask it in the same cycle, each over a link of its own."""
    table = PageTable()
    table.map(0, Frames(1 << 21).allocate(4096, 8))
    model = kind(Spec(cores=9, sharing="directory", network=Network(columns=3), directory=Directory(radius=2)), table)
    model.run(Stream.of(9, [4], [3]))
    counts = model.run(Stream.of(9, [1, 3, 5, 7], [3] * 4))
    assert (counts.peer_hits, counts.network_wait) == (4, 0 + 1 + 2 + 3)


def test_the_walk_buffer_holds_up_the_shared_tlb() -> None:
    table = PageTable()
    table.map(0, Frames(1 << 21).allocate(4096, 16))
    stream = Stream.of(16, range(16), range(16))
    waits = [
        FastTlb(dataclasses.replace(GRID, walk=Walk(walkers=1, queue=queue)), table).run(stream).shared_wait
        for queue in (1, 4, 16)
    ]
    assert waits[0] > waits[1] > waits[2]


def test_rivals_have_the_same_bits() -> None:
    spec = dataclasses.replace(GRID, sharing="directory")
    larger = rivals.larger(spec)
    spare = (
        larger.private.entries * larger.private_entry_bits
        - spec.private.entries * spec.private_entry_bits
        - spec.directory_bits
    )
    assert 0 <= spare < larger.private.ways * larger.private_entry_bits, "rounded up in the rival's favour"
    assert {name: rival.sharing for name, rival in rivals.rivals(spec).items()} == {
        "none": "none",
        "larger": "none",
        "probe": "probe",
        "oracle": "oracle",
        "perfect": "perfect",
    }


def test_a_spec_built_by_hand_is_checked() -> None:
    with pytest.raises(SpecError, match=r"private\.entries"):
        dataclasses.replace(GRID, private=Private(entries=0))


def test_streams_refuse_what_cannot_be_asked() -> None:
    for cores, pages, gaps in (
        ([2], [0], 1),
        ([-1], [0], 1),
        ([0], [-1], 1),
        ([0], [1 << 42], 1),
        ([0], [0], 0),
        ([0, 0], [1], 1),
    ):
        with pytest.raises(ValueError, match=r"."):
            Stream.of(2, cores, pages, gaps)


def test_compressing_keeps_requests_and_time() -> None:
    random = np.random.default_rng(5)
    for _ in range(50):
        count = int(random.integers(0, 60))
        stream = Stream.of(3, random.integers(0, 3, count), random.integers(0, 3, count), random.integers(1, 9, count))
        less = stream.compress().compress()
        assert less.requests == stream.requests == count
        for core in range(3):
            part, whole = slice(*less.offsets[core : core + 2]), slice(*stream.offsets[core : core + 2])
            assert less.gap[part].sum() == stream.gap[whole].sum()
            inner = less.page[part]
            assert not np.any(inner[1:-1] == inner[:-2]), "only the last may repeat"
