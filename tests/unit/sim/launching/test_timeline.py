"""Streams and events."""

from __future__ import annotations

import time

import pytest
from farlane.backend.device.base import LEGACY_STREAM, PER_THREAD_STREAM, CudaError
from farlane.backend.device.sim.launching.timeline import DISABLE_TIMING, Timeline


def test_elapsed_time_is_that_between_the_records() -> None:
    timeline = Timeline()
    stream = timeline.create_stream(1, 0)
    start, end = timeline.create_event(0), timeline.create_event(0)
    timeline.record(start, stream)
    time.sleep(0.02)
    timeline.record(end, stream)
    assert 20 <= timeline.elapsed_ms(start, end) < 60_000
    assert timeline.elapsed_ms(end, start) == -timeline.elapsed_ms(start, end)
    assert timeline.elapsed_ms(start, start) == 0


@pytest.mark.parametrize("flags", [0, DISABLE_TIMING])
def test_events_without_a_time(flags: int) -> None:
    timeline = Timeline()
    done, other = timeline.create_event(0), timeline.create_event(flags)
    timeline.record(done, timeline.default_stream(LEGACY_STREAM))
    if flags:
        timeline.record(other, timeline.default_stream(LEGACY_STREAM))
    with pytest.raises(CudaError) as found:
        timeline.elapsed_ms(done, other)
    assert found.value.code == 400


def test_default_streams() -> None:
    timeline = Timeline()
    legacy, own = timeline.default_stream(LEGACY_STREAM), timeline.default_stream(PER_THREAD_STREAM)
    assert legacy is not own
    assert timeline.default_stream(LEGACY_STREAM) is legacy
    for call in (lambda: timeline.default_stream(3), lambda: timeline.destroy_stream(legacy)):
        with pytest.raises(CudaError) as found:
            call()
        assert found.value.code == 400


def test_what_is_destroyed_cannot_be_used() -> None:
    timeline = Timeline()
    stream, event = timeline.create_stream(0, 0), timeline.create_event(0)
    timeline.destroy_event(event)
    with pytest.raises(CudaError, match="event has been destroyed"):
        timeline.record(event, stream)
    timeline.destroy_stream(stream)
    with pytest.raises(CudaError, match="stream has been destroyed"):
        timeline.record(timeline.create_event(0), stream)
