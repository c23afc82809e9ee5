"""Where a host listens and whom it serves there: sockets, limits, stopping.

Owns the endpoints; each Unix socket has a second one beside it, where guests come to their shared memory; for those that come by TCP
from this machine there is one with an abstract name. Connections, HTTP/2 and the threads of calls are the data plane's
(farlane.backend.plane), which gives each call to service.py on a thread of the call's own.
"""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from farlane.backend.host.host import Host
from farlane.backend.host.session import MESSAGE_BYTES
from farlane.backend.plane import Security, Server
from farlane.backend.security.folder import Folder, SecurityError
from farlane.backend.security.gate import Gate
from farlane.backend.security.tickets import Tickets
from farlane.backend.server.endpoint import (
    RINGS_NAME,
    Endpoint,
    EndpointError,
    UnixEndpoint,
    VsockEndpoint,
    listen_at_abstract,
)
from farlane.backend.server.service import Service

if TYPE_CHECKING:
    from farlane.backend.plane import Call, Kind

log = logging.getLogger("farlane.server")

CALLS_OF_PROCESS = 8  # its session's, and those of a guest that comes again
SPARE_CALLS = 8  # for descriptions and refusals while every session is taken
SPARE_CONNECTIONS = 64  # without a call: each costs a thread
KEEPALIVE_SECONDS, KEEPALIVE_TIMEOUT_SECONDS = 30.0, 20.0
_FRAMING_BYTES = 64 << 10  # room for a message's other fields


def server_of_process(
    serve: Callable[[Call], None], cancelled: Callable[[Call], None], security: Security | None = None
) -> Server:
    """The server of a session's own process: it listens nowhere, and adopts what the host hands on.

    Args:
        security: of its own, for a guest that comes by TLS.
    """
    return Server(
        (), serve, cancelled, log.warning, calls=CALLS_OF_PROCESS, connections=CALLS_OF_PROCESS, message_bytes=MESSAGE_BYTES + _FRAMING_BYTES,
        keepalive=KEEPALIVE_SECONDS, keepalive_timeout=KEEPALIVE_TIMEOUT_SECONDS, security=security,
    )  # fmt: skip


class Edge:
    """A host's server.

    Args:
        folder: for encrypted endpoints, which there are none of without it.
        grace: for so many seconds a session outlives its connection, where that is TCP or TLS.
        tickets: of the sessions that a gateway sends; others are not let in.
        restored: folders of saved sessions that are there from the beginning on.
    """

    def __init__(
        self,
        host: Host,
        folder: Folder | None = None,
        grace: float = 0.0,
        tickets: Tickets | None = None,
        restored: Sequence[Path] = (),
    ) -> None:
        self._host = host
        self._grace = grace
        self._folder = folder
        self._tickets = tickets
        self._saved = restored
        self._gate: Gate | None = None
        self._service: Service | None = None
        self._server: Server | None = None
        self._bound: list[Endpoint] = []
        self._removed: list[Endpoint] = []  # at the end

    @property
    def gate(self) -> Gate | None:
        """What lets guests in, where an endpoint is encrypted."""
        return self._gate

    @property
    def awaited(self) -> int:
        """Sessions that have left, and whose guests have not learned that yet."""
        return 0 if self._service is None else self._service.registry.awaited

    @property
    def calls(self) -> int:
        """Calls that are open."""
        return 0 if self._server is None else self._server.calls

    def listen(self, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """Binds and starts; gives the endpoints with their real ports.

        Raises:
            EndpointError: one of them cannot be used; nothing is started.
            SecurityError: the folder cannot be used.
            Unsaveable, Refused: a saved session cannot be restored.
        """
        encrypted = any(each.tls for each in endpoints)
        if encrypted and self._folder is None:
            raise EndpointError("an encrypted endpoint needs a folder of `farlane host init`")
        folder = self._folder if encrypted else None
        if folder is not None or self._tickets is not None:
            devices = [each.backend for each in self._host.descriptions]
            self._gate = Gate(folder, devices, used=lambda: self._host.used_by_tokens, tickets=self._tickets)
        security = None if folder is None else _security(folder)
        sockets: list[tuple[socket.socket, Kind]] = []
        try:
            for endpoint in endpoints:
                bound, listener = endpoint.listen()
                self._bound.append(bound)
                self._removed.append(bound)
                sockets.append((listener, _kind(bound)))
                if isinstance(bound, UnixEndpoint) and bound.rings.fits:
                    beside, listener = bound.rings.listen()
                    self._removed.append(beside)
                    sockets.append((listener, "rings"))
            name = f"{RINGS_NAME}{secrets.token_hex(8)}" if any(kind == "tcp" for _, kind in sockets) else ""
            if name:
                sockets.append((listen_at_abstract(name), "rings"))
        except EndpointError:
            for listener, _ in sockets:
                listener.close()
            self._remove()
            raise
        each = 2 if self._grace > 0 else 1  # one more where a session is resumed
        calls = self._host.session_limit * each + self._host.queue_limit + SPARE_CALLS
        service = self._service = Service(self._host, name, self._gate, self._grace)
        try:
            for path in self._saved:
                service.checkpoints.restore_folder(path)
        except BaseException:
            for listener, _ in sockets:
                listener.close()
            self._remove()
            raise
        self._server = Server(
            [(listener.detach(), kind) for listener, kind in sockets],
            service.serve,
            service.cancelled,
            log.warning,
            calls=calls,
            connections=2 * calls + SPARE_CONNECTIONS,
            message_bytes=MESSAGE_BYTES + _FRAMING_BYTES,
            keepalive=KEEPALIVE_SECONDS,
            keepalive_timeout=KEEPALIVE_TIMEOUT_SECONDS,
            hand=service.hand if self._host.has_processes else None,
            security=security,
        )
        return list(self._bound)

    def stop(self, grace: float) -> None:
        """Takes no new calls, gives the open ones `grace` seconds, then cancels them, which interrupts their work, and waits until they are gone."""
        if self._server is None:
            return
        self._server.stop(grace)
        self._server = None
        if self._gate is not None:
            self._gate.close()
        self._remove()

    def _remove(self) -> None:
        for endpoint in self._removed:
            endpoint.remove()
        self._removed.clear()
        self._bound.clear()


def _security(folder: Folder) -> Security:
    """Raises SecurityError: the folder cannot be used."""
    try:
        return Security(*map(str, (folder.certificate, folder.key, folder.authority)))
    except OSError as error:
        raise SecurityError(f"the host's certificate in {folder.path} cannot be used: {error}") from None


def _kind(endpoint: Endpoint) -> Kind:
    match endpoint:
        case UnixEndpoint():
            return "unix"
        case VsockEndpoint():
            return "vsock+tls" if endpoint.tls else "vsock"
        case _:
            return "tls" if endpoint.tls else "tcp"
