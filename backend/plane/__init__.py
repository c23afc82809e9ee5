"""The host's data plane, which is native: sockets, HTTP/2, the threads of calls, and the replay of sessions (Rust, `src/`).

Owns what lies between a guest's bytes and a device's work. Here is only its loading: `Server`, `Security` and `Call` are what server/edge.py and
server/service.py work with, `Replay`, `Standing` and `Columns` what host/session.py, control.py and loops/ do, `Direct`, `Ranges`, `Gate` and `Entry` what
devices offer the plane to work on by itself, `Cuda`, `Stream`, `Body` and `Graph` a driver, its streams, and loops on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from farlane.backend.plane.farlane_plane import (
        CUDA_FUNCTIONS,
        Body,
        Call,
        CallGone,
        Columns,
        Cuda,
        DeadTransport,
        Direct,
        DriverFault,
        Entry,
        Gate,
        Graph,
        MessageRefused,
        Moment,
        Payloads,
        ProtocolError,
        Ranges,
        Replay,
        Security,
        Server,
        Standing,
        Stream,
        Tape,
        read_tape,
    )
except ImportError as error:
    raise ImportError(
        f"the host's data plane cannot be loaded ({error}): install Farlane from its source with Rust's cargo there, or "
        "run `python backend/plane/build.py`"
    ) from error

if TYPE_CHECKING:
    from farlane.backend.plane.farlane_plane import Kind, PlainTemplate

__all__ = [
    "CUDA_FUNCTIONS",
    "Body",
    "Call",
    "CallGone",
    "Columns",
    "Cuda",
    "DeadTransport",
    "Direct",
    "DriverFault",
    "Entry",
    "Gate",
    "Graph",
    "Kind",
    "MessageRefused",
    "Moment",
    "Payloads",
    "PlainTemplate",
    "ProtocolError",
    "Ranges",
    "Replay",
    "Security",
    "Server",
    "Standing",
    "Stream",
    "Tape",
    "read_tape",
]
