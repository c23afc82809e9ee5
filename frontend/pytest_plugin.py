"""The pytest plugin: `pytest --farlane` runs a suite as a guest, `--farlane-check` fails the tests whose kernels have errors.

Owns the options, and which test a finding belongs to: after each phase of a test the device is synchronized, and what the
shim has written to the log of its checks since then is that phase's. The memory that a test's call has allocated and its
teardown has not freed is its leak; fixtures of a module or session are set up before the call and count for nothing.

pytest loads this module in every run: it imports nothing of Farlane's before one of its options is given. With pytest-xdist
the controller starts the host, and each worker is a guest of its own there.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

CHECKED = "memory,race,leak"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("farlane", "CUDA without a GPU")
    group.addoption("--farlane", action="store_true", help="run the tests' CUDA calls on Farlane's simulated device")
    group.addoption("--farlane-host", metavar="URL", help="... or on this running host")
    group.addoption("--farlane-capability", metavar="X.Y", help="... with this compute capability")
    group.addoption(
        "--farlane-check",
        nargs="?",
        const=CHECKED,
        metavar="WHAT",
        help=f"fail tests whose kernels have errors: memory, race, init, leak, with commas, or all (default: {CHECKED}); "
        "write --farlane-check=WHAT",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before any conftest.py, which may import CUDA already."""
    options = early_config.known_args_namespace
    if not (options.farlane or options.farlane_host or options.farlane_capability or options.farlane_check):
        return
    from farlane.frontend import connecting
    from farlane.frontend.errors import UserError

    try:
        names = connecting.check_names(options.farlane_check or ())
    except UserError as error:
        advice = "Without names the option stands behind the tests: pytest tests --farlane-check"
        raise pytest.UsageError(f"farlane: {error}\n  {advice}") from None
    try:
        kernels = tuple(name for name in names if name != "leak")
        wanted = (*kernels, "continue") if "memory" in names else kernels
        host = connecting.connect(
            connecting.Options(options.farlane_host, capability=options.farlane_capability, checks=wanted)
        )
    except UserError as error:
        raise pytest.UsageError(f"farlane: {error}") from None
    early_config.pluginmanager.register(Guest(host, names), "farlane-guest")


class Guest:
    """A run of pytest as a guest.

    Args:
        host: its host's URL.
        checks: what tests fail for.
    """

    def __init__(self, host: str, checks: tuple[str, ...]) -> None:
        self._host = host
        self._checks = checks
        self._device: Device | None = None

    def pytest_report_header(self) -> str:
        return f"farlane: {self._host}, checks: {', '.join(self._checks) or 'none'}"

    def pytest_sessionstart(self) -> None:
        if self._checks:
            self._device = Device("leak" in self._checks)

    def pytest_unconfigure(self) -> None:
        if self._device is not None:
            self._device.close()

    # The innermost wrappers: what the host says meanwhile is captured as the test's, and an expected failure is one.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        yield from self._phase(item, "setup")
        if self._device is not None:
            self._device.mark()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        yield from self._phase(item, "call")
        if self._device is not None:
            self._device.passed = True

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        yield from self._phase(item, "teardown")
        if self._device is not None and (text := self._device.leaks()):
            pytest.fail(text, pytrace=False)

    def _phase(self, item: pytest.Item, name: str) -> Generator[None, None, None]:
        """A phase of a test fails for what is found in it; one that fails anyway shows it."""
        try:
            yield
        except BaseException:
            if self._device is not None and (text := self._device.found()):
                item.add_report_section(name, "farlane", text)
            raise
        if self._device is not None and (text := self._device.found()):
            pytest.fail(text, pytrace=False)


class Device:
    """The device as the tests of this process use it.

    Args:
        leaks: whether memory that a test leaves is looked for.
    """

    def __init__(self, leaks: bool) -> None:
        from farlane.frontend import shim_library

        self._cuda = ctypes.CDLL(str(shim_library.FOLDER / shim_library.DRIVER))
        self._allocations = ctypes.CDLL(str(shim_library.FOLDER / shim_library.CORE)).farlane_allocations
        self._allocations.restype = ctypes.c_size_t
        self._allocations.argtypes = ctypes.c_void_p, ctypes.c_size_t
        self._wanted = leaks
        self.passed = False  # the test's call; one that fails keeps memory by its traceback
        self._before: set[tuple[int, int]] = set()
        descriptor, name = tempfile.mkstemp(prefix="farlane-check-")
        os.close(descriptor)
        self._log, self._variable = Path(name), shim_library.CHECK_LOG
        self._read = 0
        os.environ[self._variable] = name

    def close(self) -> None:
        os.environ.pop(self._variable, None)
        self._log.unlink(missing_ok=True)

    def found(self) -> str:
        """What the checks have found since this was asked last, and an error that the tests have not asked for."""
        error = self._synchronize()
        with self._log.open(encoding="utf-8", errors="replace") as stream:
            stream.seek(self._read)
            text = stream.read()
            self._read = stream.tell()
        if error and not text:
            text = f"CUDA error {error} from work that was not synchronized\n"
        return text

    def mark(self) -> None:
        """A test's call begins."""
        self.passed = False
        if self._wanted:
            self._before = self._live()

    def leaks(self) -> str:
        """What is left of what has been allocated since `mark`; the test's teardown has ended."""
        if not self._wanted or not self.passed:
            return ""
        left = sorted(self._live() - self._before)
        return "".join(f"========= Leaked {size:,} bytes at {start:#x}\n" for start, size in left)

    def _live(self) -> set[tuple[int, int]]:
        if not self._allocations(None, 0):
            return set()
        gc.collect()
        _release_caches()
        count = self._allocations(None, 0)
        pairs = (ctypes.c_uint64 * (2 * count))()
        count = min(count, self._allocations(pairs, count))
        return {(pairs[2 * index], pairs[2 * index + 1]) for index in range(count)}

    def _synchronize(self) -> int:
        """Waits for everything if the process has used CUDA; returns the error that comes to light."""
        context = ctypes.c_void_p()
        if self._cuda.cuCtxGetCurrent(ctypes.byref(context)):
            return 0  # not initialized
        if context:
            return int(self._cuda.cuCtxSynchronize())
        flags, active = ctypes.c_uint(), ctypes.c_int()
        if self._cuda.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active)) or not active:
            return 0
        self._cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        self._cuda.cuCtxPushCurrent_v2(context)
        error = self._cuda.cuCtxSynchronize()
        self._cuda.cuCtxPopCurrent_v2(ctypes.byref(context))
        self._cuda.cuDevicePrimaryCtxRelease_v2(0)
        return int(error)


def _release_caches() -> None:
    """Memory that packages keep for later is no test's."""
    numba = sys.modules.get("numba.cuda")
    if numba is not None and numba.cudadrv.driver.driver.is_initialized:
        numba.current_context().memory_manager.deallocations.clear()
    if cupy := sys.modules.get("cupy"):
        cupy.get_default_memory_pool().free_all_blocks()
