"""Endpoints: their syntax, and what is said when one cannot be used."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from pathlib import Path

import pytest
from farlane.backend.server.endpoint import FORMS, EndpointError, TcpEndpoint, UnixEndpoint, VsockEndpoint, parse
from farlane.hosturl import ANY_CID


def test_what_is_parsed_can_be_listened_on() -> None:
    assert parse("grpc://localhost:0") == TcpEndpoint("localhost", 0)
    assert parse("unix:///run/farlane.sock") == UnixEndpoint("/run/farlane.sock")
    assert str(parse("grpc://[::1]:7070")) == "grpc://[::1]:7070"
    assert parse("vsock+tls://2:7070") == VsockEndpoint(2, 7070, tls=True)
    with pytest.raises(EndpointError, match=f"'7070' is no host URL: use {re.escape(FORMS)}"):
        parse("7070")


class TestTcp:
    def test_in_use(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with pytest.raises(EndpointError, match="in use"):
                TcpEndpoint("127.0.0.1", taken.getsockname()[1]).listen()

    def test_free(self) -> None:
        bound, listener = TcpEndpoint("127.0.0.1", 0).listen()
        with listener:
            assert listener.getsockname() == ("127.0.0.1", bound.port)

    def test_not_ours(self) -> None:
        with pytest.raises(EndpointError, match="no such address"):
            TcpEndpoint("192.0.2.1", 0).listen()

    def test_unknown_host(self) -> None:
        with pytest.raises(EndpointError, match="unknown host"):
            TcpEndpoint("no-such-host.invalid", 1).listen()


class TestVsock:
    def test_free(self) -> None:
        try:
            socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
        except OSError as error:
            pytest.skip(f"this machine has no vsock: {error}")
        bound, listener = VsockEndpoint(ANY_CID, 0).listen()
        with listener:
            assert listener.getsockname() == (ANY_CID, bound.port)
            with pytest.raises(EndpointError, match="in use"):
                bound.listen()

    def test_no_vsock_here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def none(*_: object) -> socket.socket:
            raise OSError(errno.EAFNOSUPPORT, "")

        monkeypatch.setattr(socket, "socket", none)
        with pytest.raises(EndpointError, match=r"this machine has no vsock .*modprobe vhost_vsock"):
            VsockEndpoint(2, 7070).listen()


class TestUnix:
    def test_free(self, tmp_path: Path) -> None:
        bound, listener = UnixEndpoint(f"{tmp_path}/s").listen()
        with listener:
            assert bound == UnixEndpoint(f"{tmp_path}/s")
            assert listener.getsockname() == bound.path

    def test_left_behind_by_a_dead_host(self, tmp_path: Path) -> None:
        path = f"{tmp_path}/s"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(path)
        _, listener = UnixEndpoint(path).listen()
        with listener, socket.socket(socket.AF_UNIX) as guest:
            guest.connect(path)

    def test_in_use(self, tmp_path: Path) -> None:
        path = f"{tmp_path}/s"
        with socket.socket(socket.AF_UNIX) as taken:
            taken.bind(path)
            taken.listen()
            with pytest.raises(EndpointError, match="another process"):
                UnixEndpoint(path).listen()
            assert os.path.exists(path)

    def test_a_file_is_not_removed(self, tmp_path: Path) -> None:
        path = tmp_path / "s"
        path.write_text("precious")
        with pytest.raises(EndpointError, match="no socket"):
            UnixEndpoint(str(path)).listen()
        assert path.read_text() == "precious"

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(EndpointError, match="does not exist"):
            UnixEndpoint(f"{tmp_path}/none/s").listen()

    def test_too_long(self, tmp_path: Path) -> None:
        with pytest.raises(EndpointError, match="longer than 107"):
            UnixEndpoint(f"{tmp_path}/{'s' * 108}").listen()

    def test_only_for_this_user(self, tmp_path: Path) -> None:
        path = f"{tmp_path}/s"
        _, listener = UnixEndpoint(path).listen()
        with listener:
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            UnixEndpoint(path).remove()
        assert not os.path.exists(path)
        UnixEndpoint(path).remove()
