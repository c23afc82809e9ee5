"""Sessions that share a device's memory: the same bytes as each alone, and no more moves than what was missing."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from farlane.backend.device.base import LEGACY_STREAM, LaunchShape, Rows
from farlane.backend.device.sim import Oversubscription, SimDevice

IMAGE = (Path(__file__).parent / "reuse.ptx").read_bytes()
GRANULE = 2 << 20


class Session:
    """A session of a device, with buffers of 1 MiB."""

    def __init__(self, device: SimDevice, priority: int = 0) -> None:
        context = device.open_context(256 << 20)
        self.context = context
        context.prioritize(priority)
        self.stream = context.default_stream(LEGACY_STREAM)
        self.module = context.load_module(IMAGE)
        self.base = context.window.base

    @property
    def counts(self) -> dict[str, int]:
        return self.context.report()["switching"]

    def allocate(self, offset: int, size: int) -> None:
        self.context.allocate(self.base + offset, size)

    def write(self, offset: int, content: bytes) -> None:
        self.context.write(Rows(self.base + offset, 0, len(content), 1), memoryview(content), self.stream)

    def read(self, offset: int, size: int) -> bytes:
        pieces = self.context.read(Rows(self.base + offset, 0, size, 1), self.stream)
        return b"".join(bytes(piece) for piece in pieces)

    def mix(self, to: int, source: int, count: int) -> None:
        shape = LaunchShape((-(-count // 128), 1, 1), (128, 1, 1), 0)
        parameters = struct.pack("<QQI", self.base + to, self.base + source, count)
        self.context.launch(self.context.function(self.module, "mix"), shape, memoryview(parameters), self.stream)

    def fill(self, granules: int, seed: int) -> None:
        """So many granules, written by copies and touched by a kernel."""
        size = granules * GRANULE
        self.allocate(0, size)
        self.write(0, random.Random(seed).randbytes(size))
        self.mix(0, size // 2, size // 8)

    def rest(self) -> None:
        self.context.rest()


def device(granules: int, rule: str = "delayed", threads: int = 2) -> SimDevice:
    shared = Oversubscription(shared=granules * GRANULE, rule=rule)
    return SimDevice(threads=threads, total_memory=1 << 30, oversubscription=shared)


@pytest.fixture
def eight() -> Iterator[SimDevice]:
    opened = device(8)
    yield opened
    opened.close()


def totals(opened: SimDevice) -> dict[str, int]:
    [counts] = opened.report().values()
    return counts


def alone(granules: int, seed: int) -> bytes:
    opened = SimDevice(threads=2, total_memory=1 << 30)
    session = Session(opened)
    session.fill(granules, seed)
    content = session.read(0, granules * GRANULE)
    opened.close()
    return content


def test_nothing_moves_while_the_free_part_suffices(eight: SimDevice) -> None:
    first, second = Session(eight), Session(eight, 5)
    first.fill(3, 1)
    second.fill(3, 2)  # and a granule each for the module's variables: 8 of 8
    assert first.read(0, 3 * GRANULE) == alone(3, 1)
    assert second.read(0, 3 * GRANULE) == alone(3, 2)
    found = totals(eight)
    assert (found["granules"], found["bytes_saved"], found["bytes_restored"]) == (0, 0, 0)


def test_what_is_missing_moves_and_comes_back(eight: SimDevice) -> None:
    first, second = Session(eight), Session(eight, 5)
    first.fill(5, 1)
    second.fill(4, 2)
    held = first.context._managed.space.granules + second.context._managed.space.granules  # type: ignore[attr-defined]
    assert held == 8
    missing = first.counts["granules"]
    assert missing == totals(eight)["granules"] == 3  # 5 and 4, and one each for variables: 11 of 8
    assert totals(eight)["bytes_saved"] <= missing * GRANULE
    assert first.read(0, 5 * GRANULE) == alone(5, 1)
    assert totals(eight)["bytes_restored"] == 0  # a copy goes to where the bytes are
    second.rest()
    first.mix(0, 0, 5 * GRANULE // 4)
    assert 0 < first.counts["bytes_restored"] <= missing * GRANULE
    assert second.read(0, 4 * GRANULE) == alone(4, 2)
