"""The GPU device on a double of CUDA's driver."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from farlane.backend.device.base import LEGACY_STREAM, LaunchShape, Rows
from farlane.backend.device.gpu import CupyDevice
from gpu_double import DoubleDriver

QUOTA = 64 << 20
ONE = LaunchShape((1, 1, 1), (1, 1, 1), 0)
IMAGE = b"""
.version 7.5
.target sm_75
.address_size 64
.visible .global .align 4 .u32 counter = 41;
// word = 3 * word + value
.visible .entry mix(.param .u64 word, .param .u32 value)
{
    .reg .b32 %r<3>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [word];
    ld.param.u32 %r1, [value];
    ld.global.u32 %r2, [%rd1];
    mad.lo.s32 %r2, %r2, 3, %r1;
    st.global.u32 [%rd1], %r2;
    ret;
}
"""


class Bench:
    """A device on a double, and short forms of what tests do with its contexts."""

    def __init__(self, **options: Any) -> None:
        self.driver = DoubleDriver(**options)
        self.device = CupyDevice(driver=self.driver)
        self.context: Any = self.device.open_context(QUOTA)
        self.base = self.context.window.base
        self.stream = self.context.default_stream(LEGACY_STREAM)

    def mix(self) -> Any:
        return self.context.function(self.context.load_module(IMAGE), "mix")

    def launch(self, function: Any, word: int, value: int, stream: Any = None) -> None:
        parameters = memoryview(struct.pack("<QI", word, value))
        self.context.launch(function, ONE, parameters, stream or self.stream)

    def write(self, address: int, data: bytes, stream: Any = None) -> None:
        self.context.write(Rows(address, len(data), len(data), 1), memoryview(data), stream or self.stream)

    def read(self, address: int, size: int, stream: Any = None) -> bytes:
        return b"".join(map(bytes, self.context.read(Rows(address, size, size, 1), stream or self.stream)))

    def close(self) -> None:
        """Everything that was had of the driver has been given back."""
        self.device.close()
        left = self.driver.left()
        self.driver.close()
        assert left == {}


@pytest.fixture
def new_bench() -> Iterator[Callable[..., Bench]]:
    benches: list[Bench] = []

    def make(**options: Any) -> Bench:
        benches.append(Bench(**options))
        return benches[-1]

    yield make
    for bench in benches:
        bench.close()


@pytest.fixture
def bench(new_bench: Callable[..., Bench]) -> Bench:
    return new_bench()
