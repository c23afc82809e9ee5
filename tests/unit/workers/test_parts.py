"""Messages, the environment that shares a GPU, and what is printed to standard output."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from farlane.backend.device import reports
from farlane.backend.workers.control import Control, Gone, Kind, pair
from farlane.backend.workers.sharing import NoService, Sharing, environment


@pytest.fixture
def ends() -> Iterator[tuple[Control, socket.socket]]:
    ours, theirs = pair()
    yield Control(ours), theirs
    ours.close()
    theirs.close()


def test_many_bytes_and_a_descriptor(ends: tuple[Control, socket.socket]) -> None:
    control, other = ends
    data = bytes(range(256)) * 20_000
    control.send(Kind.IMAGE, bulk=data, digest="ab")
    control.send(Kind.IMAGE, bulk=b"", digest="")
    reader, writer = os.pipe()
    control.send(Kind.CONNECTION, descriptor=writer, way="tcp")
    os.close(writer)
    there = Control(other)
    with there.receive() as message:
        assert (message.kind, message.fields, message.bulk()) == (Kind.IMAGE, {"digest": "ab"}, data)
    with there.receive() as message:
        assert message.bulk() == b""
    with there.receive() as message:
        assert message.fields == {"way": "tcp"}
        with os.fdopen(message.take_descriptor(), "wb") as file:
            file.write(b"through")
    assert os.read(reader, 16) == b"through"
    os.close(reader)
    control.send(Kind.CLOSE)
    with there.receive() as message, pytest.raises(Gone):
        message.bulk()


@pytest.mark.parametrize(
    "sent",
    [b"", b"\1\0", b"[]", b"{}", b'{"kind": 99}', b'{"kind": "READY"}', b'{"kind": [1]}', b"7", b"[" * 60_000],
    ids=lambda sent: repr(sent[:20]),
)
def test_what_is_no_message_is_the_end(ends: tuple[Control, socket.socket], sent: bytes) -> None:
    control, other = ends
    if sent:
        other.send(sent)
    other.shutdown(socket.SHUT_WR)
    with pytest.raises(Gone):
        control.receive()


def test_bytes_beside_a_message_are_bounded(ends: tuple[Control, socket.socket]) -> None:
    control, other = ends
    control.send(Kind.REPORT, bulk=bytes(10))
    with Control(other).receive() as message:
        assert message.bulk(10) == bytes(10)
        with pytest.raises(Gone):
            message.bulk(9)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\xff", b"[]", b"1", b'{"gpu": 1}', b'{"gpu": {"a": "x"}}', b'{"gpu": {"a": 1.5}}', b'{"gpu": {"a": true}}',
        b'{"gpu": {"a": -1}}', b'{"gpu": {"a": 18446744073709551616}}', b'{"gpu": {"a": {}}}', b'{"gpu": {}}' + b" " * (64 << 10),
        b'{"gpu": ' * 5000,
    ],
    ids=lambda content: repr(content[:40]),
)  # fmt: skip
def test_reports_that_are_none(content: bytes) -> None:
    """A guest may have taken its worker over."""
    with pytest.raises(ValueError, match=r"report|Expecting|decode"):
        reports.read(content)


def test_a_report_is_sent_and_written_by_who_reads_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    counted = {"switching": {"turns": 3, "granules": (1 << 64) - 1}}
    with monkeypatch.context() as process:
        sent: list[bytes] = []
        process.setattr(reports, "_send", sent.append)
        reports.write(counted, str(tmp_path))
        assert not list(tmp_path.iterdir())
        reports.write(counted, "")
    [content] = sent
    assert reports.read(content) == counted
    reports.write(reports.read(content), str(tmp_path))
    [file] = tmp_path.iterdir()
    assert json.loads(file.read_text()) == counted


def test_a_message_that_is_dropped_closes_its_descriptor(ends: tuple[Control, socket.socket]) -> None:
    control, other = ends
    reader, writer = os.pipe()
    socket.send_fds(other, [b"no message"], [writer])
    with pytest.raises(Gone):
        control.receive()
    socket.send_fds(other, [b'{"kind": 5}'], [writer])
    os.close(writer)
    with control.receive():
        pass
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_a_worker_sees_its_gpu_alone(tmp_path: Path) -> None:
    plain = environment(Sharing.TIME, 1, {"PATH": "/bin"})
    assert plain["CUDA_VISIBLE_DEVICES"] == "1"
    assert not Path(plain["CUDA_MPS_PIPE_DIRECTORY"]).exists()  # a client without its pipe is not one of MPS
    assert environment(Sharing.TIME, 1, {"CUDA_VISIBLE_DEVICES": "3, GPU-5f"})["CUDA_VISIBLE_DEVICES"] == "GPU-5f"
    assert environment(Sharing.TIME, None, {"A": "b"}) == {"A": "b"}
    base = {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}
    with pytest.raises(NoService, match="nvidia-cuda-mps-control -d"):
        environment(Sharing.MPS, 0, base)
    (tmp_path / "control").touch()
    assert environment(Sharing.MPS, 0, base)["CUDA_MPS_PIPE_DIRECTORY"] == str(tmp_path)


def test_what_c_prints_is_taken() -> None:
    """As kernels' printf does: through the C library's buffer, from this process."""
    code = (
        "import ctypes, os; from farlane.backend.workers.output import StandardOutput\n"
        "libc, output = ctypes.CDLL(None), StandardOutput()\n"
        "seen = [output.take()]\n"
        "for text in (b'one\\n', b'two %d\\n'):\n"
        "    libc.printf(text, 5); seen.append(output.take())\n"
        "seen.append(output.take()); os.write(2, repr(seen).encode())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (done.stdout, done.stderr) == (b"", b"[b'', b'one\\n', b'two 5\\n', b'']")


def test_what_c_complains_of_is_taken_and_what_python_says_is_not() -> None:
    """As failed assertions of kernels do. What nobody has taken is said at the end, where it would have been said."""
    code = (
        "import ctypes, os, sys; from farlane.backend.workers.output import StandardError\n"
        "before, error, libc = sys.stderr, StandardError(), ctypes.CDLL(None)\n"
        "os.write(2, b'assertion\\n'); print('a log', file=sys.stderr)\n"
        "print([error.take(), error.take()])\n"
        "os.write(2, b'left\\n'); error.close()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (done.stdout, done.stderr) == (b"[b'assertion\\n', b'']\n", b"a log\nleft\n")
