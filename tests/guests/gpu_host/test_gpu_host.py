"""The GPU device (`--device cupy`) on Farlane's own driver: a host that is itself a guest, of a host with the simulated device.

Programs of tests/native run through it, each in one mode (--full-matrix: in all three, and the rare ones, too), and the device contract and the device's own tests
(tests/guests/gpu) in the host's own process. The driver's test options are on: streams run late. What is not here, and why: `NOT_SO`, and docs/explanation/gpu/testing.md.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import native_builds
import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.registry import Entry
from farlane.frontend.devtools.toolchain import Toolchain
from on_a_gpu import NOT_THERE
from ports import free_port
from steady import there_and_back

pytestmark = pytest.mark.guests

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".cache/guests/bin/python"
STEADY = ROOT / "tests/fleet/programs/steady.cu"
MOST = Path(__file__).parent / "most.cu"
REGISTRY = ROOT / "tests/native/registry.toml"
MODES = ("none", "calls", "loops")
FARLANE = str(ROOT / ".venv/bin/farlane")
BUILD = Build(3, "sm_75")
SECONDS = 60

# Late streams; and reservations outlive a reset, which Farlane's driver ends otherwise (whether NVIDIA's does was not observed).
OPTIONS = {"FARLANE_INTEROP": "1", "FARLANE_TEST": "late;windows-stay"}
# As large as two windows of the GPU device, where one takes all addresses that the session may reserve otherwise.
ROOMY = ("--quota", "16G")
# Pinned memory outlives a reset: Farlane's driver leaves it to the program.
KEPT = {"pinned"}

# Words in memory are asked about until a stream has written them, which late streams do not do by themselves.
ASKING = {"driver_held_streams", "driver_memory_operations"}

ENTRIES = [
    entry
    for entry in registry.load(REGISTRY)
    if not entry.helper and "nvcc" in entry.compilers and entry.name not in NOT_THERE
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "entry" not in metafunc.fixturenames:
        return
    asking, full = metafunc.function is test_program_in_order, metafunc.config.getoption("--full-matrix")
    entries = [each for each in ENTRIES if (each.name in ASKING) == asking and (full or not each.rare)]
    metafunc.parametrize("entry", entries, ids=[each.name for each in entries])


@contextmanager
def gpu_host(folder: Path, options: Mapping[str, str], *more: str) -> Iterator[Guest]:
    """`more`: for `farlane serve`. At the end the sessions' processes have given everything back, nothing too early."""
    socket, log, report = folder / "host.sock", folder / "log", folder / "report"
    serve = ["-m", "farlane.frontend.cli", "serve", "--device", "cupy", "--listen", f"unix://{socket}", *more]
    command = [FARLANE, "run", "--report", f"json:{report}", "--", str(PYTHON), *serve]
    with log.open("w") as output, subprocess.Popen(command, env=os.environ | options, stderr=output) as host:
        try:
            ends = time.monotonic() + SECONDS
            while not socket.exists():
                assert host.poll() is None, log.read_text()
                assert time.monotonic() < ends, log.read_text()
                time.sleep(0.05)
            yield Guest(f"unix://{socket}")
            assert host.poll() is None, log.read_text()
        finally:
            host.send_signal(signal.SIGTERM)
    counts = json.loads(report.read_text())["sections"]["test"]
    assert counts.pop("calls") > 100
    assert set(counts) <= KEPT, counts


@pytest.fixture(scope="module")
def late_guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """Loops go through graphs, in streams that run late."""
    with gpu_host(tmp_path_factory.mktemp("late"), OPTIONS | {"FARLANE_GPU_GRAPHS": "on"}) as guest:
        yield guest


@pytest.fixture(scope="module")
def gpu_guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    with gpu_host(tmp_path_factory.mktemp("in_order"), OPTIONS | {"FARLANE_TEST": "windows-stay"}) as guest:
        yield guest


def run_program(entry: Entry, toolchain: Callable[[str], Toolchain], guest: Guest, every_mode: bool) -> None:
    command = native_builds.by_nvcc(entry, toolchain)
    dealt = MODES[zlib.crc32(entry.name.encode()) % len(MODES)]
    for mode in MODES if every_mode else (dealt,):
        outcome = guest.run(command, mode)
        assert (outcome.status, outcome.stdout) == (0, entry.expected), f"mode {mode}: {outcome.stderr}"


def test_program(
    entry: Entry, toolchain: Callable[[str], Toolchain], late_guest: Guest, request: pytest.FixtureRequest
) -> None:
    run_program(entry, toolchain, late_guest, request.config.getoption("--full-matrix"))


def test_program_in_order(
    entry: Entry, toolchain: Callable[[str], Toolchain], gpu_guest: Guest, request: pytest.FixtureRequest
) -> None:
    run_program(entry, toolchain, gpu_guest, request.config.getoption("--full-matrix"))


def test_synchronizations_hold_for_all_streams(toolchain: Callable[[str], Toolchain], late_guest: Guest) -> None:
    """A manifest lets the guest answer them by itself; where a GPU's streams overlap, it waits nevertheless."""
    (entry,) = [each for each in ENTRIES if each.name == "driver_copy_shapes"]
    command = [
        FARLANE,
        "run",
        "--report",
        "text",
        "--host",
        late_guest.url,
        "--",
        *entry.compiled(toolchain("13.0"), BUILD),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, entry.expected), done.stderr
    assert re.search(r"manifest +1 objects, .*, 0 local syncs", done.stderr), done.stderr


@pytest.mark.parametrize("mode", MODES)
def test_memory_that_another_guest_has(mode: str, toolchain: Callable[[str], Toolchain], gpu_guest: Guest) -> None:
    """The call says so that asks for it, also where calls are deferred, and the program goes on."""
    command = [str(compile_program(toolchain("13.0"), [MOST], "most", BUILD))]
    environment = gpu_guest.environment(command[0], mode)
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as beside:
        assert beside.stdout is not None
        assert [beside.stdout.readline() for _ in range(2)] == ["0\n", "PASS\n"]
        outcome = gpu_guest.run(command, mode)
        assert (outcome.status, outcome.stdout) == (0, "2\nPASS\n"), outcome.stderr
        beside.communicate("", timeout=SECONDS)
    assert beside.returncode == 0
    outcome = gpu_guest.run(command, mode)
    assert (outcome.status, outcome.stdout) == (0, "0\nPASS\n"), outcome.stderr


def test_a_program_moves_to_another_host_and_back(toolchain: Callable[[str], Toolchain], tmp_path: Path) -> None:
    program = str(compile_program(toolchain("13.0"), [STEADY], "steady", BUILD))
    urls = [f"grpc://127.0.0.1:{free_port()}" for _ in range(2)]
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    # Processes are guests of one simulated device here, and have no address in common.
    threads = ("--workers", "thread")
    with (
        gpu_host(folders[0], OPTIONS, *threads, "--listen", urls[0]) as first,
        gpu_host(folders[1], OPTIONS, *threads, "--listen", urls[1]) as second,
    ):
        there_and_back(program, [first.url, second.url], urls, [FARLANE])


def in_a_guest(*words: str, options: tuple[str, ...] = ()) -> str:
    """Runs pytest in a guest."""
    command = [FARLANE, "run", *options, "--", str(PYTHON), "-m", "pytest", "-q", "-p", "no:xdist", *words]
    environment = os.environ | OPTIONS
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


TWO_SESSIONS = "every_session_has_variables_of_its_own or contexts_are_apart or reset_makes_it_good_again"


def test_the_device_contract() -> None:
    """With mapped memory, and with a slab."""
    passed = re.search(
        r"(\d+) passed, 28 skipped", in_a_guest("tests/contract", "-k", f"cupy and not ({TWO_SESSIONS})")
    )
    assert passed
    assert int(passed[1]) >= 220


def test_two_sessions_in_a_process() -> None:
    assert re.search(r"\d+ passed", in_a_guest("tests/contract", "-k", f"cupy and ({TWO_SESSIONS})", options=ROOMY))


def test_the_device() -> None:
    """Failures, leaks, late streams, graphs, arrays: tests/guests/gpu."""
    passed = re.search(r"(\d+) passed", in_a_guest("tests/guests/gpu", options=ROOMY))
    assert passed
    assert int(passed[1]) >= 80


def test_the_host_s_guests_are_not_guests_of_its_own_host() -> None:
    """What `farlane run` starts inside a guest gets nothing of the outer guest's settings."""
    show = "import os; print(sorted(n for n in os.environ if n.startswith('FARLANE_')), os.environ['LD_PRELOAD'].count('core'))"
    inner = [FARLANE, "run", "--defer", "calls", "--", sys.executable, "-c", show]
    outer = [FARLANE, "run", "--timing", "throughput", "--check", "--", *inner]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    tested = environment | {"FARLANE_TEST": "late"}
    done = subprocess.run(outer, env=tested, capture_output=True, text=True, timeout=120, check=False)
    alone = subprocess.run(inner, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == alone.stdout != "", done.stderr
