"""One program over many inputs, as tasks of Ray: each is a guest of the fleet.

Owns a task, and its attempts: Ray starts it anew where its machine fails, and this module where the program does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError, RayTaskError

MARK = "{}"  # stands for the input
_LAST_LINES = 5  # of a failed program's standard error


class Outcome(NamedTuple):
    """Of one input."""

    number: int  # of the input, from 0
    output: bytes  # of the last attempt
    error: str  # empty: the program has succeeded


def command_for(command: Sequence[str], value: str) -> list[str]:
    """The command for one input, which comes last where nothing stands for it."""
    if any(MARK in part for part in command):
        return [part.replace(MARK, value) for part in command]
    return [*command, value]


def run_all(
    url: str,
    command: Sequence[str],
    inputs: Sequence[str],
    *,
    retries: int,
    cpus: float,
    variables: Mapping[str, str],
) -> Iterator[Outcome]:
    """The outcomes as they come.

    Args:
        url: of the fleet's gateway.
        retries: of each input, after its first attempt.
        cpus: that Ray sets aside for each task: it bounds how many run at once.
        variables: of the environment, by which guests are let in.
    """
    task = ray.remote(_run).options(num_cpus=cpus, max_retries=retries)
    folder = os.getcwd()

    def start(number: int) -> Any:
        return task.remote(url, command_for(command, inputs[number]), folder, dict(variables))

    attempts = dict.fromkeys(range(len(inputs)), 1)
    running = {start(number): number for number in attempts}
    while running:
        done, _ = ray.wait(list(running), num_returns=1)
        for each in done:
            number = running.pop(each)
            try:
                output, error = ray.get(each)
            except RayTaskError:
                raise  # a bug of ours
            except RayError as failed:
                output, error = b"", str(failed).splitlines()[0]
            if error and attempts[number] <= retries:
                attempts[number] += 1
                running[start(number)] = number
            else:
                yield Outcome(number, output, error)


def _status(code: int) -> str:
    """In words. Shells and `farlane run` add 128 to the signal that has ended a program; Python says it with a minus."""
    with contextlib.suppress(ValueError):
        return f"exit status {code} ({signal.Signals(-code if code < 0 else code - 128).name})"
    return f"exit status {code}"


def _run(url: str, command: list[str], folder: str, variables: dict[str, str]) -> tuple[bytes, str]:
    """On some machine of the cluster. Gives the program's standard output, and why it has failed."""
    launcher = [sys.executable, "-m", "farlane.frontend.cli", "run", "--host", url, "--", *command]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")} | variables
    try:
        done = subprocess.run(launcher, env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True)
    except FileNotFoundError as error:
        return b"", f"{error.filename} is not there on {os.uname().nodename}"
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-_LAST_LINES:]
        return done.stdout, _status(done.returncode) + "".join(f"\n    {line}" for line in last)
    return done.stdout, ""
