"""`farlane run --timeline FILE`: one timeline of a run, in the format that Perfetto and Chrome's tracing open.

Owns that format, and how a host's clock is brought to ours. Each guest process leaves its spans (calls, waits, groups on
the wire; frontend/shim/crates/client/src/report/spans.rs), and beside them what its host has told of its session
(report/remote.rs), with comparisons of the two clocks. A host's lines are another machine's: what is wrong in them is
left out.

Times are nanoseconds of CLOCK_MONOTONIC. A comparison is a question and its answer, with the host's clock read in
between, so it is off by half of the time that they took at most. Between a comparison at the session's beginning and one
at its end the clocks are taken to run apart evenly. Clocks that agree as far as the comparisons can tell are one clock.

Source: "Trace Event Format" (Chrome): complete events (X), asynchronous ones (b, e), flows (s, f), metadata (M);
protos/tape.md, "Timelines".
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from farlane.frontend.errors import UserError

Event = dict[str, Any]
GUEST, HOST = "guest-", ".host"  # how a guest's file begins, and what stands behind its name in its host's
_HOSTS = 1 << 22  # the processes of sessions are numbered from here on: no process of Linux has such a number
_ONE_THREAD = 1


class Comparison(NamedTuple):
    """Of two clocks, at a moment of the host's."""

    host: float
    ahead: float  # of ours
    error: float  # of that, at most

    @classmethod
    def of(cls, before: int, host: int, after: int) -> Comparison:
        return cls(host, host - (before + after) / 2, (after - before) / 2)


class Clock:
    """Brings a host's times to ours."""

    def __init__(self, comparisons: Sequence[Comparison]) -> None:
        """The comparisons are those of the beginning and, as many, those of the end; some may be missing. Raises ValueError: all are."""
        half = (len(comparisons) + 1) // 2
        best = [min(some, key=lambda each: each.error) for some in (comparisons[:half], comparisons[half:]) if some]
        self._first, self._last = best[0], best[-1]
        self.error = max(each.error for each in best)
        self.is_ours = all(abs(each.ahead) <= each.error for each in best)

    def ours(self, host: float) -> float:
        if self.is_ours:
            return host
        first, last = self._first, self._last
        passed = last.host - first.host
        part = (host - first.host) / passed if passed > 0 else 0.0
        return host - first.ahead - (last.ahead - first.ahead) * part


@dataclass
class Session:
    """What a host has told of a session."""

    clock: Clock
    name: str = "?"
    process: int = 0
    names: dict[str, dict[str, str]] = field(default_factory=dict)
    slices: list[tuple[str, str, int, int]] = field(default_factory=list)  # kind, what, began, ended
    dropped: int = 0


def write(folder: Path, target: Path) -> str:
    """Makes the timeline of what the guests have left in the folder; gives a line for the user. Raises UserError."""
    files = [file for file in sorted(folder.glob(f"{GUEST}*")) if file.suffix != HOST]
    guests = [*filter(None, map(_guest, files))]
    sessions = [*filter(None, (_session(file.with_name(file.name + HOST)) for file in files))]
    events = [event for guest in guests for event in _of_guest(*guest)]
    events += [event for number, session in enumerate(sessions) for event in _of_host(session, _HOSTS + number)]
    dropped = sum(int(header["dropped"]) for header, _ in guests) + sum(each.dropped for each in sessions)
    about = {
        "clock": "CLOCK_MONOTONIC",
        "dropped_spans": dropped,
        "host": f"{len(sessions)} sessions" if sessions else "not there: the timeline has the guest's side alone",
        "host_clocks": [_about(session) for session in sessions],
    }
    content = {"displayTimeUnit": "ns", "otherData": about, "traceEvents": events}
    try:
        target.write_text(json.dumps(content))
    except OSError as error:
        raise UserError(f"cannot write the timeline to {target}: {error.strerror}") from error
    sides = (
        "" if sessions else " (the guest's side alone: the host keeps none, or the program has ended before it told)"
    )
    errors = [session.clock.error for session in sessions if not session.clock.is_ours]
    clocks = f", the host's times are accurate to {max(errors) / 1000:.0f} us" if errors else ""
    left = f", {dropped} spans were left out" if dropped else ""
    return f"the timeline {target} has {len(events)} events{sides}{clocks}{left}: open it with https://ui.perfetto.dev"


def _about(session: Session) -> str:
    if session.clock.is_ours:
        return f"session {session.name}: this machine's"
    return f"session {session.name}: another one, accurate to {session.clock.error / 1000:.1f} us"


def _guest(file: Path) -> tuple[dict[str, Any], list[Any]] | None:
    """A guest process's spans. None: its file is damaged, for the process was killed."""
    try:
        header, *lines = file.read_text().splitlines()
        return json.loads(header), [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return None


def _session(file: Path) -> Session | None:
    """None: there is none, or the file is damaged."""
    try:
        header, *lines = file.read_text(errors="replace").splitlines()
        session = Session(Clock([Comparison.of(*each) for each in json.loads(header)["clocks"]]))
    except (OSError, ValueError, IndexError):
        return None
    for line in lines:
        with contextlib.suppress(ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            _take(session, *json.loads(line))
    return session


def _take(session: Session, kind: str, *more: Any) -> None:
    """A line of the host's. Raises what is suppressed above: it is none."""
    match kind, more:
        case "session", (name, process):
            session.name, session.process = str(name), int(process)
        case "names", (of, names):
            session.names.setdefault(str(of), {}).update({str(number): str(name) for number, name in names.items()})
        case "dropped", (number,):
            session.dropped = int(number)
        case (("queue" | "open"), (began, ended)):
            session.slices.append((kind, "", _moment(began), _moment(ended)))
        case "compilation", (name, began, ended):
            session.slices.append((kind, str(name), _moment(began), _moment(ended)))
        case (("group" | "launch" | "operation" | "repeat" | "while"), (number, began, ended)):
            session.slices.append((kind, str(int(number)), _moment(began), _moment(ended)))


def _moment(of: Any) -> int:
    """Raises ValueError, TypeError, OverflowError: no clock says so."""
    moment = int(of)
    if not 0 <= moment < 1 << 63:
        raise ValueError(moment)
    return moment


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


def _of_host(session: Session, process: int) -> Iterator[Event]:
    ours = session.clock.ours
    yield _named(process, None, "host")
    yield _named(process, _ONE_THREAD, f"session {session.name} (process {session.process})")
    for kind, what, began, ended in session.slices:
        name, arguments = _what(session, kind, what)
        yield _slice(process, _ONE_THREAD, name, kind, ours(began), ours(ended), arguments)


def _what(session: Session, kind: str, what: str) -> tuple[str, dict[str, Any]]:
    """The name of a slice, and more of it."""
    match kind:
        case "group":
            return f"replay group {what}", {"group": int(what)}
        case "repeat" | "while":
            return f"loop ({kind.upper()}), {what} iterations", {"iterations": int(what)}
        case "compilation":
            return f"compile {what}", {}
        case "queue":
            return "wait for a session", {}
        case "open":
            return "open the session", {}
    return session.names.get(kind, {}).get(what, f"{'function' if kind == 'launch' else kind} {what}"), {}


def _slice(
    process: int,
    thread: int,
    name: str,
    category: str,
    began: float,
    ended: float,
    arguments: dict[str, Any] | None = None,
) -> Event:
    event = {"ph": "X", "pid": process, "tid": thread, "name": name, "cat": category}
    event |= {"ts": began / 1000, "dur": max(0, ended - began) / 1000}
    return event | ({"args": arguments} if arguments else {})


def _named(process: int, thread: int | None, name: str) -> Event:
    """The name of a process, or of a thread."""
    what = "process_name" if thread is None else "thread_name"
    return {"ph": "M", "pid": process, "tid": thread or 0, "ts": 0, "name": what, "args": {"name": name}}
