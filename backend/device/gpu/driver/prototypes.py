"""The functions of libcuda that CuPy does not wrap, and those that the plane calls, as ctypes sees them.

Owns prototypes, structures and constants, nothing that runs. A test compares each with cuda.h: names (with the version suffix that the
header's macros give), parameter types, layouts, values.

Source: CUDA driver API, cuda.h of CUDA 12 and 13.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char, c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_ulonglong, c_ushort, c_void_p

# Enumerations ---------------------------------------------------------------------------------------------------
CU_MEM_ALLOCATION_TYPE_PINNED = 1
CU_MEM_LOCATION_TYPE_DEVICE = 1
CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0
CU_MEMORYTYPE_HOST = 1
CU_MEMORYTYPE_DEVICE = 2
CU_MEMORYTYPE_ARRAY = 3
CU_RESOURCE_TYPE_ARRAY = 0
CU_RESOURCE_TYPE_LINEAR = 2
CU_RESOURCE_TYPE_PITCH2D = 3
CU_TR_FILTER_MODE_POINT = 0
CU_TR_FILTER_MODE_LINEAR = 1
CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2
CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4
CU_JIT_INPUT_CUBIN = 0
CU_JIT_INPUT_PTX = 1
CU_JIT_INPUT_FATBINARY = 2
CU_STREAM_NON_BLOCKING = 1
CU_EVENT_BLOCKING_SYNC = 1
CU_EVENT_DISABLE_TIMING = 2
CUDA_ERROR_INVALID_VALUE = 1
CUDA_ERROR_OUT_OF_MEMORY = 2
CUDA_ERROR_NOT_FOUND = 500
CUDA_ERROR_NOT_READY = 600
CUDA_ERROR_NOT_SUPPORTED = 801

# Macros that are no enumeration: the value's text in the header.
CU_LAUNCH_PARAM_END = 0
CU_LAUNCH_PARAM_BUFFER_POINTER = 1
CU_LAUNCH_PARAM_BUFFER_SIZE = 2
CU_STREAM_LEGACY = 1
CU_TRSF_READ_AS_INTEGER = 1
CU_TRSF_NORMALIZED_COORDINATES = 2
CU_TRSF_SRGB = 16
CUDA_ARRAY3D_LAYERED = 1


# Structures -----------------------------------------------------------------------------------------------------
class CUuuid(ctypes.Structure):
    _fields_ = (("bytes", c_char * 16),)


class CUmemLocation(ctypes.Structure):
    _fields_ = (("type", c_int), ("id", c_int))


class _AllocationFlags(ctypes.Structure):
    _fields_ = (
        ("compressionType", c_ubyte),
        ("gpuDirectRDMACapable", c_ubyte),
        ("usage", c_ushort),
        ("reserved", c_ubyte * 4),
    )


class CUmemAllocationProp(ctypes.Structure):
    _fields_ = (
        ("type", c_int),
        ("requestedHandleTypes", c_int),
        ("location", CUmemLocation),
        ("win32HandleMetaData", c_void_p),
        ("allocFlags", _AllocationFlags),
    )


class CUmemAccessDesc(ctypes.Structure):
    _fields_ = (("location", CUmemLocation), ("flags", c_int))


class CUDA_KERNEL_NODE_PARAMS(ctypes.Structure):
    _fields_ = (
        ("func", c_void_p),
        ("gridDimX", c_uint),
        ("gridDimY", c_uint),
        ("gridDimZ", c_uint),
        ("blockDimX", c_uint),
        ("blockDimY", c_uint),
        ("blockDimZ", c_uint),
        ("sharedMemBytes", c_uint),
        ("kernelParams", c_void_p),
        ("extra", c_void_p),
        ("kern", c_void_p),
        ("ctx", c_void_p),
    )


class CUlaunchAttributeValue(ctypes.Union):
    _fields_ = (("pad", c_char * 64), ("cooperative", c_int), ("clusterDim", c_uint * 3))


class CUlaunchAttribute(ctypes.Structure):
    _fields_ = (("id", c_int), ("pad", c_char * 4), ("value", CUlaunchAttributeValue))


class CUlaunchConfig(ctypes.Structure):
    _fields_ = (
        ("gridDimX", c_uint),
        ("gridDimY", c_uint),
        ("gridDimZ", c_uint),
        ("blockDimX", c_uint),
        ("blockDimY", c_uint),
        ("blockDimZ", c_uint),
        ("sharedMemBytes", c_uint),
        ("hStream", c_void_p),
        ("attrs", POINTER(CUlaunchAttribute)),
        ("numAttrs", c_uint),
    )


class CUDA_MEMSET_NODE_PARAMS(ctypes.Structure):
    _fields_ = (
        ("dst", c_ulonglong),
        ("pitch", c_size_t),
        ("value", c_uint),
        ("elementSize", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
    )


class CUDA_MEMCPY3D(ctypes.Structure):
    _fields_ = (
        ("srcXInBytes", c_size_t),
        ("srcY", c_size_t),
        ("srcZ", c_size_t),
        ("srcLOD", c_size_t),
        ("srcMemoryType", c_int),
        ("srcHost", c_void_p),
        ("srcDevice", c_ulonglong),
        ("srcArray", c_void_p),
        ("reserved0", c_void_p),
        ("srcPitch", c_size_t),
        ("srcHeight", c_size_t),
        ("dstXInBytes", c_size_t),
        ("dstY", c_size_t),
        ("dstZ", c_size_t),
        ("dstLOD", c_size_t),
        ("dstMemoryType", c_int),
        ("dstHost", c_void_p),
        ("dstDevice", c_ulonglong),
        ("dstArray", c_void_p),
        ("reserved1", c_void_p),
        ("dstPitch", c_size_t),
        ("dstHeight", c_size_t),
        ("WidthInBytes", c_size_t),
        ("Height", c_size_t),
        ("Depth", c_size_t),
    )


class CUDA_MEMCPY2D(ctypes.Structure):
    """The plane's (backend/plane/src/device/cuda/rows.rs)."""

    _fields_ = (
        ("srcXInBytes", c_size_t),
        ("srcY", c_size_t),
        ("srcMemoryType", c_int),
        ("srcHost", c_void_p),
        ("srcDevice", c_ulonglong),
        ("srcArray", c_void_p),
        ("srcPitch", c_size_t),
        ("dstXInBytes", c_size_t),
        ("dstY", c_size_t),
        ("dstMemoryType", c_int),
        ("dstHost", c_void_p),
        ("dstDevice", c_ulonglong),
        ("dstArray", c_void_p),
        ("dstPitch", c_size_t),
        ("WidthInBytes", c_size_t),
        ("Height", c_size_t),
    )


class CUDA_ARRAY3D_DESCRIPTOR(ctypes.Structure):
    _fields_ = (
        ("Width", c_size_t),
        ("Height", c_size_t),
        ("Depth", c_size_t),
        ("Format", c_int),
        ("NumChannels", c_uint),
        ("Flags", c_uint),
    )


class _Array(ctypes.Structure):
    _fields_ = (("hArray", c_void_p),)


class _Linear(ctypes.Structure):
    _fields_ = (("devPtr", c_ulonglong), ("format", c_int), ("numChannels", c_uint), ("sizeInBytes", c_size_t))


class _Pitch2D(ctypes.Structure):
    _fields_ = (
        ("devPtr", c_ulonglong),
        ("format", c_int),
        ("numChannels", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
        ("pitchInBytes", c_size_t),
    )


class _Reserved(ctypes.Structure):
    _fields_ = (("reserved", c_int * 32),)


class _Resource(ctypes.Union):
    _fields_ = (("array", _Array), ("linear", _Linear), ("pitch2D", _Pitch2D), ("reserved", _Reserved))


class CUDA_RESOURCE_DESC(ctypes.Structure):
    _fields_ = (("resType", c_int), ("res", _Resource), ("flags", c_uint))


class CUDA_TEXTURE_DESC(ctypes.Structure):
    _fields_ = (
        ("addressMode", c_int * 3),
        ("filterMode", c_int),
        ("flags", c_uint),
        ("maxAnisotropy", c_uint),
        ("mipmapFilterMode", c_int),
        ("mipmapLevelBias", c_float),
        ("minMipmapLevelClamp", c_float),
        ("maxMipmapLevelClamp", c_float),
        ("borderColor", c_float * 4),
        ("reserved", c_int * 12),
    )


class CUDA_RESOURCE_VIEW_DESC(ctypes.Structure):
    _fields_ = (
        ("format", c_int),
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
        ("firstMipmapLevel", c_uint),
        ("lastMipmapLevel", c_uint),
        ("firstLayer", c_uint),
        ("lastLayer", c_uint),
        ("reserved", c_uint * 16),
    )


class CUtensorMap(ctypes.Structure):
    _fields_ = (("opaque", c_ulonglong * 16),)


# Functions ------------------------------------------------------------------------------------------------------
#: The exported symbol: its parameters. All return CUresult.
FUNCTIONS: dict[str, tuple[type, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetUuid_v2": (POINTER(CUuuid), c_int),
    "cuDeviceTotalMem_v2": (POINTER(c_size_t), c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDeviceGetPCIBusId": (c_char_p, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuDevicePrimaryCtxReset_v2": (c_int,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxSynchronize": (),
    "cuMemGetAllocationGranularity": (POINTER(c_size_t), POINTER(CUmemAllocationProp), c_int),
    "cuMemAddressReserve": (POINTER(c_ulonglong), c_size_t, c_size_t, c_ulonglong, c_ulonglong),
    "cuMemAddressFree": (c_ulonglong, c_size_t),
    "cuMemCreate": (POINTER(c_ulonglong), c_size_t, POINTER(CUmemAllocationProp), c_ulonglong),
    "cuMemRelease": (c_ulonglong,),
    "cuMemMap": (c_ulonglong, c_size_t, c_size_t, c_ulonglong, c_ulonglong),
    "cuMemUnmap": (c_ulonglong, c_size_t),
    "cuMemSetAccess": (c_ulonglong, c_size_t, POINTER(CUmemAccessDesc), c_size_t),
    "cuMemAlloc_v2": (POINTER(c_ulonglong), c_size_t),
    "cuMemFree_v2": (c_ulonglong,),
    "cuMemHostAlloc": (c_void_p, c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemcpyHtoDAsync_v2": (c_ulonglong, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_ulonglong, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_ulonglong, c_ulonglong, c_size_t, c_void_p),
    "cuMemcpy2DAsync_v2": (POINTER(CUDA_MEMCPY2D), c_void_p),
    "cuMemsetD8Async": (c_ulonglong, c_ubyte, c_size_t, c_void_p),
    "cuMemsetD16Async": (c_ulonglong, c_ushort, c_size_t, c_void_p),
    "cuMemsetD32Async": (c_ulonglong, c_uint, c_size_t, c_void_p),
    "cuMemsetD2D8Async": (c_ulonglong, c_size_t, c_ubyte, c_size_t, c_size_t, c_void_p),
    "cuMemsetD2D16Async": (c_ulonglong, c_size_t, c_ushort, c_size_t, c_size_t, c_void_p),
    "cuMemsetD2D32Async": (c_ulonglong, c_size_t, c_uint, c_size_t, c_size_t, c_void_p),
    "cuModuleGetGlobal_v2": (POINTER(c_ulonglong), POINTER(c_size_t), c_void_p, c_char_p),
    "cuLaunchKernel": (
        c_void_p, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_void_p, c_void_p, c_void_p,
    ),
    "cuLaunchKernelEx": (POINTER(CUlaunchConfig), c_void_p, c_void_p, c_void_p),
    "cuFuncGetParamInfo": (c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_size_t)),
    "cuStreamCreateWithPriority": (POINTER(c_void_p), c_uint, c_int),
    "cuStreamQuery": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuEventQuery": (c_void_p,),
    "cuEventSynchronize": (c_void_p,),
    "cuArray3DCreate_v2": (POINTER(c_void_p), POINTER(CUDA_ARRAY3D_DESCRIPTOR)),
    "cuArrayDestroy": (c_void_p,),
    "cuMemcpy3DAsync_v2": (POINTER(CUDA_MEMCPY3D), c_void_p),
    "cuTexObjectCreate": (
        POINTER(c_ulonglong), POINTER(CUDA_RESOURCE_DESC), POINTER(CUDA_TEXTURE_DESC), POINTER(CUDA_RESOURCE_VIEW_DESC),
    ),
    "cuTexObjectDestroy": (c_ulonglong,),
    "cuSurfObjectCreate": (POINTER(c_ulonglong), POINTER(CUDA_RESOURCE_DESC)),
    "cuSurfObjectDestroy": (c_ulonglong,),
    "cuTensorMapEncodeTiled": (
        POINTER(CUtensorMap), c_int, c_uint, c_void_p, POINTER(c_ulonglong), POINTER(c_ulonglong), POINTER(c_uint),
        POINTER(c_uint), c_int, c_int, c_int, c_int,
    ),
    "cuTensorMapEncodeIm2col": (
        POINTER(CUtensorMap), c_int, c_uint, c_void_p, POINTER(c_ulonglong), POINTER(c_ulonglong), POINTER(c_int),
        POINTER(c_int), c_uint, c_uint, POINTER(c_uint), c_int, c_int, c_int, c_int,
    ),
    "cuTensorMapReplaceAddress": (POINTER(CUtensorMap), c_void_p),
    "cuGraphCreate": (POINTER(c_void_p), c_uint),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphAddKernelNode_v2": (
        POINTER(c_void_p), c_void_p, POINTER(c_void_p), c_size_t, POINTER(CUDA_KERNEL_NODE_PARAMS),
    ),
    "cuGraphAddMemsetNode": (
        POINTER(c_void_p), c_void_p, POINTER(c_void_p), c_size_t, POINTER(CUDA_MEMSET_NODE_PARAMS), c_void_p,
    ),
    "cuGraphAddMemcpyNode": (
        POINTER(c_void_p), c_void_p, POINTER(c_void_p), c_size_t, POINTER(CUDA_MEMCPY3D), c_void_p,
    ),
    "cuGraphInstantiateWithFlags": (POINTER(c_void_p), c_void_p, c_ulonglong),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphExecKernelNodeSetParams_v2": (c_void_p, c_void_p, POINTER(CUDA_KERNEL_NODE_PARAMS)),
    "cuGraphExecMemsetNodeSetParams": (c_void_p, c_void_p, POINTER(CUDA_MEMSET_NODE_PARAMS), c_void_p),
    "cuGraphExecMemcpyNodeSetParams": (c_void_p, c_void_p, POINTER(CUDA_MEMCPY3D), c_void_p),
    "cuGraphLaunch": (c_void_p, c_void_p),
}  # fmt: skip

#: Functions that an old driver may not have: what they are for is then done without.
OPTIONAL = frozenset({"cuFuncGetParamInfo", "cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col", "cuTensorMapReplaceAddress", *(name for name in FUNCTIONS if name.startswith("cuMem") and name in {
    "cuMemGetAllocationGranularity", "cuMemAddressReserve", "cuMemAddressFree", "cuMemCreate", "cuMemRelease",
    "cuMemMap", "cuMemUnmap", "cuMemSetAccess",
})})  # fmt: skip
