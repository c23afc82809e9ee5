"""Where `farlane serve` may listen, and its admin port: where that may be, and how it is opened."""

from __future__ import annotations

import argparse
import dataclasses
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from farlane.backend.host.host import Host
from farlane.backend.security.folder import Folder, SecurityError
from farlane.backend.security.gate import Gate
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import Endpoint, EndpointError, TcpEndpoint, UnixEndpoint, VsockEndpoint, parse
from farlane.hosturl import PLAIN

if TYPE_CHECKING:
    from farlane.backend.observing.server import Admin

log = logging.getLogger("farlane.admin")


def require_protection(endpoints: Sequence[Endpoint], folder: Folder, insecure: bool) -> None:
    """Raises SecurityError: other machines could reach an endpoint without encryption, or without showing who they are."""
    for endpoint in endpoints:
        if endpoint.tls and not folder.is_complete:
            raise SecurityError(
                f"{endpoint} needs a certificate and tokens, and {folder.path} has none: "
                f"`farlane host init --folder {folder.path}` makes them"
            )
        if not isinstance(endpoint, UnixEndpoint) and not (endpoint.local or endpoint.tls or insecure):
            who = "all virtual machines of this one" if isinstance(endpoint, VsockEndpoint) else "other machines"
            raise SecurityError(
                f"{who} could reach {endpoint} without encryption, and no guest would have to say who it is: run "
                f"`farlane host init` once, and listen on {dataclasses.replace(endpoint, tls=True)}; --insecure if you mean it"
            )


def parse_admin(text: str) -> TcpEndpoint:
    """9090, or HOST:9090."""
    try:
        found = parse(f"{PLAIN}://{f'127.0.0.1:{text}' if text.isdecimal() else text}")
    except EndpointError:
        raise argparse.ArgumentTypeError(f"{text!r} is no place for it; write PORT or HOST:PORT") from None
    assert isinstance(found, TcpEndpoint)
    return found


def protected(endpoint: TcpEndpoint, folder: Folder, insecure: bool) -> TcpEndpoint:
    """The endpoint, encrypted where other machines reach it. Raises SecurityError: there is no certificate for that."""
    if endpoint.local:
        return endpoint
    if insecure:
        log.warning("everyone who reaches %s sees the sessions of this host", endpoint.target)
        return endpoint
    if folder.is_complete:
        return dataclasses.replace(endpoint, tls=True)
    raise SecurityError(
        f"other machines could read what the host shows at {endpoint.target}, and {folder.path} has no certificate and "
        f"no tokens: `farlane host init --folder {folder.path}` makes them; --insecure if you mean it"
    )


def open_admin(host: Host, endpoint: TcpEndpoint, folder: Folder, edge: Edge) -> Admin:
    """Raises EndpointError, SecurityError."""
    from farlane.backend.observing.server import Admin  # few hosts have one, and starting one is to be quick

    gate = None
    if endpoint.tls:
        gate = edge.gate or Gate(folder, [each.backend for each in host.descriptions])
    admin = Admin(host, endpoint, folder, gate)
    admin.start()
    return admin
