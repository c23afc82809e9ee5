"""`farlane doctor --host`: hosts that cannot be reached, certificates that are wrong, tokens that are refused."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farlane.backend.security import certificates
from farlane.backend.security.folder import Folder
from farlane.frontend.devtools.tls_host import TlsHost
from farlane.frontend.doctor import access
from farlane.frontend.doctor.finding import FAILED, NOTE, OK, Finding
from farlane.hosturl import HostUrl
from farlane.v1 import admin_pb2

Only = Callable[[Iterator[Finding]], Finding]


@contextlib.contextmanager
def listening(context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A port that takes one connection, with TLS or with a line of text."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                if context is None:
                    connection.recv(1)
                    connection.sendall(b"220 this is no TLS\r\n")
                else:
                    context.wrap_socket(connection, server_side=True).recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            with contextlib.suppress(OSError), socket.create_connection(server.getsockname(), 1):
                pass  # a test that has failed has not connected
            thread.join(10)


@pytest.fixture
def authority(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "host")
    folder.create()
    certificates.create_authority(folder)
    return folder


def context_of(folder: Folder) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder.certificate, folder.key)
    return context


def test_nothing_listens(problem: Only) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    found = problem(access.check_host(f"grpc://127.0.0.1:{port}"))
    assert (found.state, found.check) == (FAILED, "host")
    assert "nothing listens" in found.text


@pytest.mark.parametrize(
    ("url", "check", "text"),
    [
        ("unix:///no/such/socket", "host", "there is no socket"),
        ("grpc://no-such-host.invalid:7070", "host", "cannot be resolved"),
        ("localhost:7070", "host-url", "is no host URL"),
    ],
)
def test_an_address_that_is_wrong(url: str, check: str, text: str, problem: Only) -> None:
    found = problem(access.check_host(url))
    assert (found.state, found.check) == (FAILED, check)
    assert text in found.text


def test_a_host_that_does_not_answer(problem: Only, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(_: HostUrl, __: float) -> socket.socket:
        raise TimeoutError

    monkeypatch.setattr(access, "connected", late)
    found = problem(access.check_host("grpc://192.0.2.1:7070"))
    assert "no answer" in found.text
    assert "firewall" in found.advice


def test_an_expired_certificate(authority: Folder, problem: Only, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates.create_host(authority, ["127.0.0.1"], 0)  # it ended as it began
    monkeypatch.setenv("FARLANE_CA", str(authority.authority))
    with listening(context_of(authority)) as port:
        found = problem(access.check_host(f"farlane+tls://127.0.0.1:{port}"))
    assert (found.state, found.check) == (FAILED, "certificate")
    assert "has expired" in found.text
    assert "farlane host renew" in found.advice


def test_a_certificate_for_another_name(authority: Folder, problem: Only, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates.create_host(authority, ["gpu-host"], 30)
    monkeypatch.setenv("FARLANE_CA", str(authority.authority))
    with listening(context_of(authority)) as port:
        found = problem(access.check_host(f"farlane+tls://127.0.0.1:{port}"))
    assert "is not for the name 127.0.0.1" in found.text


def test_an_authority_that_the_guest_does_not_know(authority: Folder, problem: Only) -> None:
    certificates.create_host(authority, ["127.0.0.1"], 30)
    with listening(context_of(authority)) as port:
        found = problem(access.check_host(f"farlane+tls://127.0.0.1:{port}"))
    assert "authority" in found.text
    assert "--ca" in found.advice


def test_a_port_without_tls(problem: Only) -> None:
    with listening() as port:
        found = problem(access.check_host(f"farlane+tls://127.0.0.1:{port}"))
    assert "does not speak TLS" in found.text


def test_tokens(tmp_path: Path, problem: Only, monkeypatch: pytest.MonkeyPatch) -> None:
    with TlsHost(tmp_path, ["127.0.0.1"]) as host:
        monkeypatch.setenv("FARLANE_CA", str(host.ca))
        monkeypatch.setenv("FARLANE_TOKEN", "wrong")
        found = problem(access.check_host(host.url()))
        assert (found.state, found.check) == (FAILED, "token")
        assert "farlane token" in found.advice
        monkeypatch.delenv("FARLANE_TOKEN")
        monkeypatch.setenv("FARLANE_TOKEN_FILE", str(host.token))
        assert [(finding.state, finding.check) for finding in access.check_host(host.url())] == [(OK, "host")]


def reply(version: str, sessions: int = 0) -> Callable[[HostUrl], admin_pb2.DescribeReply]:
    return lambda _: admin_pb2.DescribeReply(host_version=version, sessions=sessions, session_limit=4)


@pytest.mark.parametrize(
    ("version", "sessions", "check", "text"),
    [("9.9", 0, "version", "this is farlane"), (importlib.metadata.version("farlane"), 4, "host", "it is full")],
)
def test_what_a_host_says(
    version: str, sessions: int, check: str, text: str, problem: Only, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "describe", reply(version, sessions))
    with listening() as port:
        found = problem(access.check_host(f"grpc://127.0.0.1:{port}"))
    assert (found.state, found.check) == (NOTE, check)
    assert text in found.text


def test_a_certificate_that_expires_soon(authority: Folder, problem: Only, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates.create_host(authority, ["127.0.0.1"], 3)
    monkeypatch.setenv("FARLANE_CA", str(authority.authority))
    monkeypatch.setattr(access, "describe", reply(importlib.metadata.version("farlane")))
    with listening(context_of(authority)) as port:
        found = problem(access.check_host(f"farlane+tls://127.0.0.1:{port}"))
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3)
    assert found.state == NOTE
    assert f"{until:%Y-%m-%d}" in found.text


def test_files_that_are_not_there(problem: Only, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARLANE_TOKEN_FILE", "/no/such/token")
    found = problem(access.check_files())
    assert (found.state, found.check) == (FAILED, "access-files")
