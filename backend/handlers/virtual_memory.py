"""Physical memory of the tape: PHYSICAL_CREATE, PHYSICAL_RELEASE, PHYSICAL_MAP, PHYSICAL_UNMAP, PHYSICAL_ACCESS.

Owns the rules of tape.md, "Physical memory", which a right guest keeps: one that breaks them ends its session, and a device is asked only for what can be done.

Locking: none. It belongs to one session, which replays on one thread at a time.
Source: protos/tape.md, "Physical memory"; CUDA driver API, "Virtual Memory Management".
"""

from __future__ import annotations

from farlane.backend.device.base import MAPPING_GRANULE, NO_ACCESS, READ, READ_WRITE, CudaError
from farlane.backend.errors import ProtocolError
from farlane.backend.objects.physical import Mapping, Physical
from farlane.backend.objects.resources import Resources


def physical_create(resources: Resources, memory: int, size: int) -> None:
    if size <= 0 or size % MAPPING_GRANULE:
        raise ProtocolError(f"a physical allocation of {size} bytes, which is no multiple of {MAPPING_GRANULE}")
    with resources.physical.handles.reserve(memory) as reservation:
        reservation.fill(Physical(resources.context.create_physical(size), size))


def physical_release(resources: Resources, memory: int) -> None:
    handles = resources.physical.handles
    if memory not in handles:
        raise ProtocolError(f"PHYSICAL_RELEASE of {memory}, which is no physical allocation")
    physical = handles.release(memory)
    if physical is not None:
        _leave(resources, physical)


def physical_map(resources: Resources, address: int, offset: int, size: int, memory: int) -> None:
    _check_place(resources, address, offset, size, memory)
    known = resources.physical
    try:
        physical = known.handles.get(memory)
        if offset + size > physical.size:
            raise ProtocolError(f"bytes {offset} to {offset + size} of a physical allocation of {physical.size} bytes")
        resources.context.map_physical(address, physical.memory, offset, size)
    except CudaError as error:
        resources.poisoned.add(address, size, error)
        known.add(address, Mapping(size, None))
        raise
    physical.users += 1
    known.add(address, Mapping(size, physical))


def physical_unmap(resources: Resources, address: int) -> None:
    mapping = resources.physical.remove(address)
    if mapping.physical is None:
        resources.poisoned.remove(address)  # the refusal was reported where it happened
        return
    try:
        resources.context.unmap_physical(address, mapping.size)
    finally:
        _leave(resources, mapping.physical)


def physical_access(resources: Resources, address: int, access: int) -> None:
    if access not in (NO_ACCESS, READ, READ_WRITE):
        raise ProtocolError(f"PHYSICAL_ACCESS {access}")
    mapping = resources.physical.at(address, "PHYSICAL_ACCESS")
    if mapping.physical is not None:
        resources.context.set_access(address, mapping.size, access)


def _check_place(resources: Resources, address: int, offset: int, size: int, memory: int) -> None:
    """Raises ProtocolError for a mapping that no guest may ask for."""
    window, known = resources.context.window, resources.physical
    if size <= 0 or (address | offset | size) % MAPPING_GRANULE:
        raise ProtocolError(
            f"a mapping of {size} bytes from {offset} at {address:#x}: no multiples of {MAPPING_GRANULE}"
        )
    if not window.base <= address <= window.base + window.size - size:
        raise ProtocolError(f"a mapping of {size} bytes at {address:#x}, outside of the session's window")
    if memory not in known.handles:
        raise ProtocolError(f"PHYSICAL_MAP of {memory}, which is no physical allocation")
    other = known.overlapping(address, address + size)
    if other is not None:
        raise ProtocolError(f"a mapping of {size} bytes at {address:#x}, over the one at {other:#x}")


def _leave(resources: Resources, physical: Physical) -> None:
    """A handle or a mapping has ended: the memory with the last one."""
    physical.users -= 1
    if not physical.users:
        resources.context.free_physical(physical.memory)
