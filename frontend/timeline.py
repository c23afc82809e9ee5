"""`farlane run --timeline FILE`: one timeline of a run, in the format that Perfetto and Chrome's tracing open.

Owns that format. The guest's spans (calls, waits, groups on the wire) come from the shim's files, one for each
process (frontend/shim/crates/client/src/report/spans.rs); those of the embedded host from its sessions'
(backend/host/spans.py). Both are nanoseconds of CLOCK_MONOTONIC of this machine, so that nothing has to be shifted.

Source: "Trace Event Format" (Chrome): complete events (X), asynchronous ones (b, e), flows (s, f), metadata (M).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from farlane.frontend.errors import UserError

Event = dict[str, Any]
GUEST, HOST = "guest-", "host-"  # how the files' names begin
_REPLAY = 1  # the host's thread: one for each of its sessions, numbered from here on


def write(folder: Path, target: Path) -> str:
    """Makes the timeline of what guests and host have left in the folder; gives a line for the user. Raises UserError."""
    guests = [*filter(None, map(_guest, sorted(folder.glob(f"{GUEST}*"))))]
    sessions = [*filter(None, map(_session, sorted(folder.glob(f"{HOST}*"))))]
    events = [event for guest in guests for event in _of_guest(*guest)]
    events += [event for number, session in enumerate(sessions) for event in _of_host(session, _REPLAY + number)]
    dropped = sum(int(header["dropped"]) for header, _ in guests) + sum(int(each["dropped"]) for each in sessions)
    about = {
        "clock": "CLOCK_MONOTONIC",
        "dropped_spans": dropped,
        "host": f"{len(sessions)} sessions" if sessions else "not there: the timeline has the guest's side alone",
    }
    content = {"displayTimeUnit": "ns", "otherData": about, "traceEvents": events}
    try:
        target.write_text(json.dumps(content))
    except OSError as error:
        raise UserError(f"cannot write the timeline to {target}: {error.strerror}") from error
    sides = "" if sessions else " (the guest's side alone: the host is not this command's own)"
    left = f", {dropped} spans were left out" if dropped else ""
    return f"the timeline {target} has {len(events)} events{sides}{left}: open it with https://ui.perfetto.dev"


def _guest(file: Path) -> tuple[dict[str, Any], list[Any]] | None:
    """A guest process's spans. None: its file is damaged, for the process was killed."""
    try:
        header, *lines = file.read_text().splitlines()
        return json.loads(header), [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return None


def _session(file: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(file.read_text())
        return found
    except (OSError, ValueError):
        return None


def _of_guest(header: dict[str, Any], spans: Iterable[Any]) -> Iterator[Event]:
    process = header["process"]
    yield _named(process, None, f"guest: {header['program']}")
    for kind, began, ended, *more in spans:
        if kind == "call":
            thread, name = more
            yield _slice(process, thread, name, "call", began, ended)
        elif kind == "wait":
            yield _slice(process, more[0], "wait for the host", "wait", began, ended)
        else:
            number, size = more
            common = {"pid": process, "tid": 0, "cat": "group", "id": f"{process}.{number}", "name": f"group {number}"}
            yield {"ph": "b", "ts": began / 1000, "args": {"bytes": size}, **common}
            yield {"ph": "e", "ts": ended / 1000, **common}


def _of_host(session: dict[str, Any], thread: int) -> Iterator[Event]:
    process = session["process"]
    yield _named(process, None, "host")
    yield _named(process, thread, f"session {session['session']}")
    kernels, operations = session["kernels"], session["operations"]
    for kind, number, began, ended in session["spans"]:
        arguments: dict[str, Any] = {}
        if kind == "group":
            name, arguments = f"replay group {number}", {"group": number}
        elif kind == "launch":
            name = kernels.get(str(number), f"function {number}")
        elif kind == "operation":
            name = operations.get(str(number), f"operation {number}")
        else:
            name, arguments = f"loop ({kind.upper()}), {number} iterations", {"iterations": number}
        yield _slice(process, thread, name, kind, began, ended, arguments)
    for name, began, ended in session["compilations"]:
        yield _slice(process, thread, f"compile {name}", "compilation", began, ended)


def _slice(
    process: int, thread: int, name: str, category: str, began: int, ended: int, arguments: dict[str, Any] | None = None
) -> Event:
    event = {"ph": "X", "pid": process, "tid": thread, "name": name, "cat": category}
    event |= {"ts": began / 1000, "dur": max(0, ended - began) / 1000}
    return event | ({"args": arguments} if arguments else {})


def _named(process: int, thread: int | None, name: str) -> Event:
    """The name of a process, or of a thread."""
    what = "process_name" if thread is None else "thread_name"
    return {"ph": "M", "pid": process, "tid": thread or 0, "ts": 0, "name": what, "args": {"name": name}}
