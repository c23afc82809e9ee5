"""Running a program on a host of its own, whose simulated device has the model on.

Owns the host process (`farlane serve`), its socket's folder and the settings file; the program is started by `farlane run`, as a command of its own because the
frontend is another world (it meets the backend on the wire only). The host is waited for without a limit: it models what is left when the program has ended.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from farlane.backend.device.sim.options import Settings
from farlane.childhost import ChildHost, NotReadyError
from farlane.terminal.progress import Progress


class RunError(Exception):
    """Why there is no report; the message is for the user."""


@dataclass(frozen=True)
class Outcome:
    """The program's exit status, and the report of each of its sessions. `folder`-relative files of session n are named as modelling.numbered says."""

    status: int
    reports: list[dict[str, Any]]


def run(
    command: Sequence[str],
    wanted: Settings,
    options: Sequence[str] = (),
    serving: Sequence[str] = (),
    environment: dict[str, str] | None = None,
) -> Outcome:
    """Runs a program to its end.

    Args:
        command: the program and its arguments.
        wanted: the model; `report` is where the host writes.
        options: further options of `farlane run`.
        serving: further options of `farlane serve`.
        environment: variables besides.

    Raises:
        RunError: the host does not start, or wrote no report.
    """
    with tempfile.TemporaryDirectory(prefix="farlane-sim-") as name:
        folder = Path(name)
        settings = folder / "settings.json"
        settings.write_text(json.dumps(asdict(wanted)), encoding="utf-8")
        url = f"unix://{folder}/host.sock"
        variables = {**os.environ, **(environment or {})}
        child = ChildHost("sim", url, ["--model", str(settings), *serving], variables)
        host = child.process
        try:
            try:
                child.wait_ready()
            except NotReadyError as error:
                raise RunError(f"the host {error}; its message is above") from None
            launcher = [sys.executable, "-m", "farlane.frontend.cli", "run", "--host", url, "--no-manifest"]
            launcher += [*options, "--", *command]
            status = _wait(launcher, variables)
        finally:
            host.send_signal(signal.SIGTERM)
            with Progress("modelling the memory system"):
                ended = host.wait()
    if ended:
        raise RunError(f"the host ended with status {ended}; its message is above")
    return Outcome(status, collect(Path(wanted.report)))


def collect(report: Path) -> list[dict[str, Any]]:
    """The reports of all sessions, in the order in which they began. Raises RunError when there is none."""
    found = []
    pattern = re.compile(re.escape(report.stem) + r"(?:\.(\d+))?" + re.escape(report.suffix))
    files = {int(match[1] or 1): path for path in report.parent.iterdir() if (match := pattern.fullmatch(path.name))}
    for number in sorted(files):
        found.append(json.loads(files[number].read_text(encoding="utf-8")))
    if not found:
        raise RunError("the program opened no session: it made no CUDA call, or could not reach the host")
    return found


def _wait(command: list[str], environment: dict[str, str]) -> int:
    """The status as a shell has it. The terminal's Ctrl-C reaches the program too, and the report is still made."""
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = subprocess.Popen(command, env=environment, preexec_fn=lambda: signal.signal(signal.SIGINT, previous))
        status = child.wait()
    finally:
        signal.signal(signal.SIGINT, previous)
    return status if status >= 0 else 128 - status
