"""Bars: at a terminal only, from a time on, on standard error, and gone when the work ends; kernels that compile slowly are said in lines."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading

import pytest
from farlane.backend.commands import serve
from farlane.backend.device.sim.launching import compiling

WORK = """
import sys, time
from farlane.terminal.progress import Progress
with Progress("working on [it]", 4, seconds=float(sys.argv[1])) as progress:
    for number in range(4):
        progress.begin(f"part {number} of [it]")
        while sys.argv[2:] and progress._bar is None:
            time.sleep(0.01)
        progress.advance()
        with progress.hidden():
            print(f"result {number}", flush=True)
"""
RESULTS = "".join(f"result {number}\n" for number in range(4))


def at_a_terminal(*arguments: str, **environment: str) -> tuple[str, str]:
    """What the work prints on standard output, which is a pipe, and on standard error, which is a terminal.

    Args:
        arguments: from when on a bar is shown, and "wait" for work that goes on until it is.
    """
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(ours, 4096):
                shown.append(data)
        except OSError:  # the other side is closed
            pass

    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    process = subprocess.Popen(
        [sys.executable, "-c", WORK, *arguments],
        env=plain | {"TERM": "xterm-256color"} | environment,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    reader = threading.Thread(target=read)
    reader.start()
    out, _ = process.communicate(timeout=60)
    reader.join(10)
    os.close(ours)
    assert process.returncode == 0
    return out, b"".join(shown).decode()


def test_a_bar_at_a_terminal() -> None:
    out, shown = at_a_terminal("0.05", "wait")
    assert out == RESULTS
    assert "part 1 of [it]" in shown
    assert re.search(r"\x1b\[[0-9;]*m", shown)
    assert shown.endswith("\x1b[2K")  # taken back
    assert "result" not in shown


def test_no_colours_when_the_user_wants_none() -> None:
    _, shown = at_a_terminal("0.05", "wait", NO_COLOR="1")
    assert "part 1 of [it]" in shown
    assert not re.search(r"\x1b\[(3|4|9)[0-9;]*m", shown)


@pytest.mark.parametrize(("seconds", "terminal"), [("60", "xterm-256color"), ("0", "dumb")])
def test_nothing_for_short_work_and_simple_terminals(seconds: str, terminal: str) -> None:
    assert at_a_terminal(seconds, TERM=terminal) == (RESULTS, "")


def test_nothing_without_a_terminal() -> None:
    done = subprocess.run([sys.executable, "-c", WORK, "0"], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (RESULTS, "")


def test_the_log_of_slow_compilations_is_the_one_that_is_shown() -> None:
    assert compiling._log.name == serve.COMPILING
