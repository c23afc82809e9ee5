"""Calls of CUDA's device functions that no module defines: vprintf, __assertfail, malloc, free, and the device runtime (cudaLaunchDeviceV2, ...).

Owns the table of these functions and the request that a call becomes (services.py). A kernel that calls one whose effects are
seen in order is marked order-sensitive: it runs on one thread, blocks in order, so that its output is the same on every run. One that
asks the device runtime for something with a state is marked as launching: the device has to look after it (KernelInfo.launches).

One of them is a plain store: cudaGraphSetConditional (protos/tape.md, "Conditions").

The device runtime is a library that nvcc links (libcudadevrt), of which there is no PTX for most architectures. Its functions are CUDA's own
by name, with `__cudaCDP2` for `cuda` (as compilers spell them from CUDA 12 on), and `_ptsz` behind those with a default stream for each thread.

Source: PTX Interoperability, "System Calls"; CUDA programming guide, "Formatted Output", "Assertion", "Dynamic Global Memory Allocation",
"CUDA Dynamic Parallelism"; cuda_device_runtime_api.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from farlane.backend.jit.lowering.families.accesses import addresses
from farlane.backend.jit.lowering.families.accesses.memory import scalar_slot, write_memory
from farlane.backend.jit.lowering.ir import Val, integer
from farlane.backend.jit.ptx.model import LANES, Vector
from farlane.backend.jit.runtime.services import Request, ServiceKind
from farlane.backend.jit.runtime.structures import LOCAL_WINDOW

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_ARGUMENTS, _RESULTS = Request.arguments.offset, Request.results.offset
_LANE_BYTES = 8 * LANES


class RuntimeFunction(NamedTuple):
    """A function that the device provides.

    `ordered`: what it does is seen in the order of the calls. `launches`: it belongs to what kernels do with grids, streams and events.
    """

    kind: ServiceKind
    parameters: tuple[str, ...]
    result: str
    ordered: bool
    launches: bool = False


def _runtime(kind: ServiceKind, *parameters: str, result: str = "i32") -> RuntimeFunction:
    return RuntimeFunction(kind, parameters, result, True, True)


_K = ServiceKind
_DIM3, _PITCHED, _EXTENT = "dim3", "cudaPitchedPtr", "cudaExtent"
_STRUCTURES = {_DIM3: 12, _PITCHED: 32, _EXTENT: 24}  # passed by value: their bytes
_PREFIX = "__cudaCDP2"
SET_CONDITION = "cudaGraphSetConditional"


FUNCTIONS = {
    "vprintf": RuntimeFunction(ServiceKind.PRINT, ("i64", "i64"), "i32", True),
    "__assertfail": RuntimeFunction(ServiceKind.ASSERT, ("i64", "i64", "i32", "i64", "i64"), "", False),
    "malloc": RuntimeFunction(ServiceKind.ALLOCATE, ("i64",), "i64", True),
    "__nv_aligned_device_malloc": RuntimeFunction(ServiceKind.ALLOCATE_ALIGNED, ("i64", "i64"), "i64", True),
    "free": RuntimeFunction(ServiceKind.FREE, ("i64",), "", True),
    "cudaGetParameterBuffer": _runtime(_K.PARAMETER_BUFFER, "i64", "i64", result="i64"),
    "cudaGetParameterBufferV2": _runtime(_K.PARAMETER_BUFFER_V2, "i64", _DIM3, _DIM3, "i32", result="i64"),
    "cudaLaunchDevice": _runtime(_K.LAUNCH, "i64", "i64", _DIM3, _DIM3, "i32", "i64"),
    "cudaLaunchDeviceV2": _runtime(_K.LAUNCH_V2, "i64", "i64"),
    "cudaGetLastError": _runtime(_K.LAST_ERROR),
    "cudaPeekAtLastError": _runtime(_K.PEEK_ERROR),
    "cudaGetErrorString": RuntimeFunction(_K.ERROR_STRING, ("i32",), "i64", True),
    "cudaGetErrorName": RuntimeFunction(_K.ERROR_NAME, ("i32",), "i64", True),
    "cudaStreamCreateWithFlags": _runtime(_K.STREAM_CREATE, "i64", "i32"),
    "cudaStreamDestroy": _runtime(_K.STREAM_DESTROY, "i64"),
    "cudaStreamWaitEvent": _runtime(_K.STREAM_WAIT, "i64", "i64", "i32"),
    "cudaEventCreateWithFlags": _runtime(_K.EVENT_CREATE, "i64", "i32"),
    "cudaEventRecord": _runtime(_K.EVENT_RECORD, "i64", "i64"),
    "cudaEventRecordWithFlags": _runtime(_K.EVENT_RECORD_WITH_FLAGS, "i64", "i64", "i32"),
    "cudaEventDestroy": _runtime(_K.EVENT_DESTROY, "i64"),
    "cudaMemcpyAsync": _runtime(_K.COPY, "i64", "i64", "i64", "i32", "i64"),
    "cudaMemsetAsync": _runtime(_K.SET, "i64", "i32", "i64", "i64"),
    "cudaMemcpy2DAsync": _runtime(_K.COPY_2D, "i64", "i64", "i64", "i64", "i64", "i64", "i32", "i64"),
    "cudaMemset2DAsync": _runtime(_K.SET_2D, "i64", "i64", "i32", "i64", "i64", "i64"),
    "cudaMemcpy3DAsync": _runtime(_K.COPY_3D, "i64", "i64"),
    "cudaMemset3DAsync": _runtime(_K.SET_3D, _PITCHED, "i32", _EXTENT, "i64"),
    "cudaGetDeviceCount": _runtime(_K.DEVICE_COUNT, "i64"),
    "cudaGetDevice": _runtime(_K.DEVICE, "i64"),
    "cudaDeviceGetAttribute": _runtime(_K.ATTRIBUTE, "i64", "i32", "i32"),
    "cudaDeviceGetLimit": _runtime(_K.LIMIT, "i64", "i32"),
    "cudaMalloc": _runtime(_K.DEVICE_MALLOC, "i64", "i64"),
    "cudaFree": _runtime(_K.DEVICE_FREE, "i64"),
}


def plain(name: str) -> str:
    """CUDA's name of a function of the device runtime, however it is spelled."""
    name = name.removesuffix("_ptsz")
    return f"cuda{name[len(_PREFIX) :]}" if name.startswith(_PREFIX) else name


def is_cudas(name: str) -> bool:
    """Whether CUDA provides a function of that name, supported here or not."""
    return plain(name) in FUNCTIONS or name.startswith(("cuda", "__cuda"))


def emit(e: Emitter, name: str, arguments: Vector, returns: Vector) -> bool:
    """Emits the call when `name` is one of the device's functions; False when it is not."""
    function = FUNCTIONS.get(plain(name))
    if plain(name) == SET_CONDITION:
        _set_condition(e, arguments, returns)
        return True
    if function is None:
        return False
    if len(arguments.items) != len(function.parameters) or len(returns.items) > 1:
        raise e.fail(f"call of '{name}' with the wrong number of arguments")
    b = e.body
    if function.ordered:
        e.kernel.order_sensitive = e.kernel.serial = True
    e.kernel.launches |= function.launches
    request = _request(e)
    for offset, value in ((Request.kind.offset, int(function.kind)), (Request.line.offset, e.line)):
        b.store(integer(value, "i32"), b.gep(request, offset))
    b.store(e.mask_bits, b.gep(request, Request.lanes.offset))
    for number, (item, kind) in enumerate(zip(arguments.items, function.parameters, strict=True)):
        slot = scalar_slot(e, item.name)
        if kind in _STRUCTURES:
            place = addresses.frame_offset(e, item.name)
            if slot is not None or place is None or e.storage[item.name].size != _STRUCTURES[kind]:
                raise e.fail(f"argument '{item.name}' does not match '{name}'")
            value64 = b.splat(b.bin("add", place, integer(LOCAL_WINDOW, "i64")))
        elif slot is None or slot[1] != kind:
            raise e.fail(f"argument '{item.name}' does not match '{name}'")
        else:
            value64 = b.resize(b.load(kind, True, slot[0]), "i64")
        b.store(value64, b.gep(request, _ARGUMENTS + number * _LANE_BYTES), ", align 64")
    b.line(f"call void @farlane_request(ptr %warp, ptr {request})")
    if returns.items and function.result:
        slot = scalar_slot(e, returns.items[0].name)
        if slot is None or slot[1] != function.result:
            raise e.fail(f"result '{returns.items[0].name}' does not match '{name}'")
        result: Val = b.load("i64", True, b.gep(request, _RESULTS), ", align 64")
        result = b.resize(result, slot[1])
        if e.mask is not None:
            result = b.select(e.mask, result, b.load(slot[1], True, slot[0]))
        b.store(result, slot[0])
    return True


def _set_condition(e: Emitter, arguments: Vector, returns: Vector) -> None:
    """A graph's condition is a word of device memory, and its handle the address: the host is not asked."""
    slots = [scalar_slot(e, item.name) for item in arguments.items]
    if [slot and slot[1] for slot in slots] != ["i64", "i32"] or returns.items:
        raise e.fail(f"the arguments do not match '{SET_CONDITION}'")
    address, value = (e.body.load(kind, True, pointer) for pointer, kind in filter(None, slots))
    write_memory(e, addresses.place_at(e, "global", address, 4, True), "i32", [value])


def _request(e: Emitter) -> str:
    """The function's one place for requests."""
    name = "%request"
    if name not in e.slots:
        e.slots.add(name)
        e.allocas.append(f"  {name} = alloca [{_RESULTS + _LANE_BYTES} x i8], align 64")
    return name
