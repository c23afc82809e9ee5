"""Texture and surface objects of the tape, and tensor maps: OBJECT_CREATE, OBJECT_DESTROY, TENSOR_MAP.

Owns the reading of what the guest describes. The objects are the device's: their values are what kernels take, so no table of handles stands
between. Devices whose kernels read the description itself never see these operations.
"""

from __future__ import annotations

from farlane.backend.device import objects, tensors
from farlane.backend.errors import ProtocolError
from farlane.backend.handlers.memory import Reading
from farlane.backend.objects.resources import Resources


def object_create(resources: Resources, description: bytes) -> int:
    try:
        read = objects.read(description)
    except ValueError as error:
        raise ProtocolError(f"OBJECT_CREATE: {error}") from None
    return resources.context.create_object(read)


def object_destroy(resources: Resources, value: int, surface: int) -> None:
    if surface > 1:
        raise ProtocolError(f"OBJECT_DESTROY of a surface: {surface}")
    resources.context.destroy_object(value, surface=bool(surface))


def tensor_map(resources: Resources, address: int, replaces: int, map: bytes) -> Reading:
    if replaces > 1:
        raise ProtocolError(f"a TENSOR_MAP that replaces {replaces}")
    if replaces:
        made = resources.context.moved_tensor_map(map, address)
    else:
        try:
            description = tensors.read(map)
        except ValueError as error:
            raise ProtocolError(f"TENSOR_MAP: {error}") from None
        made = resources.context.tensor_map(description)
    return Reading(tensors.BYTES, (made,))
