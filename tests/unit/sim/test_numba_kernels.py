"""Kernels that Numba compiled, as it calls them; NumPy says what they give.

`make test` has no Numba, whose packages are a download of a gigabyte: these stand for it. tests/guests/scripts/numba_ptx.py has the kernels and
wrote the files, and `make test-guests` compares these with what Numba gives. An array is seven words and more: two for its owner, its number of
elements, their size, the address, then shape and strides.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from farlane.backend.device.sim import SimDevice
from sim_program import Program, pack

FOLDER = Path(__file__).parent / "numba"
KERNELS = sorted(path.stem for path in FOLDER.glob("*.ptx"))
RANDOM = np.random.default_rng(5)


class Call:
    """One kernel, with arrays on the device."""

    def __init__(self, device: SimDevice, kernel: str) -> None:
        self._program = Program(device, (FOLDER / f"{kernel}.ptx").read_bytes())
        self._kernel = kernel

    def __call__(self, *arguments: np.ndarray | bytes, grid: object = 8, block: object = 128) -> list[np.ndarray]:
        """Launches, and returns the arrays as they are then."""
        packed, placed = b"", []
        for argument in arguments:
            if isinstance(argument, bytes):
                packed += argument
                continue
            address = self._program.allocate(argument.nbytes, argument.tobytes())
            placed.append((address, argument))
            packed += b"\0" * (-len(packed) % 8)
            packed += pack("qqqqQ", 0, 0, argument.size, argument.itemsize, address)
            packed += pack(f"{2 * argument.ndim}q", *argument.shape, *argument.strides)
        self._program.launch(self._kernel, packed, grid=grid, block=block)
        read = (self._program.read(address, array.nbytes) for address, array in placed)
        return [
            np.frombuffer(content, array.dtype).reshape(array.shape)
            for content, (_, array) in zip(read, placed, strict=True)
        ]

    def close(self) -> None:
        self._program.context.close()


@pytest.fixture
def call(device: SimDevice, request: pytest.FixtureRequest) -> Iterator[Call]:
    """The kernel that the test is named after."""
    call = Call(device, request.node.name.removeprefix("test_"))
    yield call
    call.close()


def integers(low: int, high: int, count: int, kind: type = np.int32) -> np.ndarray:
    return RANDOM.integers(low, high, count).astype(kind)


def test_axpy(call: Call) -> None:
    x, y = RANDOM.random((2, 1000), np.float32)
    assert np.allclose(call(pack("f", 2.5), x, y)[1], np.float32(2.5) * x + y, rtol=1e-6)


def test_transpose(call: Call) -> None:
    source = RANDOM.random((37, 50), np.float32)
    _, target = call(source, np.zeros((50, 37), np.float32), grid=(4, 3, 1), block=(16, 16, 1))
    assert np.array_equal(target, source.T)


def test_histogram(call: Call) -> None:
    values = integers(-1000, 1000, 5000)
    assert np.array_equal(call(values, np.zeros(10, np.int32))[1], np.bincount(values % 10, minlength=10))


def test_extremes(call: Call) -> None:
    values = RANDOM.normal(size=1000)
    assert call(values, np.zeros(2))[1].tolist() == [values.max(), values.min()]


def test_block_sum(call: Call) -> None:
    values = integers(0, 100, 1024, np.float32)
    assert np.array_equal(call(values, np.zeros(8, np.float32))[1], values.reshape(8, 128).sum(1))


def test_warp_sum(call: Call) -> None:
    values = integers(0, 100, 1024, np.float32)
    assert np.array_equal(call(values, np.zeros(32, np.float32))[1], values.reshape(32, 32).sum(1))


def test_votes(call: Call) -> None:
    values = integers(-5, 5, 1024)
    assert np.array_equal(call(values, np.zeros(32, np.uint32))[1], (values.reshape(32, 32) > 0).sum(1))


def test_roots(call: Call) -> None:
    values = RANDOM.normal(size=1000) * 10
    expected = np.sqrt(np.abs(values)) + np.floor(values) + np.maximum(values, 0.5) / (1 + values * values)
    assert np.allclose(call(values)[0], expected, rtol=1e-14)


def test_rotate(call: Call) -> None:
    values = (RANDOM.normal(size=1000) + 1j * RANDOM.normal(size=1000)).astype(np.complex64)
    assert np.allclose(call(values, pack("ff", 0.6, 0.8))[0], values * np.complex64(0.6 + 0.8j), rtol=1e-5)


def test_mandelbrot(call: Call) -> None:
    [counts] = call(np.zeros((30, 45), np.int32), grid=(3, 2, 1), block=(16, 16, 1))
    for row, column in itertools.product(range(30), range(45)):
        c = z = complex(column * 3.0 / 45 - 2.0, row * 2.0 / 30 - 1.0)
        count = 0
        while count < 50 and z.real * z.real + z.imag * z.imag < 4:
            z, count = z * z + c, count + 1
        assert counts[row, column] == count, (row, column)


def test_medians(call: Call) -> None:
    values = RANDOM.random(1000, np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(values, 5)
    assert np.array_equal(call(values, np.zeros(1000, np.float32))[1][2:-2], np.median(windows, axis=1))


def test_divide(call: Call) -> None:
    values, divisors = integers(-1000, 1000, 1000, np.int64), integers(1, 50, 1000, np.int64)
    divisors *= RANDOM.choice([-1, 1], 1000)
    empty = np.zeros(1000, np.int64)
    *_, quotients, remainders = call(values, divisors, empty, empty)
    assert np.array_equal(quotients, values // divisors)
    assert np.array_equal(remainders, values % divisors)


def test_each_kernel_has_its_test() -> None:
    assert len(KERNELS) == 12
    assert all(f"test_{kernel}" in globals() for kernel in KERNELS)
