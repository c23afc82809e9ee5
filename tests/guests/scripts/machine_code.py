"""Programs that ask NVRTC for machine code: cuda.core's `compile("cubin")`, and CuPy told to compile to machine code."""

import os

os.environ["CUPY_COMPILE_WITH_PTX"] = "0"

import cupy
import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = "template <class T> __global__ void add(T *values, T more) { values[threadIdx.x] += more; }"

device = Device()
device.set_current()
stream = device.create_stream()
program = Program(SOURCE, "c++", ProgramOptions(std="c++17", arch=f"sm_{device.arch}"))
kernel = program.compile("cubin", name_expressions=("add<float>",)).get_kernel("add<float>")
values = cupy.arange(64, dtype=cupy.float32)
device.sync()
launch(stream, LaunchConfig(grid=1, block=64), kernel, values.data.ptr, np.float32(2))
stream.sync()
assert values.get().tolist() == [index + 2.0 for index in range(64)]
print("cuda.core")

own = cupy.RawKernel('extern "C" __global__ void twice(float *values) { values[threadIdx.x] *= 2; }', "twice")
own((1,), (64,), (values,))
assert values.get().tolist() == [2 * index + 4.0 for index in range(64)]
print("cupy")
