"""Guests without a launcher: `farlane.connect`, `farlane env` and the pytest plugin, through the driver API by ctypes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from farlane.frontend import shim_library
from farlane.frontend.embedded import EmbeddedHost
from waiting import eventually

CLIENTS = Path(__file__).parents[2] / "clients"
FARLANE = [sys.executable, "-m", "farlane.frontend.cli"]
STORED = "import driver_api; print(driver_api.stored(3))"
RESULT = "[1, 2, 3]"


def clean_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    return kept | {"PYTHONPATH": str(CLIENTS)}


def python(*lines: str, **extra: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(command, env=clean_environment() | extra, capture_output=True, text=True, timeout=120)


def succeeded(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("mode", ["none", "calls", "loops"])
def test_a_host_of_the_process_s_own(mode: str) -> None:
    """It is there for children as well, and goes with the process."""
    url, own, child = succeeded(
        python(
            "import subprocess, sys, farlane",
            f"print(farlane.connect(mode={mode!r}), flush=True)",
            f"exec({STORED!r})",
            "sys.stdout.flush()",
            f"sys.exit(subprocess.run([sys.executable, '-c', {STORED!r}]).returncode)",
        )
    )
    assert (own, child) == (RESULT, RESULT)
    eventually(lambda: not Path(url.removeprefix("unix://")).parent.exists())


def test_a_named_host(sim_host: EmbeddedHost) -> None:
    assert succeeded(python("import farlane", f"print(farlane.connect({sim_host.url!r}))", STORED)) == [
        sim_host.url,
        RESULT,
    ]
    by_variable = python("import farlane", "farlane.connect()", STORED, FARLANE_HOST=sim_host.url)
    assert succeeded(by_variable) == [RESULT]


def test_the_host_outlives_the_thread_that_asked_for_it() -> None:
    lines = ("import threading, time, farlane", "thread = threading.Thread(target=farlane.connect)", "thread.start()")
    assert succeeded(python(*lines, "thread.join()", "time.sleep(0.5)", STORED)) == [RESULT]


def test_the_host_outlives_what_the_interpreter_closes() -> None:
    """An interpreter that ends closes its objects' files before the shim ends the session."""
    close = "[each.stdin.close() for each in keeper._held]"
    lines = ("import time, farlane", "from farlane.frontend import keeper", "farlane.connect()", close, "time.sleep(1)")
    assert succeeded(python(*lines, STORED)) == [RESULT]


def test_modules_of_the_program_are_not_the_host_s(tmp_path: Path) -> None:
    (tmp_path / "socketserver.py").write_text("raise SystemExit('not for the host')")
    (tmp_path / "grpc.py").write_text("raise SystemExit('not for the host')")
    command = [sys.executable, "-c", f"import farlane; farlane.connect(); {STORED}"]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=120)
    assert succeeded(done) == [RESULT]


def test_a_capability_and_a_quota() -> None:
    asked = "import ctypes, driver_api; cuda = driver_api.Cuda(); major = ctypes.c_int()"
    shown = "cuda('cuDeviceGetAttribute', ctypes.byref(major), 75, 0); print(major.value)"
    too_much = "cuda.allocate(17 << 20)"
    done = python("import farlane", "farlane.connect(capability='12.0', quota='16M')", asked, shown, too_much)
    assert done.stdout == "12\n"
    assert done.stderr.endswith("driver_api.Error: cuMemAlloc_v2: 2\n")


def test_twice(sim_host: EmbeddedHost) -> None:
    first = f"farlane.connect({sim_host.url!r}, mode='calls')"
    done = python("import farlane", first, first, "farlane.connect()", STORED, "farlane.connect(mode='none')")
    assert done.stdout == f"{RESULT}\n"
    assert f"this process is a guest of {sim_host.url} already, with other arguments" in done.stderr


def test_under_the_launcher(sim_host: EmbeddedHost) -> None:
    """The launcher's host stays."""
    lines = f"import farlane; print(farlane.connect(mode='calls') == {sim_host.url!r}); {STORED}; farlane.connect(check='race')"
    command = [*FARLANE, "run", "--host", sim_host.url, "--defer", "calls", "--", sys.executable, "-c", lines]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=120)
    assert done.stdout == f"True\n{RESULT}\n"
    assert "is a guest of" in done.stderr
    assert "since its start, with other arguments" in done.stderr


def test_a_driver_library_that_is_not_ours(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.580.1"
    build = ["cc", "-shared", "-Wl,-soname,libcuda.so.1", "-x", "c", "-o", str(library), "-"]
    subprocess.run(build, input="int cuInit(unsigned flags) { return (int) flags; }", text=True, check=True)
    done = python("import ctypes, farlane", f"ctypes.CDLL({str(library)!r})", "farlane.connect()")
    assert f"NVIDIA's libcuda.so.580.1 is loaded in this process already ({library})" in done.stderr
    assert "Call farlane.connect() before the first import that uses CUDA" in done.stderr


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("'grpc://127.0.0.1:9'", "no host at grpc://127.0.0.1:9: Connection refused"),
        ("'unix:///nowhere/host.sock'", "no host at unix:///nowhere/host.sock: No such file or directory"),
        ("'localhost:1'", "'localhost:1' is no host URL"),
        ("'grpc://127.0.0.1:9', capability='9.0'", "are for a host of the process's own"),
        ("mode='all'", "'all' is no deferral mode"),
        ("check='memory,rase'", "there is no check rase"),
        ("quota='much'", "'much' is no size"),
        ("capability='1.0'", "the embedded host ended at once"),
    ],
)
def test_what_cannot_be(call: str, message: str) -> None:
    done = python("import farlane", f"farlane.connect({call})")
    assert done.returncode == 1
    assert message in done.stderr


def test_importing_it_loads_nothing() -> None:
    lines = ("import sys", "import farlane, farlane.frontend.pytest_plugin")
    heavy = (
        "{name for name in sys.modules if name.split('.')[0] in ('grpc', 'numpy', 'llvmlite', 'elftools', 'google')}"
    )
    ours = "sorted(name for name in sys.modules if name.startswith('farlane.'))"
    assert succeeded(python(*lines, f"print({heavy} or {ours})")) == [
        "['farlane.frontend', 'farlane.frontend.pytest_plugin']"
    ]


def test_a_shell(sim_host: EmbeddedHost) -> None:
    """A shell's programs are guests, and are none again."""
    farlane, program = shlex.join(FARLANE), shlex.join([sys.executable, "-c", STORED])
    script = f'eval "$({farlane} env --host {sim_host.url} --defer calls)" && {program} && echo $FARLANE_DEFER'
    script += f' && eval "$({farlane} env --unset)" && echo "<$FARLANE_HOST$LD_PRELOAD$LD_AUDIT>" && {program}'
    done = subprocess.run(["sh", "-c", script], env=clean_environment(), capture_output=True, text=True, timeout=120)
    assert done.stdout == f"{RESULT}\ncalls\n<>\n"
    assert "libcuda.so.1: cannot open shared object file" in done.stderr


def test_a_shell_keeps_what_it_had() -> None:
    mine = {"LD_LIBRARY_PATH": "/mine", "LD_PRELOAD": "", "HOME": "/a b"}
    guest = shim_library.guest_environment(mine, host="unix:///h", mode="calls", runtimes=(), report="/r")
    assert guest["LD_LIBRARY_PATH"].endswith(":/mine")
    left = shim_library.without_guest(guest)
    assert {name: left.get(name) for name in ("LD_LIBRARY_PATH", "HOME", "LD_PRELOAD", "FARLANE_REPORT")} == {
        "LD_LIBRARY_PATH": "/mine",
        "HOME": "/a b",
        "LD_PRELOAD": None,
        "FARLANE_REPORT": None,
    }


def test_fish_and_no_host(sim_host: EmbeddedHost) -> None:
    env = [*FARLANE, "env"]
    done = subprocess.run(env, env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no host is named" in done.stderr
    command = [*env, "--host", sim_host.url, "--shell", "fish"]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert f"set -gx FARLANE_HOST '{sim_host.url}';" in done.stdout.splitlines()


SUITE = """
import driver_api
import pytest


@pytest.fixture(scope="module")
def cuda():
    return driver_api.Cuda()


@pytest.fixture(scope="module")
def kept(cuda):
    return cuda.allocate(256)


def test_out_of_bounds(cuda):
    memory = cuda.allocate(128)
    cuda.launch("store", 33, memory)
    cuda.free(memory)


def test_good(cuda, kept):
    memory = cuda.allocate(128)
    cuda.launch("store", 32, memory)
    assert cuda.read(memory, 2) == [1, 2]
    cuda.free(memory)


def test_race(cuda):
    memory = cuda.allocate(256)
    cuda.launch("neighbour", 64, memory)
    cuda.synchronize()
    cuda.free(memory)


def test_leak(cuda):
    cuda.launch("store", 8, cuda.allocate(32))


@pytest.mark.xfail(strict=True)
def test_known(cuda):
    memory = cuda.allocate(128)
    cuda.launch("store", 33, memory)
    with pytest.raises(driver_api.Error, match="cuCtxSynchronize: 700"):
        cuda.synchronize()
    cuda.free(memory)


def test_raises(cuda):
    memory = cuda.allocate(128)
    cuda.launch("store", 33, memory)
    try:
        cuda.synchronize()
    finally:
        cuda.free(memory)


def test_good_again():
    assert driver_api.stored() == [1, 2, 3, 4]
"""


def suite(tmp_path: Path, *options: str) -> tuple[int, dict[str, str], str]:
    """Runs the suite above; returns the exit status, each test's outcomes, and the output."""
    (tmp_path / "test_suite.py").write_text(SUITE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        "test_suite.py",
    ]
    done = subprocess.run(
        [*command, *options], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=240
    )
    outcomes: dict[str, str] = {}
    verbose = r"test_suite\.py::test_(\w+) (PASSED|FAILED|ERROR|XFAIL|XPASS)|(PASSED|FAILED|ERROR|XFAIL) test_suite\.py::test_(\w+)"
    for line in done.stdout.splitlines():
        if (match := re.search(verbose, line)) and "%]" in line:
            name, outcome = match[1] or match[4], match[2] or match[3]
            outcomes[name] = f"{outcomes[name]} {outcome}" if name in outcomes else outcome
    return done.returncode, outcomes, done.stdout + done.stderr


def test_a_suite_on_the_simulated_device(tmp_path: Path) -> None:
    """Without checks nothing is found but what CUDA says, and the context is lost with it."""
    status, outcomes, output = suite(tmp_path, "--farlane", "-k", "good or race or leak")
    assert status == 0, output
    assert set(outcomes.values()) == {"PASSED"}


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one", "xdist"])
def test_a_suite_with_checks(workers: tuple[str, ...], tmp_path: Path) -> None:
    """The tests with errors fail, each with its own report, and the others pass after them."""
    status, outcomes, output = suite(tmp_path, "--farlane-check", *workers)
    assert status == 1, output
    assert outcomes == {
        "out_of_bounds": "FAILED",
        "good": "PASSED",
        "race": "FAILED",
        "leak": "PASSED ERROR",
        "known": "XFAIL",
        "raises": "FAILED",
        "good_again": "PASSED",
    }, output
    details, summary, _ = output.partition("= short test summary info =")  # which repeats what all tests said
    assert summary
    failures = re.split(r"^_+ (?:ERROR at teardown of )?test_(\w+) _+$", details, flags=re.MULTILINE)
    said = dict(zip(failures[1::2], failures[2::2], strict=True))
    assert "and is 1 bytes after the nearest allocation" in said["out_of_bounds"]
    assert "Race reported between" in said["race"]
    assert "Invalid" not in said["race"]
    assert re.search(r"= Leaked 32 bytes at 0x[0-9a-f]+$", said["leak"], re.MULTILINE)
    assert "driver_api.Error: cuCtxSynchronize: 700" in said["raises"]
    assert "- Captured farlane call -" in said["raises"]


def test_checks_that_are_asked_for(tmp_path: Path) -> None:
    status, outcomes, output = suite(tmp_path, "--farlane-check=race", "-k", "good or race or leak")
    assert (status, outcomes["race"], outcomes["leak"]) == (1, "FAILED", "PASSED"), output


def test_a_suite_without_the_options(tmp_path: Path) -> None:
    status, outcomes, output = suite(tmp_path, "-k", "good_again")
    assert (status, outcomes) == (1, {"good_again": "FAILED"})
    assert "libcuda.so.1: cannot open shared object file" in output


def test_a_check_that_is_none(tmp_path: Path) -> None:
    status, _, output = suite(tmp_path, "--farlane-check", "test_suite.py")
    assert status == 4
    assert "farlane: there is no check test_suite.py" in output
    assert "pytest tests --farlane-check" in output
