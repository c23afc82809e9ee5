"""The CUDA runtime's calls, as `interface` describes calls. Data, no logic.

Source: the declarations of NVIDIA's runtime API, chapters memory, stream, event, execution, device, error.
"""

from __future__ import annotations

from farlane.analyzer.externals.forms import BY_STRUCTURE, Copy, Launch

# Kernels by the address of their host function, grid and block in two registers each, as structures of 12 bytes are
# passed.
_BY_VALUE = Launch(
    0,
    5,
    {"grid.xy": (1, 8), "grid.z": (2, 4), "block.xy": (3, 8), "block.z": (4, 4), "shared": (6, 8), "stream": (7, 8)},
)
LAUNCHES = {
    **dict.fromkeys(("cudaLaunchKernel", "__cudaLaunchKernel", "cudaLaunchCooperativeKernel"), _BY_VALUE),
    "cudaLaunchKernelExC": Launch(1, 2, {**BY_STRUCTURE, "shared": (24, 8)}, structure=0),
}

COPIES = {
    "cudaMemcpy": Copy(0, 1, 2, kind=3),
    "cudaMemcpyAsync": Copy(0, 1, 2, kind=3),
    "cudaMemcpy2D": Copy(0, 2, None, kind=6),
    "cudaMemcpy2DAsync": Copy(0, 2, None, kind=6),
}

ROLES: dict[str, str] = {
    "cudaMalloc": "o8 v",
    "cudaMallocAsync": "o8 v v",
    "cudaMallocHost": "o8 -",
    "cudaHostAlloc": "o8 - -",
    "cudaMallocManaged": "o8 v w",
    "cudaMallocPitch": "o8 o8 v v",
    "cudaFree": "v",
    "cudaFreeAsync": "v v",
    "cudaFreeHost": "-",
    "cudaMemset": "v w v",
    "cudaMemsetAsync": "v w v v",
    "cudaMemset2D": "v v w v v",
    "cudaMemcpy": "- - v w",
    "cudaMemcpyAsync": "- - v w v",
    "cudaMemcpyToSymbol": "v s v v w",
    "cudaMemcpyToSymbolAsync": "v s v v w v",
    "cudaMemcpyFromSymbol": "h v v v w",
    "cudaMemcpyFromSymbolAsync": "h v v v w v",
    "cudaMemGetInfo": "o8 o8",
    "cudaGetSymbolAddress": "o8 v",
    "cudaStreamCreate": "o8",
    "cudaStreamCreateWithFlags": "o8 w",
    "cudaStreamCreateWithPriority": "o8 w w",
    "cudaStreamDestroy": "v",
    "cudaStreamSynchronize": "v",
    "cudaStreamQuery": "v",
    "cudaStreamWaitEvent": "v v w",
    "cudaEventCreate": "o8",
    "cudaEventCreateWithFlags": "o8 w",
    "cudaEventDestroy": "v",
    "cudaEventRecord": "v v",
    "cudaEventRecordWithFlags": "v v w",
    "cudaEventSynchronize": "v",
    "cudaEventQuery": "v",
    "cudaEventElapsedTime": "o4 v v",
    "cudaDeviceSynchronize": "",
    "cudaDeviceReset": "",
    "cudaSetDevice": "w",
    "cudaGetDevice": "o4",
    "cudaGetDeviceCount": "o4",
    "cudaDeviceGetAttribute": "o4 w w",
    "cudaGetDeviceProperties": "O w",
    "cudaGetLastError": "",
    "cudaPeekAtLastError": "",
    "cudaGetErrorString": "-",
    "cudaGetErrorName": "-",
    "cudaRuntimeGetVersion": "o4",
    "cudaDriverGetVersion": "o4",
    "cudaFuncSetAttribute": "v w w",
    "cudaFuncSetCacheConfig": "v w",
    "cudaFuncGetAttributes": "O v",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor": "o4 v w v",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": "o4 v w v w",
    "cudaPointerGetAttributes": "O v",
}
PREDICTED: dict[str, str] = {
    "cudaMemcpy2D": "- v - v v v",
    "cudaMemcpy2DAsync": "- v - v v v",
    "cudaMemset2DAsync": "v v w v v v",
    "cudaMemset3D": "- - -",
    "cudaMemcpyPeer": "v w v w v",
    "cudaMemcpyPeerAsync": "v w v w v v",
    "cudaMallocArray": "o8 d v v w",
    "cudaFreeArray": "v",
    "cudaMemcpyToArray": "v v v s v w",
    "cudaMemcpy2DToArray": "v v v s v v",
    "cudaMemcpy2DToArrayAsync": "v v v s v v",
    "cudaCreateChannelDesc": "O - - - - -",
    "cudaGetChannelDesc": "O v",
    "cudaMallocFromPoolAsync": "o8 v v v",
    "cudaMemPrefetchAsync": "v v",
    "cudaMemAdvise": "v v w",
    "cudaStreamAttachMemAsync": "v v v w",
    "cudaStreamGetFlags": "v o4",
    "cudaStreamGetPriority": "v o4",
    "cudaStreamIsCapturing": "v o4",
    "cudaCreateTextureObject": "o8 d d d",
    "cudaDestroyTextureObject": "v",
    "cudaCreateSurfaceObject": "o8 d",
    "cudaDestroySurfaceObject": "v",
    "cudaHostRegister": "- v w",
    "cudaHostUnregister": "-",
    "cudaHostGetDevicePointer": "o8 - w",
    "cudaStreamBeginCapture": "v w",
    "cudaStreamEndCapture": "v o8",
    "cudaGraphCreate": "o8 w",
    "cudaGraphInstantiate": "o8 v v",
    "cudaGraphInstantiateWithFlags": "o8 v v",
    "cudaGraphUpload": "v v",
    "cudaGraphLaunch": "v v",
    "cudaGraphDestroy": "v",
    "cudaGraphExecDestroy": "v",
    "cudaGetSymbolSize": "o8 v",
    "cudaSetDeviceFlags": "w",
    "cudaDeviceSetCacheConfig": "w",
    "cudaDeviceSetLimit": "w v",
    "cudaDeviceGetLimit": "o8 w",
    "cudaDeviceGetStreamPriorityRange": "o4 o4",
    "cudaDeviceGetDefaultMemPool": "o8 w",
    "cudaDeviceCanAccessPeer": "o4 w w",
    "cudaDeviceEnablePeerAccess": "w w",
    "cudaThreadSynchronize": "",
    "cudaProfilerStart": "",
    "cudaProfilerStop": "",
}
WRITES = {
    "cudaGetDeviceProperties": 1008,
    "cudaGetDeviceProperties_v2": 1032,
    "cudaFuncGetAttributes": 144,
    "cudaPointerGetAttributes": 88,
    "cudaCreateChannelDesc": 20,
    "cudaGetChannelDesc": 20,
}
CONSTANT_ANSWERS = frozenset(
    {
        "cudaDeviceCanAccessPeer",
        "cudaDeviceGetAttribute",
        "cudaDeviceGetStreamPriorityRange",
        "cudaDriverGetVersion",
        "cudaGetDeviceCount",
        "cudaGetDeviceProperties",
        "cudaRuntimeGetVersion",
    }
)
STRUCTURES = frozenset({"cudaCreateChannelDesc"})
HOST_ALLOCATORS = frozenset({"cudaMallocHost", "cudaHostAlloc", "cudaMallocManaged"})
NUMBERS: dict[str, frozenset[int]] = {
    "cudaMalloc": frozenset({1}),
    "cudaMallocAsync": frozenset({1}),
    "cudaMallocManaged": frozenset({1}),
    "cudaMallocPitch": frozenset({2, 3}),
    "cudaMemset": frozenset({2}),
    "cudaMemsetAsync": frozenset({2}),
    "cudaMemset2D": frozenset({1, 3, 4}),
    "cudaMemcpy": frozenset({2}),
    "cudaMemcpyAsync": frozenset({2}),
    "cudaMemcpyToSymbol": frozenset({2, 3}),
    "cudaMemcpyToSymbolAsync": frozenset({2, 3}),
    "cudaMemcpyFromSymbol": frozenset({2, 3}),
    "cudaMemcpyFromSymbolAsync": frozenset({2, 3}),
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor": frozenset({3}),
    "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": frozenset({3}),
}

SYNCHRONIZES = frozenset(
    [
        "cudaDeviceSynchronize",
        "cudaStreamSynchronize",
        "cudaEventSynchronize",
        "cudaThreadSynchronize",
        "cudaDeviceReset",
        "cudaFree",
        "cudaFreeHost",
        "cudaMallocHost",
        "cudaHostAlloc",
    ]
)
QUERIES = frozenset(
    {"cudaStreamQuery", "cudaEventQuery", "cudaEventElapsedTime", "cudaMemGetInfo", "cudaGetSymbolAddress"}
)
FROM_SYMBOL = frozenset({"cudaMemcpyFromSymbol", "cudaMemcpyFromSymbolAsync"})
NO_CODES = frozenset(
    {"cudaGetErrorString", "cudaGetErrorName", "cudaStreamQuery", "cudaEventQuery", "cudaCreateChannelDesc"}
)

TOUCHES: dict[str, str] = {
    "cudaMallocHost": "h8 .",
    "cudaHostAlloc": "h8 . .",
    "cudaFreeHost": "f",
    "cudaMemcpyToSymbol": ". d@2 . . .",
    "cudaMemcpyToSymbolAsync": ". d@2 . . . .",
    "cudaMemcpyFromSymbol": "w@2 . . . .",
    "cudaMemcpyFromSymbolAsync": "w@2 . . . . .",
}
COPIES_TO_HOST = frozenset({*COPIES, *FROM_SYMBOL})
WAITS = frozenset({"cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaThreadSynchronize"})
COMPLETES = frozenset(
    [
        *("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaFree", "cudaMalloc"),
        *(
            "cudaMemset",
            "cudaMemcpy",
            "cudaMemcpyAsync",
            "cudaMemsetAsync",
            "cudaMemcpyToSymbol",
            "cudaMemcpyFromSymbol",
        ),
        *("cudaEventRecord", "cudaFreeHost", "cudaDeviceReset", "cudaEventElapsedTime", "cudaStreamDestroy"),
        *("cudaEventDestroy", "cudaLaunchKernel", "__cudaPushCallConfiguration", "cudaMallocHost", "cudaStreamCreate"),
        "cudaEventCreate",
    ]
)
JOINS = frozenset({*COPIES, *FROM_SYMBOL})
JOINED = frozenset({"cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize"})
CALLS_BACK = frozenset({"cudaLaunchHostFunc", "cudaStreamAddCallback", "cudaGraphAddHostNode"})
