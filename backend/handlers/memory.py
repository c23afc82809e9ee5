"""Memory operations of the tape: ALLOCATE, FREE, HOST_MAP, MEMSET, WRITE, READ, COPY.

Owns the translation from a record's fields to the context's calls, and the checks that follow from tape.md alone. What is
allocated where is the context's to know.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from farlane.backend.device.base import CudaError
from farlane.backend.errors import ProtocolError
from farlane.backend.objects.payloads import expand
from farlane.backend.objects.resources import Resources


class Reading(NamedTuple):
    """A READ that can begin: its packed bytes, in pieces."""

    total: int
    pieces: Iterable[memoryview | bytes]


def allocate(resources: Resources, address: int, size: int) -> None:
    try:
        resources.context.allocate(address, size)
    except CudaError as error:
        resources.poisoned.add(address, size, error)
        raise


def free(resources: Resources, address: int) -> None:
    if resources.poisoned and resources.poisoned.remove(address):
        return  # the refusal was reported where it happened
    resources.context.free(address)


def host_map(resources: Resources, address: int, device: int, size: int) -> None:
    resources.context.map_host(address, resources.rows(device, size, size, 1).address, size)


def memset(
    resources: Resources, address: int, pitch: int, width: int, height: int, value: int, element: int, stream: int
) -> None:
    if element not in (1, 2, 4) or width % element:
        raise ProtocolError(f"MEMSET of {width} bytes in elements of {element}")
    stream_object = resources.streams.get(stream)
    rows = resources.rows(address, pitch, width, height)
    if width and height:
        resources.context.set(rows, value & ((1 << 8 * element) - 1), element, stream_object)


def write(
    resources: Resources, flags: int, address: int, pitch: int, width: int, height: int, stream: int, data: memoryview
) -> None:
    data = expand(data, flags, width * height)
    stream_object = resources.streams.get(stream)
    rows = resources.rows(address, pitch, width, height)
    if data:
        resources.context.write(rows, data, stream_object)


def read(resources: Resources, address: int, pitch: int, width: int, height: int, stream: int) -> Reading:
    stream_object = resources.streams.get(stream)
    rows = resources.rows(address, pitch, width, height)
    if not (width and height):
        return Reading(0, (b"",))
    return Reading(width * height, resources.context.read(rows, stream_object))


def copy(
    resources: Resources,
    destination: int,
    destination_pitch: int,
    source: int,
    source_pitch: int,
    width: int,
    height: int,
    stream: int,
) -> None:
    stream_object = resources.streams.get(stream)
    destination_rows = resources.rows(destination, destination_pitch, width, height)
    source_rows = resources.rows(source, source_pitch, width, height)
    if width and height:
        resources.context.copy(destination_rows, source_rows, stream_object)
