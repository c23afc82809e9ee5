"""`farlane doctor`: is everything installed, does the shim load, does the embedded host start, can a host be reached?

One check is one function that returns a `Finding`; a failed one says what to do. Exit status 1 when any check failed.
"""

from __future__ import annotations

import argparse
import ctypes.util
import importlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from farlane.frontend import shim_library
from farlane.frontend.embedded import EmbeddedHost
from farlane.frontend.errors import UserError
from farlane.frontend.hosts import describe, parse_url

OK, NOTE, FAILED = "ok", "note", "FAILED"
PROBE_SECONDS = 30


@dataclass(frozen=True)
class Finding:
    """The result of one check; `advice` says what to do when it failed."""

    state: str
    text: str
    advice: str = ""


def check_system() -> Finding:
    """Operating system, processor and Python."""
    text = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    if platform.system() != "Linux":
        return Finding(FAILED, text, "The guest and the host run on Linux.")
    if platform.machine() != "x86_64":
        return Finding(NOTE, text, "Farlane is tested on x86_64 only.")
    return Finding(OK, text)


def check_packages() -> Iterator[Finding]:
    """The Python packages Farlane needs, and the optional one for real GPUs."""
    yield Finding(OK, f"farlane {importlib.metadata.version('farlane')}")
    for distribution, module in (
        ("grpcio", "grpc"),
        ("protobuf", "google.protobuf"),
        ("llvmlite", "llvmlite"),
        ("numpy", "numpy"),
    ):
        try:
            importlib.import_module(module)
            yield Finding(OK, f"{distribution} {importlib.metadata.version(distribution)}")
        except Exception as error:  # a broken native library raises what it likes
            yield Finding(
                FAILED, f"{distribution} cannot be imported: {error}", f"pip install --force-reinstall {distribution}"
            )
    try:
        importlib.import_module("cupy")
        yield Finding(OK, "cupy (device `cupy`)")
    except Exception:
        yield Finding(NOTE, "cupy is not installed: no real GPU can be served from here, the simulated device can")


def check_shim() -> Iterator[Finding]:
    """The shim's libraries are there, and the loader accepts them."""
    try:
        shim_library.require_built()
    except UserError as error:
        yield Finding(FAILED, error.message, error.advice)
        return
    yield Finding(OK, f"shim libraries in {shim_library.FOLDER}")
    for major in shim_library.RUNTIMES:
        library = shim_library.runtime_library(major)
        environment = {**os.environ, "LD_PRELOAD": str(library), "FARLANE_LOG": "error"}
        probe = subprocess.run(["/bin/true"], env=environment, capture_output=True, text=True, timeout=PROBE_SECONDS)
        if probe.returncode or "ld.so" in probe.stderr:
            yield Finding(
                FAILED,
                f"{library.name} cannot be preloaded: {probe.stderr.strip() or f'status {probe.returncode}'}",
                "Rebuild the shim on this machine: python frontend/shim/build.py",
            )
            continue
        code = f"import ctypes; ctypes.CDLL({str(library)!r}).cudaGetErrorString"
        probe = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PROBE_SECONDS)
        if probe.returncode:
            last = (probe.stderr.strip().splitlines() or ["no message"])[-1]
            yield Finding(
                FAILED, f"{library.name} cannot be loaded: {last}", "Rebuild the shim: python frontend/shim/build.py"
            )
        else:
            yield Finding(OK, f"{library.name} loads")


def check_environment() -> Iterator[Finding]:
    """Settings that would change what `farlane run` does."""
    for name in ("FARLANE_HOST", "FARLANE_DEFER", "LD_PRELOAD"):
        if value := os.environ.get(name):
            yield Finding(NOTE, f"{name}={value} is set")
    mode = os.environ.get("FARLANE_DEFER")
    if mode and mode not in shim_library.MODES:
        yield Finding(FAILED, f"FARLANE_DEFER={mode} is no deferral mode", f"One of {', '.join(shim_library.MODES)}.")
    if found := ctypes.util.find_library("cuda"):
        yield Finding(
            NOTE, f"NVIDIA's driver library {found} is on this machine; programs under `farlane run` do not use it"
        )


def check_host(url: str) -> Finding:
    """A host can be reached and speaks our protocol."""
    try:
        reply = describe(parse_url(url))
    except UserError as error:
        return Finding(FAILED, error.message, error.advice)
    ours = importlib.metadata.version("farlane")
    devices = ", ".join(f"{d.name} ({d.backend})" for d in reply.devices) or "no device"
    text = f"host {url}: farlane {reply.host_version}, {devices}, {reply.sessions} of {reply.session_limit} sessions"
    if reply.host_version != ours:
        return Finding(NOTE, f"{text}; this is farlane {ours}")
    return Finding(OK, text)


def check_embedded(device: str) -> Finding:
    """The embedded host starts and answers."""
    try:
        with EmbeddedHost(device) as host:
            finding = check_host(host.url)
    except UserError as error:
        return Finding(FAILED, f"embedded host with device {device}: {error.message}", error.advice)
    return Finding(
        finding.state, f"embedded {finding.text}" if finding.state != FAILED else finding.text, finding.advice
    )


class DoctorCommand:
    """Runs the checks, prints a line for each."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", metavar="URL", help="also check that this host can be reached")

    def run(self, arguments: argparse.Namespace) -> int:
        failed = 0
        checks: list[Callable[[], Finding | Iterator[Finding]]] = [
            check_system,
            check_packages,
            check_shim,
            check_environment,
        ]
        if url := arguments.host or os.environ.get("FARLANE_HOST"):
            checks.append(lambda: check_host(url))
        checks.append(lambda: check_embedded("sim"))
        for check in checks:
            findings = check()
            for finding in [findings] if isinstance(findings, Finding) else findings:
                print(f"{finding.state:>6}  {finding.text}", flush=True)
                if finding.advice:
                    print(f"        -> {finding.advice}", flush=True)
                failed += finding.state == FAILED
        print("everything needed is there" if not failed else f"{failed} check(s) failed")
        return 1 if failed else 0


command = DoctorCommand()
