"""`farlane fleet up`, `gateway`, `down`, `status`, `top`, `drain`, `undrain` and `map`: a fleet on a Ray cluster.

Owns their command lines and what they print. Ray is loaded by what needs it alone.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from farlane.backend.commands.admin import parse_admin, require_protection
from farlane.backend.commands.serve import SWITCH_SECONDS
from farlane.backend.commands.sizes import parse_bytes, parse_count, parse_priority, parse_seconds
from farlane.backend.security.folder import Folder, SecurityError, default_folder
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import Endpoint, EndpointError, parse
from farlane.backend.server.signals import Signals
from farlane.backend.system import log as logs
from farlane.fleet.commands import mapping, showing
from farlane.fleet.gateway.gateway import Gateway, Unavailable
from farlane.fleet.gateway.roster import UnknownHost
from farlane.fleet.placement.policies import POLICIES
from farlane.hosturl import DEFAULT_ENDPOINT
from farlane.terminal.examples import add_part

if TYPE_CHECKING:
    from farlane.fleet.cluster.cluster import Cluster

DEFAULT_QUOTA = 1 << 30
HOST_SECONDS = 120.0  # for the first host to begin
STOP_SECONDS = 5.0


class CommandError(Exception):
    """The message is for the user."""


def add_parts(parts: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    up = add_part(
        parts,
        "up",
        "start hosts on a Ray cluster, then be a gateway to them",
        ("farlane fleet up --hosts 4", "four hosts of the simulated device, and a gateway on this machine's loopback"),
        (
            "farlane fleet up --hosts 8 --per-host GPU=1 --listen farlane+tls://0.0.0.0:7070 -- --device cupy",
            "a host for each of eight GPUs, behind an encrypted gateway",
        ),
    )
    _add_address(up)
    up.add_argument(
        "--hosts", type=parse_count, default=1, metavar="N", help="hosts to start besides those there are (default: 1)"
    )
    up.add_argument(
        "--per-host", action="append", type=_resource, default=[], metavar="NAME=AMOUNT",
        help="what Ray sets aside for each host: CPU=1, GPU=1, or a resource of your own; may be repeated (default: CPU=1)",
    )  # fmt: skip
    up.add_argument("--policy", choices=POLICIES, help="where sessions go (default: as it is; locality at first)")
    up.add_argument(
        "--queue", type=parse_count, metavar="N",
        help="sessions that wait while no host has room (default: as it is; 1024 at first)",
    )  # fmt: skip
    up.add_argument("--no-gateway", action="store_true", help="start the hosts, and return")
    _add_gateway(up)
    up.add_argument(
        "host_arguments", nargs="*", metavar="-- OPTION", help="options of `farlane serve` for each host, behind --"
    )
    gateway = add_part(
        parts,
        "gateway",
        "be a further gateway to the hosts that there are",
        ("farlane fleet gateway --listen grpc://127.0.0.1:7071", "a second gateway on this machine"),
    )
    _add_address(gateway)
    _add_gateway(gateway)
    for name, text in (
        ("down", "end all hosts, and their sessions"),
        ("status", "show the hosts, what they have and what they do"),
        ("top", "show that again and again"),
    ):
        part = add_part(parts, name, text, (f"farlane fleet {name}", f"{text}, of this machine's cluster"))
        _add_address(part)
        if name == "status":
            part.add_argument("--json", action="store_true", help="print everything that is known, as JSON")
    for name, text in (
        ("drain", "send no more sessions to a host; those that it has go on"),
        ("undrain", "send sessions there again"),
    ):
        moving = ("farlane fleet drain host-1 --move", "empty it: its sessions go on at other hosts")
        examples = [(f"farlane fleet {name} host-1", f"{text}: the one that is named host-1")]
        part = add_part(parts, name, text, *examples, *([moving] if name == "drain" else []))
        _add_address(part)
        part.add_argument("host", help="its name, as `farlane fleet status` shows it")
        if name == "drain":
            part.add_argument(
                "--move", action="store_true", help="send the sessions that it has to other hosts, where they go on"
            )
            part.add_argument(
                "--wait", type=parse_seconds, default=10.0, metavar="SECONDS",
                help="how long a session's work may take to come to the end of a group, with --move (default: 10)",
            )  # fmt: skip
    _add_address(mapping.add_part(parts))


def run(arguments: argparse.Namespace) -> int:
    out = sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):  # Ray says on standard output what it says of its machines
            return _run(arguments, out)
    except (CommandError, mapping.InputError, Unavailable, EndpointError, SecurityError) as error:
        print(f"farlane: {error}", file=sys.stderr)
    except UnknownHost as error:
        print(f"farlane: the fleet has no host {error}: `farlane fleet status` shows them", file=sys.stderr)
    return 1


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[None]:
    """To the cluster. Behind it Ray prints nothing more. Raises CommandError: Ray is not installed; FleetError."""
    try:
        from farlane.fleet.cluster import cluster
    except ImportError as error:
        raise CommandError(f"a fleet needs Ray: pip install 'farlane[fleet]' ({error})") from None
    cluster.connect(address)
    try:
        yield
    finally:
        cluster.disconnect()


def _run(arguments: argparse.Namespace, out: TextIO) -> int:
    endpoints: list[Endpoint] = []
    folder = default_folder(os.environ)
    if arguments.part in ("up", "gateway"):
        endpoints = [parse(text) for text in arguments.listen or [DEFAULT_ENDPOINT]]
        folder = Folder(Path(arguments.folder)) if arguments.folder else folder
        require_protection(endpoints, folder, insecure=False)
        if len({endpoint.tls for endpoint in endpoints}) > 1:
            raise CommandError("a gateway's endpoints are all encrypted, or none: its hosts' are as well")
    with connected(arguments.address):
        return _act(arguments, endpoints, folder, out)


def _act(arguments: argparse.Namespace, endpoints: list[Endpoint], folder: Folder, out: TextIO) -> int:
    """The cluster is connected."""
    if arguments.part == "map":
        return mapping.run(arguments, out)
    from farlane.fleet.cluster.cluster import Cluster

    if arguments.part == "up":
        fleet = _start(arguments, endpoints[0].tls, out)
        return 0 if arguments.no_gateway else _serve(arguments, fleet, endpoints, folder, out)
    fleet = Cluster()
    if arguments.part == "gateway":
        return _serve(arguments, fleet, endpoints, folder, out)
    if arguments.part == "down":
        print(f"farlane: {fleet.stop()} hosts have ended", file=out)
    elif arguments.part == "status":
        state = fleet.state()
        if arguments.json:
            print(json.dumps(dataclasses.asdict(state) | {"named": fleet.hosts()}, indent=1), file=out)
        else:
            showing.show(state, fleet.hosts(), out)
    elif arguments.part == "top":
        showing.watch(fleet.state, fleet.hosts, out)
    else:
        fleet.set_open(arguments.host, arguments.part == "undrain")
        if arguments.part == "drain" and arguments.move:
            return _move(fleet, arguments.host, arguments.wait, out)
    return 0


def _move(fleet: Cluster, host: str, wait: float, out: TextIO) -> int:
    """The exit status: 1 where sessions stay."""
    moved = stay = 0
    for each in fleet.move_sessions(host, wait):
        if each.host is None:
            stay += 1
            print(f"farlane: session {each.number} stays at {host}: {each.why}", file=sys.stderr)
        else:
            moved += 1
            print(f"session {each.number} is at {each.host} now; it was held for {each.seconds:.3f} s", file=out)
    print(f"{moved} of {moved + stay} sessions have moved from {host}", file=out)
    if away := fleet.awaited(host, wait):
        print(
            f"farlane: {away} of their programs do not know it yet, and find their session through {host}: it must stay as long as "
            "they may be away (--grace)",
            file=sys.stderr,
        )
    return 1 if stay or away else 0


def _start(arguments: argparse.Namespace, encrypted: bool, out: TextIO) -> Cluster:
    from farlane.fleet.cluster import starting
    from farlane.fleet.cluster.cluster import Cluster, addresses

    try:
        starting.parse(arguments.host_arguments)
    except starting.BadArguments as error:
        raise CommandError(str(error)) from None
    if not encrypted and len(addresses()) > 1:
        raise CommandError(
            "the cluster has several machines, and guests reach hosts on them by TLS alone: run `farlane host init`, and "
            "listen on farlane+tls://"
        )
    fleet = Cluster.start(arguments.policy, arguments.queue)
    resources = dict(arguments.per_host) or {"CPU": 1.0}
    names = fleet.add_hosts(arguments.hosts, arguments.host_arguments, encrypted, resources)
    if names:
        print(f"farlane: starting {' '.join(names)}", file=out, flush=True)
    return fleet


def _serve(
    arguments: argparse.Namespace, fleet: Cluster, endpoints: list[Endpoint], folder: Folder, out: TextIO
) -> int:
    """A gateway, until a signal."""
    logs.configure(logs.Wanted(arguments.log_level, "text"))
    sys.setswitchinterval(SWITCH_SECONDS)
    signals = Signals((signal.SIGTERM, signal.SIGINT))
    descriptions = fleet.descriptions(HOST_SECONDS)
    gateway = Gateway(fleet, descriptions, quota=arguments.quota, guest_priority=arguments.guest_priority)
    edge = Edge(gateway, folder)
    shown = None
    try:
        bound = edge.listen(endpoints)
        gateway.gate = edge.gate
        if arguments.admin is not None:
            shown = showing.MetricsPage(arguments.admin, fleet.state, gateway)
            print(f"farlane: metrics of all hosts are at {shown.url}", file=out, flush=True)
        for endpoint in bound:
            print(f"farlane: a gateway listens on {endpoint} (device {descriptions[0].backend})", file=out, flush=True)
        if arguments.ready_fd is not None:
            with os.fdopen(arguments.ready_fd, "w") as ready:
                ready.writelines(f"{endpoint}\n" for endpoint in bound)
        signals.wait()
    finally:
        if shown is not None:
            shown.stop()
        edge.stop(STOP_SECONDS)
        gateway.close()
    return 0


def _add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--address", metavar="HOST:PORT", help="of the Ray cluster (default: RAY_ADDRESS, else this machine's)"
    )


def _add_gateway(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen", action="append", metavar="URL",
        help=f"where guests come; may be repeated (default: {DEFAULT_ENDPOINT})",
    )  # fmt: skip
    parser.add_argument("--folder", metavar="FOLDER", help="the folder of `farlane host init`, for farlane+tls://")
    parser.add_argument(
        "--quota", type=parse_bytes, default=DEFAULT_QUOTA, metavar="BYTES",
        help="device memory that a session reserves, unless its token names less or more (default: 1G)",
    )  # fmt: skip
    parser.add_argument(
        "--guest-priority", type=parse_priority, default=0, metavar="N",
        help="the highest priority that a guest without a token may ask for (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--admin", type=parse_admin, metavar="PORT", help="metrics of all hosts for Prometheus, by HTTP"
    )
    parser.add_argument(
        "--log-level", choices=logs.LEVELS, default="warning", help="what is logged to stderr (default: warning)"
    )
    parser.add_argument("--ready-fd", type=int, metavar="FD", help="write the endpoints to this file descriptor")


def _resource(text: str) -> tuple[str, float]:
    name, _, amount = text.partition("=")
    try:
        value = float(amount)
    except ValueError:
        value = -1.0
    if not name or value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no resource: say NAME=AMOUNT, for example GPU=1")
    return name, value
