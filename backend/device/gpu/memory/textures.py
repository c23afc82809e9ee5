"""Arrays, texture and surface objects of one session on a GPU.

The guest's array is an allocation like any other until the first object is made of it. Then it becomes an array of the driver's, in the driver's order of
texels, with the bytes that it had; its memory goes, its addresses stay, as names (boxes.py). So the guest needs to say nothing of arrays that kernels never see, and
its copies are what they were. Objects are the driver's values, which the guest waits for.

Owns what an object was made of, and the waiting: the first object of an array, and every end of an object or an array, wait for the GPU.

One thread at a time.
Source: protos/tape.md, "Textures"; CUDA driver API, "Texture Object Management", "Surface Object Management", cuArray3DCreate.
"""

from __future__ import annotations

from collections.abc import Callable

from farlane.backend.device.base import CudaError, Rows
from farlane.backend.device.gpu.driver import prototypes as p
from farlane.backend.device.gpu.driver.interface import (
    LEGACY,
    ArrayFormat,
    ArraySpec,
    BoxEnd,
    BoxWork,
    Driver,
    TexelSource,
    TextureSpec,
)
from farlane.backend.device.gpu.memory.boxes import Array
from farlane.backend.device.gpu.memory.memory import Memory
from farlane.backend.device.objects import ChannelKind, ObjectDescription, Resource, Sampling, Texels
from farlane.backend.generated_errors import INVALID_VALUE

_FORMATS = {
    (ChannelKind.UNSIGNED, 1): ArrayFormat.UNSIGNED_INT8,
    (ChannelKind.UNSIGNED, 2): ArrayFormat.UNSIGNED_INT16,
    (ChannelKind.UNSIGNED, 4): ArrayFormat.UNSIGNED_INT32,
    (ChannelKind.SIGNED, 1): ArrayFormat.SIGNED_INT8,
    (ChannelKind.SIGNED, 2): ArrayFormat.SIGNED_INT16,
    (ChannelKind.SIGNED, 4): ArrayFormat.SIGNED_INT32,
    (ChannelKind.FLOAT, 2): ArrayFormat.HALF,
    (ChannelKind.FLOAT, 4): ArrayFormat.FLOAT,
}


class Textures:
    """The objects of one session, and the making of arrays."""

    def __init__(self, driver: Driver, memory: Memory) -> None:
        self._driver = driver
        self._memory = memory
        self._objects: set[tuple[int, bool]] = (
            set()
        )  # the value, and whether it is a surface: one of each may have the same

    @property
    def used(self) -> bool:
        """Whether there are objects."""
        return bool(self._objects)

    def create(self, description: ObjectDescription) -> int:
        texels, sampling = description
        if sampling is None:
            if texels.resource is not Resource.ARRAY:
                raise CudaError(INVALID_VALUE, "a surface of something else than an array")
            value = self._driver.create_surface(self._array(texels).handle)
        else:
            source = self._source(texels)
            value = self._driver.create_texture(source, _spec(sampling, texels))
        self._objects.add((value, sampling is None))
        return value

    def destroy(self, value: int, surface: bool) -> None:
        """Waits for what may still read it."""
        if (value, surface) not in self._objects:
            raise CudaError(INVALID_VALUE, f"there is no {'surface' if surface else 'texture'} object {value:#x}")
        self._driver.synchronize()
        self._objects.discard((value, surface))
        self._end(value, surface)

    def _end(self, value: int, surface: bool) -> None:
        if surface:
            self._driver.destroy_surface(value)
        else:
            self._driver.destroy_texture(value)

    def close(self, quietly: Callable[..., None]) -> None:
        """Ends the objects and the arrays. No work runs, or the context is lost."""
        for value, surface in self._objects:
            quietly(self._end, value, surface)
        self._objects.clear()
        for array in self._memory.arrays.values():
            quietly(self._driver.destroy_array, array.handle)

    def _source(self, texels: Texels) -> TexelSource:
        if texels.resource is Resource.ARRAY:
            return TexelSource(array=self._array(texels).handle)
        width, height, _ = texels.size
        rows = Rows(texels.address, max(texels.pitch, texels.row), texels.row, height)
        self._memory.allocations.require(rows, "a texture's memory")
        if self._memory.array_at(texels.address) is not None:
            raise CudaError(INVALID_VALUE, f"a texture of memory at {texels.address:#x}, which is an array")
        kind = _FORMATS[texels.kind, texels.channel_bytes]
        if texels.resource is Resource.LINEAR:
            return TexelSource(address=texels.address, format=kind, channels=texels.channels, bytes=texels.row)
        return TexelSource(
            address=texels.address,
            format=kind,
            channels=texels.channels,
            width=width,
            height=height,
            pitch=texels.pitch,
        )

    def _array(self, texels: Texels) -> Array:
        """The array there; the allocation becomes one if it is not yet."""
        memory, driver = self._memory, self._driver
        array = memory.array_at(texels.address)
        if array is not None:
            if array.texels != texels:
                raise CudaError(INVALID_VALUE, f"the array at {texels.address:#x} is another one")
            return array
        allocation = memory.allocations.holding(texels.address)
        if allocation is None or allocation.start != texels.address or allocation.size < texels.span:
            raise CudaError(INVALID_VALUE, f"no array of {texels.span} bytes can be at {texels.address:#x}")
        driver.synchronize()  # all streams may have copies to it on their way
        width, height, depth = texels.extent
        kind = _FORMATS[texels.kind, texels.channel_bytes]
        handle = driver.create_array(ArraySpec(width, height, depth, kind, texels.channels, texels.flags))
        try:
            before = BoxEnd(address=texels.address, pitch=texels.pitch)
            driver.copy_box(BoxWork(BoxEnd(array=handle), before, texels.row, texels.size[1], texels.size[2]), LEGACY)
            driver.synchronize_stream(LEGACY)  # streams that do not wait for this one may use it next
        except BaseException:
            driver.destroy_array(handle)
            raise
        array = Array(handle, texels)
        memory.become_array(array)
        return array


def _spec(sampling: Sampling, texels: Texels) -> TextureSpec:
    flags = 0
    if texels.kind is not ChannelKind.FLOAT and not sampling.normalized_values:
        flags |= p.CU_TRSF_READ_AS_INTEGER
    if sampling.normalized_coordinates:
        flags |= p.CU_TRSF_NORMALIZED_COORDINATES
    if sampling.srgb:
        flags |= p.CU_TRSF_SRGB
    return TextureSpec(sampling.modes, sampling.linear, flags, sampling.anisotropy, sampling.border)
