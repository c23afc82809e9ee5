"""The GPU device on Farlane's own driver, which runs late and fails where a test says so (`FARLANE_TEST`, docs/explanation/gpu/testing.md).

These tests run in a guest of the simulated device (tests/guests/gpu_host/test_gpu_host.py starts it), and are not collected
elsewhere.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import driver_options
import pytest
from driver_options import ask, left
from farlane.backend.device.base import LEGACY_STREAM, LaunchShape, Rows
from farlane.backend.device.generated_attributes import Attribute
from farlane.backend.device.gpu import CupyDevice
from farlane.backend.device.gpu.driver.cuda import CudaDriver
from farlane.backend.device.gpu.driver.interface import Driver
from farlane.backend.device.options import DEFAULT, DeviceOptions
from kernels import HEADER, MIX_ALONE

if not driver_options.are_on():
    collect_ignore_glob = ["test_*.py"]

QUOTA = 64 << 20
ONE = LaunchShape((1, 1, 1), (1, 1, 1), 0)
IMAGE = HEADER + b".visible .global .align 4 .u32 counter = 41;\n" + MIX_ALONE
# The functions that tests let fail.
_FAILING = (
    "cuMemAlloc", "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemAddressReserve", "cuMemGetAllocationGranularity", "cuGraphCreate",
    "cuGraphAddKernelNode", "cuGraphInstantiateWithFlags", "cuGraphExecKernelNodeSetParams", "cuGraphLaunch",
    "cuArray3DCreate", "cuMemcpy3DAsync",
)  # fmt: skip


# The functions that the plane calls as well, whose calls tests count.
_COUNTED = (
    "cuLaunchKernel", "cuGraphLaunch", "cuGraphExecKernelNodeSetParams", "cuGraphExecMemsetNodeSetParams",
    "cuGraphExecMemcpyNodeSetParams", "cuStreamWaitEvent", "cuEventRecord",
)  # fmt: skip


class WatchedDriver(CudaDriver):
    """The driver, and what was called of it.

    Args:
        maps: it says that it has virtual memory management.
        tells_layout: it has cuFuncGetParamInfo.
    """

    def __init__(self, *, maps: bool = True, tells_layout: bool = True) -> None:
        super().__init__()
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.counts: Counter[str] = Counter()
        self.mapped: dict[int, int] = {}  # address: its end
        self._maps = maps
        if not tells_layout:
            del self._functions["cuFuncGetParamInfo"]
        for name in vars(Driver):
            if not name.startswith("_"):
                setattr(self, name, self._watched(name, getattr(self, name)))

    def _watched(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            self.calls.append((name, arguments))
            self.counts[name] += 1
            result = method(*arguments, **keywords)
            if name == "map":
                self.mapped[arguments[0]] = arguments[0] + arguments[1]
            elif name == "unmap":
                del self.mapped[arguments[0]]
            return result

        return call

    def attribute(self, gpu: int, attribute: int) -> int:
        if attribute == Attribute.VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED and not self._maps:
            return 0
        return super().attribute(gpu, attribute)

    @property
    def retained(self) -> int:
        """How often the primary context was retained and not released."""
        return self.counts["retain"] - self.counts["release"]


class Bench:
    """A device on the driver, and short forms of what tests do with its contexts."""

    def __init__(self, baseline: dict[str, int], options: DeviceOptions = DEFAULT, **arguments: Any) -> None:
        self._baseline = baseline
        self._before = {name: int(ask(f"calls {name}")) for name in _COUNTED}
        self.driver = WatchedDriver(**arguments)
        self.device = CupyDevice(options, driver=self.driver)
        self.context: Any = self.device.open_context(QUOTA)
        self.base = self.context.window.base
        self.stream = self.context.default_stream(LEGACY_STREAM)

    def calls(self, name: str) -> int:
        """Calls of a function of the driver, by the plane and by Python."""
        return int(ask(f"calls {name}")) - self._before[name]

    def mix(self) -> Any:
        return self.context.function(self.context.load_module(IMAGE), "mix")

    def launch(self, function: Any, word: int, value: int, stream: Any = None) -> None:
        parameters = memoryview(struct.pack("<QI", word, value))
        self.context.launch(function, ONE, parameters, stream or self.stream)

    def write(self, address: int, data: bytes, stream: Any = None) -> None:
        self.context.write(Rows(address, len(data), len(data), 1), memoryview(data), stream or self.stream)

    def read(self, address: int, size: int, stream: Any = None) -> bytes:
        return b"".join(map(bytes, self.context.read(Rows(address, size, size, 1), stream or self.stream)))

    def mapped(self) -> list[tuple[int, int]]:
        """Places in the window that have memory."""
        return sorted((start - self.base, end - self.base) for start, end in self.driver.mapped.items())

    def left(self) -> dict[str, int]:
        """What the device has of the driver."""
        return {name: more for name, count in left().items() if (more := count - self._baseline.get(name, 0))}


@pytest.fixture(scope="session")
def _runtime() -> None:
    """CuPy's runtime keeps things for itself, once it is in use."""
    device = CupyDevice(driver=CudaDriver())
    context = device.open_context(QUOTA)
    context.allocate(context.window.base, 64)
    stream = context.default_stream(LEGACY_STREAM)
    context.write(Rows(context.window.base, 64, 64, 1), memoryview(bytes(64)), stream)
    context.synchronize()
    device.close()


@pytest.fixture
def baseline(_runtime: None) -> dict[str, int]:
    """What the driver has before a test."""
    return left()


@pytest.fixture
def new_bench(baseline: dict[str, int]) -> Iterator[Callable[..., Bench]]:
    benches: list[Bench] = []

    def make(**options: Any) -> Bench:
        benches.append(Bench(baseline, **options))
        return benches[-1]

    yield make
    for name in _FAILING:
        ask(f"fail {name}")
    ask("impatient")
    for bench in benches:
        bench.device.close()
    for bench in benches:
        expected = {}
        if bench.driver.counts["reset"] and "pinned" in bench.left():
            expected["pinned"] = bench.left()["pinned"]  # Farlane's driver leaves it to the program
        assert (bench.left(), bench.driver.retained, bench.driver.mapped) == (expected, 0, {})


@pytest.fixture
def bench(new_bench: Callable[..., Bench]) -> Bench:
    return new_bench()
