"""A worker that takes all the memory it can get, from the moment that it receives SIGUSR1.

Python runs this module at its start where it is on PYTHONPATH. PYTHON_GREEDY says how: `memory` of its own, or a `file` in memory that
it does not map.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

STEP = 8 << 20
MOST = 4 << 30


def take() -> None:
    taken: list[bytearray] = []
    file = os.memfd_create("greedy")
    data = bytearray(b"x" * STEP)
    for _ in range(MOST // STEP):
        if os.environ["PYTHON_GREEDY"] == "file":
            os.write(file, data)
        else:
            taken.append(bytearray(data))
        time.sleep(0.005)


def wait_and_take() -> None:
    signal.sigwait([signal.SIGUSR1])
    take()


def watch(event: str, arguments: tuple[object, ...]) -> None:
    """The worker's own code is about to be imported: files are restricted already, which needs a process of one thread."""
    if event == "import" and arguments[0] == "farlane.backend.workers.process" and not begun:
        begun.append(True)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        threading.Thread(target=wait_and_take, daemon=True).start()


begun: list[bool] = []
if "farlane.backend.workers.start" in sys.orig_argv:
    sys.addaudithook(watch)
