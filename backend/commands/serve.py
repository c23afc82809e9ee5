"""`farlane serve`: a host for guests.

Owns the command line of a host, its signals and its order of starting and stopping. Runnable as a module too, so that the embedded
host of `farlane run` needs no installed script.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import signal
import sys
import threading

from farlane.backend import log as logs
from farlane.backend.device import registry
from farlane.backend.host import DEFAULT_SESSIONS, TAPE_VERSION_MAX, Host
from farlane.backend.manifests import ManifestStore, analyzer_revision, default_folder
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import FORMS, EndpointError, parse
from farlane.backend.server.parent import end_with_parent

log = logging.getLogger("farlane.server")

DEFAULT_ENDPOINT = "grpc://127.0.0.1:7070"
GRACE_SECONDS = 5.0  # for open sessions, after the first signal
SWITCH_SECONDS = 0.0005  # Python's default of 5 ms would let one session's long group hold up every other's round trip
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_bytes(text: str) -> int:
    """4096, 512M, 2G (powers of two)."""
    match = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write it as 4096, 512M or 2G")
    return int(match[1]) * _UNITS[match[2].upper()]


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


class ServeCommand:
    """Opens the device, listens, serves until a signal."""

    help = "serve a device to guests"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--device", default="sim", metavar="|".join(registry.names()), help="what runs the work (default: sim)"
        )
        parser.add_argument(
            "--listen",
            action="append",
            metavar="URL",
            help=f"{FORMS}; may be repeated; port 0: any free one (default: {DEFAULT_ENDPOINT})",
        )
        parser.add_argument(
            "--quota",
            type=parse_bytes,
            metavar="BYTES",
            help="device memory of one session, for example 2G (default: all the device has)",
        )
        parser.add_argument(
            "--sessions",
            type=_positive,
            default=DEFAULT_SESSIONS,
            metavar="N",
            help=f"sessions open at once (default: {DEFAULT_SESSIONS})",
        )
        parser.add_argument(
            "--no-analyze", action="store_true", help="do not ask guests for their programs to make manifests of them"
        )
        parser.add_argument(
            "--log-level", choices=logs.LEVELS, default="warning", help="what is logged to stderr (default: warning)"
        )
        parser.add_argument(
            "--ready-fd", type=int, metavar="FD", help="write the endpoints to this file descriptor once listening"
        )
        parser.add_argument(
            "--die-with-parent", action="store_true", help="end when the process that started this one ends"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        logs.configure(arguments.log_level)
        sys.setswitchinterval(SWITCH_SECONDS)
        stop = threading.Event()
        self._catch_signals(stop)
        if arguments.die_with_parent:
            end_with_parent()
        try:
            return self._serve(arguments, stop)
        except (EndpointError, registry.DeviceUnavailable) as error:
            print(f"farlane: {error}", file=sys.stderr)
            return 1

    def _serve(self, arguments: argparse.Namespace, stop: threading.Event) -> int:
        endpoints = [parse(text) for text in arguments.listen or [DEFAULT_ENDPOINT]]
        manifests = None if arguments.no_analyze else ManifestStore(default_folder(), analyzer_revision())
        host = Host(
            registry.open_device(arguments.device),
            quota=arguments.quota,
            session_limit=arguments.sessions,
            manifests=manifests,
        )
        try:
            edge = Edge(host)
            try:
                bound = edge.listen(endpoints)
                for endpoint in bound:
                    if not endpoint.local:
                        log.warning(
                            "%s can be reached from other machines, without authentication or encryption", endpoint
                        )
                _announce(arguments.ready_fd, arguments.device, [str(endpoint) for endpoint in bound])
                stop.wait()
                log.info("stopping: %d sessions open", host.sessions)
            finally:
                edge.stop(GRACE_SECONDS)
        finally:
            host.close()
        return 0

    @staticmethod
    def _catch_signals(stop: threading.Event) -> None:
        def on_signal(number: int, frame: object) -> None:
            if stop.is_set():
                os._exit(128 + number)  # the second one: now
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, on_signal)


def _announce(ready_fd: int | None, device: str, endpoints: list[str]) -> None:
    for endpoint in endpoints:
        print(f"farlane: listening on {endpoint} (device {device}, tape version {TAPE_VERSION_MAX})", flush=True)
    if ready_fd is not None:
        with os.fdopen(ready_fd, "w") as ready:
            ready.writelines(f"{endpoint}\n" for endpoint in endpoints)


command = ServeCommand()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="farlane serve", description=command.help)
    command.add_arguments(parser)
    return command.run(parser.parse_args(argv))


if __name__ == "__main__":
    raise SystemExit(main())
