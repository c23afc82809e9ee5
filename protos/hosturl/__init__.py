"""The URLs of hosts, for guests and hosts alike: TCP, TCP with TLS, a Unix socket, vsock, vsock with TLS (`FORMS`).

Owns the grammar; who connects or listens there is the frontend's and the backend's. The shim reads the same URLs
(frontend/shim/crates/client/src/endpoint.rs); cases.tsv has examples that both must take or refuse alike.

    url  = ("grpc://" | "farlane+tls://") host ":" port ["/"]  |  "unix://" path
         | ("vsock://" | "vsock+tls://") cid ":" port ["/"]
    host = a name, an IPv4 address, or an IPv6 address in brackets: no "/", "@", ":" or white space, no "[" or "]"
    port = 1 to 65535 in decimal digits; for who listens also 0, any free one
    path = an absolute path of a file
    cid  = 0 to 4294967294 in decimal digits, a machine's number on its hypervisor: 2 is the hypervisor's own machine,
           1 the same machine; for who listens also "any". A port of vsock has 32 bits: 1 to 4294967294.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

FORMS = "grpc://HOST:PORT, farlane+tls://HOST:PORT, unix:///PATH, vsock://CID:PORT or vsock+tls://CID:PORT"
PLAIN, TLS = "grpc", "farlane+tls"
PORT = 7070  # where hosts and gateways listen, unless they are given another one
ANSWER_SECONDS = 5.0  # for a host to answer before it counts as not there
DEFAULT_ENDPOINT = f"{PLAIN}://127.0.0.1:{PORT}"
VSOCK, VSOCK_TLS = "vsock", "vsock+tls"
# The name for which the certificate of a host on vsock is valid: `farlane host init` always includes it.
VSOCK_NAME = "localhost"
ANY_CID = (1 << 32) - 1

_TCP = re.compile(r"(?:\[(?P<bracketed>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s/@:\[\]?#]+)):(?P<port>[0-9]{1,5})/?", re.ASCII)
_VSOCK = re.compile(r"(?P<cid>[0-9]{1,10}|any):(?P<port>[0-9]{1,10})/?", re.ASCII)
_VSOCK_MOST = (1 << 32) - 2  # of a CID and of a port; one more stands for any
_LOOPBACK_CID = 1


class HostUrlError(ValueError):
    """A text that is no host URL; the message says what is wrong with it."""


# Options of a grpcio channel to a host without TLS: HTTP/2 calls no host by the path of its socket, which grpcio does, and no
# proxy is in between.
CHANNEL_OPTIONS = (("grpc.default_authority", "localhost"), ("grpc.enable_http_proxy", 0))


@dataclass(frozen=True)
class TcpUrl:
    """A TCP port of a host. `host` is without brackets; `tls`: the connection is encrypted, and the host proves its name."""

    host: str
    port: int
    tls: bool = False

    @property
    def target(self) -> str:
        """What gRPC calls it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{TLS if self.tls else PLAIN}://{self.target}"

    @property
    def local(self) -> bool:
        """Whether only this machine can be meant."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


@dataclass(frozen=True)
class UnixUrl:
    """A Unix socket."""

    path: str

    @property
    def target(self) -> str:
        """What gRPC calls it."""
        return f"unix://{self.path}"

    @property
    def tls(self) -> bool:
        return False

    def __str__(self) -> str:
        return self.target

    @property
    def local(self) -> bool:
        """Whether only this machine can be meant."""
        return True


@dataclass(frozen=True)
class VsockUrl:
    """A vsock port: a connection between a virtual machine and its hypervisor's machine, without a network.

    `cid`: ANY_CID for who listens at all of the machine's. `tls`: as a TcpUrl's; the name is VSOCK_NAME.
    """

    cid: int
    port: int
    tls: bool = False

    @property
    def target(self) -> str:
        """What gRPC calls it."""
        return f"vsock:{self.cid}:{self.port}"

    def __str__(self) -> str:
        return f"{VSOCK_TLS if self.tls else VSOCK}://{'any' if self.cid == ANY_CID else self.cid}:{self.port}"

    @property
    def local(self) -> bool:
        """Whether only this machine can be meant."""
        return self.cid == _LOOPBACK_CID


HostUrl = TcpUrl | UnixUrl | VsockUrl


def parse(text: str, *, listening: bool = False) -> HostUrl:
    """The URL of a host.

    Args:
        listening: port 0 stands for any free one.

    Raises:
        HostUrlError: it has none of the forms.
    """
    scheme, separator, rest = text.partition("://")
    if scheme == "unix" and separator:
        if not rest.startswith("/") or rest.endswith("/") or "\0" in rest:
            raise HostUrlError(
                f"{text!r} is no host URL: a socket needs an absolute path, as in unix:///run/farlane.sock"
            )
        return UnixUrl(rest)
    if scheme in (VSOCK, VSOCK_TLS) and separator:
        return _parse_vsock(text, rest, scheme == VSOCK_TLS, listening)
    if scheme not in (PLAIN, TLS) or not separator:
        raise HostUrlError(f"{text!r} is no host URL: use {FORMS}")
    match = _TCP.fullmatch(rest)
    if match is None:
        raise HostUrlError(f"{text!r} is no host URL: it names no host and port; use {FORMS}")
    port = int(match["port"])
    if port > 65535 or (port == 0 and not listening):
        raise HostUrlError(f"{text!r} is no host URL: there is no port {port}; use 1 to 65535")
    if match["bracketed"] is not None:
        try:
            ipaddress.IPv6Address(match["bracketed"])
        except ValueError:
            raise HostUrlError(f"{text!r} is no host URL: {match['bracketed']} is no IPv6 address") from None
    return TcpUrl(match["bracketed"] or match["name"], port, scheme == TLS)


def _parse_vsock(text: str, rest: str, tls: bool, listening: bool) -> VsockUrl:
    match = _VSOCK.fullmatch(rest)
    if match is None:
        raise HostUrlError(f"{text!r} is no host URL: it names no CID and port in digits, as in {VSOCK}://2:7070")
    cid, port = ANY_CID if match["cid"] == "any" else int(match["cid"]), int(match["port"])
    if match["cid"] == "any" and not listening:
        raise HostUrlError(f"{text!r} is no host URL: only who listens can do that at any CID; the host's is mostly 2")
    if match["cid"] != "any" and cid > _VSOCK_MOST:
        raise HostUrlError(f"{text!r} is no host URL: there is no CID {cid}; use 0 to {_VSOCK_MOST}")
    if port > _VSOCK_MOST or (port == 0 and not listening):
        raise HostUrlError(f"{text!r} is no host URL: there is no port {port}; use 1 to {_VSOCK_MOST}")
    return VsockUrl(cid, port, tls)
