"""Memory of a GPU: where windows lie, what is mapped when, what failing leaves behind, and the way through pinned memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from driver_options import ask
from farlane.backend.device.base import CudaError, Rows
from farlane.backend.device.gpu.driver.cuda import CudaDriver
from farlane.backend.device.gpu.memory.staging import PIECE
from farlane.backend.device.gpu.memory.window import BASES, Mapped

GRANULE = 2 << 20
CHUNKS = 16  # of pinned memory for what is sent (backend/plane/src/device/cuda/outgoing.rs)


def test_a_hint_that_is_not_honoured(bench: Any) -> None:
    """The address that comes back is compared: other bases are tried, and what the driver gives is what the guest is told."""
    ask("fail cuMemAddressReserve" + " 2" * (2 * BASES + 1))  # two sizes are tried
    second = bench.device.open_context(1 << 20)
    assert second._space.hints_refused == 2 * BASES
    assert second.window.base not in (0, bench.base)
    assert bench.left()["windows"] == 2  # nothing refused is kept
    second.allocate(second.window.base, 256)


def test_a_hint_that_is_taken_by_another(bench: Any) -> None:
    """The driver gives another address, which goes back."""
    before = bench.driver.counts.copy()
    other = bench.device.open_context(1 << 20)
    assert other.window.base not in (0, bench.base)
    refused = other._space.hints_refused
    assert refused >= 1
    assert bench.driver.counts["reserve"] - before["reserve"] >= refused
    assert bench.left()["windows"] == 2


def test_granules_are_mapped_on_demand_and_shared(bench: Any) -> None:
    context, base = bench.context, bench.base
    assert bench.mapped() == []
    context.allocate(base + 256, 256)
    context.allocate(base + 512, 256)
    assert bench.mapped() == [(0, GRANULE)]
    context.allocate(base + 1024, 3 * GRANULE)  # two whole granules of its own, and its ends
    assert bench.mapped() == [(0, GRANULE), (GRANULE, 3 * GRANULE), (3 * GRANULE, 4 * GRANULE)]
    context.free(base + 1024)
    assert len(bench.mapped()) == 3  # nothing is unmapped while work may run
    context.rest()
    assert bench.mapped() == [(0, GRANULE)]
    context.free(base + 256)
    context.free(base + 512)
    context.rest()
    assert bench.mapped() == []
    assert bench.left().get("memory") is None


def test_allocating_and_freeing_in_a_loop_asks_the_driver_once(bench: Any) -> None:
    context, base, counts = bench.context, bench.base, bench.driver.counts
    context.allocate(base, 5 * GRANULE)
    context.free(base)
    before = counts.copy()
    for _ in range(100):
        context.allocate(base, 5 * GRANULE)
        bench.context.set(Rows(base, 64, 64, 1), 1, 1, bench.stream)
        context.free(base)
    assert {name: counts[name] - before[name] for name in ("create", "map", "unmap", "synchronize")} == dict.fromkeys(
        ("create", "map", "unmap", "synchronize"), 0
    )


def test_memory_that_lies_askew_is_given_back_first(bench: Any) -> None:
    context, base = bench.context, bench.base
    context.allocate(base, 4 * GRANULE)
    bench.write(base, b"pending")
    context.free(base)
    context.allocate(base + GRANULE, 8 * GRANULE)
    assert bench.mapped() == [(GRANULE, 9 * GRANULE)]


def test_when_the_gpu_is_full_what_is_idle_goes_first(bench: Any) -> None:
    context, base = bench.context, bench.base
    context.allocate(base, 24 << 20)
    bench.write(base, b"pending")
    context.free(base)
    ask("fail cuMemCreate 2")
    context.allocate(base + (32 << 20), 24 << 20)
    assert bench.driver.counts["synchronize"] == 1
    assert bench.mapped() == [(32 << 20, 56 << 20)]
    ask("fail cuMemCreate 2 2")
    with pytest.raises(CudaError) as caught:
        context.allocate(base, 16 << 20)
    assert (caught.value.code, caught.value.sticky) == (2, False)
    ask("fail cuMemCreate")
    context.allocate(base, 4 << 20)  # and goes on


@pytest.mark.parametrize("call", ["cuMemCreate", "cuMemMap", "cuMemSetAccess"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_failure_in_the_middle_leaves_nothing(bench: Any, call: str, at: int) -> None:
    """An allocation of three mappings, one of which fails."""
    context, base = bench.context, bench.base
    ask(f"fail {call}" + " 0" * at + " 1")
    with pytest.raises(CudaError) as caught:
        context.allocate(base + 256, 3 * GRANULE)
    assert (caught.value.code, caught.value.sticky) == (1, False)
    context.rest()
    assert bench.mapped() == []
    context.allocate(base + 256, 3 * GRANULE)
    bench.write(base + 256, b"works")
    assert bench.read(base + 256, 5) == b"works"


def test_without_mapping_a_slab_announced(new_bench: Callable[..., Any], caplog: Any) -> None:
    bench = new_bench(maps=False)
    assert any("no virtual memory management" in record.message for record in caplog.records)
    assert bench.driver.counts["reserve"] == 0
    assert bench.driver.counts["allocate"] == 1
    bench.context.allocate(bench.base + 512, 4096)
    bench.write(bench.base + 512, b"slab")
    assert bench.read(bench.base + 512, 4) == b"slab"


def test_a_driver_that_cannot_map_after_all(new_bench: Callable[..., Any], caplog: Any) -> None:
    bench = new_bench()
    ask("fail cuMemGetAllocationGranularity 801")
    other = bench.device.open_context(1 << 20)
    assert any("cannot map memory" in record.message for record in caplog.records)
    assert not isinstance(other._space, Mapped)
    assert other.quota == 1 << 20


def test_a_slab_takes_what_there_is(new_bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a GPU that has 48 MiB free, the largest piece that can be had."""
    monkeypatch.setattr(CudaDriver, "memory_info", lambda self: (48 << 20, 1 << 30))
    ask("fail cuMemAlloc 2")
    bench = new_bench(maps=False)
    assert (32 << 20) < bench.context.quota < (48 << 20)
    assert bench.driver.counts["allocate"] == 2


def test_what_is_sent_is_not_overwritten_before_it_is_copied(bench: Any) -> None:
    """Streams run late here: each piece must lie in pinned memory until its copy has run."""
    context, base = bench.context, bench.base
    ask("patient")  # nothing runs but what is waited for
    streams = [bench.stream, context.create_stream(1, 0), context.create_stream(1, 0)]
    size = 3 * PIECE // 4
    context.allocate(base, 40 * PIECE)
    sent = [random.Random(number).randbytes(size) for number in range(CHUNKS + 16)]
    for number, data in enumerate(sent):
        bench.write(base + number * size, data, streams[number % 3 if number < 12 else number % 2])
        if number == 11:
            context.destroy_stream(streams[2])  # in the middle: its work goes on
    assert bench.left()["pinned"] == CHUNKS
    context.synchronize()
    for number, data in enumerate(sent):
        assert bench.read(base + number * size, size) == data


@pytest.mark.parametrize("flags", [0, 1], ids=["blocking", "non-blocking"])
@pytest.mark.parametrize("ended", [False, True], ids=["there", "destroyed"])
def test_work_on_freed_memory_goes_before_what_has_it_next(bench: Any, flags: int, ended: bool) -> None:
    """Streams run late here: what a stream has yet to do to memory that was freed must not come after what another does to it then."""
    context, base = bench.context, bench.base
    ask("patient")  # nothing runs but what is waited for
    before, after = context.create_stream(flags, 0), context.create_stream(flags, 0)
    place = Rows(base, 4096, 4096, 1)
    context.allocate(base, 4096)
    context.set(place, 1, 1, before)
    context.free(base)
    if ended:
        context.destroy_stream(before)
    context.allocate(base, 4096)
    context.set(place, 2, 1, after)
    context.synchronize(after)
    context.synchronize()
    assert bench.read(base, 4096) == bytes([2]) * 4096


def test_small_writes_cost_no_events(bench: Any) -> None:
    bench.context.allocate(bench.base, 1 << 20)
    before = ask("calls cuEventRecord")
    for number in range(200):
        bench.write(bench.base + 4 * number, number.to_bytes(4, "little"))
    assert ask("calls cuEventRecord") == before
    assert bench.left()["pinned"] == 1


def test_a_read_given_up_halfway_does_not_disturb_the_next(bench: Any) -> None:
    data = random.Random(5).randbytes(6 * PIECE)
    bench.context.allocate(bench.base, 8 * PIECE)
    bench.write(bench.base, data)
    pieces = bench.context.read(Rows(bench.base, 6 * PIECE, 6 * PIECE, 1), bench.stream)
    assert bytes(next(pieces)) == data[:PIECE]
    pieces.close()
    assert bench.read(bench.base + PIECE, 5 * PIECE) == data[PIECE:]
