"""How a worker ends with its host: the host holds one end of a pipe open, and the kernel ends the worker when that end is closed.

No thread watches the pipe: a process that starts while memory is short may get none, and hang. Nothing may be imported here
that starts threads (start.py).

Source: fcntl(2), F_SETOWN and O_ASYNC; the action of SIGIO by default is the process's end (signal(7)).
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
from collections.abc import Sequence

OPTION = "--lifeline"


def of(arguments: Sequence[str]) -> int:
    """The pipe's descriptor among a worker's arguments."""
    return int(arguments[arguments.index(OPTION) + 1])


def end_with_host(pipe: int) -> None:
    """From now on this process ends when the pipe's other end is closed, whatever it does. At once, if it is closed."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    if poll.poll(0):
        os._exit(1)
