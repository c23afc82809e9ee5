"""farlane-run, the launcher without Python, beside `farlane run`: the same report, statuses, signals and messages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from farlane.frontend import report as reports
from farlane.frontend import shim_library
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

LAUNCHER = str(shim_library.FOLDER / shim_library.LAUNCHER)
FARLANE_RUN = [sys.executable, "-m", "farlane.frontend.cli", "run"]
ENTRIES = {entry.name: entry for entry in registry.load(Path(__file__).parents[2] / "native/registry.toml")}
TIMES = ("wall_seconds", "device_seconds")


def environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")} | more


def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([LAUNCHER, *words], env=environment(**more), capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def vecadd(toolchain: Callable[[str], Toolchain]) -> str:
    return ENTRIES["vecadd"].compiled(toolchain("13.0"), Build(architecture="sm_75"))[0]


def counted(command: list[str], program: str, folder: Path) -> dict[str, Any]:
    """The report of a run, without what differs from run to run."""
    file = folder / "report.json"
    done = subprocess.run(
        [*command, "--report", f"json:{file}", "--", program], env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, ENTRIES["vecadd"].expected, "")
    found: dict[str, Any] = json.loads(file.read_text())
    return {name: value for name, value in found.items() if name not in TIMES}


@pytest.mark.parametrize("mode", shim_library.MODES)
def test_the_report_is_that_of_farlane_run(mode: str, vecadd: str, guest: Guest, tmp_path: Path) -> None:
    options = ["--host", guest.url, "--defer", mode, "--no-manifest"]
    counted([LAUNCHER, *options], vecadd, tmp_path)  # the host has the program's modules from now on
    ours = counted([LAUNCHER, *options], vecadd, tmp_path)
    theirs = counted([*FARLANE_RUN, *options], vecadd, tmp_path)
    varying = {"bytes_up", "bytes_down", "groups"}  # a group is sent when it is old; messages have numbers of processes
    assert list(ours) == list(theirs)
    assert {name: value for name, value in ours.items() if name not in varying} == {
        name: value for name, value in theirs.items() if name not in varying
    }


def test_the_report_for_people_has_the_same_form(vecadd: str, guest: Guest, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    words = ["--host", guest.url, "--defer", "calls", "--report"]
    assert run(*words, f"json:{file}", "--", vecadd).returncode == 0
    said = run(*words, "text", "--", vecadd).stderr

    def steady(text: str) -> list[str]:
        return [
            line for line in text.splitlines() if not line.startswith(("  wall", "  device", "  bytes", "  groups"))
        ]

    assert steady(said) == steady(reports.Report(**json.loads(file.read_text())).text())


@pytest.mark.parametrize(
    ("words", "status", "part"),
    [
        (["--host", "unix:///s", "--", "sh", "-c", "exit 7"], 7, ""),
        (["--host", "unix:///s", "--", "sh", "-c", "kill -9 $$"], 137, ""),
        (["--host", "unix:///s", "--", "/no/such/program"], 127, "no such file"),
        (["--host", "unix:///s", "--", "no-such-program"], 127, "no such program in PATH"),
        (["--host", "unix:///s", "--", "/etc/passwd"], 126, "is not executable"),
        (["--host", "unix:///s", "--", "/"], 126, "is a folder"),
        (["--host", "gpu-host", "--", "sh"], 2, "not the address of a host"),
        (["--", "sh"], 2, "no host given"),
        (["--defer", "all", "--", "sh"], 2, "all is not known"),
        (["--host", "unix:///s", "--libraries", "/etc", "--", "sh"], 125, "the shim is not there"),
    ],
)
def test_exit_statuses(words: list[str], status: int, part: str) -> None:
    done = run(*words)
    assert done.returncode == status, done.stderr
    assert part in done.stderr


def test_signals_go_to_the_program() -> None:
    script = 'trap "exit 9" TERM; echo ready; while :; do sleep 0.05; done'
    with subprocess.Popen(
        [LAUNCHER, "--host", "unix:///s", "--", "sh", "-c", script],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as launched:
        assert launched.stdout is not None
        assert launched.stdout.readline() == "ready\n"
        launched.send_signal(signal.SIGTERM)
        assert launched.wait(60) == 9


def test_the_environment_is_that_of_farlane_run(guest: Guest, tmp_path: Path) -> None:
    """Of a program that is no CUDA program itself; what only Python can do is left out."""

    def shown(command: list[str]) -> dict[str, str]:
        words = [*command, "--host", guest.url, "--", "env"]
        text = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True).stdout
        found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        return {name: value for name, value in found.items() if name.startswith(("FARLANE_", "LD_"))}

    ours, theirs = shown([LAUNCHER]), shown([*FARLANE_RUN, "--no-manifest"])
    assert ours.pop("FARLANE_REPORT").endswith("/%p.json")
    assert theirs.pop("FARLANE_REPORT").endswith("/%p.json")
    assert theirs.pop("FARLANE_MANIFESTS") == "off"
    theirs.pop("FARLANE_STEERING")
    assert theirs.pop("FARLANE_INTEROP") == "0"
    assert ours == theirs
