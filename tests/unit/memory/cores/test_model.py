"""Launches in, counts out. Without the TLB hierarchy, which has tests of its own; with it once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from farlane.backend.memory import config
from farlane.backend.memory.cores.model import MemoryModel
from farlane.backend.memory.cores.touches import records
from farlane.backend.memory.cores.trace import TraceError, TraceReader, TraceWriter
from farlane.backend.memory.slots.core import Demand

SMALL = config.parse(
    """
[tlb]
cores = 4
[tlb.private]
entries = 4
ways = 4
[tlb.shared]
entries = 16
ways = 4
[tlb.network]
columns = 2
[cores]
slots = 8
slot_bytes = 512
blocks = 4
"""
)
BLOCK = Demand(1024, 32, 32)


def some(blocks: int, pages: int = 8) -> np.ndarray:
    """Each block's warp touches `pages` pages of its own, then one that all share."""
    table = [(pages * block + page, 0, 0, block, page + 1) for block in range(blocks) for page in range(pages)]
    table += [(1000, 0, 1, block, pages + 1) for block in range(blocks)]
    return records(*np.array(table, np.int64).T)


def test_counts_of_launches_and_their_sum() -> None:
    model = MemoryModel(SMALL)
    for name in ("a", "b", "a"):
        model.begin(name, 0, BLOCK, 16)
        model.touch(some(16))
    report = model.report()
    assert [(row["name"], row["launches"], row["requests"]) for row in report["groups"]] == [
        ("a", 1, 144), ("b", 1, 144), ("a", 1, 144),
    ]  # fmt: skip
    assert [(row["name"], row["launches"], row["requests"]) for row in report["kernels"]] == [
        ("a", 2, 288), ("b", 1, 144),
    ]  # fmt: skip
    assert report["total"]["requests"] == sum(row["counts"]["requests"] for row in report["groups"]) == 432
    assert report["pages"] == 16 * 8 + 1
    assert report["total"]["faults"] == 0
    assert report["total"]["walks"] > 0
    row = report["groups"][0]
    assert row["cycles"] == 16 * 10  # sixteen blocks, four on each of four cores, all at once
    assert row["utilisation"] == 1.0
    assert row["resident"] == 4.0


def test_streams_compete_until_a_barrier() -> None:
    model = MemoryModel(SMALL, tlb=False)
    for stream in (1, 2):
        model.begin(f"k{stream}", stream, BLOCK, 8)
        model.touch(some(8))
    model.barrier()
    model.begin("alone", 1, BLOCK, 8)
    model.touch(some(8))
    report = model.report()
    assert [(row["name"], row["streams"], row["blocks"]) for row in report["groups"]] == [
        ("k1 | k2", 2, 16),
        ("alone", 1, 8),
    ]
    assert report["groups"][0]["resident"] == 4.0
    assert report["groups"][1]["resident"] == 2.0


def test_a_block_that_fits_no_core_is_reported() -> None:
    model = MemoryModel(SMALL, tlb=False)
    model.begin("large", 0, Demand(8192, 32, 32), 1)
    model.touch(some(1))
    assert "16 slots" in model.report()["groups"][0]["refused"]


def test_an_abandoned_launch_leaves_nothing() -> None:
    model = MemoryModel(SMALL, tlb=False)
    model.begin("bad", 0, BLOCK, 1)
    model.touch(some(1))
    model.abandon()
    assert model.report()["groups"] == []


def test_a_long_launch_is_cut() -> None:
    cut = dataclasses.replace(SMALL, cores=dataclasses.replace(SMALL.cores, trace_mib=1))
    model = MemoryModel(cut, tlb=False)
    model.begin("long", 0, BLOCK, 4)
    page = np.zeros(1 << 15, np.int64)
    for piece in range(5):
        model.touch(records(page, 0, 0, 0, np.arange(1 << 15) + (piece << 15)))
    report = model.report()
    assert sum(row["requests"] for row in report["groups"]) == 5 << 15
    assert len(report["groups"]) == 2


def test_pages_that_are_gone_are_forgotten() -> None:
    model = MemoryModel(SMALL)
    for _ in range(2):
        model.begin("k", 0, BLOCK, 1)
        model.touch(some(1, 2))
        model.gone(0, 1 << 20)
    first, second = model.report()["groups"]
    assert (first["counts"]["walks"], second["counts"]["walks"]) == (3, 2)  # page 1000 lies behind
    assert model.report()["pages"] == 3


def test_the_trace_has_what_the_model_saw(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "t.zip", 4, 4096)
    model = MemoryModel(SMALL, tlb=False, trace=writer)
    model.begin("k", 0, BLOCK, 16)
    model.touch(some(16))
    model.barrier()
    writer.close()
    with TraceReader(tmp_path / "t.zip") as reader:
        assert (reader.cores, reader.page_bytes) == (4, 4096)
        assert [(group.name, group.requests) for group in reader.groups] == [("k", 144)]
        (stream,) = reader.windows(0)
        assert sorted(stream.page.tolist()) == sorted([*range(128), *[1000] * 16])


def test_a_trace_that_is_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.zip"
    writer = TraceWriter(path, 4, 4096)
    model = MemoryModel(SMALL, tlb=False, trace=writer)
    model.begin("k", 0, BLOCK, 16)
    model.touch(some(16))
    model.barrier()
    writer.close()
    whole = path.read_bytes()
    random = np.random.default_rng(7)
    refused = 0
    for _ in range(100):
        damaged = bytearray(whole)
        for place in random.integers(0, len(whole), random.integers(1, 4)):
            damaged[place] = random.integers(0, 256)
        path.write_bytes(damaged[: random.integers(0, len(whole) + 1)] if random.integers(2) else damaged)
        try:
            with TraceReader(path) as reader:
                for group in range(len(reader.groups)):
                    for stream in reader.windows(group):
                        assert stream.cores == reader.cores
        except TraceError:
            refused += 1
    assert refused > 60


@pytest.mark.parametrize("fast", [False, True])
def test_the_fast_mode_leaves_out_what_a_core_asked_for_just_before(fast: bool) -> None:
    model = MemoryModel(SMALL, fast=fast)
    model.begin("k", 0, BLOCK, 1)
    model.touch(records([5] * 100, 0, 0, 0, np.arange(100) * 40))
    counts = model.report()["total"]
    assert counts["requests"] == 100
    assert counts["walks"] == 1
    assert counts["private_hits"] == 99
