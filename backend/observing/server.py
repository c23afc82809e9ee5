"""The HTTP server of the admin port: who may ask, how much, and for how long.

Owns the listening socket, the bounds, TLS and the check of who asks. What is answered is routes.py's. On a loopback
address it speaks plain HTTP with every process of this machine; a page of another site that has its own
name lead to loopback is refused by the header Host. On any other address it speaks HTTPS with the host's certificate,
and asks for a token (security/gate.py): in "Authorization: Bearer", or as the password of HTTP's basic
authentication, which browsers ask their users for.

A request is a GET without a body, and its connection ends with its answer. Python's http.server reads at most 64 KiB
of a line and 100 headers.

Locking: one lock around the open connections. A thread for each of them.
Source: RFC 9110 (401, 403, 405), RFC 7617 (basic authentication).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import http.server
import logging
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any

from farlane.backend.host.greeting import Refused
from farlane.backend.host.host import Host
from farlane.backend.host.metrics import Snapshot
from farlane.backend.observing.history import History
from farlane.backend.observing.routes import Answer, Routes, failure
from farlane.backend.security.folder import Folder
from farlane.backend.security.gate import Gate
from farlane.backend.server.endpoint import TcpEndpoint

log = logging.getLogger("farlane.admin")

CONNECTIONS = 32
IDLE_SECONDS = 5.0  # for what comes or goes next
CONNECTION_SECONDS = 20.0  # for all of it
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_HEADERS = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("Connection", "close"),
)


@dataclass(frozen=True)
class _Visitor:
    """What a request shows (`security.gate.Guest`)."""

    peer: str
    authorization: str | None
    certificate: bytes | None = None


class Admin:
    """The admin port of a host.

    Args:
        endpoint: where it listens; encrypted ones need a folder and a gate.
    """

    def __init__(self, host: Host, endpoint: TcpEndpoint, folder: Folder | None = None, gate: Gate | None = None):
        """Raises EndpointError: nothing can be bound there."""
        self._history = History(lambda: Snapshot.of(host))
        self.endpoint, listener = endpoint.listen()
        self._server = _Server(
            listener, self.endpoint, Routes(self._history, host.memory_map), folder if endpoint.tls else None, gate
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.25}, name="farlane-admin", daemon=True
        )

    @property
    def url(self) -> str:
        return f"{'https' if self.endpoint.tls else 'http'}://{self.endpoint.target}/"

    def start(self) -> None:
        self._history.start()
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._history.stop()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(
        self, listener: socket.socket, endpoint: TcpEndpoint, routes: Routes, folder: Folder | None, gate: Gate | None
    ) -> None:
        super().__init__(listener.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.routes, self.gate = routes, gate
        self._endpoint, self._folder = endpoint, folder
        self._lock = threading.Lock()
        self._open: dict[socket.socket, float] = {}

    def may_be_asked_as(self, name: str) -> bool:
        """Whether the header Host names this server. On loopback it must: any site's name may lead here."""
        if not self._endpoint.local:
            return True
        known = {*_LOOPBACK_NAMES, self._endpoint.target.rpartition(":")[0]}
        host, _, port = name.rpartition(":")
        return name in known or (host in known and port == str(self._endpoint.port))

    def verify_request(self, request: Any, client_address: Any) -> bool:
        with self._lock:
            if len(self._open) >= CONNECTIONS:
                return False
            self._open[request] = time.monotonic()
            return True

    def service_actions(self) -> None:
        """Between connections: ends those that take too long."""
        with self._lock:
            late = [each for each, begun in self._open.items() if time.monotonic() - begun > CONNECTION_SECONDS]
        for each in late:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(IDLE_SECONDS)
        if self._folder is None:
            super().finish_request(request, client_address)
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(self._folder.certificate, self._folder.key)  # which may have been renewed
        with context.wrap_socket(request.dup(), server_side=True) as encrypted:
            encrypted.settimeout(IDLE_SECONDS)
            super().finish_request(encrypted, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a request of %s failed", client_address, exc_info=True)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "farlane", ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(self._answer())

    def do_HEAD(self) -> None:
        self._send(self._answer())

    def _answer(self) -> Answer:
        if not self.server.may_be_asked_as(self.headers.get("Host", "")):
            return failure(403, "the header Host names another server than this")
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            return failure(400, "a request here has no body")
        if self.server.gate is not None:
            try:
                self.server.gate.enter(_Visitor(self._peer(), _bearer(self.headers.get("Authorization"))))
            except Refused as refused:
                return failure(401, refused.message, ("WWW-Authenticate", 'Basic realm="farlane", charset="UTF-8"'))
        try:
            return self.server.routes.answer(self.path)
        except Exception:
            log.exception("%s: the host failed", self.path)
            return failure(500, "internal error of the host")

    def _peer(self) -> str:
        host, port = self.client_address[:2]
        return f"tls:[{host}]:{port}" if ":" in host else f"tls:{host}:{port}"

    def _send(self, answer: Answer) -> None:
        self.close_connection = True
        self.request_version = self.protocol_version  # a request of HTTP/0.9 would get no status
        self.send_response(answer.status)
        for name, value in (("Content-Type", answer.content_type), *answer.headers, *_HEADERS):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server refuses by itself: malformed requests, other methods."""
        self.command = getattr(self, "command", None) or "GET"
        self._send(failure(405 if code == 501 else code, "only GET and HEAD" if code == 501 else "no such request"))

    def log_message(self, format: str, *arguments: Any) -> None:
        log.debug("%s: " + format, self.client_address[0], *arguments)


def _bearer(shown: str | None) -> str | None:
    """The header as guests show it: a browser's password is the token."""
    if shown is None or not shown.startswith("Basic "):
        return shown
    try:
        return "Bearer " + base64.b64decode(shown[len("Basic ") :], validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return None
