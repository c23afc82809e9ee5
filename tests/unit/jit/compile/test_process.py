"""The process that compiles: how its connection ends."""

from __future__ import annotations

import socket
import subprocess
import sys

from farlane.backend.jit.compile import process


def test_a_side_that_ends_with_something_unread_has_ended() -> None:
    """The system says so by an error, not by an end."""
    ours, theirs = socket.socketpair()
    with ours, ours.makefile("rb") as stream:
        ours.send(b"what is never read")
        theirs.close()
        assert process.receive(stream) is None


def test_it_ends_quietly_with_whom_it_works_for() -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "farlane.backend.jit.compile.compiler_main"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE) as compiler:
        theirs.close()
        with ours.makefile("wb") as stream:
            process.send(stream, b"{}", b"")  # the answer, that it is no request, is never read
            process.send(stream, b"{}", b"")
        assert ours.recv(1)
        ours.close()
        assert compiler.communicate(timeout=60)[1] == b""
        assert compiler.returncode == 0
