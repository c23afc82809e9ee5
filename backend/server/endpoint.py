"""Where a host listens: a host URL (farlane.hosturl) that can be bound.

Owns the checks before and after binding, so that messages say what is wrong: gRPC itself would share a TCP port with another
process and take over another's socket file without a word.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from farlane import hosturl

UNIX_PATH_LIMIT = 107  # sockaddr_un.sun_path, without its terminating zero
FORMS = hosturl.FORMS


class EndpointError(Exception):
    """The endpoint is malformed or cannot be used; the message is for the user."""


@dataclass(frozen=True)
class TcpEndpoint(hosturl.TcpUrl):
    """A TCP port to listen on; 0 is any free one."""

    def with_port(self, port: int) -> TcpEndpoint:
        return TcpEndpoint(self.host, port)

    def prepare(self) -> None:
        """Raises EndpointError when nothing can be bound there."""
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except (socket.gaierror, UnicodeError) as error:
            raise EndpointError(f"cannot listen on {self}: unknown host {self.host!r} ({error})") from error
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
                probe.listen()
            except OSError as error:
                raise EndpointError(f"cannot listen on {self}: {_reason(error)}") from error

    def bound(self) -> None:
        pass

    def remove(self) -> None:
        pass


@dataclass(frozen=True)
class UnixEndpoint(hosturl.UnixUrl):
    """A Unix socket to listen on."""

    def prepare(self) -> None:
        """Removes the socket that a dead host left behind. Raises EndpointError when the path cannot be used."""
        if len(os.fsencode(self.path)) > UNIX_PATH_LIMIT:
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

    def bound(self) -> None:
        """Only this user may connect: there is no other authentication on a socket file."""
        os.chmod(self.path, 0o600)

    def remove(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


Endpoint = TcpEndpoint | UnixEndpoint


def parse(text: str) -> Endpoint:
    """Raises EndpointError when `text` is no host URL."""
    try:
        url = hosturl.parse(text, listening=True)
    except hosturl.HostUrlError as error:
        raise EndpointError(str(error)) from None
    return TcpEndpoint(url.host, url.port) if isinstance(url, hosturl.TcpUrl) else UnixEndpoint(url.path)


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
