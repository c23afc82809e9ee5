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
from farlane.backend.commands.admin import open_admin, parse_admin, protected, require_protection
from farlane.backend.commands.sizes import (
    parse_bytes,
    parse_count,
    parse_gpus,
    parse_positive,
    parse_priority,
    parse_seconds,
)
from farlane.backend.device import capabilities, registry
from farlane.backend.device.base import Device
from farlane.backend.device.options import DeviceOptions
from farlane.backend.host.host import DEFAULT_SESSIONS, TAPE_VERSION_MAX, Host, version
from farlane.backend.host.manifests import ManifestStore, analyzer_revision, default_folder
from farlane.backend.host.session import HIGHEST_PRIORITY
from farlane.backend.memory import replacement
from farlane.backend.security.folder import Folder, SecurityError
from farlane.backend.security.folder import default_folder as default_private_folder
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import FORMS, EndpointError, is_encrypted, parse
from farlane.backend.server.parent import end_with_parent
from farlane.backend.server.signals import Signals
from farlane.backend.system import log as logs
from farlane.backend.workers import confinement
from farlane.backend.workers.pool import WorkerPool
from farlane.backend.workers.session import SessionProcesses
from farlane.backend.workers.sharing import Sharing

log = logging.getLogger("farlane.server")

DEFAULT_ENDPOINT = "grpc://127.0.0.1:7070"
GRACE_SECONDS = 30.0  # for a guest whose connection has broken
STOP_SECONDS = 5.0  # for open sessions, after the first signal
REPORT_SECONDS = 5.0  # for saying what hung
END_SECONDS = 30.0  # for everything, after it: what hangs may not outlive the process
SWITCH_SECONDS = 0.0005  # Python's default of 5 ms would let one session's long group hold up every other's round trip


def _device(arguments: argparse.Namespace, options: DeviceOptions, *, networked: bool) -> Device | SessionProcesses:
    """Raises DeviceUnavailable."""
    gpu = arguments.device == "cupy"
    if not gpu and (arguments.gpu is not None or arguments.gpu_sharing is not Sharing.TIME):
        raise registry.DeviceUnavailable(f"--gpu and --gpu-sharing are for GPUs; the device is {arguments.device}")
    if gpu and arguments.confine == "on":
        raise registry.DeviceUnavailable(
            "--confine is for the simulated and the null device: a GPU's driver needs more than it leaves"
        )
    if (arguments.workers or ("process" if gpu or networked else "thread")) == "thread":
        if arguments.confine == "on":
            raise registry.DeviceUnavailable(
                "--confine needs --workers process: it is for processes that have one session"
            )
        if gpu and len(arguments.gpu or [0]) > 1:
            raise registry.DeviceUnavailable("several GPUs need --workers process")
        return registry.open_device(arguments.device, options, **({"gpu": arguments.gpu[0]} if arguments.gpu else {}))
    if options.shared is not None:
        raise registry.DeviceUnavailable(
            "sessions of --shared-memory are threads of one process, which --workers process does not give them: "
            "say --workers thread, or leave it out"
        )
    confined = not gpu and arguments.confine != "off"
    if confined:
        for option, value in (
            ("session-reports", options.reports),
            ("timeline", options.timeline),
            ("memory-trace", options.trace),
            ("model", options.model),
        ):
            if value:
                raise registry.DeviceUnavailable(
                    f"--{option} has each session write a file, and a confined one writes none: add --confine off, or "
                    "--workers thread"
                )
        if not confinement.is_supported():
            raise registry.DeviceUnavailable("sessions can be confined on x86-64 Linux only: add --confine off")
    return SessionProcesses(
        WorkerPool(
            arguments.device,
            options=options,
            gpus=(arguments.gpu or [0]) if gpu else (),
            warm=arguments.warm,
            limit=arguments.workers_per_gpu or arguments.sessions,
            sharing=arguments.gpu_sharing,
            logged=logs.Wanted(arguments.log_level, arguments.log_format),
            confined=confined,
        )
    )


def _what(arguments: argparse.Namespace, host: Host) -> str:
    """What is served, in one line."""
    text: str = arguments.device
    if arguments.device == "cupy":
        text += ": " + ", ".join(each.name for each in host.descriptions)
    if isinstance(host.device, SessionProcesses):
        sharing = f", sharing by {host.device.pool.sharing}" if arguments.device == "cupy" else ""
        confined = "a confined process" if host.device.pool.confined else "a process"
        text += f", {confined} for each session{sharing}"
    return text


def _options(arguments: argparse.Namespace) -> DeviceOptions:
    """The arguments', and the environment's where there are none. Raises DeviceUnavailable."""
    simulated = {
        name: getattr(arguments, name)
        for name in ("device_memory", "shared_memory", "memory_policy", "memory_trace", "model", "capability")
    }
    given = [name for name, value in simulated.items() if value is not None]
    if given and arguments.device != "sim":
        raise registry.DeviceUnavailable(
            f"--{given[0].replace('_', '-')} is for the simulated device; the device is {arguments.device}"
        )
    paths = {name: getattr(arguments, name) for name in ("memory_trace", "model", "session_reports", "timeline")}
    found = {name: os.path.abspath(path) for name, path in paths.items() if path}
    try:
        return DeviceOptions.read(
            os.environ,
            capability=arguments.capability,
            memory=arguments.device_memory,
            shared=arguments.shared_memory,
            policy=arguments.memory_policy,
            trace=found.get("memory_trace"),
            model=found.get("model"),
            reports=found.get("session_reports"),
            timeline=found.get("timeline"),
        )
    except ValueError as error:
        raise registry.DeviceUnavailable(str(error)) from None


class ServeCommand:
    """Opens the device, listens, serves until a signal."""

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
        parser.add_argument("--folder", metavar="FOLDER", help="the folder of `farlane host init`, for farlane+tls://")
        parser.add_argument(
            "--insecure",
            action="store_true",
            help="listen where other machines can connect, without encryption and without asking who comes",
        )
        parser.add_argument(
            "--capability",
            metavar="|".join(capabilities.names()),
            help=f"compute capability of the simulated device (default: {capabilities.DEFAULT[0]}.{capabilities.DEFAULT[1]})",
        )
        parser.add_argument(
            "--quota",
            type=parse_bytes,
            metavar="BYTES",
            help="device memory of one session, for example 2G (default: all the device has)",
        )
        parser.add_argument(
            "--device-memory",
            type=parse_bytes,
            metavar="BYTES",
            help="device memory that a session has, a multiple of 2M; what it allocates beyond moves between device and host "
            "(sim; default: as much as it allocates)",
        )
        parser.add_argument(
            "--shared-memory",
            type=parse_bytes,
            metavar="BYTES",
            help="device memory that all sessions have together, a multiple of 2M: the session of the highest priority runs, and what it lacks "
            "moves from others to the host (sim; default: each has what it allocates)",
        )
        parser.add_argument(
            "--guest-priority",
            type=parse_priority,
            default=HIGHEST_PRIORITY,
            metavar="N",
            help="the highest priority that a guest without a token may ask for, with --shared-memory (default: %(default)s)",
        )
        parser.add_argument(
            "--memory-policy",
            metavar="|".join(replacement.POLICIES),
            help=f"who goes when that is full (default: {replacement.DEFAULT})",
        )
        parser.add_argument(
            "--memory-trace",
            metavar="FILE",
            help="write what launches and copies access, for `farlane plan`; {} in the name is the session's number (sim)",
        )
        parser.add_argument(
            "--model", metavar="FILE", help="what of the memory system is modelled (sim; docs/memory.md)"
        )
        parser.add_argument(
            "--session-reports", metavar="FOLDER", help="write what the device has counted for each session there"
        )
        parser.add_argument(
            "--timeline", metavar="FOLDER", help="write when each session did what there, for `farlane run --timeline`"
        )
        parser.add_argument(
            "--sessions",
            type=parse_positive,
            default=DEFAULT_SESSIONS,
            metavar="N",
            help=f"sessions open at once (default: {DEFAULT_SESSIONS})",
        )
        parser.add_argument(
            "--grace",
            type=parse_seconds,
            default=GRACE_SECONDS,
            metavar="SECONDS",
            help="how long a session waits for its guest when a connection by TCP or TLS has broken; 0: not at all "
            f"(default: {GRACE_SECONDS:.0f})",
        )
        parser.add_argument(
            "--workers",
            choices=("thread", "process"),
            help="each session in a thread of this process, or in a process of its own (default: process for cupy, and where other machines come; else thread)",
        )
        parser.add_argument(
            "--confine",
            choices=("on", "off"),
            help="sessions' processes open no files and sockets of others (default: on for sim and null with --workers process)",
        )
        parser.add_argument(
            "--warm",
            type=parse_count,
            default=1,
            metavar="N",
            help="processes of each GPU that wait for a session (default: 1)",
        )
        parser.add_argument(
            "--gpu",
            type=parse_gpus,
            default=None,
            metavar="N[,N]",
            help="the GPUs that sessions are placed on (default: 0)",
        )
        parser.add_argument(
            "--workers-per-gpu",
            type=parse_positive,
            metavar="N",
            help="sessions of one GPU at once (default: as --sessions)",
        )
        parser.add_argument(
            "--gpu-sharing",
            type=Sharing,
            choices=list(Sharing),
            default=Sharing.TIME,
            metavar="time|mps",
            help="how sessions share a GPU: time slices, or the Multi-Process Service, which must run (default: time)",
        )
        parser.add_argument(
            "--no-analyze", action="store_true", help="do not ask guests for their programs to make manifests of them"
        )
        parser.add_argument(
            "--log-level", choices=logs.LEVELS, default="warning", help="what is logged to stderr (default: warning)"
        )
        parser.add_argument(
            "--log-format", choices=logs.FORMATS, default="text", help="lines for people, or JSON (default: text)"
        )
        parser.add_argument(
            "--admin",
            type=parse_admin,
            metavar="[HOST:]PORT",
            help="a web page and metrics for Prometheus, by HTTP (default of HOST: 127.0.0.1)",
        )
        parser.add_argument(
            "--ready-fd", type=int, metavar="FD", help="write the endpoints to this file descriptor once listening"
        )
        parser.add_argument(
            "--die-with-parent", action="store_true", help="end when the process that started this one ends"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        logs.configure(logs.Wanted(arguments.log_level, arguments.log_format))
        sys.setswitchinterval(SWITCH_SECONDS)
        signals = Signals((signal.SIGTERM, signal.SIGINT))
        if arguments.die_with_parent:
            end_with_parent()
        try:
            return self._serve(arguments, _options(arguments), signals)
        except (EndpointError, SecurityError, registry.DeviceUnavailable) as error:
            print(f"farlane: {error}", file=sys.stderr)
            return 1

    def _serve(self, arguments: argparse.Namespace, options: DeviceOptions, signals: Signals) -> int:
        endpoints = [parse(text) for text in arguments.listen or [DEFAULT_ENDPOINT]]
        folder = Folder(Path(arguments.folder)) if arguments.folder else default_private_folder(os.environ)
        require_protection(endpoints, folder, arguments.insecure)
        shown_at = None if arguments.admin is None else protected(arguments.admin, folder, arguments.insecure)
        manifests = None if arguments.no_analyze else ManifestStore(default_folder(), analyzer_revision())
        host = Host(
            _device(arguments, options, networked=any(not endpoint.local for endpoint in endpoints)),
            quota=arguments.quota,
            session_limit=arguments.sessions,
            manifests=manifests,
            guest_priority=arguments.guest_priority,
        )
        try:
            edge = Edge(host, folder, arguments.grace)
            admin = contextlib.ExitStack()
            try:
                bound = edge.listen(endpoints)
                if shown_at is not None:
                    opened = open_admin(host, shown_at, folder, edge)
                    admin.callback(opened.stop)
                    print(f"farlane: the host shows itself at {opened.url}", flush=True)
                for endpoint in bound:
                    if not endpoint.local and not is_encrypted(endpoint):
                        log.warning(
                            "%s can be reached from other machines, without authentication or encryption", endpoint
                        )
                _announce(arguments.ready_fd, _what(arguments, host), [str(endpoint) for endpoint in bound])
                version()  # read while the first guest starts
                if arguments.die_with_parent and isinstance(host.device, Device):  # a session comes at once
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
        return 0


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
