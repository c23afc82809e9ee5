"""`farlane run`: runs a program with its CUDA calls going to a host."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from farlane.frontend import manifests, settings, shim_library, steering
from farlane.frontend import program as programs
from farlane.frontend import report as reports
from farlane.frontend import timeline as timelines
from farlane.frontend.embedded import EmbeddedHost
from farlane.frontend.errors import UserError
from farlane.frontend.hosts import add_access, parse_url, set_access
from farlane.frontend.sizes import parse_size
from farlane.hosturl import FORMS
from farlane.hosturl.variables import HOST, named_host
from farlane.terminal import statuses
from farlane.terminal.examples import add_examples

EXAMPLES = (
    ("farlane run -- ./app arguments", "run a program on the simulated device of an embedded host"),
    ("farlane run -- python script.py", "run a Python program with Numba, CuPy, Triton, JAX, Warp or Taichi"),
    ("farlane run --report text -- ./app", "count its round trips, calls and bytes as well"),
    ("farlane run --check=all -- ./app", "look for errors in its kernels: bounds, races, uninitialised reads, leaks"),
    ("farlane run --timeline run.json -- ./app", "write when calls, kernels and loops began and ended, for Perfetto"),
    ("farlane run --device-memory 64M -- ./app", "bound device memory: data move to the host and back"),
    (
        "farlane run --host farlane+tls://gpu-host:7070 --ca ca.pem --token-file token -- ./app",
        "run it on a host of another machine",
    ),
)
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class RunCommand:
    """Starts an embedded host unless one is named, starts the program, reports, and ends with the program's exit status."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_examples(parser, *EXAMPLES)
        parser.add_argument("--host", metavar="URL", help=f"a running `farlane serve`: {FORMS}")
        add_access(parser)
        parser.add_argument(
            "--device",
            default=None,
            help="the device of the embedded host; `farlane devices` lists them (default: sim)",
        )
        parser.add_argument(
            "--capability",
            metavar="X.Y",
            help="the compute capability of the embedded host's simulated device: 7.5, 8.0, 8.6, 9.0 or 12.0 (default: 12.0)",
        )
        parser.add_argument(
            "--quota",
            metavar="BYTES",
            help="the most device memory that the program may allocate on the embedded host, for example 512M",
        )
        parser.add_argument(
            "--device-memory",
            metavar="BYTES",
            help="the size of the embedded host's device memory; what the program allocates beyond it moves to the host and back",
        )
        parser.add_argument(
            "--memory-policy",
            metavar="POLICY",
            help="which data leave device memory when it is full (`farlane serve --help` names the policies)",
        )
        parser.add_argument(
            "--memory-trace", metavar="FILE", help="write what launches and copies access, for `farlane plan`"
        )
        parser.add_argument("--defer", choices=shim_library.MODES, default=None, help="deferral mode (default: loops)")
        parser.add_argument(
            "--report", metavar="text|json:FILE", help="report round trips, calls and bytes when the program ends"
        )
        parser.add_argument(
            "--timeline",
            metavar="FILE",
            help="write when the program's calls, groups, kernels and loops began and ended, for Perfetto",
        )
        parser.add_argument(
            "--timing",
            choices=shim_library.TIMINGS,
            default=None,
            help="whether the program's clocks wait for work whose synchronization was answered early (default: faithful)",
        )
        parser.add_argument(
            "--transport",
            choices=shim_library.TRANSPORTS,
            default=None,
            help="what carries messages: shared memory (shm) where the host is on this machine and listens on a Unix socket, else gRPC "
            "(default: auto)",
        )
        parser.add_argument(
            "--guards",
            action="store_true",
            help="let copies to the host in loops wait until their destination is first touched, where the kernel can tell",
        )
        parser.add_argument(
            "--check",
            nargs="?",
            const="memory",
            metavar="WHAT",
            help=f"look for errors in kernels: {', '.join(shim_library.CHECKS)}, several with commas, or all (default: memory); "
            "write --check=WHAT",
        )
        parser.add_argument(
            "--error-exitcode",
            type=int,
            metavar="N",
            help="with --check: the exit status when errors were found (default: the program's own)",
        )
        parser.add_argument(
            "--priority",
            type=int,
            choices=range(10),
            metavar="0..9",
            help="the priority of the program's sessions: the highest comes first on a host whose sessions share device memory "
            "(`farlane serve --shared-memory`); the host bounds it",
        )
        parser.add_argument(
            "--no-manifest", action="store_true", help="use no manifest: loops are recorded, but not predicted"
        )
        parser.add_argument(
            "--analyze-seconds",
            type=float,
            metavar="N",
            help=f"how long the program may be analyzed on first use (default: {manifests.SECONDS:g}; 0: not at all)",
        )
        parser.add_argument(
            "program",
            nargs=argparse.REMAINDER,
            metavar="-- PROGRAM [ARGUMENT ...]",
            help="the program and its arguments",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        try:
            return self._run(arguments)
        except UserError as error:
            print(f"farlane: {error}", file=sys.stderr)
            return error.status

    def _run(self, arguments: argparse.Namespace) -> int:
        words = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
        if not words:
            raise UserError(
                "no program given", "farlane run [options] -- ./program arguments", status=statuses.WRONG_CALL
            )
        if words[0] == "nvidia-smi" and os.environ.get(shim_library.SMI) != "off":
            words = ["/bin/sh", "-c", 'exec nvidia-smi "$@"', *words]  # the one of the program's PATH, not of ours
        outer = _leave_guest()
        set_access(arguments)
        write_report = _report_writer(arguments.report)
        timeline = None if arguments.timeline is None else _writable(arguments.timeline, "the timeline")
        checks = _checks(arguments)
        mode = shim_library.deferral_mode(arguments.defer)
        shim_library.require_built()
        path = programs.find(words[0])
        host = named_host(arguments.host)
        with contextlib.ExitStack() as stack:
            spans = None
            if timeline is not None:
                spans = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="farlane-timeline-")))
            if host:
                memory = (arguments.device_memory, arguments.memory_policy, arguments.memory_trace)
                if arguments.device or arguments.capability or arguments.quota or any(memory):
                    raise UserError(
                        "--device, --capability, --quota and options of its memory are for the embedded host",
                        "Give them to `farlane serve`.",
                        statuses.WRONG_CALL,
                    )
                parse_url(host)
                embedded = None
            else:
                quota = parse_size(arguments.quota) if arguments.quota else None
                counted = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="farlane-report-")))
                extra = _host_options(arguments, counted)
                # The GPU of a host in a guest is the guest's own.
                around = outer if arguments.device == "cupy" else None
                embedded = EmbeddedHost(arguments.device or "sim", quota, extra, around)
                stack.callback(embedded.close)
                embedded.start()  # it gets ready while we look at the program
                host = embedded.url
            program = programs.inspect(path)
            interop = settings.interop(os.environ)
            if remark := programs.require_interceptable(program, interop):
                print(f"farlane: {remark}", file=sys.stderr)
            shim_library.preload_for(program.runtimes)
            manifest_folder = _manifests(arguments, mode, program)
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="farlane-report-")))
            environment = shim_library.guest_environment(
                os.environ,
                host=host,
                mode=mode,
                runtimes=program.runtimes,
                report=str(folder / "%p.json"),
                manifests=manifest_folder,
                timing=_timing(arguments),
                sanitizer=program.sanitizer,
                guards=_guards(arguments),
                checks=checks,
                interop=interop,
                transport=arguments.transport,
                timeline=None if spans is None else str(spans / f"{timelines.GUEST}%p.jsonl"),
                priority=arguments.priority,
            )
            steering.steer(environment, arguments.device, None if embedded else host)
            if os.environ.get(shim_library.SMI) != "off":
                tools = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="farlane-tools-")))
                shim_library.add_tools(environment, tools)
            if embedded is not None:
                embedded.wait_ready()
            started = time.perf_counter()
            ended = _execute(words, program.path, environment)
            seconds = time.perf_counter() - started
            killed, status = ended < 0, ended if ended >= 0 else 128 - ended  # the status as a shell has it
            report = reports.collect(folder, mode, seconds, status)
            if embedded is not None:
                told = bool(write_report or arguments.memory_trace)
                embedded.close(abandoned=killed and not told)  # only then has it written everything
                if told:
                    report.add_host(counted)
            if spans is not None and timeline is not None:
                print(f"farlane: {timelines.write(spans, timeline)}", file=sys.stderr)
        if write_report:
            write_report(report)
        if arguments.error_exitcode is not None and report.sections.get("check", {}).get("errors"):
            return int(arguments.error_exitcode)
        return status


def _leave_guest() -> dict[str, str]:
    """The environment as it was. From now on it is no guest's: of an outer guest's settings its host stays, and the user's word on interoperability."""
    outer = dict(os.environ)
    if shim_library.in_guest(outer):
        kept = {name: outer[name] for name in (HOST, settings.INTEROP) if name in outer}
        own = shim_library.without_guest(outer) | kept
        os.environ.clear()
        os.environ.update(own)
    return outer


def _manifests(arguments: argparse.Namespace, mode: str, program: programs.Program) -> str | None:
    """What FARLANE_MANIFESTS is to be; None leaves it as it is."""
    if arguments.no_manifest:
        return manifests.OFF
    if mode != "loops" or not program.is_elf or os.environ.get("FARLANE_MANIFESTS"):
        return None
    seconds = arguments.analyze_seconds
    if seconds is None:
        text = os.environ.get("FARLANE_ANALYZE_SECONDS") or str(manifests.SECONDS)
        try:
            seconds = float(text)
        except ValueError:
            raise UserError(
                f"FARLANE_ANALYZE_SECONDS={text} is no number of seconds", status=statuses.WRONG_CALL
            ) from None
    folder = manifests.prepare(
        program.path, os.environ, seconds, lambda line: print(f"farlane: {line}", file=sys.stderr, flush=True)
    )
    return None if folder is None else str(folder)


def _checks(arguments: argparse.Namespace) -> tuple[str, ...]:
    """What FARLANE_CHECK is to name; nothing leaves it as it is."""
    if arguments.check is None:
        if arguments.error_exitcode is not None and not os.environ.get("FARLANE_CHECK"):
            raise UserError("--error-exitcode is for checks", "Give --check as well.", statuses.WRONG_CALL)
        return ()
    names, unknown = shim_library.known_checks(arguments.check.split(","))
    if unknown:
        raise UserError(
            f"--check={','.join(unknown)} is not known",
            f"{', '.join(shim_library.CHECKS)}, separated by commas, or all; a program's name goes behind --",
            statuses.WRONG_CALL,
        )
    return names


def _host_options(arguments: argparse.Namespace, counted: Path) -> tuple[str, ...]:
    """Options of the embedded host."""
    options = ["--session-reports", str(counted)]
    if arguments.device_memory:
        options += ["--device-memory", str(parse_size(arguments.device_memory))]
    for name, value in (
        ("--capability", arguments.capability),
        ("--memory-policy", arguments.memory_policy),
        ("--memory-trace", arguments.memory_trace),
    ):
        if value:
            options += [name, value]
    return tuple(options)


def _timing(arguments: argparse.Namespace) -> str | None:
    """What FARLANE_TIMING is to be; None leaves it unset, which is faithful."""
    timing: str | None = arguments.timing or os.environ.get("FARLANE_TIMING")
    if timing and timing not in shim_library.TIMINGS:
        raise UserError(
            f"FARLANE_TIMING={timing} is none of {', '.join(shim_library.TIMINGS)}", status=statuses.WRONG_CALL
        )
    return timing


def _guards(arguments: argparse.Namespace) -> bool:
    """Whether FARLANE_GUARDS is to be on; False leaves it as it is."""
    setting = os.environ.get("FARLANE_GUARDS")
    if setting and setting not in ("on", "off"):
        raise UserError(f"FARLANE_GUARDS={setting} is neither on nor off", status=statuses.WRONG_CALL)
    return bool(arguments.guards)


def _report_writer(target: str | None) -> Callable[[reports.Report], object] | None:
    """What to do with the report; the target is checked before the program runs, so that no run is wasted."""
    if target is None:
        return None
    if target == "text":
        return lambda report: sys.stderr.write(report.text())
    kind, _, name = target.partition(":")
    if kind != "json" or not name:
        raise UserError(
            f"--report {target} is not known",
            "--report text, or --report json:FILE (json:- for standard output)",
            statuses.WRONG_CALL,
        )
    if name == "-":
        return lambda report: sys.stdout.write(report.json())
    path = _writable(name, "the report")
    return lambda report: path.write_text(report.json())


def _writable(name: str, what: str) -> Path:
    """The file, which is there now. Raises UserError before the program runs, so that no run is wasted."""
    path = Path(name)
    try:
        path.touch()
    except OSError as error:
        raise UserError(f"cannot write {what} to {name}: {error.strerror}", status=statuses.WRONG_CALL) from error
    return path


def _execute(words: list[str], path: Path, environment: dict[str, str]) -> int:
    """Runs the program with our standard streams, passes signals on, and returns its status: a signal that ended it is a negative number."""
    try:
        # Absolute: a name without a folder would be looked up in PATH.
        child = subprocess.Popen(words, executable=path.absolute(), env=environment)
    except OSError as error:
        raise UserError(f"cannot run {path}: {error.strerror}", status=statuses.NOT_EXECUTABLE) from error
    previous = {number: signal.signal(number, lambda n, _: child.send_signal(n)) for number in FORWARDED}
    previous[signal.SIGINT] = signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # the terminal sends it to the program as well
    try:
        return child.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


command = RunCommand()
