"""What a session says of itself, for OpenTelemetry: a process that was taken over may say anything."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from farlane.backend.observing import otlp
from farlane.backend.observing.otlp import Exporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

GOOD: dict[str, Any] = {
    "began": 100, "ended": 900, "dropped": 2, "kernels": {"7": "add"}, "operations": {"3": "READ"},
    "spans": [["group", 1, 200, 800], ["launch", 7, 300, 400], ["repeat", 12, 500, 600], ["operation", 3, 610, 620]],
    "compilations": [["add", 210, 290]],
}  # fmt: skip


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[ReadableSpan, ...]]:
    memory = InMemorySpanExporter()
    monkeypatch.setattr(otlp, "BatchSpanProcessor", lambda *_, **__: SimpleSpanProcessor(memory))

    def export(*contents: bytes) -> tuple[ReadableSpan, ...]:
        exporter = Exporter("http://127.0.0.1:9", "1", "null")
        for number, content in enumerate(contents):
            exporter(f"s{number}", content)
        exporter.close()
        return memory.get_finished_spans()

    return export


def test_names_and_times(exported: Callable[..., tuple[ReadableSpan, ...]]) -> None:
    found = exported(json.dumps(GOOD).encode())
    assert [span.name for span in found] == ["compile", "group", "kernel", "loop", "operation", "session"]
    root = found[-1]
    assert dict(root.attributes or {}) == {"farlane.session": "s0", "farlane.dropped": 2}
    assert root.start_time is not None
    times = [(span.start_time - root.start_time, span.end_time - root.start_time) for span in found]  # type: ignore[operator]
    assert times == [(110, 190), (100, 700), (200, 300), (400, 500), (510, 520), (0, 800)]
    assert dict(found[3].attributes or {}) == {"farlane.iterations": 12}


def test_there_is_a_bound(exported: Callable[..., tuple[ReadableSpan, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MOST_SPANS", 3)
    found = exported(json.dumps(GOOD).encode())
    assert len(found) == 4
    assert (found[-1].attributes or {})["farlane.dropped"] == 4


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"{}", b"\xff", b"[" * 100000, json.dumps(GOOD | {"spans": [["group", 1, 2]]}).encode(),
        json.dumps(GOOD | {"spans": [["group", 1, -5, 3]]}).encode(), json.dumps(GOOD | {"began": "now"}).encode(),
        json.dumps(GOOD | {"spans": [["group", 1 << 70, 2, 3]]}).encode(), json.dumps(GOOD | {"spans": 5}).encode(),
        json.dumps(GOOD | {"kernels": [], "spans": [["launch", 1, 2, 3]]}).encode(),
    ],
)  # fmt: skip
def test_what_is_not_valid_is_logged(
    exported: Callable[..., tuple[ReadableSpan, ...]], content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "farlane.otlp"):
        found = exported(content, json.dumps(GOOD).encode())
    assert "session s0 is not exported" in caplog.text
    assert {(span.attributes or {}).get("farlane.session") for span in found if span.name == "session"} == {"s1"}


def test_too_many_at_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(otlp, "WAITING_SESSIONS", 1)
    going = threading.Event()
    monkeypatch.setattr(otlp, "_export", lambda *_: going.wait(10))
    exporter = Exporter("http://127.0.0.1:9", "1", "null")
    for number in range(4):
        exporter(f"s{number}", b"")
    assert "is not exported: too many have ended at once" in caplog.text
    going.set()
    exporter.close()
