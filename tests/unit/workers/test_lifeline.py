"""A worker ends when its host does, also while it hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

# Locked for ever, as a process may be that got no memory while it imported a module or started a thread.
HANGS = """
import sys, threading
from farlane.backend.workers import lifeline
lifeline.end_with_host(lifeline.of(sys.argv))
print("there", flush=True)
lock = threading.Lock()
lock.acquire()
lock.acquire()
"""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def hanging(end: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HANGS, "--device", "sim", "--lifeline", str(end)]
    return subprocess.Popen(command, pass_fds=[end], stdout=subprocess.PIPE, text=True)


def test_a_process_that_hangs_ends_with_its_host(pipe: tuple[int, int]) -> None:
    end, host = pipe
    with hanging(end) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "there\n"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.2)
            os.dup2(end, host)  # closes the host's end
            assert process.wait(10) == -signal.SIGIO
        finally:
            process.kill()


def test_one_whose_host_has_gone_already_ends_at_once(pipe: tuple[int, int]) -> None:
    end, host = pipe
    os.dup2(end, host)
    with hanging(end) as process:
        try:
            assert process.wait(20) == 1
        finally:
            process.kill()
