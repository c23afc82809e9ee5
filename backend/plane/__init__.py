"""The host's data plane, which is native: sockets, HTTP/2 and the threads of calls (Rust, `src/`).

Owns what lies between a guest's bytes and the session that takes them. Here is only its loading; `Server` and `Call` are what
server/edge.py and server/service.py work with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from farlane.backend.plane.farlane_plane import Call, CallGone, MessageRefused, Server, Tape, read_tape
except ImportError as error:
    raise ImportError(
        f"the host's data plane cannot be loaded ({error}): install Farlane from its source with Rust's cargo there, or "
        "run `python backend/plane/build.py`"
    ) from error

if TYPE_CHECKING:
    from farlane.backend.plane.farlane_plane import Kind

__all__ = ["Call", "CallGone", "Kind", "MessageRefused", "Server", "Tape", "read_tape"]
