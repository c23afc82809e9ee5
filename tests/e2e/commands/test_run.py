"""`farlane run` and `farlane serve` as a user calls them: embedded host, TCP, Unix socket, modes, reports, exit status, signals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain
from waiting import eventually

pytestmark = pytest.mark.native

NATIVE = Path(__file__).parents[2] / "native"
ENTRIES = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}
FARLANE = [sys.executable, "-m", "farlane.frontend.cli"]
REPORT_KEYS = {"round_trips", "calls", "groups", "bytes_up", "bytes_down", "wall_seconds", "device_seconds", "mode"}


@pytest.fixture(scope="module")
def compiled(toolchain: Callable[[str], Toolchain]) -> Callable[[str], list[str]]:
    return lambda name: ENTRIES[name].compiled(toolchain("13.0"), Build(architecture="sm_75"))


def clean_environment() -> dict[str, str]:
    """Without our own settings; manifests have their own test, and a busy machine's lack of time for them is none of this one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    return kept | {"FARLANE_ANALYZE_SECONDS": "0"}


def run(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FARLANE, "run", *arguments], env=clean_environment() | extra, capture_output=True, text=True, timeout=120
    )


@contextmanager
def serving(listen: str) -> Iterator[str]:
    """`farlane serve`, its endpoint read from the line it prints."""
    command = [*FARLANE, "serve", "--device", "sim", "--listen", listen]
    with subprocess.Popen(command, env=clean_environment(), stdout=subprocess.PIPE, text=True) as host:
        try:
            assert host.stdout is not None
            match = re.search(r"(grpc|unix)://\S+", host.stdout.readline())
            assert match is not None
            yield match[0].rstrip(",;.")
        finally:
            host.terminate()
            assert host.wait(20) in (0, 143, -signal.SIGTERM)


def test_one_command_is_enough(compiled: Callable[[str], list[str]]) -> None:
    done = run("--", *compiled("vecadd"))
    assert (done.returncode, done.stdout, done.stderr) == (0, ENTRIES["vecadd"].expected, "")


@pytest.mark.parametrize("listen", ["grpc://127.0.0.1:0", "unix"])
def test_a_host_of_its_own(listen: str, compiled: Callable[[str], list[str]], tmp_path: Path) -> None:
    """Several programs, one after another and two at once, in all modes, over TCP and over a Unix socket."""
    with serving(f"unix://{tmp_path}/host.sock" if listen == "unix" else listen) as url:
        for name in ("vecadd", "bfs"):
            for mode in ("none", "calls", "loops"):
                done = run("--host", url, "--defer", mode, "--", *compiled(name))
                assert (done.returncode, done.stdout, done.stderr) == (0, ENTRIES[name].expected, "")
        environment = clean_environment() | {"FARLANE_HOST": url}
        pair = [
            subprocess.Popen(
                [*FARLANE, "run", "--", *compiled(name)], env=environment, stdout=subprocess.PIPE, text=True
            )
            for name in ("stencil2d", "reduction")
        ]
        outputs = [process.communicate(timeout=120)[0] for process in pair]
        assert outputs == [ENTRIES["stencil2d"].expected, ENTRIES["reduction"].expected]


def test_reports(compiled: Callable[[str], list[str]], tmp_path: Path) -> None:
    """The JSON report has what is promised, and deferring calls saves round trips; the text report says the same."""
    reports = {}
    for mode in ("none", "calls", "loops"):
        path = tmp_path / f"{mode}.json"
        done = run("--defer", mode, "--report", f"json:{path}", "--", *compiled("stencil2d"))
        assert done.returncode == 0, done.stderr
        report = reports[mode] = json.loads(path.read_text())
        assert report.keys() >= REPORT_KEYS
        assert (report["mode"], report["exit_status"], report["unsupported"]) == (mode, 0, [])
        assert min(report["bytes_up"], report["bytes_down"], report["groups"], report["calls"]["deferred"]) > 0
        assert 0 < report["device_seconds"] <= report["wall_seconds"] * (os.cpu_count() or 1)
    assert reports["none"]["calls"] == reports["calls"]["calls"], "the same calls, whatever the mode"
    # A launch for each of 60 steps, and 3 reductions with a memset: none of them waits in mode `calls`.
    assert reports["none"]["round_trips"] - reports["calls"]["round_trips"] >= 66
    # The handshake, the module, three reductions' results and the grid.
    assert reports["calls"]["round_trips"] <= 6
    text = run("--report", "text", "--", *compiled("vecadd"))
    assert text.stdout == ENTRIES["vecadd"].expected
    assert "round trips" in text.stderr


def test_the_programs_arguments_streams_and_status(compiled: Callable[[str], list[str]]) -> None:
    assert run("--", *compiled("fault")).returncode == 2  # its usage
    done = run("--", *compiled("patient"), "2", "1048576")
    assert (done.returncode, done.stdout) == (0, "round 1\nround 2\nPASS\n")
    shell = run("--", "/bin/sh", "-c", f"echo before; {compiled('vecadd')[0]}; echo status $?; exit 7")
    assert (shell.returncode, shell.stdout) == (7, f"before\n{ENTRIES['vecadd'].expected}status 0\n")


@pytest.mark.parametrize("closed", ["<&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(closed: str, compiled: Callable[[str], list[str]], tmp_path: Path) -> None:
    """As a daemon starts programs. The host's pipes and the guest's socket must not become anybody's standard output."""
    report = tmp_path / "report.json"
    command = [*FARLANE, "run", "--report", f"json:{report}", "--", *compiled("vecadd")]
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *command],
        env=clean_environment(), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("" if ">&-" in closed else ENTRIES["vecadd"].expected)
    assert json.loads(report.read_text())["calls"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, None)])
def test_signals_end_the_program_and_the_embedded_host(
    number: signal.Signals, status: int | None, compiled: Callable[[str], list[str]]
) -> None:
    """SIGTERM is passed on; Ctrl-C reaches the whole process group. Nothing is left running."""
    process = subprocess.Popen(
        # A shell's background jobs ignore it, and what they start.
        ["env", "--default-signal=INT", *FARLANE, "run", "--", *compiled("patient"), "100000"],
        env=clean_environment(), stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "round 1\n"
    children = descendants(process.pid)
    assert len(children) >= 2  # the host and the program
    if number == signal.SIGTERM:
        process.send_signal(number)
    else:
        os.killpg(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode == (status or 130)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("options", [(), ("--report", "json:/dev/null")], ids=["plain", "report"])
def test_a_kernel_that_never_ends_is_interrupted(
    number: signal.Signals, options: tuple[str, ...], compiled: Callable[[str], list[str]]
) -> None:
    """The run ends soon, with everything that it started. The bound is generous: half a second is the goal (docs/reference/limitations/programs.md)."""
    process = subprocess.Popen(
        ["env", "--default-signal=INT", *FARLANE, "run", *options, "--", *compiled("endless")],
        env=clean_environment(), stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    children = descendants(process.pid)
    assert len(children) >= 2
    begun = time.monotonic()
    if number == signal.SIGTERM:
        process.send_signal(number)
    else:
        os.killpg(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert time.monotonic() - begun < 8, "it waited for the host's grace period"
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))


def test_an_interrupted_session_ends_on_a_host_that_stays(compiled: Callable[[str], list[str]], tmp_path: Path) -> None:
    """The host serves the next program at once."""
    with serving(f"unix://{tmp_path}/host.sock") as url:
        process = subprocess.Popen(
            [*FARLANE, "run", "--host", url, "--", *compiled("endless")],
            env=clean_environment(), stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.terminate()
        assert process.wait(60) == 143
        done = run("--host", url, "--", *compiled("vecadd"))
        assert (done.returncode, done.stdout) == (0, ENTRIES["vecadd"].expected)


def descendants(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob(f"{pid}/task/*/children"):
        for child in path.read_text().split():
            found += [int(child), *descendants(int(child))]
    return found
