"""When a session did what: for the timeline of a run, and for OpenTelemetry.

Owns what is said of a session: the spans that the plane's replay has kept (replay/spans.rs), the names of kernels and
operations for their numbers, the compilations, and how long the guest waited for its session. Times are nanoseconds of
CLOCK_MONOTONIC. A guest that asked for it in its Hello reads it line by line (TIMELINE), over its session's own
connection, and so its own alone. A `Sink` gets it as a whole at the session's end; a session that has a process of its
own sends it to the host for that.

Source: protos/tape.md, "Timelines".
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from farlane.backend.device.base import Context
from farlane.backend.handlers.generated_operations import OPERATIONS
from farlane.backend.plane import Replay
from farlane.demangle import demangled

log = logging.getLogger("farlane.session")

MOST_NAMES = 65536
NAME_CHARACTERS = 200
NAMES_OF_A_LINE = 16  # so that a line has room in one answer
SHORTEST_LINE = 20  # bytes of a span

Sink = Callable[[str, bytes], None]
"""Takes what is said of a session: its name, and JSON. Never raises."""


class Arrival(NamedTuple):
    """When a guest came, and when there was room for its session."""

    came: int
    admitted: int


class Recorder:
    """What a session keeps of when it did what, besides the replay's spans."""

    def __init__(self, session: str, arrival: Arrival | None = None) -> None:
        self.session = session
        self.names: dict[int, str] = {}  # what the guest's handles of functions stand for, the latest of each
        self._began = time.monotonic_ns()
        self._arrival = arrival
        self._head: list[bytes] = []  # the lines before the replay's
        self._spans, self._dropped = 0, 0  # of the replay, when the guest began to read

    def opened(self, handle: int, name: bytes) -> None:
        if len(self.names) < MOST_NAMES:
            self.names[handle] = name.decode("utf-8", "replace")

    def content(self, replay: Replay, context: Context) -> bytes:
        """All of it, as JSON."""
        spans, _, dropped = replay.spans()
        content = {
            "session": self.session,
            "process": os.getpid(),
            "began": self._began,
            "ended": time.monotonic_ns(),
            "dropped": dropped,
            "spans": spans,
            "kernels": self._kernels(),
            "operations": _operations(),
            "compilations": context.compilations.spans,
        }
        return json.dumps(content).encode()

    def lines(self, replay: Replay, context: Context, first: int, room: int) -> bytes:
        """The lines of tape.md, "Timelines", from number `first` on: as many as `room` has bytes for."""
        if first == 0:
            self._head = [_line(*line) for line in self._lines_before(context)]
            _, self._spans, self._dropped = replay.spans(0, 0)
        taken, size = [], 0
        for line in self._lines_from(first, replay, room // SHORTEST_LINE + 1):
            size += len(line)
            if size > room:
                break
            taken.append(line)
        return b"".join(taken)

    def _lines_from(self, first: int, replay: Replay, most: int) -> Iterator[bytes]:
        yield from self._head[first:]
        at = max(0, first - len(self._head))
        if at < self._spans:
            kept, _, _ = replay.spans(at, min(most, self._spans - at))
            for span in kept:
                yield _line(*span)
            at += len(kept)
        if at == self._spans and self._head:
            yield _line("dropped", self._dropped)

    def _lines_before(self, context: Context) -> Iterator[tuple[object, ...]]:
        yield "session", self.session, os.getpid()
        if self._arrival is not None:
            yield "queue", *self._arrival
            yield "open", self._arrival.admitted, self._began
        for kind, names in (("operation", _operations()), ("launch", self._kernels())):
            items = iter(names.items())
            while some := dict(itertools.islice(items, NAMES_OF_A_LINE)):
                yield "names", kind, some
        for name, began, ended in context.compilations.spans:
            yield "compilation", name[:NAME_CHARACTERS], began, ended

    def _kernels(self) -> dict[int, str]:
        return {handle: demangled(name)[:NAME_CHARACTERS] for handle, name in self.names.items()}


def _operations() -> dict[int, str]:
    return {code: operation.name for code, operation in OPERATIONS.items()}


def _line(*of: object) -> bytes:
    return json.dumps(of, separators=(",", ":")).encode() + b"\n"
