"""Spans for OpenTelemetry: each session of a host as a trace, sent to a collector (`farlane serve --otlp ENDPOINT`).

A trace is there when its session has ended: the session, and in it the groups of work, the launches and loops, and what
was compiled. A session has at most MOST_SPANS; the attribute `farlane.dropped` says how many are missing. What a
session says of itself may come from a process that a guest has taken over, so it is checked.

Owns the thread that makes the spans, and OpenTelemetry's names. It is the one importer of OpenTelemetry's packages
(`pip install 'farlane[otel]'`). Locking: one queue.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

MOST_SPANS = 4096
MOST_BYTES = 64 << 20
WAITING_SESSIONS = 64  # that have ended, and whose spans are not made yet
_CHARACTERS = 256
_PATH = "/v1/traces"
_MOST = (1 << 63) - 1

log = logging.getLogger("farlane.otlp")

Span = tuple[str, int, int, dict[str, str | int]]
"""Its name, begin, end, attributes."""


class Exporter:
    """A `host.spans.Sink`."""

    def __init__(self, endpoint: str, version: str, device: str) -> None:
        """`endpoint`: the collector's, for OTLP by HTTP: http://127.0.0.1:4318."""
        resource = Resource.create({"service.name": "farlane", "service.version": version, "farlane.device": device})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/").removesuffix(_PATH) + _PATH)
        self._provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=4 * MOST_SPANS))
        self._tracer = self._provider.get_tracer("farlane")
        self._ended: queue.Queue[tuple[str, bytes] | None] = queue.Queue(WAITING_SESSIONS)
        self._thread = threading.Thread(target=self._work, name="farlane-otlp", daemon=True)
        self._thread.start()

    def __call__(self, session: str, content: bytes) -> None:
        try:
            self._ended.put_nowait((session, content))
        except queue.Full:
            log.warning("session %s is not exported: too many have ended at once", session)

    def close(self) -> None:
        """Sends what is left."""
        self._ended.put(None)
        self._thread.join()
        self._provider.shutdown()

    def _work(self) -> None:
        while (item := self._ended.get()) is not None:
            session, content = item
            try:
                _export(self._tracer, session, content)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                log.error("session %s is not exported, for what it says of itself is not valid: %r", session, error)


def _export(tracer: trace.Tracer, session: str, content: bytes) -> None:
    if len(content) > MOST_BYTES:
        raise ValueError(f"{len(content)} bytes")
    said = json.loads(content)
    offset = time.time_ns() - time.monotonic_ns()
    spans = list(_spans(said))
    dropped = _number(said["dropped"]) + max(0, len(spans) - MOST_SPANS)
    attributes: dict[str, str | int] = {"farlane.session": session, "farlane.dropped": dropped}
    root = tracer.start_span("session", attributes=attributes, start_time=_number(said["began"]) + offset)
    inside = trace.set_span_in_context(root)
    for name, began, ended, about in spans[:MOST_SPANS]:
        span = tracer.start_span(name, context=inside, attributes=about, start_time=began + offset)
        span.end(max(began, ended) + offset)
    root.end(_number(said["ended"]) + offset)


def _spans(said: dict[str, Any]) -> Iterator[Span]:
    kernels, operations = _names(said["kernels"]), _names(said["operations"])
    for name, began, ended in said["compilations"]:
        yield "compile", _number(began), _number(ended), {"farlane.kernel": _text(name)}
    for kind, number, began, ended in said["spans"]:
        times = _number(began), _number(ended)
        if kind == "group":
            yield "group", *times, {"farlane.group": _number(number)}
        elif kind == "launch":
            yield "kernel", *times, {"farlane.kernel": _text(kernels.get(str(number), number))}
        elif kind == "operation":
            yield "operation", *times, {"farlane.operation": _text(operations.get(str(number), number))}
        else:
            yield "loop", *times, {"farlane.iterations": _number(number)}


def _number(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= _MOST >> 1:
        raise ValueError(f"{value!r:.40} is no number")
    return value


def _names(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError("no names")
    return value


def _text(value: object) -> str:
    return str(value)[:_CHARACTERS]
