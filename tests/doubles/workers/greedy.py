"""A worker that takes all the memory it can get, from the moment that it receives SIGUSR1.

PYTHON_GREEDY says how: `memory` of its own, or a `file` in memory that it does not map.
"""

from __future__ import annotations

import os
import signal
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


def begin() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    threading.Thread(target=wait_and_take, daemon=True).start()
