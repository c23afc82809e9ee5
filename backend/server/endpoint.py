"""Where a host listens: a host URL (farlane.hosturl) that can be bound.

Owns binding, and the checks before it, so that messages say what is wrong and another's socket file is not taken over without a word.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farlane import hosturl

BACKLOG = 128  # guests whose connections wait to be accepted
RINGS_SUFFIX = ".rings"
RINGS_NAME = "farlane-rings-"  # how the names of abstract sockets begin (tape.md, "Rings")
ANY_PORT = (1 << 32) - 1  # of vsock
UNIX_PATH_LIMIT = 107  # sockaddr_un.sun_path, without its terminating zero
FORMS = hosturl.FORMS


class EndpointError(Exception):
    """The endpoint is malformed or cannot be used; the message is for the user."""


@dataclass(frozen=True)
class TcpEndpoint(hosturl.TcpUrl):
    """A TCP port to listen on; 0 is any free one."""

    def listen(self) -> tuple[TcpEndpoint, socket.socket]:
        """The endpoint with its real port, and a socket that listens there.

        Raises:
            EndpointError: nothing can be bound there.
        """
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except (socket.gaierror, UnicodeError) as error:
            raise EndpointError(f"cannot listen on {self}: unknown host {self.host!r} ({error})") from error
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _listen(listener, address, f"on {self}")
        return TcpEndpoint(self.host, listener.getsockname()[1], self.tls), listener

    def remove(self) -> None:
        pass


@dataclass(frozen=True)
class UnixEndpoint(hosturl.UnixUrl):
    """A Unix socket to listen on."""

    def listen(self) -> tuple[UnixEndpoint, socket.socket]:
        """The endpoint, and a socket that listens there. Only this user may connect: there is no other authentication on a socket file.

        Raises:
            EndpointError: the path cannot be used.
        """
        self._prepare()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)  # this user's alone from its first moment
        try:
            _listen(listener, self.path, f"on {self}")
        finally:
            os.umask(mask)
        return self, listener

    @property
    def fits(self) -> bool:
        """Whether the system takes so long a path."""
        return len(os.fsencode(self.path)) <= UNIX_PATH_LIMIT

    @property
    def rings(self) -> UnixEndpoint:
        """Where guests of this endpoint come to their rings (tape.md, "Rings")."""
        return UnixEndpoint(f"{self.path}{RINGS_SUFFIX}")

    def _prepare(self) -> None:
        """Removes the socket that a dead host left behind."""
        if not self.fits:
            raise EndpointError(f"cannot listen on {self}: the path is longer than {UNIX_PATH_LIMIT} bytes")
        if not Path(self.path).parent.is_dir():
            raise EndpointError(f"cannot listen on {self}: the folder {Path(self.path).parent} does not exist")
        try:
            mode = os.lstat(self.path).st_mode
        except FileNotFoundError:
            return
        except OSError as error:
            raise EndpointError(f"cannot listen on {self}: {_reason(error)}") from error
        if not stat.S_ISSOCK(mode):
            raise EndpointError(f"cannot listen on {self}: the path exists and is no socket")
        if _answers(self.path):
            raise EndpointError(f"cannot listen on {self}: another process listens there already")
        try:
            os.unlink(self.path)
        except OSError as error:
            raise EndpointError(f"cannot listen on {self}: {_reason(error)}") from error

    def remove(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


@dataclass(frozen=True)
class VsockEndpoint(hosturl.VsockUrl):
    """A vsock port to listen on; 0 is any free one."""

    def listen(self) -> tuple[VsockEndpoint, socket.socket]:
        """The endpoint with its real port, and a socket that listens there.

        Raises:
            EndpointError: nothing can be bound there.
        """
        try:
            listener = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
        except OSError as error:
            raise EndpointError(
                f"cannot listen on {self}: this machine has no vsock ({os.strerror(error.errno or 0)}): "
                f"`modprobe vhost_vsock` on the machine of virtual machines"
            ) from error
        _listen(listener, (self.cid, self.port or ANY_PORT), f"on {self}")
        return VsockEndpoint(self.cid, listener.getsockname()[1], self.tls), listener

    def remove(self) -> None:
        pass


Endpoint = TcpEndpoint | UnixEndpoint | VsockEndpoint


def parse(text: str) -> Endpoint:
    """Raises EndpointError when `text` is no host URL."""
    try:
        url = hosturl.parse(text, listening=True)
    except hosturl.HostUrlError as error:
        raise EndpointError(str(error)) from None
    match url:
        case hosturl.TcpUrl(host, port, tls):
            return TcpEndpoint(host, port, tls)
        case hosturl.VsockUrl(cid, port, tls):
            return VsockEndpoint(cid, port, tls)
        case hosturl.UnixUrl(path):
            return UnixEndpoint(path)


def listen_at_abstract(name: str) -> socket.socket:
    """A socket that listens at an abstract name: every user of this network namespace may connect, and nothing is left of it.

    Raises:
        EndpointError: the name is taken, or there are no such sockets here.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    _listen(listener, f"\0{name}", f"for shared memory at @{name}")
    return listener


def _listen(listener: socket.socket, address: Any, where: str) -> None:
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise EndpointError(f"cannot listen {where}: {_reason(error)}") from error


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True  # no permission, or too busy to answer: somebody's, not ours to remove
        return True


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use by another process; choose another, or 0 for any free one"
    if error.errno == errno.EACCES:
        return "permission denied (ports below 1024 need privileges)"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address"
    return os.strerror(error.errno) if error.errno else str(error)
