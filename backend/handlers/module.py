"""Module operations of the tape: MODULE_*, FUNCTION_*, VARIABLE_*, where more is done than one call (generated_handlers.py).

Owns the tie between a module and the functions and variables that end with it. Images are images.py's, what is in them the
device's.
"""

from __future__ import annotations

import struct

from farlane.backend.device.base import CudaError
from farlane.backend.errors import ProtocolError
from farlane.backend.generated_errors import INVALID_KERNEL_IMAGE, INVALID_SYMBOL
from farlane.backend.handlers.memory import Reading
from farlane.backend.objects.resources import Module, Resources, Variable

NAME_LIMIT = 64 << 10  # bytes of a mangled name
CHECK_SIZES = (16, 64 << 10)  # the least and the most bytes of MODULE_CHECK's answer


def _name(data: memoryview) -> str:
    if not 0 < len(data) <= NAME_LIMIT:
        raise ProtocolError(f"a name of {len(data)} bytes")
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise ProtocolError(f"a name that is not UTF-8: {error}") from None


def module_query(resources: Resources, digest: bytes) -> int:
    return int(resources.images.find(digest) is not None)


def module_check(resources: Resources, size: int, unit: int, digest: bytes) -> Reading:
    """The device's opinion of an image, as MODULE_CHECK's answer has it."""
    if not CHECK_SIZES[0] <= size <= CHECK_SIZES[1] or unit > 1:
        raise ProtocolError(f"a check that answers with {size} bytes, unit {unit}")
    image = resources.images.find(digest)
    if image is None:
        raise CudaError(INVALID_KERNEL_IMAGE, f"the host does not hold the image {digest.hex()}")
    code, message = 0, b""
    try:
        resources.context.check_module(image, unit=bool(unit))
    except CudaError as error:
        if error.sticky:
            raise
        code, message = error.code, error.message.encode()[: size - 8]
    return Reading(size, ((struct.pack("<iI", code, len(message)) + message).ljust(size, b"\0"),))


def module_open(resources: Resources, module: int, digest: bytes) -> None:
    with resources.modules.reserve(module) as reservation:
        image = resources.images.find(digest)
        if image is None:
            raise CudaError(INVALID_KERNEL_IMAGE, f"the host does not hold the image {digest.hex()}")
        reservation.fill(Module(resources.context.load_module(image), digest))


def module_close(resources: Resources, module: int) -> None:
    value = resources.modules.release(module)
    resources.standing.object_ended()
    if value is None:
        return
    for function in value.functions:
        resources.functions.forget(function)
    for variable in value.variables:
        resources.variables.forget(variable)
    resources.context.unload_module(value.loaded)


def function_open(resources: Resources, function: int, module: int, name: memoryview) -> None:
    text = _name(name)
    with resources.functions.reserve(function) as reservation:
        owner = resources.modules.get(module)
        owner.functions.add(function)
        reservation.fill(resources.context.function(owner.loaded, text))


def variable_open(resources: Resources, variable: int, module: int, size: int, name: memoryview) -> None:
    text = _name(name)
    with resources.variables.reserve(variable) as reservation:
        owner = resources.modules.get(module)
        owner.variables.add(variable)
        address, actual = resources.context.variable(owner.loaded, text)
        if size > actual:
            raise CudaError(INVALID_SYMBOL, f"{text} has {actual} bytes in the image, the program says {size}")
        reservation.fill(Variable(address, size))


def variable_address(resources: Resources, variable: int) -> int:
    return resources.variables.get(variable).address
