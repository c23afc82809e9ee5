"""A worker that has been taken over: a thread of its own tries everything that could reach others, and says what succeeded.

The thread waits until the worker has a guest (its system calls are restricted then). Run as a program, the module tries at once: what an
ordinary process may do.
PYTHON_TAKEN_OVER is JSON: files to open, an address to connect to, a file to write. The outcome is a line of JSON on standard error.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

MARK = "taken over: "
PTRACE_SEIZE, SYS_PTRACE, SYS_VM_READ, SYS_PIDFD_OPEN, SYS_UNSHARE, SYS_IO_URING, SYS_KEYCTL = (
    0x4206,
    101,
    310,
    434,
    272,
    425,
    250,
)
NEW_USER, NEW_MOUNTS = 0x10000000, 0x20000


def system_call(number: int, *arguments: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    found = int(libc.syscall(number, *(ctypes.c_long(each) for each in arguments)))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def forked() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def seized() -> None:
    """Of a process of this user that is no child: it is let go at once, by ending the tracing thread."""
    target = int(os.environ["PYTHON_TAKEN_OVER_PID"])
    thread = threading.Thread(
        target=lambda: outcome.append(_try(lambda: system_call(SYS_PTRACE, PTRACE_SEIZE, target, 0, 0)))
    )
    outcome: list[bool] = []
    thread.start()
    thread.join()
    if not outcome[0]:
        raise OSError("not seized")


def read_of_other() -> None:
    target = int(os.environ["PYTHON_TAKEN_OVER_PID"])
    memory = ctypes.create_string_buffer(8)
    with open(f"/proc/{target}/maps") as maps:
        start = int(maps.readline().partition("-")[0], 16)
    with open(f"/proc/{target}/mem", "rb", 0) as other:
        other.seek(start)
        other.readinto(memory)


def attempts() -> dict[str, Callable[[], object]]:
    wanted = json.loads(os.environ["PYTHON_TAKEN_OVER"])
    target = int(os.environ["PYTHON_TAKEN_OVER_PID"])
    own = Path(wanted["write"])
    tries: dict[str, Callable[[], object]] = {f"read {path}": Path(path).read_bytes for path in wanted["read"]}
    return tries | {
        "write": lambda: own.write_text("here"),
        "remove": lambda: os.unlink(wanted["remove"]),
        "list": lambda: os.listdir(wanted["list"]),
        "connect by TCP": lambda: socket.create_connection(tuple(wanted["tcp"]), 5).close(),
        "connect by a Unix socket": lambda: unix(wanted["unix"]),
        "connect by an abstract socket": lambda: unix("\0" + wanted["abstract"]),
        "signal": lambda: os.kill(target, 0),
        "be signalled for": lambda: owned(target),
        "start a program": lambda: subprocess.run(["/bin/true"], check=True),
        "fork": forked,
        "trace": seized,
        "read memory": read_of_other,
        "look at the environment": lambda: Path(f"/proc/{target}/environ").read_bytes(),
        "hold a process": lambda: os.close(system_call(SYS_PIDFD_OPEN, target, 0)),
        "make keys": lambda: system_call(SYS_KEYCTL, 0, -2, 1),
        "make a ring": lambda: os.close(
            system_call(SYS_IO_URING, 1, ctypes.addressof(ctypes.create_string_buffer(256)))
        ),
    }


def unix(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(name)


def owned(target: int) -> None:
    """Another process gets the signal of this end's input."""
    import fcntl

    read, write = os.pipe()
    try:
        fcntl.fcntl(read, fcntl.F_SETOWN, target)
    finally:
        os.close(read)
        os.close(write)


def _try(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def run() -> None:
    succeeded = [name for name, attempt in attempts().items() if _try(attempt)]
    os.write(2, (MARK + json.dumps(succeeded) + "\n").encode())


def restricted() -> bool:
    return "Seccomp:\t2" in Path("/proc/self/status").read_text()


def wait_and_run() -> None:
    while not restricted():
        time.sleep(0.02)
    run()


def begin() -> None:
    threading.Thread(target=wait_and_run, daemon=True).start()


if __name__ == "__main__":
    signal.alarm(60)
    run()
