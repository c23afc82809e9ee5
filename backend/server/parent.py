"""An embedded host ends with the process that started it.

On Linux the kernel does it (PR_SET_PDEATHSIG): SIGTERM as soon as the parent is gone, however it went. Elsewhere, and for the moment
before the call, the parent's process id is compared.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.5


def end_with_parent() -> None:
    """From now on this process gets SIGTERM when its parent has ended; at once when it has ended already."""
    parent = os.getppid()
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) == 0:
            if os.getppid() != parent or parent == 1:
                os.kill(os.getpid(), signal.SIGTERM)
            return
    threading.Thread(target=_watch, args=(parent,), name="farlane-parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
