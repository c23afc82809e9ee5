"""Frames, the environment that shares a GPU, and what is printed to standard output."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from farlane.backend.workers.sharing import NoService, Sharing, environment
from farlane.backend.workers.wire import Gone, Kind, Wire, tape


@pytest.fixture
def ends() -> Iterator[tuple[Wire, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield Wire(ours), theirs
    ours.close()
    theirs.close()


def test_frames_larger_than_the_socket_holds(ends: tuple[Wire, socket.socket]) -> None:
    wire, other = ends
    data = bytes(range(256)) * 20_000
    thread = threading.Thread(target=wire.send_tape, args=(7, True, memoryview(data)[3:]))
    thread.start()
    kind, frame = Wire(other).receive()
    thread.join()
    group, last, start = tape(frame)
    assert (kind, group, last, frame[start:]) == (Kind.TAPE, 7, True, data[3:])
    assert wire.waits()
    Wire(other).send(Kind.DONE)
    assert not wire.waits()
    assert wire.receive() == (Kind.DONE, b"")


@pytest.mark.parametrize(
    "sent", [b"", b"\1\0", struct.pack("<IB3x", 5, Kind.REPLY) + b"four", struct.pack("<IB3x", 2**31, 20),
             struct.pack("<IB3x", 0, 99)]
)  # fmt: skip
def test_what_is_no_frame_is_the_end(ends: tuple[Wire, socket.socket], sent: bytes) -> None:
    wire, other = ends
    other.sendall(sent)
    other.shutdown(socket.SHUT_WR)
    with pytest.raises(Gone):
        wire.receive()


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
