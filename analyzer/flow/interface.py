"""The CUDA runtime's calls as the analysis sees them: what each argument is. Data, no logic.

A role is a letter, with a number where it counts bytes:

- v: a value that the host of the device needs (a device address, a handle, a size): it is an argument in the sense of the
  classes; w: the same, 32 bits
- d: a descriptor in host memory, read and not kept
- s: host memory read by the call; h: host memory written by the call (a copy to the host)
- oN: the call writes N bytes there, its result, and does not keep the address
- O: it writes an unknown number of bytes there
- -: of no interest (attributes, names, flags of host memory)

Source: the declarations of NVIDIA's runtime API, chapters memory, stream, event, execution, device, error.
"""

from __future__ import annotations

HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS = range(5)

# Calls that are a kernel's launch, by the argument in which the kernel stands.
LAUNCHES = frozenset({"cudaLaunchKernel", "__cudaLaunchKernel", "cudaLaunchCooperativeKernel"})
LAUNCH = "launch"
# One whose configuration is a structure: grid and block as three numbers of 4 bytes each, shared memory, stream, attributes and their number.
LAUNCH_BY_STRUCTURE = "cudaLaunchKernelExC"
ATTRIBUTE = 72  # bytes of an attribute: what it is, and from byte 8 on its value
PUSH, POP, GET_KERNEL = "__cudaPushCallConfiguration", "__cudaPopCallConfiguration", "__cudaGetKernel"

# Calls that copy: where their destination, source, size and kind stand.
COPIES = {
    "cudaMemcpy": (0, 1, 2, 3),
    "cudaMemcpyAsync": (0, 1, 2, 3),
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

# The same of calls of which permissions know nothing: predictions are checked when the program runs, so what these calls do later (a
# captured copy, when its graph is launched) may be left out here. Arguments from the seventh on are not told.
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
# How many bytes calls with role O write at most, by the name in the program: it changes when the structure grows.
WRITES = {
    "cudaGetDeviceProperties": 1008,
    "cudaGetDeviceProperties_v2": 1032,
    "cudaFuncGetAttributes": 144,
    "cudaPointerGetAttributes": 88,
    "cudaCreateChannelDesc": 20,
    "cudaGetChannelDesc": 20,
}
# What answers the same whenever it is asked the same: facts of devices and of the installation.
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
# What returns a structure: its address, which is given as the first argument, is also the result.
STRUCTURES = frozenset({"cudaCreateChannelDesc"})
# What returns host memory that nothing else points to, through its first argument.
HOST_ALLOCATORS = frozenset({"cudaMallocHost", "cudaHostAlloc", "cudaMallocManaged"})
# Of these, copies of rectangles: where their destination, source and kind stand; the kind on the stack.
COPIES_2D = {"cudaMemcpy2D": (0, 2, 6), "cudaMemcpy2DAsync": (0, 2, 6)}

# The 64-bit arguments (role v) that are numbers; the others may be addresses of the program's own objects.
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


def roles(name: str) -> str | None:
    """The roles of a call's arguments for predictions; None: it may do anything."""
    known = ROLES.get(name)
    return PREDICTED.get(name) if known is None else known


def plain(name: str) -> str:
    """The name without the suffix for the per-thread default stream and the version."""
    for suffix in ("_ptsz", "_ptds", "_v2"):
        name = name.removesuffix(suffix)
    return name
