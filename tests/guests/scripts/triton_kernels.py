"""Triton, without PyTorch, on memory of the driver API: prints the name of each kernel that agrees with NumPy."""

import ctypes

import numpy as np
import triton
import triton.language as tl

library = ctypes.CDLL("libcuda.so.1")
random = np.random.default_rng(1)


def call(name, *arguments):
    code = getattr(library, name)(*arguments)
    assert code == 0, (name, code)


class Array:
    """Device memory as Triton takes it: an address and a type."""

    def __init__(self, values):
        self._host = np.ascontiguousarray(values)
        self._address = ctypes.c_uint64()
        self.dtype = str(self._host.dtype)
        call("cuMemAlloc_v2", ctypes.byref(self._address), ctypes.c_size_t(self._host.nbytes))
        call("cuMemcpyHtoD_v2", self._address, self._host.ctypes.data_as(ctypes.c_void_p), self._bytes)

    @property
    def _bytes(self):
        return ctypes.c_size_t(self._host.nbytes)

    def data_ptr(self):
        return self._address.value

    def get(self):
        values = np.empty_like(self._host)
        call("cuMemcpyDtoH_v2", values.ctypes.data_as(ctypes.c_void_p), self._address, self._bytes)
        return values


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    values = tl.load(x + row + at, at < n, -float("inf"))
    values = tl.exp(values - tl.max(values, 0))
    tl.store(y + row + at, values / tl.sum(values, 0), at < n)


@triton.jit
def histogram(x, bins, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(bins + tl.load(x + at, at < n, 0), 1, at < n)


@triton.jit
def running(x, y, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(y + at, tl.cumsum(tl.load(x + at), 0))


@triton.jit
def ordered(x, y, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(y + at, tl.sort(tl.load(x + at)))


@triton.jit
def uniform(y, seed, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(y + at, tl.rand(seed, at))


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        left = tl.load(a + m[:, None] * K + (i + k)[None, :])
        right = tl.load(b + (i + k)[:, None] * N + n[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + m[:, None] * N + n[None, :], total)


def check_add():
    x, y = random.random((2, 1000), np.float32)
    z = Array(np.zeros(1000, np.float32))
    add[(8,)](Array(x), Array(y), z, 1000, BLOCK=128)
    return np.array_equal(z.get(), x + y)


def check_softmax():
    x = random.random((50, 100), np.float32)
    y = Array(np.zeros_like(x))
    softmax[(50,)](Array(x), y, 100, BLOCK=128)
    expected = np.exp(x - x.max(1, keepdims=True))
    return np.allclose(y.get(), expected / expected.sum(1, keepdims=True), rtol=1e-5)


def check_histogram():
    x = random.integers(0, 10, 1000).astype(np.int32)
    bins = Array(np.zeros(16, np.int32))
    histogram[(8,)](Array(x), bins, 1000, BLOCK=128)
    return np.array_equal(bins.get(), np.bincount(x, minlength=16))


def check_running():
    x = random.integers(0, 10, 1024).astype(np.int32)
    y = Array(np.zeros_like(x))
    running[(1,)](Array(x), y, 1024)
    return np.array_equal(y.get(), np.cumsum(x))


def check_ordered():
    x = random.random(1024, np.float32)
    y = Array(np.zeros_like(x))
    ordered[(1,)](Array(x), y, 1024)
    return np.array_equal(y.get(), np.sort(x))


def check_uniform():
    y = Array(np.zeros(4096, np.float32))
    uniform[(1,)](y, 7, 4096)
    values = y.get()
    return values.min() >= 0 and values.max() < 1 and abs(values.mean() - 0.5) < 0.02


def multiplied(kind, tolerance):
    a, b = random.random((128, 64)).astype(kind), random.random((64, 128)).astype(kind)
    c = Array(np.zeros((128, 128), np.float32))
    product[(2, 2)](Array(a), Array(b), c, 128, 128, 64, BM=64, BN=64, BK=32)
    return np.allclose(c.get(), a.astype(np.float32) @ b.astype(np.float32), rtol=tolerance)


def check_halves():
    return multiplied(np.float16, 1e-3)


def check_floats():
    return multiplied(np.float32, 2e-3)  # in TF32


def main():
    driver = triton.runtime.driver.active
    driver.utils.get_default_stream(driver.get_current_device())  # makes the primary context current
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            assert check(), name
            print(name.removeprefix("check_"))


main()
