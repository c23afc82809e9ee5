"""Who started this host: an embedded one ends with that process, and a service manager learns that the host listens.

On Linux the kernel does it (PR_SET_PDEATHSIG): SIGTERM as soon as the parent is gone, however it went. Elsewhere, and for the moment
before the call, the parent's process id is compared.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.5


def end_with_parent(parent: int) -> None:
    """From now on this process gets SIGTERM when that one, its parent, has ended; at once when it has ended already.

    The parent may be process 1, as the program that a container begins with is: so its number is asked for.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) == 0:
            if os.getppid() != parent:
                os.kill(os.getpid(), signal.SIGTERM)
            return
    threading.Thread(target=_watch, args=(parent,), name="farlane-parent", daemon=True).start()


def tell_ready() -> None:
    """Says that the host listens to a service manager that waits for it (`Type=notify`; sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, contextlib.suppress(OSError):
        manager.sendto(b"READY=1", address.replace("@", "\0", 1) if address[0] == "@" else address)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
