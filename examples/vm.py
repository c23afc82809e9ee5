"""`make demo-vm`: a virtual machine without Python and without NVIDIA's software runs CUDA programs on a host of this machine.

The machine is QEMU's, with a kernel and libraries of Debian's packages (farlane.frontend.devtools.guest_image). It reaches the host by TCP with
TLS and a token. Each program runs in the three deferral modes, in the machine and outside of it; the round trips must be the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farlane.frontend import shim_library
from farlane.frontend.devtools.debian import Unavailable
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.tls_host import TlsHost
from farlane.frontend.devtools.toolchain import ToolchainError, install
from farlane.frontend.devtools.virtual_machine import MachineError, VirtualMachine, accelerators

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {"heat": ROOT / "examples/heat.cu", "loops": ROOT / "benchmarks/roundtrips/cuda/loops.cu"}
COMMANDS = (("heat",), ("loops", "repeated"), ("loops", "affine"), ("loops", "allocating"), ("loops", "cg-device"))
MODES = shim_library.MODES
HOST_ADDRESS = "10.0.2.2"  # this machine, as QEMU's user networking has it
ACCESS = {"etc/farlane/ca.pem": "ca", "etc/farlane/token": "token"}
ANALYSIS_SECONDS = 120.0
# No bound of time on loops that the host leads: the round trips are the same on a slow machine.
UNTIMED = {"FARLANE_LEAD_MS": "0"}


@dataclass(frozen=True)
class Result:
    """A program's output and its report."""

    output: str
    report: dict[str, Any]

    @property
    def round_trips(self) -> int:
        return int(self.report["round_trips"])


def programs() -> dict[str, Path]:
    """The programs, compiled. Raises ToolchainError."""
    toolchain = install("13.0")
    return {name: compile_program(toolchain, [source], name, Build(optimization=3)) for name, source in SOURCES.items()}


def machine(host: TlsHost, compiled: dict[str, Path], devices: tuple[str, ...] = ()) -> VirtualMachine:
    """A machine with the programs in /demo, and what the host wants to see. Raises MachineError or Unavailable."""
    files: dict[str, Path | bytes | None] = {f"demo/{name}": path for name, path in compiled.items()}
    files |= {name: getattr(host, attribute) for name, attribute in ACCESS.items()}
    return VirtualMachine(files, devices)


def launcher(url: str, mode: str) -> str:
    """The command line in front of a program, in the machine."""
    access = "--ca /etc/farlane/ca.pem --token-file /etc/farlane/token"
    settings = " ".join(f"{name}={value}" for name, value in UNTIMED.items())
    return f"{settings} farlane-run --host {url} {access} --defer {mode} --report json:/tmp/report"


def inside(vm: VirtualMachine, host: TlsHost, command: tuple[str, ...], mode: str) -> Result:
    """Runs a program in the machine. Raises MachineError when it fails."""
    line = f"{launcher(host.url(HOST_ADDRESS), mode)} -- /demo/{' '.join(command)}"
    status, output = vm.run(line, seconds=300)
    if status:
        raise MachineError(f"{' '.join(command)} failed in mode {mode} (status {status}): {output}")
    return Result(output, json.loads(vm.run("cat /tmp/report")[1]))


def outside(host: TlsHost, compiled: dict[str, Path], command: tuple[str, ...], mode: str) -> Result:
    """Runs a program on this machine, against the same host by the same launcher."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        options = ["--host", host.url(), "--defer", mode, "--report", f"json:{report}"]
        words = [str(shim_library.FOLDER / shim_library.LAUNCHER), *options, "--"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
        done = subprocess.run(
            [*words, str(compiled[command[0]]), *command[1:]],
            env=environment | host.access() | UNTIMED,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        return Result(done.stdout, json.loads(report.read_text()))


def analyzed(vm: VirtualMachine, host: TlsHost, command: tuple[str, ...]) -> None:
    """Runs a program until the host, which analyses it after it has first seen it, sends its manifest."""
    deadline = time.monotonic() + ANALYSIS_SECONDS
    while not inside(vm, host, command, "loops").report["sections"].get("manifest", {}).get("objects"):
        if time.monotonic() > deadline:
            raise MachineError(f"the host sent no manifest of {command[0]} within {ANALYSIS_SECONDS:.0f} s")
        time.sleep(0.5)


def main() -> int:
    """Returns 0 when every program gave the same output with the same round trips, in the machine and outside."""
    print("compiling the programs with nvcc 13.0 (PyPI wheels; the first time downloads them) ...", flush=True)
    try:
        compiled = programs()
        with tempfile.TemporaryDirectory() as folder, TlsHost(Path(folder), [HOST_ADDRESS]) as host:
            started = time.monotonic()
            print("starting the machine (the first time downloads a kernel of 27 MB) ...", flush=True)
            with machine(host, compiled) as vm:
                seconds = time.monotonic() - started
                print(f"{vm.run('uname -sr')[1].strip()}, {accelerators()[1]}, up after {seconds:.1f} s")
                return compare(vm, host, compiled)
    except (ToolchainError, MachineError, Unavailable) as error:
        raise SystemExit(str(error)) from error


def compare(vm: VirtualMachine, host: TlsHost, compiled: dict[str, Path]) -> int:
    """Prints the table; the exit status."""
    status = 0
    print(f"\n{'':20}{'mode':8}{'round trips':>12}{'outside':>9}{'bytes up':>12}{'bytes down':>12}{'wall s':>9}")
    for name in compiled:
        analyzed(vm, host, next(command for command in COMMANDS if command[0] == name))
    for command in COMMANDS:
        outputs = set()
        for mode in MODES:
            here, there = inside(vm, host, command, mode), outside(host, compiled, command, mode)
            outputs |= {here.output.strip(), there.output.strip()}
            if here.round_trips != there.round_trips:
                status = 1
            print(
                f"{' '.join(command):20}{mode:8}{here.round_trips:>12,}{there.round_trips:>9,}"
                f"{here.report['bytes_up']:>12,}{here.report['bytes_down']:>12,}{here.report['wall_seconds']:>9.2f}",
                flush=True,
            )
        if len(outputs) != 1:
            print(f"the outputs of {' '.join(command)} differ", file=sys.stderr)
            status = 1
    print("Same output and the same round trips as outside." if status == 0 else "The machine differs from outside.")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
