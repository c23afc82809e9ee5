"""What the benchmarks of the path share: hosts, guests, bare sockets, medians over several runs.

Numbers of one line come from one run of the same machine: a measure is printed beside its reference, as a ratio, and
the runs of the two alternate, so that what else the machine does hits both.
"""

from __future__ import annotations

import functools
import json
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from farlane.frontend import report as reports
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import cache_folder, install
from farlane.frontend.embedded import EmbeddedHost

PROGRAMS = Path(__file__).parent / "programs"
TRANSPORTS = ("shm", "unix", "tcp")
RUNS = 5

Numbers = Mapping[str, float]


@functools.cache
def guest_program() -> str:
    return str(compile_program(install("13.0"), [PROGRAMS / "guest.cu"], "guest", Build()))


@functools.cache
def socket_program() -> str:
    output = cache_folder() / "bench-socket"
    subprocess.run(["c++", "-O2", "-o", str(output), str(PROGRAMS / "socket.cpp")], check=True)
    return str(output)


@functools.cache
def _plane_program(name: str) -> str:
    shim = Path(__file__).resolve().parent.parent / "frontend/shim"
    command = ["cargo", "build", "--quiet", "--locked", "--release", "--package", "plane", "--example", name]
    subprocess.run(command, cwd=shim, check=True)
    return str(shim / "target/release/examples" / name)


@contextmanager
def host(device: str, *extra: str) -> Iterator[dict[str, Guest]]:
    """A host on a Unix socket, TCP and TLS; the guests by transport.

    Args:
        extra: further arguments of `farlane serve`.
    """
    with socket.socket() as first, socket.socket() as second, tempfile.TemporaryDirectory() as named:
        for probe in (first, second):
            probe.bind(("127.0.0.1", 0))
        tcp = f"grpc://127.0.0.1:{first.getsockname()[1]}"
        tls = f"farlane+tls://127.0.0.1:{second.getsockname()[1]}"
        folder, token = f"{named}/host", f"{named}/token"
        init = [sys.executable, "-m", "farlane.frontend.cli", "host", "init", "--folder", folder, "--token-file", token]
        subprocess.run(init, check=True, stdout=subprocess.DEVNULL)
        access = {"FARLANE_CA": f"{folder}/ca.pem", "FARLANE_TOKEN_FILE": token}
        first.close()
        second.close()
        with EmbeddedHost(device, extra=("--listen", tcp, "--listen", tls, "--folder", folder, *extra)) as serving:
            yield {
                "shm": Guest(serving.url, "shm"),
                "unix": Guest(serving.url, "grpc"),
                "tcp": Guest(tcp, "grpc"),
                "tls": Guest(tls, "grpc", access),
            }


def measure(guest: Guest, mode: str, *arguments: str, **environment: str) -> tuple[Numbers, reports.Report]:
    """Runs the guest program once; its numbers and the shim's report."""
    outcome = guest.run([guest_program(), *arguments], mode, timeout=600, extra=environment)
    if outcome.status:
        raise SystemExit(f"the guest failed (status {outcome.status}): {outcome.stderr}")
    return json.loads(outcome.stdout), outcome.report


def numbers(guest: Guest, mode: str, *arguments: str, **environment: str) -> Numbers:
    return measure(guest, mode, *arguments, **environment)[0]


def exchange(transport: str, up: int, down: int, rounds: int) -> Numbers:
    """A bare exchange of so many bytes between two processes, over a Unix socket where the transport is shared memory."""
    return _printed(socket_program(), "tcp" if transport == "tcp" else "unix", str(up), str(down), str(rounds))


def plane_exchange(kind: str, up: int, down: int, rounds: int) -> Numbers:
    """As `exchange`, through a bare ring (ring) or a bare gRPC stream (unix, tcp)."""
    return _printed(_plane_program("exchange"), kind, str(up), str(down), str(rounds))


def ciphers(size: int, rounds: int) -> Numbers:
    """What TLS's ciphers take for so many bytes in a process's memory: guest_aes_128_seal, host_aes_128_open and so on."""
    return _printed(_plane_program("cipher"), str(size), str(rounds))


def _printed(*command: str) -> Numbers:
    found: Numbers = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def medians(runs: Sequence[Callable[[], Numbers]]) -> list[Numbers]:
    """Runs each of them `RUNS` times, in turn; the median of every number."""
    results: list[list[Numbers]] = [[] for _ in runs]
    for _ in range(RUNS):
        for run, found in zip(runs, results, strict=True):
            found.append(run())
    return [{name: statistics.median(result[name] for result in found) for name in found[0]} for found in results]
