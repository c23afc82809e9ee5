"""`farlane serve`: a host for guests.

Owns the command line of a host, its signals and its order of starting and stopping. Runnable as a module too, so that the embedded
host of `farlane run` needs no installed script.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from farlane.backend.commands import HELP
from farlane.backend.commands.admin import open_admin, protected, require_protection
from farlane.backend.commands.serving import (
    add_arguments,
    open_exporter,
    open_host,
    read_options,
)
from farlane.backend.device import registry
from farlane.backend.device.base import Device
from farlane.backend.device.options import DeviceOptions
from farlane.backend.device.saved import Unsaveable
from farlane.backend.host.greeting import TAPE_VERSION_MAX, Refused, version
from farlane.backend.host.host import Host
from farlane.backend.security.folder import Folder, SecurityError
from farlane.backend.security.folder import default_folder as default_private_folder
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import EndpointError, parse
from farlane.backend.server.parent import end_with_parent, tell_ready
from farlane.backend.server.signals import Signals
from farlane.backend.system import log as logs
from farlane.hosturl import DEFAULT_ENDPOINT
from farlane.terminal.examples import add_examples

log = logging.getLogger("farlane.server")

STOP_SECONDS = 5.0  # for open sessions, after the first signal
REPORT_SECONDS = 5.0  # for saying what hung
END_SECONDS = 30.0  # for everything, after it: what hangs may not outlive the process
COMPILING = "farlane.compiling"  # the log of kernels that take long to compile
SWITCH_SECONDS = 0.0005  # Python's default of 5 ms would let one session's long group hold up every other's round trip


class ServeCommand:
    """Opens the device, listens, serves until a signal."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_examples(
            parser,
            ("farlane serve", "serve the simulated device to programs of this machine, at grpc://127.0.0.1:7070"),
            (
                "farlane serve --listen unix:///run/farlane.sock",
                "listen on a socket: messages then go through shared memory",
            ),
            (
                "farlane serve --listen farlane+tls://0.0.0.0:7070",
                "serve other machines, after `farlane host init`",
            ),
            ("farlane serve --device cupy --gpu 0,1", "serve the GPUs of this machine"),
            ("farlane serve --restore /backup/s1", "go on with a session that was saved"),
            ("farlane serve --admin 9090", "show what runs as a web page, and metrics for Prometheus"),
            ("farlane serve --shared-memory 512M", "let sessions share device memory by priority"),
        )
        add_arguments(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        logs.configure(logs.Wanted(arguments.log_level, arguments.log_format))
        sys.setswitchinterval(SWITCH_SECONDS)
        signals = Signals((signal.SIGTERM, signal.SIGINT))
        if arguments.die_with_parent is not None:
            end_with_parent(arguments.die_with_parent)
            if sys.stderr.isatty():  # whole lines: a bar would be in the way of what the guest prints there
                logging.getLogger(COMPILING).setLevel(logging.INFO)
        try:
            return self._serve(arguments, read_options(arguments), signals)
        except (EndpointError, SecurityError, registry.DeviceUnavailable, Unsaveable, Refused) as error:
            print(f"farlane: {error}", file=sys.stderr)
            return 1

    def _serve(self, arguments: argparse.Namespace, options: DeviceOptions, signals: Signals) -> int:
        endpoints = [parse(text) for text in arguments.listen or [DEFAULT_ENDPOINT]]
        folder = Folder(Path(arguments.folder)) if arguments.folder else default_private_folder(os.environ)
        require_protection(endpoints, folder, arguments.insecure)
        shown_at = None if arguments.admin is None else protected(arguments.admin, folder, arguments.insecure)
        exporter = None if arguments.otlp is None else open_exporter(arguments.otlp, arguments.device)
        networked = any(not endpoint.local for endpoint in endpoints)
        host = open_host(arguments, options, networked=networked, spans=exporter)
        if isinstance(host.device, Device) and not options.model and arguments.die_with_parent is None:
            host.device.spread()  # where it models, and for one program, each run has the same addresses
        try:
            edge = Edge(host, folder, arguments.grace, restored=[Path(each) for each in arguments.restore])
            admin = contextlib.ExitStack()
            try:
                bound = edge.listen(endpoints)
                if shown_at is not None:
                    opened = open_admin(host, shown_at, folder, edge)
                    admin.callback(opened.stop)
                    print(f"farlane: the host shows itself at {opened.url}", flush=True)
                for endpoint in bound:
                    if not endpoint.local and not endpoint.tls:
                        log.warning(
                            "%s can be reached from other machines, without authentication or encryption", endpoint
                        )
                _announce(arguments.ready_fd, _what(arguments, host), [str(endpoint) for endpoint in bound])
                version()  # read while the first guest starts
                if arguments.die_with_parent is not None and isinstance(host.device, Device):  # a session comes at once
                    threading.Thread(target=host.device.prepare, name="farlane-prepare", daemon=True).start()
                signals.wait()
                log.info("stopping: %d sessions open", host.sessions)
                if not options.model:  # a session's report comes when it is modelled, however long that takes
                    _end_in_time()
            finally:
                admin.close()
                edge.stop(STOP_SECONDS)
        finally:
            host.close()
            if exporter is not None:
                exporter.close()
        return 0


def _what(arguments: argparse.Namespace, host: Host) -> str:
    """What is served, in one line."""
    text: str = arguments.device
    if arguments.device == "cupy":
        text += ": " + ", ".join(each.name for each in host.descriptions)
    if not isinstance(host.device, Device):
        from farlane.backend.workers.processes import SessionProcesses

        assert isinstance(host.device, SessionProcesses)
        sharing = f", sharing by {host.device.pool.sharing}" if arguments.device == "cupy" else ""
        confined = "a confined process" if host.device.pool.confined else "a process"
        users = host.device.pool.users
        text += f", {confined} for each session{sharing}{f' as {users}' if users else ''}"
    return text


def _end_in_time() -> None:
    """Whatever still runs in END_SECONDS ends then, and is named, if anybody reads it."""

    def give_up() -> None:
        try:
            print(
                f"farlane: the host did not end within {END_SECONDS:.0f} s and is ended; what it was doing:",
                file=sys.stderr,
            )
            faulthandler.dump_traceback(all_threads=True)
        finally:
            os._exit(1)

    # Where printing blocks, or no Python runs any more, the system does it.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, END_SECONDS + REPORT_SECONDS)
    timer = threading.Timer(END_SECONDS, give_up)
    timer.daemon = True
    timer.start()


def _announce(ready_fd: int | None, device: str, endpoints: list[str]) -> None:
    for endpoint in endpoints:
        print(f"farlane: listening on {endpoint} (device {device}, tape version {TAPE_VERSION_MAX})", flush=True)
    if ready_fd is not None:
        with os.fdopen(ready_fd, "w") as ready:
            ready.writelines(f"{endpoint}\n" for endpoint in endpoints)
    tell_ready()


command = ServeCommand()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="farlane serve", description=HELP["serve"])
    command.add_arguments(parser)
    return command.run(parser.parse_args(argv))


if __name__ == "__main__":
    status = main()
    # Everything is closed: taking the interpreter down would take longer than all of the end, and a launcher waits for it.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
