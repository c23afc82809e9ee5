"""A process that compiles kernels for a confined worker: what it is given comes from a guest, so it is confined as well.

Owns how it is started, by the host, and its beginning. What it does is jit/compile/compiler_main.py's. It keeps nothing on
disk, and ends when its worker has.
"""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Mapping

from farlane.backend.workers import confinement
from farlane.backend.workers.users import User

MOST = 4  # of a session
_MEMORY_BYTES = 8 << 30  # of addresses


def start(environment: Mapping[str, str], user: User | None) -> tuple[subprocess.Popen[bytes], int]:
    """The process, which runs as this user, and a descriptor of the socket that leads to it, the caller's. Raises OSError."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "farlane.backend.workers.compiling"],
                stdin=theirs.fileno(), stdout=theirs.fileno(), env=dict(environment), **(user.arguments() if user else {}),
            )  # fmt: skip
        except BaseException:
            ours.close()
            raise
    return process, ours.detach()


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    confinement.restrict_files()
    from farlane.backend.jit.compile import cache, compiler_main, native

    os.nice(10)
    native.version()  # LLVM is loaded while files may be opened
    cache.close()
    confinement.restrict_calls()
    compiler_main.serve()


if __name__ == "__main__":
    main()
