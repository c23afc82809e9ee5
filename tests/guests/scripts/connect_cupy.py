"""A process without a launcher: Numba, cuda.bindings and CuPy after `farlane.connect`, arguments by the command line."""

import sys

import farlane

farlane.connect(*sys.argv[1:])

import cupy  # noqa: E402
import numpy as np  # noqa: E402
from cuda.bindings import driver  # noqa: E402
from numba import cuda  # noqa: E402


@cuda.jit
def add_one(source, target):
    index = cuda.grid(1)
    if index < source.size:
        target[index] = source[index] + 1


values = np.arange(100, dtype=np.float32)
result = cuda.device_array_like(values)
add_one[1, 128](cuda.to_device(values), result)
assert (result.copy_to_host() == values + 1).all()
print("numba")

error, count = driver.cuDeviceGetCount()
assert (error, count) == (driver.CUresult.CUDA_SUCCESS, 1)
print("bindings")

array = cupy.arange(1000, dtype=cupy.float64)
assert float((array * 2).sum()) == 999_000.0
print("cupy")
