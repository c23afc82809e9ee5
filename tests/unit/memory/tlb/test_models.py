"""The compiled model equals the reference: every count, and what the TLBs hold in the end."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from farlane.backend.memory.paging import PAGE_2M, PAGE_4K, PAGE_64K, Frames, PageTable
from farlane.backend.memory.tlb import Counts, Spec, Stream
from farlane.backend.memory.tlb.fast import FastTlb
from farlane.backend.memory.tlb.layout import WHEEL
from farlane.backend.memory.tlb.spec import Directory, Network, Policy, Private, Shared, Walk
from hypothesis import given, settings
from hypothesis import strategies as st
from tlb_reference.model import ReferenceTlb

pytestmark = pytest.mark.xdist_group("tlb")  # compiled once

BASE = 1 << 33
PAGES = 90


def table_of(page_bytes: int) -> PageTable:
    """Maps most of PAGES pages from BASE on, across a boundary of the third level."""
    table, frames = PageTable(), Frames(1 << 28, order="scattered")
    start = BASE - 40 * page_bytes
    for page in range(PAGES):
        if page % 29 != 7:
            table.map(start + page * page_bytes, frames.allocate(page_bytes), page_bytes)
    return table


TABLES = {size: table_of(size) for size in (PAGE_4K, PAGE_64K, PAGE_2M)}


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """Small hierarchies of every kind, so that everything fills up."""
    columns, rows = draw(st.integers(1, 4)), draw(st.integers(1, 3))

    def part(kind: Any, **values: Any) -> Any:
        return kind(**{name: draw(strategy) for name, strategy in values.items()})

    def tlb(kind: Any, most: int, **values: Any) -> Any:
        ways = draw(st.integers(1, 4))
        return part(kind, entries=st.just(ways * draw(st.integers(1, most))), ways=st.just(ways), **values)

    small = st.integers(1, 3)
    return Spec(
        cores=columns * rows,
        page_bytes=draw(st.sampled_from(list(TABLES))),
        sharing=draw(st.sampled_from(["none", "directory", "directory", "directory", "probe", "oracle", "perfect"])),
        probe_radius=draw(small),
        private=tlb(Private, 3, latency=small, mshr=small, waiting=st.integers(1, 5)),
        shared=tlb(Shared, 6, latency=st.integers(1, 12), ports=small),
        walk=part(
            Walk,
            walkers=small,
            queue=small,
            level_cycles=st.sampled_from([0, 7]),
            fixed_cycles=st.sampled_from([0, 20]),
            cache_entries=st.integers(0, 3),
        ),
        network=part(Network, columns=st.just(columns), hop_cycles=small, link_cycles=small),
        directory=tlb(
            Directory,
            5,
            latency=st.integers(0, 2),
            radius=st.integers(1, 5),
            update_cycles=st.integers(0, 9),
            route=st.sampled_from(["first", "nearest", "cheapest"]),
        ),
        policy=part(
            Policy,
            fill=st.sampled_from(["always", "never", "shared-entries"]),
            fill_threshold=small,
            peer_fill=st.integers(0, 3),
            eviction=st.sampled_from(["lru", "mru"]),
            candidates=small,
            spare_degree=st.integers(0, 4),
        ),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Spec, list[Stream]]:
    spec = draw(specs())
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    first = (BASE >> spec.page_shift) - 40
    streams = []
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.integers(0, 300))
        spread = draw(st.sampled_from([3, 20, PAGES + 3]))
        near = random.integers(0, spread, count)
        streams.append(
            Stream.of(
                spec.cores,
                random.integers(0, spec.cores, count),
                first + near,
                random.integers(1, draw(st.integers(2, 40)), count),
            )
        )
    return spec, streams


@settings(max_examples=100)
@given(cases())
def test_fast_equals_reference(case: tuple[Spec, list[Stream]]) -> None:
    spec, streams = case
    table = TABLES[spec.page_bytes]
    fast, reference = FastTlb(spec, table), ReferenceTlb(spec, table)
    for number, stream in enumerate(streams):
        counts = fast.run(stream)
        assert counts == reference.run(stream)
        assert fast.contents() == reference.contents()
        conserved(counts, stream)
        for entries in fast.contents():
            for page, frame in (entry for ways in entries for entry in ways):
                assert frame == table.translate(page << spec.page_shift).physical
        if number == 0:
            gone = stream.page[:5].tolist()
            fast.invalidate(gone)
            reference.invalidate(gone)
            assert fast.contents() == reference.contents()


#: Of every kind, with one word of cores and with three.
LONG = (
    Spec(cores=6, sharing="none", private=Private(4, 2), shared=Shared(8, 2), network=Network(columns=3)),
    Spec(
        cores=9,
        sharing="directory",
        private=Private(4, 4, mshr=2, waiting=4),
        shared=Shared(6, 3),
        walk=Walk(walkers=2, queue=2, cache_entries=2),
        network=Network(columns=3),
        directory=Directory(6, 3, radius=2, route="cheapest"),
        policy=Policy("shared-entries", 2, 2, "mru", 3, 2),
    ),
    Spec(
        cores=130,
        sharing="directory",
        private=Private(4, 4, mshr=3),
        shared=Shared(16, 4),
        network=Network(columns=13),
        directory=Directory(16, 4, radius=20, route="nearest"),
        policy=Policy(peer_fill=1),
    ),
    Spec(cores=4, sharing="oracle", private=Private(3, 3), shared=Shared(4, 4), network=Network(columns=2)),
)


@pytest.mark.parametrize("spec", LONG, ids=["none", "s3", "many", "oracle"])
def test_long_streams_equal_reference(spec: Spec) -> None:
    table = TABLES[PAGE_4K]
    first = (BASE >> spec.page_shift) - 40
    random = np.random.default_rng(7)
    for spread in (3, 20, PAGES + 3):
        fast, reference = FastTlb(spec, table), ReferenceTlb(spec, table)
        for count in (0, 40 * spec.cores, 700):
            stream = Stream.of(
                spec.cores,
                random.integers(0, spec.cores, count),
                first + random.integers(0, spread, count),
                random.integers(1, 20, count),
            )
            assert fast.run(stream) == reference.run(stream)
            assert fast.contents() == reference.contents()
            fast.invalidate(stream.page[:5].tolist())
            reference.invalidate(stream.page[:5].tolist())


def conserved(counts: Counts, stream: Stream) -> None:
    """What must hold between the counts of any hierarchy."""
    assert counts.requests == stream.requests == counts.private_hits + counts.merged + counts.misses
    assert counts.misses == counts.peer_hits + counts.shared_accesses
    assert counts.shared_accesses == counts.shared_hits + counts.shared_merged + counts.walks
    assert counts.fills + counts.fills_refused <= counts.misses
    assert counts.walk_reads <= 4 * counts.walks
    assert counts.latency >= counts.requests - counts.merged
    assert counts.stall_cycles <= counts.latency


@pytest.mark.parametrize("seed", range(12))
def test_directories_of_more_cores_than_a_word_has_bits(seed: int) -> None:
    random = np.random.default_rng(seed)

    def one_of(*values: Any) -> Any:
        return values[int(random.integers(len(values)))]

    columns, ways = one_of(8, 12), one_of(1, 2, 5)
    spec = Spec(
        cores=columns * one_of(9, 16),
        sharing="directory",
        private=Private(entries=6, ways=one_of(2, 3), mshr=one_of(1, 4), waiting=8),
        shared=Shared(entries=16, ways=4),
        walk=Walk(walkers=8, queue=16, level_cycles=one_of(0, 5), cache_entries=3),
        network=Network(columns=columns),
        directory=Directory(
            entries=ways * one_of(1, 4),
            ways=ways,
            radius=one_of(2, 40),
            update_cycles=one_of(0, 8),
            route=one_of("first", "nearest", "cheapest"),
        ),
        policy=Policy(
            fill=one_of("always", "shared-entries"),
            peer_fill=one_of(0, 2),
            eviction=one_of("lru", "mru"),
            spare_degree=one_of(0, 2),
        ),
    )
    table = TABLES[PAGE_4K]
    fast, reference = FastTlb(spec, table), ReferenceTlb(spec, table)
    for _ in range(2):
        count = 2000
        pages = (BASE >> 12) - 40 + random.integers(0, one_of(12, 40, PAGES), count)
        stream = Stream.of(
            spec.cores, random.integers(0, spec.cores, count), pages, random.integers(1, one_of(2, 12, 40), count)
        )
        assert fast.run(stream) == reference.run(stream)
        assert fast.contents() == reference.contents()
        fast.invalidate(pages[:5].tolist())
        reference.invalidate(pages[:5].tolist())


@pytest.mark.parametrize("sharing", ["none", "directory"])
def test_cycles_beyond_those_of_the_wheel(sharing: Any) -> None:
    """Requests and walks so far ahead that they come onto the wheel of events later, beside others that are near."""
    random = np.random.default_rng(5)
    spec = Spec(
        cores=12,
        sharing=sharing,
        private=Private(entries=4, ways=4, mshr=2, waiting=3),
        shared=Shared(entries=8, ways=4),
        walk=Walk(walkers=2, queue=3, level_cycles=0, fixed_cycles=WHEEL + 500),
        network=Network(columns=4),
        directory=Directory(entries=8, ways=4, update_cycles=1000),
    )
    fast, reference = FastTlb(spec, TABLES[PAGE_4K]), ReferenceTlb(spec, TABLES[PAGE_4K])
    for _ in range(3):
        pages = (BASE >> 12) - 40 + random.integers(0, 30, 400)
        gaps = random.choice([1, 2, 30, WHEEL - 1, WHEEL, WHEEL + 1, 5 * WHEEL], 400)
        stream = Stream.of(12, random.integers(0, 12, 400), pages, gaps)
        assert fast.run(stream) == reference.run(stream)
        assert fast.contents() == reference.contents()


def test_sparing_without_directories_reads_none() -> None:
    """A hierarchy without directories may name a degree to spare from: every entry counts as held once."""
    spec = Spec(
        cores=2,
        network=Network(columns=2),
        private=Private(entries=3, ways=3),
        directory=Directory(entries=20, ways=4),
        policy=Policy(spare_degree=3),
    )
    pages = (BASE >> 12) - 40 + np.arange(200) % 20
    stream = Stream.of(2, np.arange(200) % 2, pages, np.full(200, 30))
    fast, reference = FastTlb(spec, TABLES[PAGE_4K]), ReferenceTlb(spec, TABLES[PAGE_4K])
    assert fast.run(stream) == reference.run(stream)
    assert fast.contents() == reference.contents()


@settings(max_examples=30)
@given(cases(), st.integers(1, 50))
def test_in_parts_is_the_same_as_at_once(case: tuple[Spec, list[Stream]], step: int) -> None:
    spec, streams = case
    table = TABLES[spec.page_bytes]
    for kind in (FastTlb, ReferenceTlb):
        whole, parts = kind(spec, table), kind(spec, table)
        for stream in streams:
            for start in range(0, len(stream) + 1, step):
                parts.feed(stream.slice(start, start + step))
            assert parts.finish() == whole.run(stream)
            assert parts.contents() == whole.contents()


@settings(max_examples=20)
@given(cases())
def test_state_goes_through_json(case: tuple[Spec, list[Stream]]) -> None:
    spec, streams = case
    table = TABLES[spec.page_bytes]
    one = FastTlb(spec, table)
    one.run(streams[0])
    other = FastTlb(spec, table)
    other.restore(json.loads(json.dumps(one.save())))
    assert other.run(streams[-1]) == one.run(streams[-1])
    assert other.contents() == one.contents()


def test_a_page_smaller_than_the_tlbs_is_a_fault() -> None:
    spec = Spec(cores=1, page_bytes=PAGE_64K, network=Network(columns=1))
    stream = Stream.of(1, [0], [(BASE - 40 * PAGE_4K) >> 16])
    for model in (FastTlb(spec, TABLES[PAGE_4K]), ReferenceTlb(spec, TABLES[PAGE_4K])):
        assert model.run(stream).faults == 1


def test_large_pages_serve_small_tlb_entries() -> None:
    spec = Spec(cores=1, network=Network(columns=1))
    start = BASE - 40 * PAGE_2M
    stream = Stream.of(1, [0, 0], [start >> 12, (start >> 12) + 5], 1000)
    for model in (FastTlb(spec, TABLES[PAGE_2M]), ReferenceTlb(spec, TABLES[PAGE_2M])):
        counts = model.run(stream)
        assert (counts.walks, counts.walk_reads, counts.walk_cache_hits) == (2, 4, 1)
        frame = TABLES[PAGE_2M].translate(start).physical
        assert model.contents()[0][0] == [(start >> 12, frame), ((start >> 12) + 5, frame + 5 * PAGE_4K)]


def test_another_number_of_cores_is_refused() -> None:
    spec = Spec(cores=2, network=Network(columns=2))
    for model in (FastTlb(spec, TABLES[PAGE_4K]), ReferenceTlb(spec, TABLES[PAGE_4K])):
        with pytest.raises(ValueError, match="a stream of 1 cores for 2"):
            model.feed(Stream.of(1, [0], [1]))


def test_restore_takes_only_its_own_spec() -> None:
    one = FastTlb(Spec(cores=2, network=Network(columns=2)), TABLES[PAGE_4K])
    other = FastTlb(dataclasses.replace(one.spec, private=Private(entries=4, ways=4)), TABLES[PAGE_4K])
    with pytest.raises(ValueError, match="private is of another hierarchy"):
        other.restore(one.save())
