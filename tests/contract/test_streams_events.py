"""Device contract: streams, events, completion, sharing of a device, reset and close."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from farlane.backend.device.base import LEGACY_STREAM, PER_THREAD_STREAM, CudaError, Rows
from farlane.backend.device.generated_attributes import Attribute

DISABLE_TIMING = 2
NON_BLOCKING = 1


def test_default_streams(subject: Any) -> None:
    address = subject.allocate(256)
    for number in (LEGACY_STREAM, PER_THREAD_STREAM):
        stream = subject.context.default_stream(number)
        assert stream is not None
        subject.context.set(Rows(address, 4, 4, 1), number, 1, stream)
        subject.context.synchronize(stream=stream)
        assert subject.context.stream_done(stream)


@pytest.mark.parametrize("flags", [0, NON_BLOCKING])
def test_created_streams(subject: Any, flags: int) -> None:
    context = subject.context
    streams = [context.create_stream(flags, priority) for priority in (0, -1, 5)]
    address = subject.allocate(256)
    for stream in streams:
        context.write(Rows(address, 4, 4, 1), memoryview(b"data"), stream)
    for stream in streams:
        context.synchronize(stream=stream)
        assert context.stream_done(stream)
        context.destroy_stream(stream)


@pytest.mark.needs("content")
def test_an_event_orders_streams(subject: Any) -> None:
    context = subject.context
    first, second, event = context.create_stream(NON_BLOCKING, 0), context.create_stream(NON_BLOCKING, 0), None
    event = context.create_event(DISABLE_TIMING)
    address, size = subject.allocate(8 << 20), 8 << 20
    rows = Rows(address, size, size, 1)
    for value in range(1, 6):
        context.set(rows, value, 1, first)
        context.record_event(event, first, 0)
        context.wait_event(second, event)
        last = Rows(address + size - 1, 1, 1, 1)
        assert b"".join(bytes(piece) for piece in context.read(last, second)) == bytes([value])


def test_events(subject: Any) -> None:
    context = subject.context
    start, end = context.create_event(0), context.create_event(0)
    context.record_event(start, subject.stream, 0)
    context.record_event(end, subject.stream, 0)
    context.synchronize(event=end)
    assert context.event_done(start)
    assert context.event_done(end)
    elapsed = context.elapsed_ms(start, end)
    assert 0 <= elapsed < 60_000
    context.record_event(end, subject.stream, 0)
    context.synchronize()
    assert context.elapsed_ms(start, end) >= elapsed
    context.destroy_event(start)
    context.destroy_event(end)


def test_an_event_that_was_not_recorded_is_done(subject: Any) -> None:
    event = subject.context.create_event(0)
    assert subject.context.event_done(event)
    subject.context.synchronize(event=event)


def test_elapsed_needs_recorded_and_timed_events(subject: Any) -> None:
    context = subject.context
    recorded, never, untimed = context.create_event(0), context.create_event(0), context.create_event(DISABLE_TIMING)
    context.record_event(recorded, subject.stream, 0)
    context.record_event(untimed, subject.stream, 0)
    context.synchronize()
    for pair in ((recorded, never), (never, recorded), (recorded, untimed)):
        with pytest.raises(CudaError) as caught:
            context.elapsed_ms(*pair)
        assert (caught.value.code, caught.value.sticky) == (400, False)


@pytest.mark.needs("placed")
def test_contexts_are_apart(new_subject: Callable[[], Any]) -> None:
    first, second = new_subject(), new_subject()
    address = first.allocate(4096)
    with pytest.raises(CudaError):
        second.read(address, 4)
    second.allocate(second.context.quota)
    first.context.close()
    assert len(second.read(second.context.window.base, 4)) == 4


@pytest.mark.needs("placed")
def test_reset(subject: Any) -> None:
    context = subject.context
    base = context.window.base
    subject.allocate(context.quota)
    context.create_stream(0, 0)
    context.reset()
    assert context.window.base == base
    with pytest.raises(CudaError):
        subject.read(base, 1)
    context.allocate(base, context.quota)
    context.set(Rows(base, 4, 4, 1), 1, 1, context.default_stream(LEGACY_STREAM))
    context.synchronize()


def test_close_gives_everything_back(new_subject: Callable[[], Any]) -> None:
    for _ in range(20):
        subject = new_subject()
        subject.allocate(subject.context.quota)
        subject.context.create_stream(0, 0)
        subject.context.create_event(0)
        subject.context.close()
        subject.context.close()


def test_limits_are_accepted(subject: Any) -> None:
    for limit, value in ((0, 2048), (1, 1 << 20), (2, 8 << 20)):
        subject.context.set_limit(limit, value)
    subject.context.synchronize()


def test_description(opener: Any) -> None:
    description = opener.device.describe()
    assert description.backend == opener.row.device
    assert len(description.uuid) == 16
    assert description.name
    assert description.total_memory >= 1 << 30
    assert {int(attribute) for attribute in Attribute} <= set(description.attributes)
    assert description.compute_capability == (
        description.attributes[Attribute.COMPUTE_CAPABILITY_MAJOR],
        description.attributes[Attribute.COMPUTE_CAPABILITY_MINOR],
    )
    assert description.takes_ptx or description.takes_machine_code


@pytest.mark.needs("time")
def test_device_time_never_runs_back(subject: Any) -> None:
    address = subject.allocate(1 << 20)
    before = subject.context.device_nanoseconds
    for _ in range(3):
        subject.context.set(Rows(address, 1 << 20, 1 << 20, 1), 1, 1, subject.stream)
        subject.context.synchronize()
        assert subject.context.device_nanoseconds >= before
        before = subject.context.device_nanoseconds
