"""Sessions that share a device's memory: the same bytes as each alone, and no more moves than what was missing."""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from farlane.backend.device.base import LEGACY_STREAM, CudaError, LaunchShape, Rows
from farlane.backend.device.sim import Oversubscription, SimDevice
from farlane.backend.device.sim.switched import SwitchedContext
from farlane.backend.memory.switching import RULES

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
        context.rest()

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
    assert isinstance(first.context, SwitchedContext)
    assert isinstance(second.context, SwitchedContext)
    held = first.context._residency.granules + second.context._residency.granules
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


@pytest.mark.parametrize("granules", range(1, 8))
def test_exactly_what_is_missing_leaves(granules: int, eight: SimDevice) -> None:
    first, second = Session(eight), Session(eight, 5)
    first.fill(4, 1)  # 5 with its variables
    second.fill(granules, 2)  # one more with its own
    missing = max(0, 5 + granules + 1 - 8)
    assert totals(eight)["granules"] == first.counts["granules"] == missing
    assert totals(eight)["bytes_saved"] <= missing * GRANULE


SLOW = b"""
.version 7.5
.target sm_75
.address_size 64
// each block counts itself, after so many turns of a loop
.visible .entry slow(.param .u64 out, .param .u32 turns)
{
    .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .pred %p<3>;
    ld.param.u64 %rd1, [out]; ld.param.u32 %r3, [turns]; mov.u32 %r4, 1;
TURN:
    mad.lo.u32 %r4, %r4, 3, 1; sub.u32 %r3, %r3, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra TURN;
    mov.u32 %r5, %tid.x; setp.ne.u32 %p2, %r5, 0; @%p2 bra DONE;
    and.b32 %r4, %r4, 1;
    mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3]; xor.b32 %r4, %r4, %r4; add.u32 %r2, %r2, 1; add.u32 %r2, %r2, %r4; st.global.u32 [%rd3], %r2;
DONE:
    ret;
}
"""
BLOCKS = 6000


@pytest.mark.parametrize("threads", [1, 2])
def test_a_launch_stops_between_blocks_and_goes_on(threads: int) -> None:
    opened = device(8, threads=threads)
    low, high = Session(opened), Session(opened, 5)
    module = low.context.load_module(SLOW)
    low.allocate(0, 6 * GRANULE)
    low.write(0, bytes(6 * GRANULE))
    high.allocate(0, 4 * GRANULE)
    high.write(0, bytes(4 * GRANULE))
    low.rest()
    high.rest()
    function = low.context.function(module, "slow")
    shape = LaunchShape((BLOCKS, 1, 1), (256, 1, 1), 0)
    parameters = struct.pack("<QI", low.base, 20_000)
    seconds: list[float] = []

    def run() -> None:
        started = time.monotonic()
        low.context.launch(function, shape, memoryview(parameters), low.stream)
        seconds.append(time.monotonic() - started)

    waits = []
    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive() and len(waits) < 5:
        time.sleep(0.03)
        before = time.monotonic()
        high.mix(0, 2 * GRANULE, GRANULE // 2)
        high.rest()
        if thread.is_alive():
            waits.append(time.monotonic() - before)
    thread.join()
    content = low.read(0, 4 * BLOCKS)
    assert content == struct.pack("<I", 1) * BLOCKS, "a block ran twice, or not at all"
    assert low.counts["switches"] >= 1
    assert waits, "the launch was over at once"
    assert min(waits) < seconds[0] / 4
    opened.close()


def test_a_session_that_was_stopped_can_end(eight: SimDevice) -> None:
    low, high = Session(eight), Session(eight, 5)
    function = low.context.function(low.context.load_module(SLOW), "slow")
    low.allocate(0, 6 * GRANULE)
    low.write(0, bytes(6 * GRANULE))
    low.rest()
    shape = LaunchShape((BLOCKS, 1, 1), (256, 1, 1), 0)
    raised: list[CudaError] = []

    def run() -> None:
        with pytest.raises(CudaError) as caught:
            low.context.launch(function, shape, memoryview(struct.pack("<QI", low.base, 50_000)), low.stream)
        raised.append(caught.value)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.2)
    assert isinstance(high.context, SwitchedContext)
    with high.context._working:  # at the low one's next block
        assert thread.is_alive()
        low.context.interrupt()
        thread.join(10)
        assert not thread.is_alive()
        low.context.close()
    assert raised[0].sticky
    high.fill(7, 3)
    assert high.read(0, 7 * GRANULE) == alone(7, 3)
    assert totals(eight)["granules"] == 0  # the other one's memory was free by then


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_gives_the_same_bytes(rule: str) -> None:
    opened = device(9, rule)
    first, second = Session(opened), Session(opened, 5)
    first.fill(4, 1)
    second.fill(3, 2)
    second.rest()
    for _ in range(3):
        first.mix(0, 2 * GRANULE, GRANULE // 2)
        second.mix(0, GRANULE, GRANULE // 4)
        second.rest()
    moved = totals(opened)
    assert moved["switches"] == 4
    if rule == "delayed":
        assert moved["granules"] == 0
    else:
        assert moved["granules"] >= 3 * (5 + 4)
    assert (moved["bytes_restored"] == 0) == (rule == "delayed")
    single = SimDevice(threads=2, total_memory=1 << 30)
    other = Session(single)
    other.fill(4, 1)
    for _ in range(3):
        other.mix(0, 2 * GRANULE, GRANULE // 2)
    assert first.read(0, 4 * GRANULE) == other.read(0, 4 * GRANULE)
    single.close()
    opened.close()


def test_one_session_may_need_more_than_there_is() -> None:
    opened = device(2)
    first, second = Session(opened), Session(opened, 5)
    first.fill(6, 1)
    second.fill(5, 2)
    assert first.read(0, 6 * GRANULE) == alone(6, 1)
    assert second.read(0, 5 * GRANULE) == alone(5, 2)
    assert totals(opened)["bytes_saved"] > 0
    opened.close()


def test_a_read_shows_what_was_there_whoever_comes_in_between(eight: SimDevice) -> None:
    first, second = Session(eight), Session(eight, 5)
    first.fill(6, 1)
    pieces = first.context.read(Rows(first.base, 0, 6 * GRANULE, 1), first.stream)
    begun = bytes(next(pieces))
    second.fill(6, 2)  # takes the first one's memory
    assert first.counts["granules"] > 0
    assert begun + b"".join(bytes(piece) for piece in pieces) == alone(6, 1)
