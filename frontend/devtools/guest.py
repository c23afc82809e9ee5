"""Running guests against a host that is there already, for tests and benchmarks of many short programs.

The environment is made by the same code as for `farlane run`; what is left out is the launcher around it.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from farlane.frontend import program as programs
from farlane.frontend import report as reports
from farlane.frontend import shim_library


@dataclass(frozen=True)
class Outcome:
    """How a guest ended: its exit status (negative: a signal), its streams, and the sum of its processes' reports."""

    status: int
    stdout: str
    stderr: str
    report: reports.Report


@functools.lru_cache(256)
def _inspected(program: str, changed: int) -> programs.Program:
    """Each state of a file once: reading its headers takes longer than many a program."""
    return programs.inspect(Path(program))


class Guest:
    """Runs programs against one host.

    Args:
        url: the host's.
        transport: as of `farlane run --transport`; None leaves what the environment says.
        access: variables by which a host with TLS is known and lets the guest in.
    """

    def __init__(self, url: str, transport: str | None = None, access: Mapping[str, str] | None = None) -> None:
        self.url = url
        self.transport = transport
        self.access = access or {}

    def environment(self, program: str, mode: str, report: Path | None = None) -> dict[str, str]:
        """The environment in which the program's CUDA calls go to the host; settings of ours from outside are dropped."""
        inspected = _inspected(program, os.stat(program).st_mtime_ns)
        base = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
        base |= self.access
        pattern = str(report / "%p.json") if report else None
        return shim_library.guest_environment(
            base,
            host=self.url,
            mode=mode,
            runtimes=inspected.runtimes,
            report=pattern,
            sanitizer=inspected.sanitizer,
            transport=self.transport,
        )

    def run(
        self, command: list[str], mode: str = "calls", timeout: float = 120, extra: Mapping[str, str] | None = None
    ) -> Outcome:
        """Runs a program to its end.

        Args:
            command: the program and its arguments.
            mode: the deferral mode.
            timeout: seconds.
            extra: environment variables besides.

        Raises:
            subprocess.TimeoutExpired: it did not end in time.
        """
        with tempfile.TemporaryDirectory(prefix="farlane-guest-") as folder:
            environment = self.environment(command[0], mode, Path(folder)) | dict(extra or {})
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, errors="replace", timeout=timeout
            )
            report = reports.collect(Path(folder), mode, 0.0, done.returncode)
        return Outcome(done.returncode, done.stdout, done.stderr, report)
