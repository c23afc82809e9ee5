"""The admin port: who may ask, what is answered, and that it is bounded and only reads."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from farlane.backend.commands import admin as command
from farlane.backend.commands.host import HostCommand
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.host import Host
from farlane.backend.observing import history
from farlane.backend.observing import server as servers
from farlane.backend.observing.server import Admin
from farlane.backend.security import tokens
from farlane.backend.security.folder import Folder, SecurityError
from farlane.backend.security.gate import Gate
from farlane.backend.server.endpoint import TcpEndpoint
from waiting import eventually


@pytest.fixture
def admin(host: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[Admin]:
    monkeypatch.setattr(history, "FRESH_SECONDS", 0.0)
    admin = Admin(host, TcpEndpoint("127.0.0.1", 0))
    admin.start()
    yield admin
    admin.stop()


def ask(admin: Admin, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", admin.endpoint.port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def test_what_there_is(admin: Admin, new_guest: Callable[..., Any]) -> None:
    guest = new_guest()
    guest.submit(encode("ALLOCATE", guest.base, 4096))
    answer, body = ask(admin, "/")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"<script>" in body
    assert b"src=" not in body.replace(b"img src", b"")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    answer, body = ask(admin, "/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    assert b"farlane_sessions_open 1.0" in body
    state = json.loads(ask(admin, "/state.json")[1])
    assert [each["name"] for each in state["sessions"]] == [guest.session.name]
    assert state["sessions"][0]["memory"] == 4096
    assert len(state["history"][-1]) == len(state["columns"])


def test_memory_of_a_session(admin: Admin, new_guest: Callable[..., Any]) -> None:
    guest = new_guest()
    answer, body = ask(admin, f"/memory.json?session={guest.session.name}")
    assert (answer.status, json.loads(body)) == (200, {"allocations": [], "groups": []})
    for name in ("s99", "", "x" * 1000, "%00"):
        assert ask(admin, f"/memory.json?session={name}")[0].status == 404


def test_the_simulated_device_says_what_is_where() -> None:
    from farlane.backend.device.sim import SimDevice
    from farlane.backend.device.sim.options import Oversubscription

    for bound, has_groups in ((None, False), (Oversubscription(memory=4 << 20), True)):
        device = SimDevice(threads=1, oversubscription=bound)
        context = device.open_context(1 << 30)
        base = context.window.base
        context.allocate(base, 4096)
        context.allocate(base + (1 << 20), 100)
        found = context.memory_map()
        assert [part[:2] for part in found.allocations] == [(base, 4096), (base + (1 << 20), 100)]
        if has_groups:
            from farlane.backend.device.base import Rows

            context.write(Rows(base, 4096, 4096, 1), memoryview(bytes(4096)), context.default_stream(1))
            assert context.memory_map().groups
        else:
            assert not found.groups
        context.close()
        device.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_it_only_reads(admin: Admin, method: str) -> None:
    answer, _ = ask(admin, "/metrics", method)
    assert answer.status == 405
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_no_bodies(admin: Admin) -> None:
    assert ask(admin, "/metrics", **{"Content-Length": "5"})[0].status == 400
    assert ask(admin, "/metrics", **{"Transfer-Encoding": "chunked"})[0].status == 400


def test_unknown_paths(admin: Admin) -> None:
    for path in ("/x", "/../etc/passwd", "//etc/passwd", "/%2e%2e/"):
        assert ask(admin, path)[0].status == 404


def test_another_sites_name_does_not_lead_here(admin: Admin) -> None:
    port = admin.endpoint.port
    for name in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", "127.0.0.1:1", ""):
        assert ask(admin, "/state.json", Host=name)[0].status == 403
    for name in (f"localhost:{port}", f"127.0.0.1:{port}", "localhost", f"[::1]:{port}"):
        assert ask(admin, "/state.json", Host=name)[0].status == 200


def test_malformed_requests(admin: Admin) -> None:
    for request, status in (
        (b"nonsense\r\n\r\n", b" 400 "),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b" 414 "),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", b" 431 "),
        (b"GET / HTTP/9.9\r\n\r\n", b" 505 "),
    ):
        with socket.create_connection(("127.0.0.1", admin.endpoint.port), timeout=10) as connection:
            connection.sendall(request)
            assert status in connection.recv(200).split(b"\r\n")[0], request[:40]
    assert ask(admin, "/metrics")[0].status == 200


def test_connections_are_bounded(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    address = ("127.0.0.1", admin.endpoint.port)
    idle = [socket.create_connection(address, timeout=10) for _ in range(servers.CONNECTIONS)]
    try:
        eventually(lambda: len(admin._server._open) == servers.CONNECTIONS)
        with socket.create_connection(address, timeout=10) as one_more:
            assert one_more.recv(1) == b"", "closed at once"
    finally:
        for connection in idle:
            connection.close()
    eventually(lambda: not admin._server._open)
    assert ask(admin, "/metrics")[0].status == 200


def test_slow_requests_end(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "CONNECTION_SECONDS", 0.5)
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", admin.endpoint.port), timeout=10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 8:
                connection.sendall(b"x")
                time.sleep(0.1)
    assert time.monotonic() - began < 5


# Other machines ---------------------------------------------------------------------------------------------------
@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    import argparse

    parser = argparse.ArgumentParser()
    host = HostCommand()
    host.add_arguments(parser)
    assert host.run(parser.parse_args(["init", "--folder", str(tmp_path / "host"), "--name", "localhost"])) == 0
    return Folder(tmp_path / "host")


def secured(host: Host, folder: Folder) -> Admin:
    return Admin(host, TcpEndpoint("127.0.0.1", 0, tls=True), folder, Gate(folder, ["null"]))


def ask_secured(admin: Admin, folder: Folder, authorization: str | None) -> int:
    context = ssl.create_default_context(cafile=str(folder.authority))
    connection = http.client.HTTPSConnection("localhost", admin.endpoint.port, context=context, timeout=10)
    try:
        connection.request("GET", "/metrics", headers={} if authorization is None else {"Authorization": authorization})
        return connection.getresponse().status
    finally:
        connection.close()


def test_other_machines_show_a_token(host: Host, folder: Folder) -> None:
    token = tokens.new_token()
    entry = tokens.Entry("prometheus", tokens.digest_of(token.encode()), "token", time.time())
    tokens.create(folder, entry)
    basic = base64.b64encode(f"anybody:{token}".encode()).decode()
    admin = secured(host, folder)
    admin.start()
    try:
        assert admin.url.startswith("https://")
        assert ask_secured(admin, folder, f"Bearer {token}") == 200
        assert ask_secured(admin, folder, f"Basic {basic}") == 200
        for wrong in (None, "Bearer farlane-wrong", "Basic !", "Basic " + base64.b64encode(b"\xff\xff").decode(), "x"):
            assert ask_secured(admin, folder, wrong) == 401
        with socket.create_connection(("127.0.0.1", admin.endpoint.port), timeout=10) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"farlane_" not in connection.recv(1000), "not without TLS"
    finally:
        admin.stop()


def test_guesses_are_bounded(host: Host, folder: Folder) -> None:
    token = tokens.new_token()
    tokens.create(folder, tokens.Entry("late", tokens.digest_of(token.encode()), "token", time.time()))
    admin = secured(host, folder)
    admin.start()
    try:
        for _ in range(25):
            assert ask_secured(admin, folder, "Bearer farlane-guess") == 401
        assert ask_secured(admin, folder, f"Bearer {token}") == 401, "this address has to wait"
    finally:
        admin.stop()


def test_where_it_may_be(tmp_path: Path, folder: Folder) -> None:
    nothing = Folder(tmp_path / "none")
    assert command.parse_admin("9090") == TcpEndpoint("127.0.0.1", 9090)
    assert command.protected(command.parse_admin("[::1]:1"), nothing, insecure=False).tls is False
    far = command.parse_admin("0.0.0.0:9090")
    assert command.protected(far, folder, insecure=False).tls
    assert not command.protected(far, nothing, insecure=True).tls
    with pytest.raises(SecurityError, match="farlane host init"):
        command.protected(far, nothing, insecure=False)
