"""Keeps an embedded host for a process that has no launcher: a process between the two, `python -m farlane.frontend.keeper`.

The guest starts it (`start`) and holds the other end of its standard input. When that is closed, the guest and the children
it has forked have ended, and what their last calls left to do is done: the keeper ends the host and removes its socket. A
host that was the guest's own child would end with the thread that started it, or before the guest's last words.

The first line of its standard output is the host's URL, or what is wrong (a JSON object).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping

from farlane.frontend.embedded import EmbeddedHost
from farlane.frontend.errors import UserError

_held: list[subprocess.Popen[str]] = []


def start(device: str, quota: int | None, extra: tuple[str, ...], environment: Mapping[str, str]) -> str:
    """Starts a host that lives as long as this process and returns its URL.

    Args:
        device: name of the device it serves.
        quota: device memory in bytes; None for the host's default.
        extra: further arguments of `farlane serve`.
        environment: the host's environment, with nothing of a guest's in it.

    Raises:
        UserError: it did not start.
    """
    command = [sys.executable, "-m", "farlane.frontend.keeper", device, json.dumps([quota, *extra])]
    # A process group of its own: the terminal's Ctrl-C is for the program. The program's folder has the program's modules.
    environment = {**environment, "PYTHONSAFEPATH": "1"}
    keeper = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True, process_group=0
    )
    assert keeper.stdout is not None
    line = keeper.stdout.readline()
    keeper.stdout.close()
    answer = (
        json.loads(line) if line else {"error": "the embedded host did not start", "advice": "Run `farlane doctor`."}
    )
    if "url" not in answer:
        keeper.wait()
        raise UserError(answer["error"], answer["advice"])
    assert keeper.stdin is not None
    # A descriptor that no object owns: the interpreter ends its objects long before the shim ends the session.
    os.dup(keeper.stdin.fileno())
    keeper.stdin.close()
    _held.append(keeper)  # unless it is held, its process is waited for
    return str(answer["url"])


def main() -> int:
    """The keeper's own process."""
    parser = argparse.ArgumentParser(prog="farlane.frontend.keeper")
    parser.add_argument("device")
    parser.add_argument("options", type=json.loads)
    arguments = parser.parse_args()
    quota, *extra = arguments.options
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))  # the host ends with us, and its folder goes
    try:
        with EmbeddedHost(arguments.device, quota, tuple(extra)) as host:
            print(json.dumps({"url": host.url}), flush=True)
            sys.stdin.read()
    except UserError as error:
        print(json.dumps({"error": error.message, "advice": error.advice}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
