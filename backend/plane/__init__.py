"""The host's data plane, which is native: sockets, HTTP/2, the threads of calls, and the replay of sessions (Rust, `src/`).

Owns what lies between a guest's bytes and a device's work. Here is only its loading: `Server`, `Security` and `Call` are what server/edge.py and
server/service.py work with, `Replay`, `Standing` and `Columns` what host/session.py, control.py and loops/ do,
`Handles` what objects/ does, `Paused` and what it stands with what checkpoint/ does, `Direct`, `Ranges`, `AllocationMap`, `Room`, `Pages`, `Gate` and `Entry` what
devices offer the plane to work on by itself, `Stream` and `Event` their streams and events, `Cuda`, `Body` and `Graph` a driver and loops on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from farlane.backend.plane.farlane_plane import (
        CUDA_FUNCTIONS,
        LIVE_LIMIT,
        AllocationMap,
        Body,
        Budget,
        Call,
        CallGone,
        Columns,
        Cuda,
        DeadTransport,
        Direct,
        DriverFault,
        Entry,
        Event,
        Gate,
        Graph,
        Handles,
        MessageRefused,
        Page,
        Pages,
        Paused,
        Payloads,
        Place,
        Process,
        ProtocolError,
        Ranges,
        Replay,
        Room,
        Scheduler,
        Security,
        Server,
        Standing,
        Stream,
        Tape,
        answered,
        ask,
        leave,
        read_tape,
        restore_call,
        restore_replay,
        restrict_calls,
        restrict_files,
        save_call,
        save_replay,
    )
except ImportError as error:
    raise ImportError(
        f"the host's data plane cannot be loaded ({error}): install Farlane from its source with Rust's cargo there, or "
        "run `python backend/plane/build.py`"
    ) from error

if TYPE_CHECKING:
    from farlane.backend.plane.farlane_plane import Kind, PlainTemplate, Refusal

__all__ = [
    "CUDA_FUNCTIONS",
    "LIVE_LIMIT",
    "AllocationMap",
    "Body",
    "Budget",
    "Call",
    "CallGone",
    "Columns",
    "Cuda",
    "DeadTransport",
    "Direct",
    "DriverFault",
    "Entry",
    "Event",
    "Gate",
    "Graph",
    "Handles",
    "Kind",
    "MessageRefused",
    "Page",
    "Pages",
    "Paused",
    "Payloads",
    "Place",
    "PlainTemplate",
    "Process",
    "ProtocolError",
    "Ranges",
    "Refusal",
    "Replay",
    "Room",
    "Scheduler",
    "Security",
    "Server",
    "Standing",
    "Stream",
    "Tape",
    "answered",
    "ask",
    "leave",
    "read_tape",
    "restore_call",
    "restore_replay",
    "restrict_calls",
    "restrict_files",
    "save_call",
    "save_replay",
]
