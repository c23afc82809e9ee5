"""When a session did what: for the timeline of a run, and for OpenTelemetry.

Owns what is said of a session at its end: the spans that the plane's replay has kept (replay/spans.rs), the names of
kernels and operations for their numbers, and the compilations. Times are nanoseconds of CLOCK_MONOTONIC. A session that
has a process of its own sends it to the host, which gives it to those who want it.

Owns as well the file for `farlane run --timeline` (`farlane serve --timeline FOLDER`), which is there whole or not at
all. frontend/timeline.py makes one timeline of it and of the guest's spans.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from farlane.backend.device.base import Context
from farlane.backend.handlers.binding import TABLE
from farlane.backend.plane import Replay
from farlane.backend.system import files
from farlane.demangle import demangled

log = logging.getLogger("farlane.session")

MOST_NAMES = 65536
NAME_CHARACTERS = 200

Sink = Callable[[str, bytes], None]
"""Takes what is said of a session: its name, and JSON. Never raises."""


class Recorder:
    """What a session keeps of when it did what, besides the replay's spans."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}  # what the guest's handles of functions stand for, the latest of each
        self._began = time.monotonic_ns()

    def opened(self, handle: int, name: bytes) -> None:
        if len(self.names) < MOST_NAMES:
            self.names[handle] = name.decode("utf-8", "replace")

    def content(self, session: str, replay: Replay, context: Context) -> bytes:
        """Empty: there is none."""
        try:
            spans, dropped = replay.spans()
        except RuntimeError as error:  # the host ends while its thread replays still
            log.error("it is not known when session %s did what: %s", session, error)
            return b""
        content = {
            "session": session,
            "process": os.getpid(),
            "began": self._began,
            "ended": time.monotonic_ns(),
            "dropped": dropped,
            "spans": spans,
            "kernels": {handle: demangled(name)[:NAME_CHARACTERS] for handle, name in self.names.items()},
            "operations": {code: operation.name for code, operation in TABLE.items()},
            "compilations": context.compilations.spans,
        }
        return json.dumps(content).encode()


def to_folder(folder: str) -> Sink:
    """Each session's file. A folder that cannot be written costs the file, and a line in the log."""

    def write(session: str, content: bytes) -> None:
        try:
            files.replace(Path(folder, f"host-{os.getpid()}-{session}.json"), content)
        except OSError as error:
            log.error("the timeline of session %s cannot be written: %s", session, error)

    return write


def to_all(*wanted: Sink | None) -> Sink | None:
    """One for those that there are; None for none."""
    sinks = [sink for sink in wanted if sink is not None]

    def give(session: str, content: bytes) -> None:
        for sink in sinks:
            sink(session, content)

    return give if sinks else None
