"""A vsock device for a virtual machine of QEMU's, where the kernel of this machine has none (vhost-device-vsock).

What the virtual machine connects to at CID 2, the device connects to a Unix socket of this machine: `<path>_<port>`.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading
from pathlib import Path
from types import TracebackType

from farlane.frontend.devtools.toolchain import cache_folder
from farlane.frontend.devtools.virtual_machine import MEMORY_MIB
from waiting import eventually

PROGRAM = "vhost-device-vsock"
PIECE = 1 << 16


def program() -> str | None:
    """Where it is: on the PATH, or where `make test-vm` installs it."""
    return shutil.which(PROGRAM) or shutil.which(PROGRAM, path=str(cache_folder() / "vhost" / "bin"))


class VsockDevice:
    """A context manager.

    Args:
        folder: for its sockets; a short name.
    """

    def __init__(self, folder: Path, cid: int = 3) -> None:
        self._control, self._base = folder / "control", folder / "v"
        found = program()
        assert found is not None
        words = [found, "--guest-cid", str(cid), "--socket", str(self._control), "--uds-path", str(self._base)]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._forwarders: list[socket.socket] = []

    def __enter__(self) -> VsockDevice:
        eventually(self._control.exists)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for listener in self._forwarders:
            listener.close()
        self._process.kill()
        self._process.wait()

    @property
    def options(self) -> tuple[str, ...]:
        """Of QEMU."""
        memory = f"memory-backend-memfd,id=memory,size={MEMORY_MIB}M,share=on"
        return (
            *("-object", memory, "-machine", "memory-backend=memory"),
            *("-chardev", f"socket,id=vsock,path={self._control}", "-device", "vhost-user-vsock-pci,chardev=vsock"),
        )

    def path(self, port: int) -> Path:
        """The Unix socket for that port."""
        return Path(f"{self._base}_{port}")

    def forward(self, port: int, to: int) -> None:
        """What comes for that port goes to a TCP port of this machine's loopback."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path(port)))
        listener.listen()
        self._forwarders.append(listener)
        threading.Thread(target=_accept, args=(listener, to), daemon=True).start()


def _accept(listener: socket.socket, to: int) -> None:
    while True:
        try:
            one = listener.accept()[0]
        except OSError:
            return
        try:
            other = socket.create_connection(("127.0.0.1", to))
        except OSError:
            one.close()
            continue
        for source, target in ((one, other), (other, one)):
            threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(PIECE):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
