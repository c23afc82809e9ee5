"""Options and fixtures that the tests of whole programs share: the full matrix, toolchains, and running guests.

A guest is run through the same code as `farlane run` uses to make its environment, against a host of the test session's
own, so that many short programs need not wait for a host to start each. `tests/e2e/test_run.py` runs `farlane run` itself.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from farlane.frontend import program as programs
from farlane.frontend import report as reports
from farlane.frontend import shim_library
from farlane.frontend.devtools.toolchain import Toolchain, ToolchainError, install
from farlane.frontend.embedded import EmbeddedHost

NATIVE = Path(__file__).parent / "native"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full-matrix",
        action="store_true",
        help="every program with every compiler and option, not a covering selection",
    )


@dataclass(frozen=True)
class Outcome:
    """How a guest ended: its exit status (negative: a signal), its streams, and the shim's report if it wrote one."""

    status: int
    stdout: str
    stderr: str
    report: reports.Report


class Guest:
    """Runs programs against one host."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self._folder = folder
        self._runs = 0

    def environment(self, program: str, mode: str, report: Path | None = None) -> dict[str, str]:
        """The environment in which the program's CUDA calls go to the host."""
        runtimes = programs.inspect(Path(program)).runtimes
        base = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
        pattern = str(report / "%p.json") if report else None
        return shim_library.guest_environment(base, host=self.url, mode=mode, runtimes=runtimes, report=pattern)

    def run(
        self, command: list[str], mode: str = "calls", timeout: float = 120, extra: Mapping[str, str] | None = None
    ) -> Outcome:
        """Runs a program to its end; a program that does not end in time fails the test."""
        self._runs += 1
        folder = self._folder / f"reports-{self._runs}"
        folder.mkdir()
        environment = self.environment(command[0], mode, folder) | dict(extra or {})
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", timeout=timeout
        )
        report = reports.collect(folder, mode, 0.0, done.returncode)
        return Outcome(done.returncode, done.stdout, done.stderr, report)


@pytest.fixture(scope="session")
def sim_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedHost]:
    """A host with the simulated device for all tests of a worker, on a Unix socket."""
    shim_library.require_built()
    with EmbeddedHost("sim") as host:
        yield host
        assert host.alive(), "the host ended during the tests"


@pytest.fixture(scope="session")
def guest(sim_host: EmbeddedHost, tmp_path_factory: pytest.TempPathFactory) -> Guest:
    """Runs programs on the session's simulated device."""
    return Guest(sim_host.url, tmp_path_factory.mktemp("guest"))


@functools.cache
def _installed(name: str) -> Toolchain | str:
    try:
        return install(name)
    except ToolchainError as error:
        return str(error)


@pytest.fixture(scope="session")
def toolchain() -> Callable[[str], Toolchain]:
    """Returns an installed toolchain by name; skips the test, saying why, where clang is not there.

    Only clang may be missing: nvcc comes from PyPI, and a test that cannot have it fails.
    """

    def get(name: str) -> Toolchain:
        found = _installed(name)
        if isinstance(found, Toolchain):
            return found
        if name.startswith("clang"):
            pytest.skip(found)
        pytest.fail(found)

    return get


def pytest_generate_tests(metafunc: Any) -> None:
    """Gives tests that ask for `full_matrix_option` at collection what the command line said."""
    if "build_case" in metafunc.fixturenames:
        module = metafunc.module
        cases = module.cases(full=metafunc.config.getoption("--full-matrix"))
        metafunc.parametrize("build_case", cases, ids=[case.id for case in cases])
