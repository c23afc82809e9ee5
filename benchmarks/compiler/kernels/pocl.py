"""PoCL as a rival: the same kernels as OpenCL, on the processor. Needs pyopencl and Debian's pocl-opencl-icd."""

from __future__ import annotations

import numpy as np
import pyopencl

from kernels.runners import FOLDER
from kernels.suite import Array, Case


def platform() -> pyopencl.Device:
    """PoCL's processor device.

    Raises:
        LookupError: there is none.
    """
    try:
        for candidate in pyopencl.get_platforms():
            if "Portable Computing Language" in candidate.name:
                return candidate.get_devices()[0]
    except pyopencl.Error as error:
        raise LookupError(f"no OpenCL platform: {error}") from error
    raise LookupError("no PoCL among the OpenCL platforms; install pocl-opencl-icd")


class Program:
    """The kernels, built for PoCL with its defaults."""

    def __init__(self) -> None:
        device = platform()
        self.title = f"PoCL {device.platform.version.split('PoCL ')[-1].split()[0]}"
        self.context = pyopencl.Context([device])
        self.queue = pyopencl.CommandQueue(self.context)
        self.built = pyopencl.Program(
            self.context, (FOLDER / "portable.h").read_text() + (FOLDER / "kernels.inc").read_text()
        ).build()


class Pocl:
    """A case on PoCL."""

    def __init__(self, case: Case, program: Program) -> None:
        self.name = "PoCL"
        self.case = case
        self._queue = program.queue
        flags = pyopencl.mem_flags.READ_WRITE | pyopencl.mem_flags.COPY_HOST_PTR
        self._buffers = {
            name: pyopencl.Buffer(program.context, flags, hostbuf=array) for name, array in case.arrays.items()
        }
        self._launches = []
        for step in case.steps:
            kernel = pyopencl.Kernel(program.built, step.kernel)
            for place, argument in enumerate(step.arguments):
                if isinstance(argument, str):
                    kernel.set_arg(place, self._buffers[argument])
                else:
                    kernel.set_arg(place, np.float32(argument) if isinstance(argument, float) else np.int32(argument))
            size = tuple(blocks * threads for blocks, threads in zip(step.grid, step.block, strict=True))
            self._launches.append((kernel, size, step.block))

    def reset(self) -> None:
        for name in self.case.changed:
            pyopencl.enqueue_copy(self._queue, self._buffers[name], self.case.arrays[name])
        self._queue.finish()

    def run(self) -> None:
        for kernel, size, block in self._launches:
            pyopencl.enqueue_nd_range_kernel(self._queue, kernel, size, block)
        self._queue.finish()

    def result(self, name: str) -> Array:
        array = np.empty_like(self.case.arrays[name])
        pyopencl.enqueue_copy(self._queue, array, self._buffers[name])
        return array

    def close(self) -> None:
        for buffer in self._buffers.values():
            buffer.release()
