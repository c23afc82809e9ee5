"""CUDA's driver through CuPy, and through libcuda where CuPy wraps nothing.

Owns the translation of calls, nothing else. CuPy's calls release the GIL, and so do ctypes'.

Of the calls without a prototype here CuPy's own are used: they are compiled, and cost a fifth of ctypes'.

Source: CUDA driver API and runtime API references; cupy_backends.cuda.api.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from farlane.backend.device.base import READ_WRITE, LaunchShape
from farlane.backend.device.gpu.driver import prototypes as p
from farlane.backend.device.gpu.driver.interface import (
    NOT_FOUND,
    NOT_READY,
    ArraySpec,
    BoxWork,
    CopyWork,
    Direction,
    DriverError,
    KernelWork,
    Parameter,
    Properties,
    SetWork,
    TexelSource,
    TextureSpec,
)
from farlane.backend.device.gpu.driver.libraries import Libraries
from farlane.backend.device.gpu.driver.structures import (
    aligned_map,
    array_descriptor,
    box_copy,
    copy_node,
    kernel_node,
    launch_configuration,
    resource_of,
    sampling_of,
    set_node,
    tensor_arguments,
)
from farlane.backend.device.tensors import TensorMap

_PINNED_PORTABLE = 1  # cudaHostAllocPortable


class CudaDriver(Libraries):
    """See `interface.Driver`."""

    # GPUs and contexts ------------------------------------------------------------------------------------------
    def version(self) -> int:
        return int(self._value(ctypes.c_int, "cuDriverGetVersion"))

    def count(self) -> int:
        return int(self._value(ctypes.c_int, "cuDeviceGetCount"))

    def _gpu(self, gpu: int) -> int:
        return int(self._value(ctypes.c_int, "cuDeviceGet", gpu))

    def properties(self, gpu: int) -> Properties:
        device = self._gpu(gpu)
        name, bus = ctypes.create_string_buffer(256), ctypes.create_string_buffer(64)
        self._call("cuDeviceGetName", name, len(name), device)
        self._call("cuDeviceGetPCIBusId", bus, len(bus), device)
        uuid = p.CUuuid()
        self._call("cuDeviceGetUuid_v2", ctypes.byref(uuid), device)
        total = int(self._value(ctypes.c_size_t, "cuDeviceTotalMem_v2", device))
        return Properties(name.value.decode("utf-8", "replace"), bytes(uuid), total, bus.value.decode())

    def attribute(self, gpu: int, attribute: int) -> int:
        return int(self._value(ctypes.c_int, "cuDeviceGetAttribute", attribute, self._gpu(gpu)))

    def retain(self, gpu: int) -> int:
        return int(self._value(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", self._gpu(gpu)))

    def release(self, gpu: int) -> None:
        self._call("cuDevicePrimaryCtxRelease_v2", self._gpu(gpu))

    def reset(self, gpu: int) -> None:
        self._call("cuDevicePrimaryCtxReset_v2", self._gpu(gpu))

    def set_current(self, context: int) -> None:
        self._cupy(self._driver.ctxSetCurrent, context)

    def synchronize(self) -> None:
        self._call("cuCtxSynchronize")

    def memory_info(self) -> tuple[int, int]:
        free, total = self._cupy(self._runtime.memGetInfo)
        return int(free), int(total)

    def set_limit(self, limit: int, value: int) -> None:
        self._cupy(self._runtime.deviceSetLimit, limit, value)

    # Virtual memory ---------------------------------------------------------------------------------------------
    @staticmethod
    def _location(gpu: int) -> p.CUmemLocation:
        return p.CUmemLocation(p.CU_MEM_LOCATION_TYPE_DEVICE, gpu)

    def _on(self, gpu: int) -> p.CUmemAllocationProp:
        return p.CUmemAllocationProp(type=p.CU_MEM_ALLOCATION_TYPE_PINNED, location=self._location(gpu))

    def granularity(self, gpu: int) -> int:
        wanted = self._on(gpu)
        minimum = p.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        return int(self._value(ctypes.c_size_t, "cuMemGetAllocationGranularity", ctypes.byref(wanted), minimum))

    def reserve(self, size: int, alignment: int, hint: int) -> int:
        return int(self._value(ctypes.c_ulonglong, "cuMemAddressReserve", size, alignment, hint, 0))

    def unreserve(self, address: int, size: int) -> None:
        self._call("cuMemAddressFree", address, size)

    def create(self, size: int, gpu: int) -> int:
        wanted = self._on(gpu)
        return int(self._value(ctypes.c_ulonglong, "cuMemCreate", size, ctypes.byref(wanted), 0))

    def destroy(self, memory: int) -> None:
        self._call("cuMemRelease", memory)

    def map(self, address: int, size: int, memory: int, offset: int = 0) -> None:
        self._call("cuMemMap", address, size, offset, memory, 0)

    def unmap(self, address: int, size: int) -> None:
        self._call("cuMemUnmap", address, size)

    def allow(self, address: int, size: int, gpu: int, access: int = READ_WRITE) -> None:
        wanted = p.CUmemAccessDesc(self._location(gpu), access)
        self._call("cuMemSetAccess", address, size, ctypes.byref(wanted), 1)

    # Plain memory -----------------------------------------------------------------------------------------------
    def allocate(self, size: int) -> int:
        return int(self._value(ctypes.c_ulonglong, "cuMemAlloc_v2", size))

    def free(self, address: int) -> None:
        self._call("cuMemFree_v2", address)

    def allocate_pinned(self, size: int) -> int:
        return int(self._cupy(self._runtime.hostAlloc, size, _PINNED_PORTABLE))

    def free_pinned(self, address: int) -> None:
        self._cupy(self._runtime.freeHost, address)

    # Work -------------------------------------------------------------------------------------------------------
    def copy(self, destination: int, source: int, size: int, direction: Direction, stream: int) -> None:
        self._cupy(self._runtime.memcpyAsync, destination, source, size, int(direction), stream)

    def copy_rows(
        self,
        destination: int,
        destination_pitch: int,
        source: int,
        source_pitch: int,
        width: int,
        height: int,
        direction: Direction,
        stream: int,
    ) -> None:
        self._cupy(
            self._runtime.memcpy2DAsync,
            destination, destination_pitch, source, source_pitch, width, height, int(direction), stream,
        )  # fmt: skip

    def set(self, work: SetWork, stream: int) -> None:
        bits = 8 * work.element
        if work.height == 1:
            self._call(f"cuMemsetD{bits}Async", work.address, work.value, work.width, stream)
        else:
            self._call(f"cuMemsetD2D{bits}Async", work.address, work.pitch, work.value, work.width, work.height, stream)

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int,
        pointers: int,
        extra: int,
    ) -> None:
        try:
            self._driver.launchKernel(function, *grid, *block, shared_bytes, stream, pointers, extra)
        except self._errors as error:
            raise DriverError(int(error.status), "cuLaunchKernel", str(error)) from None

    def launch_with_attributes(self, function: int, shape: LaunchShape, stream: int, pointers: int, extra: int) -> None:
        config = launch_configuration(shape, stream)
        self._call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, extra)

    # Modules ----------------------------------------------------------------------------------------------------
    def load_module(self, image: bytes) -> int:
        return int(self._cupy(self._driver.moduleLoadData, image))

    def link(self, images: Sequence[bytes]) -> bytes:
        state = self._cupy(self._driver.linkCreate)
        try:
            for number, image in enumerate(images):
                kind = p.CU_JIT_INPUT_FATBINARY
                if image[:4] == b"\x7fELF":
                    kind = p.CU_JIT_INPUT_CUBIN
                elif image[:4] != b"\x50\xed\x55\xba":
                    kind, image = p.CU_JIT_INPUT_PTX, image + b"\0"
                self._cupy(self._driver.linkAddData, state, kind, image, f"part{number}")
            return bytes(self._cupy(self._driver.linkComplete, state))
        finally:
            self._cupy(self._driver.linkDestroy, state)

    def unload_module(self, module: int) -> None:
        self._cupy(self._driver.moduleUnload, module)

    def function(self, module: int, name: str) -> int:
        return int(self._cupy(self._driver.moduleGetFunction, module, name))

    def variable(self, module: int, name: str) -> tuple[int, int]:
        address, size = ctypes.c_ulonglong(), ctypes.c_size_t()
        symbol = name.encode()
        if b"\0" in symbol:
            raise DriverError(NOT_FOUND, "cuModuleGetGlobal")
        self._call("cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), module, symbol)
        return address.value, size.value

    def parameters(self, function: int) -> list[Parameter] | None:
        ask = self._functions.get("cuFuncGetParamInfo")
        if ask is None:
            return None
        found: list[Parameter] = []
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        while True:
            code = ask(function, len(found), ctypes.byref(offset), ctypes.byref(size))
            if code == p.CUDA_ERROR_INVALID_VALUE:  # there are no more
                return found
            if code:
                raise DriverError(code, "cuFuncGetParamInfo", self._text(code))
            found.append(Parameter(offset.value, size.value))

    def function_attribute(self, function: int, attribute: int) -> int:
        return int(self._cupy(self._driver.funcGetAttribute, attribute, function))

    def set_function_attribute(self, function: int, attribute: int, value: int) -> None:
        self._cupy(self._driver.funcSetAttribute, function, attribute, value)

    # Streams and events -----------------------------------------------------------------------------------------
    def create_stream(self, flags: int, priority: int) -> int:
        # CuPy has this call from 14 on only.
        return int(self._value(ctypes.c_void_p, "cuStreamCreateWithPriority", flags, priority))

    def destroy_stream(self, stream: int) -> None:
        self._cupy(self._runtime.streamDestroy, stream)

    def synchronize_stream(self, stream: int) -> None:
        self._cupy(self._runtime.streamSynchronize, stream)

    def stream_done(self, stream: int) -> bool:
        return self._done("cuStreamQuery", stream)

    def wait_event(self, stream: int, event: int) -> None:
        self._cupy(self._runtime.streamWaitEvent, stream, event)

    def create_event(self, flags: int) -> int:
        return int(self._cupy(self._runtime.eventCreateWithFlags, flags))

    def destroy_event(self, event: int) -> None:
        self._cupy(self._runtime.eventDestroy, event)

    def record_event(self, event: int, stream: int) -> None:
        self._cupy(self._runtime.eventRecord, event, stream)

    def synchronize_event(self, event: int) -> None:
        self._cupy(self._runtime.eventSynchronize, event)

    def event_done(self, event: int) -> bool:
        return self._done("cuEventQuery", event)

    def _done(self, name: str, handle: int) -> bool:
        code = self._functions[name](handle)
        if code == NOT_READY:
            return False
        if code:
            raise DriverError(code, name, self._text(code))
        return True

    def elapsed_ms(self, start: int, end: int) -> float:
        return float(self._cupy(self._runtime.eventElapsedTime, start, end))

    # Arrays, textures, surfaces ---------------------------------------------------------------------------------
    def create_array(self, spec: ArraySpec) -> int:
        return int(self._value(ctypes.c_void_p, "cuArray3DCreate_v2", ctypes.byref(array_descriptor(spec))))

    def destroy_array(self, array: int) -> None:
        self._call("cuArrayDestroy", array)

    def copy_box(self, work: BoxWork, stream: int) -> None:
        self._call("cuMemcpy3DAsync_v2", ctypes.byref(box_copy(work)), stream)

    def create_texture(self, source: TexelSource, spec: TextureSpec) -> int:
        resource, sampling = resource_of(source), sampling_of(spec)
        made = self._value(
            ctypes.c_ulonglong, "cuTexObjectCreate", ctypes.byref(resource), ctypes.byref(sampling), None
        )
        return int(made)

    def destroy_texture(self, texture: int) -> None:
        self._call("cuTexObjectDestroy", texture)

    def create_surface(self, array: int) -> int:
        resource = resource_of(TexelSource(array=array))
        return int(self._value(ctypes.c_ulonglong, "cuSurfObjectCreate", ctypes.byref(resource)))

    def destroy_surface(self, surface: int) -> None:
        self._call("cuSurfObjectDestroy", surface)

    # Tensor maps ------------------------------------------------------------------------------------------------
    def encode_tensor(self, description: TensorMap) -> bytes:
        made = aligned_map()
        name, arguments = tensor_arguments(description)
        self._call(name, ctypes.byref(made), *arguments)
        return bytes(made)

    def move_tensor(self, map: bytes, address: int) -> bytes:
        made = aligned_map(map)
        self._call("cuTensorMapReplaceAddress", ctypes.byref(made), address)
        return bytes(made)

    # Graphs -----------------------------------------------------------------------------------------------------
    def create_graph(self) -> int:
        return int(self._value(ctypes.c_void_p, "cuGraphCreate", 0))

    def destroy_graph(self, graph: int) -> None:
        self._call("cuGraphDestroy", graph)

    def _add(self, name: str, graph: int, after: int | None, *arguments: Any) -> int:
        before = None if after is None else ctypes.byref(ctypes.c_void_p(after))
        count = 0 if after is None else 1
        return int(self._value(ctypes.c_void_p, name, graph, before, count, *arguments))

    def add_kernel(self, graph: int, after: int | None, work: KernelWork) -> int:
        return self._add("cuGraphAddKernelNode_v2", graph, after, ctypes.byref(kernel_node(work)))

    def add_set(self, graph: int, after: int | None, work: SetWork, context: int) -> int:
        return self._add("cuGraphAddMemsetNode", graph, after, ctypes.byref(set_node(work)), context)

    def add_copy(self, graph: int, after: int | None, work: CopyWork, context: int) -> int:
        return self._add("cuGraphAddMemcpyNode", graph, after, ctypes.byref(copy_node(work)), context)

    def instantiate(self, graph: int) -> int:
        return int(self._value(ctypes.c_void_p, "cuGraphInstantiateWithFlags", graph, 0))

    def destroy_executable(self, executable: int) -> None:
        self._call("cuGraphExecDestroy", executable)

    def change_kernel(self, executable: int, node: int, work: KernelWork) -> None:
        self._call("cuGraphExecKernelNodeSetParams_v2", executable, node, ctypes.byref(kernel_node(work)))

    def change_set(self, executable: int, node: int, work: SetWork, context: int) -> None:
        self._call("cuGraphExecMemsetNodeSetParams", executable, node, ctypes.byref(set_node(work)), context)

    def change_copy(self, executable: int, node: int, work: CopyWork, context: int) -> None:
        self._call("cuGraphExecMemcpyNodeSetParams", executable, node, ctypes.byref(copy_node(work)), context)
