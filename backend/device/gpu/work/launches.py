"""Launching kernels on a GPU.

Owns the checks that CUDA's runtime makes before the driver is asked (the driver calls every impossible shape an invalid value, the runtime tells
configurations apart), and the short path of a launch whose kernel and shape were seen before.

Source: CUDA runtime API, cudaLaunchKernel; programming guide, "Technical specifications per compute capability".
"""

from __future__ import annotations

from collections.abc import Mapping

from farlane.backend.device.base import CudaError, LaunchShape
from farlane.backend.device.gpu.driver.interface import Driver
from farlane.backend.device.gpu.work.modules import GpuFunction
from farlane.backend.device.limits import Limits
from farlane.backend.generated_errors import INVALID_RESOURCE_HANDLE, INVALID_VALUE
from farlane.backend.generated_limits import MAX_PARAMETER_BYTES
from farlane.backend.plane import Cuda, Direct, Entry, Stream
from farlane.demangle import demangled


def has_attributes(shape: LaunchShape) -> bool:
    """Whether a launch needs cuLaunchKernelEx."""
    return shape.cooperative or shape.cluster is not None


class Launcher:
    """Issues the launches of one session."""

    def __init__(self, driver: Driver, attributes: Mapping[int, int], direct: Direct, native: Cuda) -> None:
        self._driver = driver
        self._direct = direct
        self._native = native
        self._limits = Limits(attributes)

    def launch(self, function: GpuFunction, shape: LaunchShape, parameters: memoryview, stream: int) -> None:
        """Issues a launch. Raises CudaError: it is refused."""
        if function.checked is not shape or len(parameters) != function.parameter_bytes:
            self.check(function, shape, len(parameters))
            function.checked = shape
        buffer = function.buffer
        buffer.fill(parameters)
        if has_attributes(shape):
            self._driver.launch_with_attributes(function.handle, shape, stream, buffer.pointers, buffer.extra)
        else:
            self._driver.launch(
                function.handle, shape.grid, shape.block, shape.shared_bytes, stream, buffer.pointers, buffer.extra
            )

    def lay_out(self, function: GpuFunction, shape: LaunchShape, size: int, stream: Stream) -> Entry | None:
        """A launch that has passed the checks, as the plane can issue it; None: it has to come here each time.

        That is so for launches with attributes, and where the driver is too old to tell the layout of parameters.
        """
        buffer = function.buffer
        if has_attributes(shape) or function.parameter_bytes != size:
            return None
        return self._direct.lay_out_kernel(
            self._native, function.handle, shape.grid, shape.block, shape.shared_bytes, stream,
            buffer.address, size, buffer.pointers, prints=function.module.prints, keep=buffer,
        )  # fmt: skip

    def check(self, function: GpuFunction, shape: LaunchShape, size: int) -> None:
        """Raises CudaError: the launch would be refused."""
        name = demangled(function.name)
        if not function.alive:
            raise CudaError(INVALID_RESOURCE_HANDLE, f"kernel {name}: its module has been unloaded")
        wanted = function.parameter_bytes
        if size > MAX_PARAMETER_BYTES or not function.lay_out(size):
            raise CudaError(INVALID_VALUE, f"kernel {name}: {size} bytes of parameters; it takes {wanted}")
        self._limits.check(
            function.name, shape
        )  # what the kernel's registers and launch bounds allow the driver knows, and has codes for
        if shape.shared_bytes > function.most_shared:
            raise CudaError(
                INVALID_VALUE,
                f"kernel {name}: {function.static_shared} bytes of static and {shape.shared_bytes} of dynamic shared "
                f"memory; the dynamic part may have {function.most_shared}",
            )
