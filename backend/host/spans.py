"""When a session did what, as a file for the timeline of a run: `farlane serve --timeline FOLDER`.

Owns the file, which is there whole or not at all: what the plane's replay has kept (replay/spans.rs), the names of
kernels and operations for its numbers, and the compilations. `farlane run --timeline` makes one timeline of it and of
the guest's spans (frontend/timeline.py). Times are nanoseconds of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from farlane.backend.device.base import Context
from farlane.backend.handlers.binding import TABLE
from farlane.backend.plane import Replay
from farlane.backend.system import files
from farlane.demangle import demangled

log = logging.getLogger("farlane.session")

MOST_NAMES = 65536
NAME_CHARACTERS = 200


class KernelNames:
    """What the guest's handles of functions stand for, the latest of each."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}

    def opened(self, handle: int, name: bytes) -> None:
        if len(self.names) < MOST_NAMES:
            self.names[handle] = name.decode("utf-8", "replace")


def write(folder: str, session: str, replay: Replay, kernels: KernelNames, context: Context) -> None:
    """The session's file. A folder that cannot be written costs the file, and a line in the log."""
    try:
        spans, dropped = replay.spans()
    except RuntimeError as error:  # the host ends while its thread replays still
        log.error("there is no timeline of session %s: %s", session, error)
        return
    content = {
        "session": session,
        "process": os.getpid(),
        "dropped": dropped,
        "spans": spans,
        "kernels": {handle: demangled(name)[:NAME_CHARACTERS] for handle, name in kernels.names.items()},
        "operations": {code: operation.name for code, operation in TABLE.items()},
        "compilations": context.compilations.spans,
    }
    file = Path(folder, f"host-{os.getpid()}-{session}.json")
    try:
        files.replace(file, json.dumps(content).encode())
    except OSError as error:
        log.error("the timeline of session %s cannot be written: %s", session, error)
