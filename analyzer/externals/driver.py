"""The CUDA driver's calls, as `interface` describes calls. Data, no logic.

The names are those of the newest version but for the suffix _v2. A first version that knows addresses and sizes of 32
bits only (`cuMemAlloc` where programs call `cuMemAlloc_v2`) is another function: `FIRST_VERSIONS`.

Source: the declarations of NVIDIA's driver API, cuda.h of CUDA 12.0 to 13.5.
"""

from __future__ import annotations

from farlane.analyzer.externals.forms import (
    BY_STRUCTURE,
    DEVICE_TO_DEVICE,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    Copy,
    Launch,
    StructuredCopy,
)

_GRID = {"grid.x": (1, 4), "grid.y": (2, 4), "grid.z": (3, 4)}
_BLOCK = {"block.x": (4, 4), "block.y": (5, 4), "block.z": (6, 4)}
_PARTS = {**_GRID, **_BLOCK, "shared": (7, 4), "stream": (8, 8)}
LAUNCHES = {
    "cuLaunchKernel": Launch(0, 9, _PARTS, extra=10, handle=True),
    "cuLaunchCooperativeKernel": Launch(0, 9, _PARTS, handle=True),
    "cuLaunchKernelEx": Launch(1, 2, BY_STRUCTURE, structure=0, extra=3, handle=True),
}
# In a launch's `extra`, in pairs until END: what follows is the buffer's address, or the address of its size.
END, BUFFER, BUFFER_SIZE = 0, 1, 2

COPIES = {
    "cuMemcpyHtoD": Copy(0, 1, 2, direction=HOST_TO_DEVICE),
    "cuMemcpyHtoDAsync": Copy(0, 1, 2, direction=HOST_TO_DEVICE),
    "cuMemcpyDtoH": Copy(0, 1, 2, direction=DEVICE_TO_HOST),
    "cuMemcpyDtoHAsync": Copy(0, 1, 2, direction=DEVICE_TO_HOST),
    "cuMemcpyDtoD": Copy(0, 1, 2, direction=DEVICE_TO_DEVICE),
    "cuMemcpyDtoDAsync": Copy(0, 1, 2, direction=DEVICE_TO_DEVICE),
    "cuMemcpy": Copy(0, 1, 2),
    "cuMemcpyAsync": Copy(0, 1, 2),
}
# CUDA_MEMCPY2D: of the source x, y, kind of memory, host address, device address, array, pitch; the same of the
# destination; width, height.
_RECTANGLE = StructuredCopy(
    128,
    (16, 72),
    (24, 80),
    tuple((offset, 8) for offset in (0, 8, 32, 40, 48, 56, 64, 88, 96, 104, 112, 120)),
)
STRUCTURED_COPIES = {
    "cuMemcpy2D": _RECTANGLE,
    "cuMemcpy2DUnaligned": _RECTANGLE,
    "cuMemcpy2DAsync": _RECTANGLE._replace(stream=True),
}

ROLES: dict[str, str] = {
    "cuInit": "w",
    "cuDriverGetVersion": "o4",
    "cuGetErrorName": "- o8",
    "cuGetErrorString": "- o8",
    "cuDeviceGet": "o4 w",
    "cuDeviceGetCount": "o4",
    "cuDeviceGetAttribute": "o4 w w",
    "cuDeviceGetName": "O - w",
    "cuDeviceGetUuid": "O w",
    "cuDeviceTotalMem": "o8 w",
    "cuDeviceCanAccessPeer": "o4 w w",
    "cuDevicePrimaryCtxRetain": "o8 w",
    "cuDevicePrimaryCtxRelease": "w",
    "cuDevicePrimaryCtxReset": "w",
    "cuDevicePrimaryCtxSetFlags": "w w",
    "cuDevicePrimaryCtxGetState": "w o4 o4",
    "cuCtxCreate": "o8 w w",
    "cuCtxDestroy": "v",
    "cuCtxSynchronize": "",
    "cuCtxGetCurrent": "o8",
    "cuCtxSetCurrent": "v",
    "cuCtxPushCurrent": "v",
    "cuCtxPopCurrent": "o8",
    "cuCtxGetDevice": "o4",
    "cuCtxGetApiVersion": "v o4",
    "cuCtxGetFlags": "o4",
    "cuCtxGetId": "v o8",
    "cuCtxGetLimit": "o8 w",
    "cuCtxSetLimit": "w v",
    "cuCtxGetCacheConfig": "o4",
    "cuCtxSetCacheConfig": "w",
    "cuCtxGetStreamPriorityRange": "o4 o4",
    "cuModuleLoad": "o8 d",
    "cuModuleLoadData": "o8 d",
    "cuModuleLoadFatBinary": "o8 d",
    "cuModuleUnload": "v",
    "cuModuleGetFunction": "o8 v d",
    "cuModuleGetGlobal": "o8 o8 v d",
    "cuLibraryUnload": "v",
    "cuLibraryGetKernel": "o8 v d",
    "cuLibraryGetModule": "o8 v",
    "cuLibraryGetGlobal": "o8 o8 v d",
    "cuLibraryGetManaged": "o8 o8 v d",
    "cuKernelGetFunction": "o8 v",
    "cuKernelGetAttribute": "o4 w v w",
    "cuKernelSetAttribute": "w w v w",
    "cuFuncGetAttribute": "o4 w v",
    "cuFuncSetAttribute": "v w w",
    "cuFuncSetCacheConfig": "v w",
    "cuFuncGetModule": "o8 v",
    "cuMemAlloc": "o8 v",
    "cuMemAllocAsync": "o8 v v",
    "cuMemAllocHost": "o8 -",
    "cuMemHostAlloc": "o8 - -",
    "cuMemAllocManaged": "o8 v w",
    "cuMemAllocPitch": "o8 o8 v v w",
    "cuMemFree": "v",
    "cuMemFreeAsync": "v v",
    "cuMemFreeHost": "-",
    "cuMemGetInfo": "o8 o8",
    "cuMemGetAddressRange": "o8 o8 v",
    "cuMemsetD8": "v w v",
    "cuMemsetD16": "v w v",
    "cuMemsetD32": "v w v",
    "cuMemsetD8Async": "v w v v",
    "cuMemsetD16Async": "v w v v",
    "cuMemsetD32Async": "v w v v",
    "cuMemsetD2D8": "v v w v v",
    "cuMemsetD2D16": "v v w v v",
    "cuMemsetD2D32": "v v w v v",
    "cuMemcpyHtoD": "v s v",
    "cuMemcpyHtoDAsync": "v s v v",
    "cuMemcpyDtoH": "h v v",
    "cuMemcpyDtoHAsync": "h v v v",
    "cuMemcpyDtoD": "v v v",
    "cuMemcpyDtoDAsync": "v v v v",
    "cuMemcpy": "- - v",
    "cuMemcpyAsync": "- - v v",
    "cuStreamCreate": "o8 w",
    "cuStreamCreateWithPriority": "o8 w w",
    "cuStreamDestroy": "v",
    "cuStreamSynchronize": "v",
    "cuStreamQuery": "v",
    "cuStreamWaitEvent": "v v w",
    "cuEventCreate": "o8 w",
    "cuEventDestroy": "v",
    "cuEventRecord": "v v",
    "cuEventRecordWithFlags": "v v w",
    "cuEventSynchronize": "v",
    "cuEventQuery": "v",
    "cuEventElapsedTime": "o4 v v",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": "o4 v w v",
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": "o4 v w v w",
    "cuPointerGetAttribute": "O w v",
}
PREDICTED: dict[str, str] = {
    "cuCtxCreate_v3": "o8 d w w w",
    "cuCtxCreate_v4": "o8 d w w",
    "cuCtxEnablePeerAccess": "v w",
    "cuCtxDisablePeerAccess": "v",
    "cuCtxAttach": "o8 w",
    "cuCtxDetach": "v",
    "cuModuleLoadDataEx": "o8 d w d d",
    "cuLibraryLoadData": "o8 d d d w d",
    "cuLibraryLoadFromFile": "o8 d d d w d",
    "cuMemsetD2D8Async": "v v w v v v",
    "cuMemsetD2D16Async": "v v w v v v",
    "cuMemsetD2D32Async": "v v w v v v",
    "cuMemcpyPeer": "v v v v v",
    "cuMemcpyPeerAsync": "v v v v v v",
    "cuMemcpyHtoA": "v v s v",
    "cuMemcpyHtoAAsync": "v v s v v",
    "cuMemcpyAtoD": "v v v v",
    "cuMemcpyDtoA": "v v v v",
    "cuMemcpyAtoA": "v v v v v",
    "cuMemAllocFromPoolAsync": "o8 v v v",
    "cuDeviceGetDefaultMemPool": "o8 w",
    "cuDeviceGetMemPool": "o8 w",
    "cuDeviceSetMemPool": "w v",
    "cuMemPoolTrimTo": "v v",
    "cuMemPoolCreate": "o8 d",
    "cuMemPoolDestroy": "v",
    "cuMemPrefetchAsync": "v v",
    "cuMemAdvise": "v v w",
    "cuMemHostRegister": "- v w",
    "cuMemHostUnregister": "-",
    "cuMemHostGetDevicePointer": "o8 - w",
    "cuMemHostGetFlags": "o4 -",
    "cuMemAddressReserve": "o8 v v v v",
    "cuMemAddressFree": "v v",
    "cuMemCreate": "o8 v d v",
    "cuMemRelease": "v",
    "cuMemMap": "v v v v v",
    "cuMemUnmap": "v v",
    "cuMemSetAccess": "v v d v",
    "cuMemGetAllocationGranularity": "o8 d w",
    "cuArrayCreate": "o8 d",
    "cuArray3DCreate": "o8 d",
    "cuArrayDestroy": "v",
    "cuTexObjectCreate": "o8 d d d",
    "cuTexObjectDestroy": "v",
    "cuSurfObjectCreate": "o8 d",
    "cuSurfObjectDestroy": "v",
    "cuStreamAttachMemAsync": "v v v w",
    "cuStreamGetFlags": "v o4",
    "cuStreamGetPriority": "v o4",
    "cuStreamGetCtx": "v o8",
    "cuStreamGetId": "v o8",
    "cuStreamIsCapturing": "v o4",
    "cuStreamBeginCapture": "v w",
    "cuStreamEndCapture": "v o8",
    "cuStreamWriteValue32": "v v w w",
    "cuStreamWriteValue64": "v v v w",
    "cuStreamWaitValue32": "v v w w",
    "cuStreamWaitValue64": "v v v w",
    "cuGraphCreate": "o8 w",
    "cuGraphInstantiateWithFlags": "o8 v v",
    "cuGraphUpload": "v v",
    "cuGraphLaunch": "v v",
    "cuGraphDestroy": "v",
    "cuGraphExecDestroy": "v",
    "cuProfilerStart": "",
    "cuProfilerStop": "",
}
WRITES = {"cuDeviceGetUuid": 16, "cuDeviceGetUuid_v2": 16}
CONSTANT_ANSWERS = frozenset(
    {
        "cuCtxGetStreamPriorityRange",
        "cuDeviceCanAccessPeer",
        "cuDeviceGet",
        "cuDeviceGetAttribute",
        "cuDeviceGetCount",
        "cuDeviceTotalMem",
        "cuDriverGetVersion",
    }
)
HOST_ALLOCATORS = frozenset({"cuMemAllocHost", "cuMemHostAlloc", "cuMemAllocManaged"})
NUMBERS: dict[str, frozenset[int]] = {
    "cuMemAlloc": frozenset({1}),
    "cuMemAllocAsync": frozenset({1}),
    "cuMemAllocManaged": frozenset({1}),
    "cuMemAllocPitch": frozenset({2, 3}),
    **dict.fromkeys(("cuMemsetD8", "cuMemsetD16", "cuMemsetD32"), frozenset({2})),
    **dict.fromkeys(("cuMemsetD8Async", "cuMemsetD16Async", "cuMemsetD32Async"), frozenset({2})),
    **dict.fromkeys(("cuMemsetD2D8", "cuMemsetD2D16", "cuMemsetD2D32"), frozenset({1, 3, 4})),
    **dict.fromkeys(COPIES, frozenset({2})),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": frozenset({3}),
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": frozenset({3}),
}

SYNCHRONIZES = frozenset(
    {
        "cuCtxSynchronize",
        "cuStreamSynchronize",
        "cuEventSynchronize",
        "cuCtxDestroy",
        "cuDevicePrimaryCtxReset",
        "cuMemFree",
        "cuMemFreeHost",
        "cuMemAllocHost",
        "cuMemHostAlloc",
    }
)
QUERIES = frozenset({"cuStreamQuery", "cuEventQuery", "cuEventElapsedTime", "cuMemGetInfo", "cuModuleGetGlobal"})
NO_CODES = frozenset({"cuStreamQuery", "cuEventQuery"})

TOUCHES: dict[str, str] = {"cuMemAllocHost": "h8 .", "cuMemHostAlloc": "h8 . .", "cuMemFreeHost": "f"}
COPIES_TO_HOST = frozenset({"cuMemcpyDtoH", "cuMemcpyDtoHAsync", "cuMemcpy", "cuMemcpyAsync", *STRUCTURED_COPIES})
WAITS = frozenset({"cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize"})
COMPLETES = frozenset(
    [
        *("cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", "cuMemAlloc", "cuMemFree", "cuMemAllocHost"),
        *("cuMemFreeHost", "cuMemsetD8", "cuMemsetD32", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemcpyDtoD", "cuMemcpy"),
        *("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemcpyAsync", "cuMemsetD8Async"),
        *("cuEventRecord", "cuEventElapsedTime", "cuStreamCreate", "cuStreamDestroy", "cuEventCreate"),
        *("cuEventDestroy", "cuLaunchKernel"),
    ]
)
JOINS = frozenset({"cuMemcpyDtoH", "cuMemcpyDtoHAsync"})
JOINED = WAITS
CALLS_BACK = frozenset({"cuLaunchHostFunc", "cuStreamAddCallback", "cuGraphAddHostNode", "cuGraphAddNode"})

FIRST_VERSIONS = frozenset(
    [
        *("cuDeviceTotalMem", "cuModuleGetGlobal", "cuMemGetInfo", "cuMemAlloc", "cuMemAllocPitch", "cuMemFree"),
        *("cuMemGetAddressRange", "cuMemAllocHost", "cuMemHostGetDevicePointer", "cuMemcpyHtoD", "cuMemcpyDtoH"),
        *("cuMemcpyDtoD", "cuMemcpyDtoA", "cuMemcpyAtoD", "cuMemcpyHtoA", "cuMemcpyAtoH", "cuMemcpyAtoA"),
        *("cuMemcpyHtoAAsync", "cuMemcpyAtoHAsync", "cuMemcpy2D", "cuMemcpy2DUnaligned", "cuMemcpy3D"),
        *("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemcpy2DAsync", "cuMemcpy3DAsync"),
        *("cuMemsetD8", "cuMemsetD16", "cuMemsetD32", "cuMemsetD2D8", "cuMemsetD2D16", "cuMemsetD2D32"),
        *("cuArrayCreate", "cuArray3DCreate", "cuTexRefSetAddress", "cuTexRefGetAddress"),
    ]
)
