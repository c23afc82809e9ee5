"""Where a host is, how it is known and let in to, and what it says about itself without a session (AdminService.Describe)."""

from __future__ import annotations

import argparse
import os
import socket
from typing import TYPE_CHECKING

from farlane import hosturl
from farlane.frontend.errors import UserError
from farlane.hosturl import ANSWER_SECONDS, HostUrl, TcpUrl, UnixUrl, VsockUrl, variables
from farlane.terminal import statuses

if TYPE_CHECKING:
    from farlane.v1 import admin_pb2


ACCESS = {"ca": variables.CA, "token_file": variables.TOKEN_FILE}
"""Options of a command, and the variables that they set (docs/howto/hosts/secure-a-host.md)."""


def add_access(parser: argparse.ArgumentParser) -> None:
    """The options for a host that is reached by TLS."""
    parser.add_argument(
        "--ca", metavar="FILE", help="the host's ca.pem, for farlane+tls:// (default: FARLANE_CA, else the system's)"
    )
    parser.add_argument(
        "--token-file", metavar="FILE", help="a file with the guest's token (default: FARLANE_TOKEN_FILE)"
    )


def set_access(arguments: argparse.Namespace) -> None:
    """Sets the variables of this process, which what it starts inherits."""
    for option, variable in ACCESS.items():
        if named := getattr(arguments, option):
            os.environ[variable] = os.path.abspath(named)
    if arguments.token_file:
        os.environ.pop(variables.TOKEN, None)  # which would come first


def parse_url(text: str) -> HostUrl:
    """Raises UserError when `text` is no host URL."""
    try:
        return hosturl.parse(text)
    except hosturl.HostUrlError as error:
        raise UserError(str(error), "Give the URL that `farlane serve` prints.", status=statuses.WRONG_CALL) from None


def connected(url: HostUrl, seconds: float = ANSWER_SECONDS) -> socket.socket:
    """A connection to the host. Raises OSError."""
    match url:
        case TcpUrl():
            return socket.create_connection((url.host, url.port), seconds)
        case UnixUrl():
            return _connected(socket.AF_UNIX, url.path, seconds)
        case VsockUrl():
            return _connected(socket.AF_VSOCK, (url.cid, url.port), seconds)


def _connected(family: socket.AddressFamily, address: str | tuple[int, int], seconds: float) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def describe(url: HostUrl) -> admin_pb2.DescribeReply:
    """Asks a host about itself. Raises UserError when it cannot be reached."""
    from farlane.hosturl import description  # gRPC takes longer than all else of a command that does not ask

    try:
        return description.describe(url)
    except description.NoAnswer as error:
        raise UserError(str(error), error.advice) from error
