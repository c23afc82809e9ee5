"""What a row about a launch or a copy says: where its parts stand among the call's arguments, or in a structure.

Data, no logic.

An argument is its number in C, from 0; the first six are in registers, the others on the stack.
"""

from __future__ import annotations

from typing import NamedTuple

HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS = range(5)


class Launch(NamedTuple):
    """A kernel's launch.

    Attributes:
        kernel, parameters: arguments: the kernel, and the array of its parameters' addresses.
        parts: of the configuration, by name: (argument, or offset in the structure; bytes).
        structure: the argument that is the address of a structure with the configuration; None: there is none.
        extra: an argument: the parameters in one buffer, in place of the array; None: there is none.
        handle: whether the kernel is a handle, of which the program's code does not tell what it stands for.
    """

    kernel: int
    parameters: int
    parts: dict[str, tuple[int, int]]
    structure: int | None = None
    extra: int | None = None
    handle: bool = False


# cudaLaunchConfig_t and CUlaunchConfig, which differ in the bytes of `shared`; then come the attributes, their number.
BY_STRUCTURE = {
    "grid.xy": (0, 8),
    "grid.z": (8, 4),
    "block.xy": (12, 8),
    "block.z": (20, 4),
    "shared": (24, 4),
    "stream": (32, 8),
    "attributes": (48, 4),
}
ATTRIBUTES = 40  # where the address of the first one stands
ATTRIBUTE = 72  # bytes of an attribute: what it is, and from byte 8 on its value


class Copy(NamedTuple):
    """A copy.

    Attributes:
        destination, source: arguments.
        size: an argument; None: it is no single number.
        kind: the argument that says where to and from; None: `direction` is, always.
    """

    destination: int
    source: int
    size: int | None
    kind: int | None = None
    direction: int = BY_ADDRESS


HOST_MEMORY, DEVICE_MEMORY, ARRAY_MEMORY, UNIFIED_MEMORY = 1, 2, 3, 4  # kinds of memory in the structure


class StructuredCopy(NamedTuple):
    """A copy that a structure describes, which is the first argument: its bytes, and what stands where in it.

    Attributes:
        size: bytes of the structure.
        kinds: offsets of the kinds of memory of source and destination.
        hosts: offsets of their host addresses, which count where the kind is host memory, or may be.
        fields: (offset, bytes) of what else the device's host must know.
        stream: whether the second argument is a stream.
    """

    size: int
    kinds: tuple[int, int]
    hosts: tuple[int, int]
    fields: tuple[tuple[int, int], ...]
    stream: bool = False
