"""What `farlane serve` is asked for: its arguments, and the device that they name.

Owns the options, their defaults and which of them exclude each other.
"""

from __future__ import annotations

import argparse
import logging
import os
from typing import TYPE_CHECKING

from farlane.backend.commands.admin import parse_admin
from farlane.backend.commands.sizes import (
    parse_bytes,
    parse_count,
    parse_gpus,
    parse_positive,
    parse_priority,
    parse_seconds,
    parse_share,
    parse_weight,
)
from farlane.backend.device import capabilities, registry
from farlane.backend.device.base import Device
from farlane.backend.device.options import DeviceOptions
from farlane.backend.host.fairness import DEFAULT_WEIGHT, Fairness, Terms
from farlane.backend.host.greeting import version
from farlane.backend.host.host import DEFAULT_SESSIONS, Host
from farlane.backend.host.manifests import ManifestStore, analyzer_revision, default_folder
from farlane.backend.host.session import HIGHEST_PRIORITY
from farlane.backend.host.spans import Sink
from farlane.backend.memory import replacement
from farlane.backend.server.endpoint import FORMS
from farlane.backend.system import log as logs
from farlane.backend.workers import memory, users
from farlane.backend.workers.sharing import Sharing
from farlane.backend.workers.users import Users
from farlane.hosturl import DEFAULT_ENDPOINT

if TYPE_CHECKING:
    from farlane.backend.observing.otlp import Exporter
    from farlane.backend.workers.processes import SessionProcesses

log = logging.getLogger("farlane.workers")

QUEUE = 64
GRACE_SECONDS = 30.0  # for a guest whose connection has broken
_RESTORE = "a session of `farlane session save` that is there from the beginning on; may be repeated"


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
        help="listen where other machines can connect, without encryption and without tokens",
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
        help="the highest priority that a guest without a token may ask for (default: %(default)s)",
    )
    parser.add_argument(
        "--guest-weight",
        type=parse_weight,
        default=DEFAULT_WEIGHT,
        metavar="N",
        help="the weight of sessions without a token, where sessions share the device's time (default: %(default)s)",
    )
    parser.add_argument(
        "--guest-share",
        type=parse_share,
        metavar="PERCENT",
        help="the part of the device's time that a session without a token may use, for example 25%% (default: all)",
    )
    parser.add_argument(
        "--memory-policy",
        metavar="|".join(replacement.POLICIES),
        help=f"which data leave device memory when it is full (default: {replacement.DEFAULT})",
    )
    parser.add_argument(
        "--memory-trace",
        metavar="FILE",
        help="write what launches and copies access, for `farlane plan`; {} in the name is the session's number (sim)",
    )
    parser.add_argument(
        "--model", metavar="FILE", help="what of the memory system is modelled (sim; docs/howto/study-memory.md)"
    )
    parser.add_argument(
        "--session-reports", metavar="FOLDER", help="write what the device has counted for each session to this folder"
    )
    parser.add_argument(
        "--otlp",
        metavar="ENDPOINT",
        help="send when each session did what to a collector of OpenTelemetry, by HTTP, for example http://127.0.0.1:4318",
    )
    parser.add_argument(
        "--sessions",
        type=parse_positive,
        default=DEFAULT_SESSIONS,
        metavar="N",
        help=f"the most sessions at once (default: {DEFAULT_SESSIONS})",
    )
    parser.add_argument(
        "--queue",
        type=parse_count,
        default=QUEUE,
        metavar="N",
        help="guests that wait for a session while all are taken, those of the highest priority first; 0: they are refused (default: %(default)s)",
    )
    parser.add_argument(
        "--grace",
        type=parse_seconds,
        default=GRACE_SECONDS,
        metavar="SECONDS",
        help="how long a session waits for its guest when a connection by TCP or TLS has broken; 0: not at all "
        f"(default: {GRACE_SECONDS:.0f})",
    )
    parser.add_argument("--restore", action="append", default=[], metavar="FOLDER", help=_RESTORE)
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
        "--worker-memory",
        type=parse_bytes,
        metavar="BYTES",
        help="memory of the host that a session's process may take beside the session's device memory; one that takes more is ended "
        f"(default: {memory.BESIDE_BYTES >> 30}G where it is confined, else without a limit)",
    )
    parser.add_argument(
        "--worker-user",
        type=users.parse,
        metavar="NAME|UID-UID|off",
        help="the users that confined sessions' processes run as, where the host runs as root: one, or a range with one for each session "
        f"(default: {users.DEFAULT}, where they can read Farlane)",
    )
    parser.add_argument(
        "--warm",
        type=parse_count,
        default=1,
        metavar="N",
        help="the number of processes of each GPU that wait for a session (default: 1)",
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
        help="the most sessions of one GPU at once (default: as many as --sessions lets in)",
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
        "--log-level",
        choices=logs.LEVELS,
        default="warning",
        help="the least severe messages that are logged (default: warning)",
    )
    parser.add_argument(
        "--log-format",
        choices=logs.FORMATS,
        default="text",
        help="the form of the log: lines for people, or JSON (default: text)",
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
        "--die-with-parent", type=int, metavar="PID", help="end when this process ends, which has started this one"
    )


def read_options(arguments: argparse.Namespace) -> DeviceOptions:
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
    paths = {name: getattr(arguments, name) for name in ("memory_trace", "model", "session_reports")}
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
        )
    except ValueError as error:
        raise registry.DeviceUnavailable(str(error)) from None


def open_fairness(arguments: argparse.Namespace, options: DeviceOptions) -> Fairness | None:
    """What shares the device's time. None: sessions of --shared-memory have the task manager, and GPUs their driver. Raises DeviceUnavailable."""
    if arguments.device != "sim" or options.shared is not None:
        for name in ("guest_share", "guest_weight"):
            if getattr(arguments, name) not in (None, DEFAULT_WEIGHT):
                option = f"--{name.replace('_', '-')}"
                raise registry.DeviceUnavailable(f"{option} is for the simulated device without --shared-memory")
        return None
    return Fairness(options.threads or len(os.sched_getaffinity(0)))


def open_device(
    arguments: argparse.Namespace,
    options: DeviceOptions,
    *,
    networked: bool,
    spans: Sink | None = None,
    fairness: Fairness | None = None,
) -> Device | SessionProcesses:
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
        if arguments.worker_memory is not None:
            raise registry.DeviceUnavailable("--worker-memory needs --workers process: it is for sessions' processes")
        if gpu and len(arguments.gpu or [0]) > 1:
            raise registry.DeviceUnavailable("several GPUs need --workers process")
        return registry.open_device(arguments.device, options, **({"gpu": arguments.gpu[0]} if arguments.gpu else {}))
    from farlane.backend.workers import confinement  # the embedded host starts sooner without them
    from farlane.backend.workers.pool import WorkerPool
    from farlane.backend.workers.processes import SessionProcesses

    confined = not gpu and arguments.confine != "off"
    if confined:
        for option, value in (("memory-trace", options.trace), ("model", options.model)):
            if value:
                raise registry.DeviceUnavailable(
                    f"--{option} has each session write a file, and a confined one writes none: add --confine off, or "
                    "--workers thread"
                )
        if not confinement.is_supported():
            raise registry.DeviceUnavailable("sessions can be confined on x86-64 Linux only: add --confine off")
    switching = None
    if options.shared is not None:
        from farlane.backend.device.sim.processes.listener import SharedDevice

        switching = SharedDevice(options.shared)
    return SessionProcesses(
        spans=spans,
        pool=WorkerPool(
            arguments.device,
            options=options,
            gpus=(arguments.gpu or [0]) if gpu else (),
            warm=arguments.warm,
            limit=arguments.workers_per_gpu,
            sharing=arguments.gpu_sharing,
            logged=logs.Wanted(arguments.log_level, arguments.log_format),
            confined=confined,
            beside=arguments.worker_memory or (memory.BESIDE_BYTES if confined else None),
            users=_users(arguments.worker_user, confined),
            bell=None if fairness is None else fairness.scheduler.bell,
            switching=switching,
        ),
    )


def open_host(
    arguments: argparse.Namespace, options: DeviceOptions, *, networked: bool, spans: Sink | None = None
) -> Host:
    """Raises DeviceUnavailable."""
    fairness = open_fairness(arguments, options)
    return Host(
        open_device(arguments, options, networked=networked, spans=spans, fairness=fairness),
        spans=spans,
        quota=arguments.quota,
        session_limit=arguments.sessions,
        manifests=None if arguments.no_analyze else ManifestStore(default_folder(), analyzer_revision()),
        guest_priority=arguments.guest_priority,
        queue=arguments.queue,
        fairness=fairness,
        guest_terms=Terms(arguments.guest_weight, arguments.guest_share),
    )


def open_exporter(endpoint: str, device: str) -> Exporter:
    """Raises DeviceUnavailable: there is no OpenTelemetry here, or that is no place."""
    if not endpoint.startswith(("http://", "https://")):
        raise registry.DeviceUnavailable(f"--otlp takes a URL such as http://127.0.0.1:4318, not {endpoint!r}")
    try:
        from farlane.backend.observing.otlp import Exporter
    except ImportError as error:
        raise registry.DeviceUnavailable(f"--otlp needs pip install 'farlane[otel]': {error}") from None
    return Exporter(endpoint, version(), device)


def _users(asked: Users | str | None, confined: bool) -> Users | None:
    """Whom sessions' processes run as; None: as the host. Raises DeviceUnavailable: not as those that are asked for."""
    if asked == users.OFF or (asked is None and not (confined and users.may_change())):
        return None
    found = users.DEFAULT if asked is None else asked
    assert isinstance(found, Users)
    if not confined:
        why = "it is for confined sessions"
    elif not users.may_change():
        why = "the host does not run as root"
    else:
        from farlane.backend.workers import confinement

        why = users.hindrance(found.first, confinement.variables(os.environ))
    if not why:
        return found
    if asked is not None:
        raise registry.DeviceUnavailable(f"--worker-user cannot be used: {why}")
    log.warning(
        "sessions' processes run as root, for they cannot run as %s: %s. Have Farlane and its Python where every user may read "
        "them, such as /opt/farlane, or say --worker-user off",
        found,
        why,
    )
    return None
