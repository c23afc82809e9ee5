"""Sessions that allocate more than their device memory: the same bytes as with enough of it, and never more frames than they have."""

from __future__ import annotations

import ctypes
import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from farlane.backend.device.base import LEGACY_STREAM, CudaError, LaunchShape, Rows
from farlane.backend.device.options import DeviceOptions
from farlane.backend.device.sim import Oversubscription, SimDevice
from farlane.backend.device.sim.context import SimContext
from farlane.backend.device.sim.memory.managed import ManagedMemory
from farlane.backend.device.sim.memory.window import PAGE, Window
from farlane.backend.memory.planner.trace import Trace
from farlane.backend.memory.replacement import POLICIES

IMAGE = (Path(__file__).parent / "reuse.ptx").read_bytes()
MEMORY = 2 << 20


def memory_in_use(window: Window) -> int:
    """Bytes of the mapped pages that the system has given memory to."""
    mincore = ctypes.CDLL(None, use_errno=True).mincore
    used = 0
    for first, last, _ in window.runs():
        pages = np.zeros((last - first) // PAGE, np.uint8)
        if mincore(ctypes.c_void_p(first), ctypes.c_size_t(last - first), ctypes.c_void_p(pages.ctypes.data)):
            raise OSError(ctypes.get_errno(), "mincore")
        used += int(np.count_nonzero(pages & 1)) * PAGE
    return used


class Session:
    def __init__(self, oversubscription: Oversubscription | None) -> None:
        self.device = SimDevice(threads=2, total_memory=256 << 20, oversubscription=oversubscription)
        context = self.device.open_context(64 << 20)
        assert isinstance(context, SimContext)
        self.context = context
        self.stream = context.default_stream(LEGACY_STREAM)
        self.module = context.load_module(IMAGE)
        self.base = context.window.base

    @property
    def memory(self) -> ManagedMemory:
        memory = self.context._memory
        assert isinstance(memory, ManagedMemory)
        return memory

    def write(self, offset: int, content: bytes) -> None:
        self.context.write(Rows(self.base + offset, 0, len(content), 1), memoryview(content), self.stream)

    def read(self, offset: int, size: int) -> bytes:
        pieces = self.context.read(Rows(self.base + offset, 0, size, 1), self.stream)
        return b"".join(bytes(piece) for piece in pieces)

    def launch(self, kernel: str, parameters: bytes, threads: int) -> None:
        shape = LaunchShape((-(-threads // 128), 1, 1), (128, 1, 1), 0)
        self.context.launch(self.context.function(self.module, kernel), shape, memoryview(parameters), self.stream)

    def mix(self, to: int, source: int, count: int) -> None:
        self.launch("mix", struct.pack("<QQI", self.base + to, self.base + source, count), count)

    def gather(self, where: int, source: int, count: int, stride: int) -> None:
        self.launch("gather", struct.pack("<QQII", self.base + where, self.base + source, count, stride), count)

    def check(self) -> None:
        """Frames, page table, flags and what the system has given say the same, and it is no more than there is."""
        memory, residency = self.memory, self.memory.residency
        table = memory.space.page_table
        assert table.mapped_bytes == residency._present * PAGE <= MEMORY
        assert memory.space.translations.free_bytes == MEMORY - table.mapped_bytes
        assert memory_in_use(memory.window) <= MEMORY
        frames = set()
        for first, last, _ in memory.window.runs():
            for page in range(first, last, PAGE):
                if memory.window.flags[(page - memory.window.base) // PAGE] & 3:
                    frames.add(table.translate(page).physical)
                    assert memory.space.translate(page) in frames

    def close(self) -> None:
        self.device.close()


@pytest.fixture(params=sorted(POLICIES))
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Session, Session]]:
    """The same session with little memory, and with enough."""
    pair = Session(Oversubscription(MEMORY, request.param)), Session(None)
    yield pair
    for session in pair:
        session.close()


def test_whatever_is_done_the_bytes_are_the_same(pair: tuple[Session, Session]) -> None:
    source = random.Random(7)
    live: dict[int, int] = {}
    following = 0
    for number in range(150):
        kind = source.choice(
            ["allocate", "allocate", "free", "write", "set", "copy", "mix", "mix", "mix", "gather", "read"]
        )
        if not live or (kind == "allocate" and len(live) < 14):
            size = source.choice([300, 4096, 70_000, 600_000, 1_500_000])
            for session in pair:
                session.context.allocate(session.base + following, size)
            live[following] = size
            following += -(-size // 256) * 256
            continue
        place = source.choice(sorted(live))
        size = live[place]
        other = source.choice(sorted(live))
        if kind == "free" and len(live) > 8:
            for session in pair:
                session.context.free(session.base + place)
            del live[place]
        elif kind == "write":
            at = source.randrange(size)
            content = source.randbytes(min(size - at, source.choice([5, 3000, 400_000])))
            for session in pair:
                session.write(place + at, content)
        elif kind == "set":
            width = size // 8 * 4
            for session in pair:
                session.context.set(
                    Rows(session.base + place, size // 2 // 4 * 4, width // 4 * 4, 2), number, 4, session.stream
                )
        elif kind == "copy":
            width = min(size, live[other]) // 6
            for session in pair:
                to, origin = (
                    Rows(session.base + place, 2 * width, width, 3),
                    Rows(session.base + other, width, width, 3),
                )
                if place != other:
                    session.context.copy(to, origin, session.stream)
        elif kind == "mix" and place != other:
            count = min(size, live[other]) // 4
            for session in pair:
                session.mix(place, other, count)
        elif kind == "gather" and size >= 1024 and live[other] >= 1024 and place != other:
            count = min(size - 8, live[other]) // 512 * 128
            holder = min(each for each in live if each not in (place, other)) if len(live) > 2 else None
            if holder is not None:
                for session in pair:
                    session.write(holder, struct.pack("<Q", session.base + place))
                    session.gather(holder, other, count, 1025)
                    session.write(holder, bytes(8))
        else:
            assert pair[0].read(place, size) == pair[1].read(place, size)
        if number % 10 == 0:
            pair[0].check()
    for place, size in live.items():
        assert pair[0].read(place, size) == pair[1].read(place, size)
    migrations = pair[0].memory.residency.migrations
    assert migrations.bytes_in > MEMORY
    assert migrations.bytes_out > MEMORY
    assert migrations.peak_bytes <= MEMORY


def test_a_launch_that_needs_more_than_there_is_streams(pair: tuple[Session, Session]) -> None:
    size = 5 << 20
    content = random.Random(1).randbytes(size)
    for session in pair:
        session.context.allocate(session.base, size)
        session.context.allocate(session.base + size, size)
        session.context.allocate(session.base + 2 * size, 256)
        session.write(0, content)
        session.write(2 * size, struct.pack("<Q", session.base + size))
        session.mix(size, 0, size // 4)
        session.gather(2 * size, 0, 64 << 10, 40_961)  # every lane in a page of its own, 32 of them at once
    assert pair[0].read(size, size) == pair[1].read(size, size)
    assert pair[0].memory.residency.migrations.streaming_launches
    pair[0].check()


def test_illegal_accesses_stay_illegal(pair: tuple[Session, Session]) -> None:
    for session in pair:
        session.context.allocate(session.base, 3 << 20)
        with pytest.raises(
            CudaError, match=r"kernel touch: illegal read of 4 bytes .* behind the end of the nearest, the allocation"
        ) as caught:
            session.launch("touch", struct.pack("<Q", session.base + (3 << 20)), 1)
        assert caught.value.code == 700
        assert "block (0, 0, 0), thread (0, 0, 0)" in caught.value.message


@pytest.mark.parametrize("oversubscription", [None, Oversubscription(MEMORY)])
def test_a_kernel_may_not_write_to_constants(oversubscription: Oversubscription | None) -> None:
    session = Session(oversubscription)
    session.context.allocate(session.base, 3 << 20)
    with pytest.raises(
        CudaError, match=r"kernel spoil: illegal write of 4 bytes .* inside the constant factor of 4 bytes"
    ) as caught:
        session.launch("spoil", b"", 1)
    assert caught.value.code == 700
    session.close()


def test_nothing_moves_while_everything_fits() -> None:
    session = Session(Oversubscription(MEMORY))
    session.context.allocate(session.base, 1 << 20)
    session.write(0, bytes(range(256)) * 4096)
    for _ in range(3):
        session.mix(0, 512 << 10, 128 << 10)
    migrations = session.memory.residency.migrations
    assert (migrations.bytes_in, migrations.bytes_out) == (0, 0)
    session.close()


def test_what_was_not_changed_is_not_written_back() -> None:
    session = Session(Oversubscription(MEMORY, "lru"))
    for place in range(3):
        session.context.allocate(session.base + (place << 20), 1 << 20)
        session.write(place << 20, bytes([place]) * (1 << 20))
    for _ in range(4):
        for place in range(3):
            session.launch("touch", struct.pack("<Q", session.base + (place << 20)), 1)
    migrations = session.memory.residency.migrations
    assert migrations.moves_in >= 9
    assert migrations.bytes_out <= 2 << 20, "each at most once, for it was written on the device"
    session.close()


def test_without_frames_for_its_memory_a_session_is_refused() -> None:
    device = SimDevice(threads=1, total_memory=8 << 20, oversubscription=Oversubscription(6 << 20))
    first = device.open_context(32 << 20)
    with pytest.raises(CudaError, match="no room for a session with 6291456 bytes of device memory"):
        device.open_context(32 << 20)
    first.close()
    device.open_context(32 << 20).close()
    device.close()


def test_a_recorded_trace_names_what_each_step_touched(tmp_path: Path) -> None:
    session = Session(Oversubscription(None, "lru", str(tmp_path / "trace-{}.json")))
    for place in range(3):
        session.context.allocate(session.base + (place << 20), 1 << 20)
    session.write(0, bytes(1 << 20))
    session.mix(1 << 20, 0, 1000)
    session.write(2 << 20, struct.pack("<Q", session.base + (1 << 20)))
    session.gather(2 << 20, 0, 1024, 3)
    session.read(1 << 20, 64)
    session.close()
    trace = Trace.from_json(json.loads((tmp_path / "trace-1.json").read_text()))
    steps = [{trace.name(a.object): "r" * a.reads + "w" * a.writes for a in step} for step in trace.steps]
    first, second, third = (name for name in dict.fromkeys(n for step in steps for n in step) if "allocation" in name)
    guest = [{name: how for name, how in step.items() if name in (first, second, third)} for step in steps]
    assert [step for step in guest if step] == [
        {first: "w"},
        {second: "rw", first: "r"},
        {third: "w"},
        {third: "r", first: "r", second: "rw"},
        {second: "r"},
    ]
    sizes = dict(zip((trace.name(number) for number in range(len(trace.sizes))), trace.sizes, strict=True))
    assert [sizes[name] for name in (first, second, third)] == [1 << 20] * 3


def test_sessions_that_only_record_share_the_device(tmp_path: Path) -> None:
    oversubscription = Oversubscription(None, trace=str(tmp_path / "{}.json"))
    device = SimDevice(threads=1, total_memory=8 << 20, oversubscription=oversubscription)
    first, second = device.open_context(8 << 20), device.open_context(8 << 20)
    for context in (first, second):
        context.allocate(context.window.base, 3 << 20)
    with pytest.raises(CudaError, match="no physical memory") as caught:
        second.allocate(second.window.base + (4 << 20), 2 << 20)
    assert caught.value.code == 2
    first.free(first.window.base)
    second.allocate(second.window.base + (4 << 20), 4 << 20)
    device.close()
    assert not list(tmp_path.iterdir()), "no step was recorded"


def test_the_options_of_reuse() -> None:
    assert Oversubscription.of(DeviceOptions()) is None
    with pytest.raises(ValueError, match="a policy, best, without a bound"):
        DeviceOptions(policy="best")
    with pytest.raises(ValueError, match=f"'best' is no policy; there are {', '.join(POLICIES)}"):
        Oversubscription.of(DeviceOptions(memory=4 << 20, policy="best"))
    options = DeviceOptions(memory=4 << 20, policy="lru", trace="/trace.json")
    assert Oversubscription.of(options) == Oversubscription(4 << 20, "lru", "/trace.json")
