"""Options and fixtures that the tests of whole programs share: the full matrix, toolchains, and running guests.

A guest is run through the same code as `farlane run` uses to make its environment, against a host of the test session's
own, so that many short programs need not wait for a host to start each. `tests/e2e/commands/test_run.py` runs `farlane run` itself.
"""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grouping
import processor_time
import pytest
import sampling
import skip_ledger
from farlane.frontend import shim_library
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.toolchain import CLANG, Toolchain, ToolchainError, install
from farlane.frontend.embedded import EmbeddedHost
from hypothesis import HealthCheck, settings

# Caches of the tests' own: what another version of this tree has left in the user's must not decide what they see, nor they what is there.
os.environ.setdefault("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip"))
os.environ["XDG_CACHE_HOME"] = str(Path(__file__).parents[1] / ".cache" / "user")
os.environ.pop("FARLANE_CACHE_DIR", None)

# The same examples in every run, however slow the machine; what is found is kept as a test, not in a database.
settings.register_profile(
    "farlane", deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("farlane")


def pytest_addoption(parser: pytest.Parser) -> None:
    for name, default, what in (("sessions", 5, "sessions"), ("steps", 60, "steps of each"), ("seed", 1, "seed")):
        parser.addoption(
            f"--schedule-{name}",
            type=int,
            default=default,
            metavar="N",
            help=f"{what} of the random schedule in tests/randomized/test_schedules.py (default: {default})",
        )
    parser.addoption(
        "--hostile-inputs",
        type=int,
        default=6000,
        metavar="COUNT",
        help="damaged images that tests/randomized/test_hostile_inputs.py loads in each mode (default: 6000)",
    )
    parser.addoption(
        "--full-matrix",
        action="store_true",
        help="every program with every compiler and option, not a covering selection; every case of tests that are sampled",
    )
    skip_ledger.add_options(parser)
    processor_time.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    skip_ledger.register(config)
    processor_time.register(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    sampling.choose(config, items)
    if getattr(config.option, "loadgroup", False):  # set by xdist, in its workers
        grouping.arrange(items)


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the search for garbage need not go over it in every test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def sim_host() -> Iterator[EmbeddedHost]:
    """A host with the simulated device for all tests of a worker, on a Unix socket."""
    shim_library.require_built()
    with EmbeddedHost("sim") as host:
        yield host
        assert host.alive(), "the host ended during the tests"


@pytest.fixture(scope="session")
def guest(sim_host: EmbeddedHost) -> Guest:
    """Runs programs on the session's simulated device."""
    return Guest(sim_host.url)


@functools.cache
def _installed(name: str, host_compiler: str) -> Toolchain | str:
    try:
        return install(name, host_compiler)
    except ToolchainError as error:
        return str(error)


@pytest.fixture(scope="session")
def toolchain() -> Callable[..., Toolchain]:
    """Returns an installed toolchain by name and, for nvcc, its host compiler; skips the test where clang is missing.

    Only clang may be missing: nvcc comes from PyPI, and a test that cannot have it fails.
    """

    def get(name: str, host_compiler: str = "g++") -> Toolchain:
        found = _installed(name, host_compiler)
        if isinstance(found, Toolchain):
            return found
        if name.startswith("clang") or host_compiler == CLANG:
            pytest.skip(found)
        pytest.fail(found)

    return get


def pytest_generate_tests(metafunc: Any) -> None:
    """Gives tests that ask for `full_matrix_option` at collection what the command line said."""
    if "build_case" in metafunc.fixturenames:
        module = metafunc.module
        cases = module.cases(full=metafunc.config.getoption("--full-matrix"))
        metafunc.parametrize("build_case", cases, ids=[case.id for case in cases])
