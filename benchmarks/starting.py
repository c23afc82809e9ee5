"""What starting and ending cost: the command line, `farlane run` with and without a host that runs, interrupts, a host's memory.

Usage: python benchmarks/starting.py

References of the same run: `python -c pass`, and the program alone, as a guest of the running host without `farlane run`. Figures are
medians over runs. Wall time depends on what else the machine does; processor time is that of the command and of what it waited for.
Needs nvcc (frontend/devtools/toolchain.py installs it).
"""

from __future__ import annotations

import os
import resource
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from farlane.frontend.devtools import registry
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import install

RUNS = 9
SESSIONS = 8  # opened at once, for what one takes
PROGRAMS = Path(__file__).parents[1] / "tests/native/registry.toml"
FARLANE = str(Path(sys.executable).with_name("farlane"))
# As a user's: where Python may not keep what it has compiled (PYTHONDONTWRITEBYTECODE), each start compiles all modules anew.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith("FARLANE_") and name != "PYTHONDONTWRITEBYTECODE"
}


def timed(command: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds of one run: wall time, processor time."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def show(name: str, goal: float | None, command: Sequence[str], environment: dict[str, str] = ENVIRONMENT) -> None:
    timed(command, environment)  # caches
    walls, processors = zip(*(timed(command, environment) for _ in range(RUNS)), strict=True)
    wall, processor = statistics.median(walls), statistics.median(processors)
    row(name, f"wall {wall:.3f} s, processor {processor:.3f} s", None if goal is None else wall <= goal, f"{goal} s")


def row(name: str, figures: str, reached: bool | None, goal: str) -> None:
    verdict = "reference" if reached is None else f"goal {goal}: {'reached' if reached else 'missed'}"
    print(f"{name:44} {figures:38} {verdict}", flush=True)


def interrupted(program: Sequence[str], number: signal.Signals) -> float:
    """Seconds from the signal to the end of the run."""
    command = ["env", "--default-signal=INT", FARLANE, "run", "--", *program]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.2)
        begun = time.perf_counter()
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        process.wait()
        return time.perf_counter() - begun


def memory(pid: int) -> tuple[float, float]:
    """A process's resident MB: all, and without files (libraries), which processes share and the system can drop."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kilobytes = {name: int(rest.split()[0]) for name, rest in (line.split(":", 1) for line in lines) if "kB" in rest}
    return kilobytes["VmRSS"] / 1e3, (kilobytes["VmRSS"] - kilobytes["RssFile"]) / 1e3


def main() -> None:
    entries = {entry.name: entry for entry in registry.load(PROGRAMS)}
    toolchain, build = install("13.0"), Build(architecture="sm_75")
    small, endless, patient = (entries[name].compiled(toolchain, build) for name in ("vecadd", "endless", "patient"))
    with tempfile.TemporaryDirectory() as folder:
        url = f"unix://{folder}/host.sock"
        host = subprocess.Popen([FARLANE, "serve", "--listen", url], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
        try:
            assert host.stdout is not None
            host.stdout.readline()
            time.sleep(0.5)
            resident, own = memory(host.pid)
            row("a host at rest", f"{resident:.0f} MB, without files {own:.0f} MB", resident <= 80, "80 MB")
            lines = subprocess.run(
                [FARLANE, "env", "--host", url], env=ENVIRONMENT, capture_output=True, text=True, check=True
            ).stdout
            words = shlex.split(lines, comments=True)
            given = dict(word.rstrip(";").split("=", 1) for word in words if "=" in word)
            show("python -c pass", None, [sys.executable, "-c", "pass"])
            show("the program alone, a host runs", None, small, ENVIRONMENT | given)
            show("farlane --help", 0.15, [FARLANE, "--help"])
            show("farlane run, a host runs", 0.12, [FARLANE, "run", "--host", url, "--", *small])
            show("farlane run, an embedded host", 0.35, [FARLANE, "run", "--", *small])
            before = memory(host.pid)[0]
            guests = [
                subprocess.Popen([*patient, "100000"], env=ENVIRONMENT | given, stdout=subprocess.PIPE, text=True)
                for _ in range(SESSIONS)
            ]
            for guest in guests:
                assert guest.stdout is not None
                guest.stdout.readline()
            each = (memory(host.pid)[0] - before) / SESSIONS
            row("a session with one small kernel", f"{each:.1f} MB", each <= 6, "6 MB")
            for guest in guests:
                guest.kill()
                guest.wait()
        finally:
            host.terminate()
            host.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        seconds = statistics.median(interrupted(endless, number) for _ in range(RUNS))
        row(f"{number.name} in a kernel that never ends", f"wall {seconds:.3f} s", seconds <= 0.5, "0.5 s")


if __name__ == "__main__":
    main()
