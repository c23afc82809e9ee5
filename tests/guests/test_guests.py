"""Python packages that speak the driver API, unchanged from PyPI, as guests of the simulated device, in all three modes.

The packages live in an environment of their own (`make test-guests` makes it), which Farlane is installed in as well.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.embedded import EmbeddedHost
from running import PYTHON, SCRIPTS, farlane_run

pytestmark = pytest.mark.guests

CUPY = {"FARLANE_INTEROP": "1", "CUPY_COMPILE_WITH_PTX": "1"}  # what `farlane run` and the user would set

PRINTED = {
    "bindings": "launch\ngraph\npool\nvirtual memory\ninvalid PTX\nPASS\n",
    "management": "Farlane simulated device\ndevice\nsession\nPASS\n",
    "core": "compiled\nlaunched\ngraph\nbuffers\nPASS\n",
    "numba_kernels": "host arrays\ndevice arrays\nshared memory\natomics\nreductions and ufuncs\nrandom numbers\n"
    "streams, pinned, mapped, managed\nthread 0\nthread 1\nPASS\n",
    "numba_grid": "PASS\n",
}


@pytest.mark.parametrize("mode", ["none", "calls", "loops"])
@pytest.mark.parametrize("script", PRINTED)
def test_script(script: str, mode: str, guest: Guest) -> None:
    assert PYTHON.exists(), "run `make test-guests`, which installs what these tests need"
    outcome = guest.run([str(PYTHON), str(SCRIPTS / f"{script}.py")], mode)
    assert (outcome.status, outcome.stdout) == (0, PRINTED[script]), outcome.stderr
    assert outcome.report.unsupported == []


def test_nvidias_shared_runtime_by_its_path() -> None:
    """What a package that brings it along does; our own, of the same name, is there before it."""
    done = farlane_run(PYTHON, SCRIPTS / "runtime.py", timeout=100)
    assert done.stdout == "PASS\n", done.stderr


def test_a_numba_loop_is_one_round_trip(guest: Guest) -> None:
    """10,000 launches on device arrays, then one copy: what a run with a tenth of them costs."""

    def run(count: int) -> tuple[str, int]:
        outcome = guest.run([str(PYTHON), str(SCRIPTS / "numba_loop.py"), str(count)], "loops")
        assert outcome.status == 0, outcome.stderr
        return outcome.stdout, outcome.report.round_trips

    (few, trips), (many, others) = run(1_000), run(10_000)
    assert (few, many) == ("1000.0\n", "10000.0\n")
    assert trips == others


CHECKS = 421
# Where nothing is cached, hundreds of kernels are compiled: `make test-libraries` runs every case, `make test-guests` a share.
ALL = pytest.param(1, marks=pytest.mark.whole)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("every", [12, ALL])
def test_cupy_agrees_with_numpy_and_scipy(every: int) -> None:
    """By `farlane run`, which has CuPy compile to PTX; CuPy has NVIDIA's runtime in it (docs/explanation/interoperability.md)."""
    done = farlane_run(PYTHON, SCRIPTS / "cupy_libraries.py", str(every), timeout=1700)
    assert done.returncode == 0, done.stderr[-2000:]
    counts = dict(line.split(": ") for line in done.stdout.splitlines())
    assert counts.pop("failed") == "none", done.stderr[-2000:]
    assert sum(map(int, counts.values())) == -(-CHECKS // every), counts


def test_round_trips_of_cupy(guest: Guest) -> None:
    """After the first time nothing waits but what looks at the value."""

    def trips(*steps: str) -> int:
        outcome = guest.run([str(PYTHON), str(SCRIPTS / "cupy_sum.py"), *steps], "loops", extra=CUPY)
        assert outcome.status == 0, outcome.stderr
        return outcome.report.round_trips

    first = trips("sum")
    assert trips("sum", "sum") == first
    assert trips("sum", "value") == first + 1
    assert trips("10") == trips("1000")
    product = trips("product")
    assert trips("product", "product", "product") == product
    looked = trips("product", "look")
    assert trips("product", "look", "product", "product", "look") == looked + 1


LIBRARIES = ["cublas", "cublaslt", "cufft", "curand", "cusolver", "cusparse"]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("every", [8, ALL])
@pytest.mark.parametrize(
    ("library", "options"), [*((name, ()) for name in LIBRARIES), ("cublaslt", ("--capability", "8.0"))]
)
def test_library_agrees_with_numpy(library: str, options: tuple[str, ...], every: int) -> None:
    """Whatever the device: the libraries are told of one that they have no machine code for (docs/reference/libraries.md)."""
    done = farlane_run(PYTHON, SCRIPTS / "libraries", library, str(every), options=options, timeout=1700)
    assert (done.returncode, done.stdout) == (0, f"{library}: right\n"), done.stderr[-4000:]
    assert "CUDA Tile IR" not in done.stderr, done.stderr[-4000:]


@pytest.mark.parametrize("step", ["spawn", "fork", "large"])
def test_processes_and_large_arrays(step: str, guest: Guest) -> None:
    outcome = guest.run([str(PYTHON), str(SCRIPTS / "processes.py"), step], "loops", extra=CUPY)
    assert (outcome.status, outcome.stdout) == (0, f"{step}\n"), outcome.stderr


def test_three_thousand_modules() -> None:
    """Neither side grows: the guest asserts it of itself."""

    def run(host: EmbeddedHost) -> int:
        command = [str(PYTHON), str(SCRIPTS / "processes.py"), "modules=3000-100"]
        outcome = Guest(host.url).run(command, "loops", extra=CUPY)
        assert (outcome.status, outcome.stdout) == (0, "modules\n"), outcome.stderr
        return int(Path(f"/proc/{host.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    with EmbeddedHost("sim") as host:
        first = run(host)
        assert run(host) - first < 16 << 20
