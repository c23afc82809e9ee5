"""Work as the driver's C structures: what interface.py says in tuples, filled in for cuda.h.

Owns which field means what, and the values that the driver insists on though they say nothing: pitches of single rows, heights of single slices.

Source: CUDA driver API, "Graph Management", cuMemcpy3D, cuTexObjectCreate.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from farlane.backend.device.base import LaunchShape
from farlane.backend.device.gpu.driver import prototypes as p
from farlane.backend.device.gpu.driver.interface import (
    ArraySpec,
    BoxEnd,
    BoxWork,
    CopyWork,
    KernelWork,
    SetWork,
    TexelSource,
    TextureSpec,
)
from farlane.backend.device.tensors import TensorMap


def kernel_node(work: KernelWork) -> p.CUDA_KERNEL_NODE_PARAMS:
    return p.CUDA_KERNEL_NODE_PARAMS(
        work.function, *work.grid, *work.block, work.shared_bytes, work.pointers, work.extra
    )


def launch_configuration(shape: LaunchShape, stream: int) -> p.CUlaunchConfig:
    """Of a cooperative launch, or one with clusters. cuLaunchCooperativeKernel takes no parameters as one buffer, this does."""
    attributes = []
    if shape.cooperative:
        attributes.append(p.CUlaunchAttribute(id=p.CU_LAUNCH_ATTRIBUTE_COOPERATIVE))
        attributes[-1].value.cooperative = 1
    if shape.cluster is not None:
        attributes.append(p.CUlaunchAttribute(id=p.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION))
        attributes[-1].value.clusterDim[:] = shape.cluster
    array = (p.CUlaunchAttribute * len(attributes))(*attributes)
    return p.CUlaunchConfig(*shape.grid, *shape.block, shape.shared_bytes, stream, array, len(attributes))


def set_node(work: SetWork) -> p.CUDA_MEMSET_NODE_PARAMS:
    return p.CUDA_MEMSET_NODE_PARAMS(work.address, work.pitch, work.value, work.element, work.width, work.height)


def copy_node(work: CopyWork) -> p.CUDA_MEMCPY3D:
    """One row where it can be: only such nodes can be given other addresses later."""
    width, height = work.width, work.height
    if height > 1 and work.destination_pitch == work.source_pitch == width:
        width, height = width * height, 1
    single = height == 1
    destination = BoxEnd(address=work.destination, pitch=width if single else work.destination_pitch)
    source = BoxEnd(address=work.source, pitch=width if single else work.source_pitch)
    return box_copy(BoxWork(destination, source, width, height))


class Described(NamedTuple):
    """A node's structure, and where fields that may change stand in it: the field, its offset, its bytes."""

    structure: bytes
    places: Mapping[str, tuple[int, int]] = {}


def described(work: KernelWork | SetWork | CopyWork) -> Described:
    """For the plane, which changes nodes of graphs by itself."""
    if isinstance(work, KernelWork):
        return Described(bytes(kernel_node(work)))
    if isinstance(work, SetWork):
        kind = p.CUDA_MEMSET_NODE_PARAMS
        return Described(
            bytes(set_node(work)), {"address": (kind.dst.offset, 8), "value": (kind.value.offset, work.element)}
        )
    return Described(
        bytes(copy_node(work)),
        {"destination": (p.CUDA_MEMCPY3D.dstDevice.offset, 8), "source": (p.CUDA_MEMCPY3D.srcDevice.offset, 8)},
    )


def box_copy(work: BoxWork) -> p.CUDA_MEMCPY3D:
    copy = p.CUDA_MEMCPY3D(WidthInBytes=work.width, Height=work.height, Depth=work.depth)
    for side, end in (("src", work.source), ("dst", work.destination)):
        if end.array:
            values = {
                "MemoryType": p.CU_MEMORYTYPE_ARRAY,
                "Array": end.array,
                "XInBytes": end.x,
                "Y": end.y,
                "Z": end.z,
            }
        else:
            kind, place = (p.CU_MEMORYTYPE_HOST, "Host") if end.host else (p.CU_MEMORYTYPE_DEVICE, "Device")
            values = {"MemoryType": kind, place: end.address, "Pitch": end.pitch, "Height": work.height}
        for name, value in values.items():
            setattr(copy, side + name, value)
    return copy


def array_descriptor(spec: ArraySpec) -> p.CUDA_ARRAY3D_DESCRIPTOR:
    return p.CUDA_ARRAY3D_DESCRIPTOR(spec.width, spec.height, spec.depth, int(spec.format), spec.channels, spec.flags)


def resource_of(source: TexelSource) -> p.CUDA_RESOURCE_DESC:
    resource = p.CUDA_RESOURCE_DESC()
    if source.array:
        resource.resType = p.CU_RESOURCE_TYPE_ARRAY
        resource.res.array.hArray = source.array
        return resource
    if source.bytes:
        resource.resType = p.CU_RESOURCE_TYPE_LINEAR
        kind = resource.res.linear
        kind.sizeInBytes = source.bytes
    else:
        resource.resType = p.CU_RESOURCE_TYPE_PITCH2D
        kind = resource.res.pitch2D
        kind.width, kind.height, kind.pitchInBytes = source.width, source.height, source.pitch
    kind.devPtr, kind.format, kind.numChannels = source.address, int(source.format), source.channels
    return resource


def sampling_of(spec: TextureSpec) -> p.CUDA_TEXTURE_DESC:
    sampling = p.CUDA_TEXTURE_DESC(flags=spec.flags, maxAnisotropy=spec.anisotropy)
    sampling.addressMode[:] = spec.modes
    sampling.filterMode = p.CU_TR_FILTER_MODE_LINEAR if spec.linear else p.CU_TR_FILTER_MODE_POINT
    sampling.borderColor[:] = spec.border
    return sampling


def aligned_map(content: bytes = b"") -> p.CUtensorMap:
    """Where the driver takes a tensor map: a multiple of its size."""
    size = ctypes.sizeof(p.CUtensorMap)
    room = bytearray(2 * size)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(room)) % size
    room[start : start + len(content)] = content
    return p.CUtensorMap.from_buffer(room, start)


def tensor_arguments(tensor: TensorMap) -> tuple[str, tuple[Any, ...]]:
    """The function that encodes such a map, and its arguments behind the map."""

    def array(kind: Any, values: Sequence[int]) -> Any:
        return (kind * max(1, len(values)))(*values)

    begin = (
        tensor.data_type,
        len(tensor.sizes),
        tensor.address,
        array(ctypes.c_ulonglong, tensor.sizes),
        array(ctypes.c_ulonglong, tensor.strides),
    )
    end = (array(ctypes.c_uint, tensor.steps), tensor.interleave, tensor.swizzle, tensor.promotion, tensor.fill)
    if tensor.corners is None:
        return "cuTensorMapEncodeTiled", (*begin, array(ctypes.c_uint, tensor.box), *end)
    lower, upper = tensor.corners
    return "cuTensorMapEncodeIm2col", (
        *begin,
        array(ctypes.c_int, lower),
        array(ctypes.c_int, upper),
        *tensor.box,
        *end,
    )
