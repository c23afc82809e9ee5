"""Modules of a session on a GPU: images handed to the driver as they are, their kernels and variables.

Owns the checks before an image reaches the driver, which trusts the sizes in it; the layout of a kernel's parameters, as the driver tells it; and the buffer
that each kernel's parameters are passed in. Which code of an image runs, machine code or PTX, is the driver's choice.

Source: CUDA driver API, "Module Management", "Execution Control" (cuFuncGetParamInfo, kernelParams, extra).
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from farlane.backend.device.base import CudaError, LaunchShape
from farlane.backend.device.gpu.driver.interface import (
    NOT_FOUND,
    PARAM_BUFFER_POINTER,
    PARAM_BUFFER_SIZE,
    PARAM_END,
    Driver,
    DriverError,
    FunctionAttribute,
    Parameter,
)
from farlane.backend.device.gpu.memory.memory import Memory
from farlane.backend.fatbin import joined
from farlane.backend.fatbin.choice import looks_like_ptx
from farlane.backend.generated_errors import (
    INVALID_DEVICE_FUNCTION,
    INVALID_KERNEL_IMAGE,
    INVALID_RESOURCE_HANDLE,
    INVALID_SYMBOL,
)
from farlane.backend.generated_limits import MAX_PARAMETER_BYTES
from farlane.fatbin import ELF_MAGIC, MAGIC, FatBinaryError, parse

T = TypeVar("T")

_ALIGNMENT = 128
_LARGE_ALIGNMENTS = (128, 64, 32)  # of parameters, that a constant bank's begin does not have
_PRINTF, _MALLOC = b"vprintf", b"malloc"
#: PTX that declares a variable of the module; sections of variables in machine code.
_VARIABLE = re.compile(rb"(?:^|[;}])[ \t]*(?:\.(?:visible|extern|weak|common)\s+)*\.(?:global|const)\b", re.MULTILINE)
_VARIABLE_SECTIONS = (b".nv.global", b".nv.constant3")
_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")


def check(image: bytes) -> None:
    """What the driver would believe unseen: that the bytes an image claims are there.

    Raises:
        FatBinaryError: they are not, or it is no image.
    """
    if image[:4] == MAGIC.to_bytes(4, "little"):
        parse(image)
    elif image[:4] == ELF_MAGIC:
        _check_elf(image)
    elif not looks_like_ptx(image):
        raise FatBinaryError(f"neither a fat binary, nor PTX, nor a cubin: it begins with {image[:4].hex()}")


class Uses(NamedTuple):
    """What kernels of an image may do."""

    prints: bool
    keeps: bool  # what they have written stays: in variables of the module, or in memory that they allocate


def uses(image: bytes) -> Uses:
    """By what the code of a checked image names."""
    if image[:4] != MAGIC.to_bytes(4, "little"):
        return _named_by(image)
    try:
        return _together(_named_by(entry.data()) for entry in parse(image))
    except FatBinaryError:
        return Uses(True, True)  # the driver may still be able to read it


def _named_by(code: bytes) -> Uses:
    if code[:4] == ELF_MAGIC:
        has_variables = any(section in code for section in _VARIABLE_SECTIONS)
    else:
        has_variables = _VARIABLE.search(code) is not None
    return Uses(_PRINTF in code, has_variables or _MALLOC in code)


def _together(parts: Iterable[Uses]) -> Uses:
    found = list(parts)
    return Uses(any(each.prints for each in found), any(each.keeps for each in found))


def _check_elf(image: bytes) -> None:
    if len(image) < _ELF_HEADER.size:
        raise FatBinaryError(f"an ELF file of {len(image)} bytes")
    (identity, *_, programs, sections, _, _, program_size, program_count, section_size, section_count, _) = (
        _ELF_HEADER.unpack_from(image)
    )
    if identity[4] != 2 or identity[5] != 1:
        raise FatBinaryError("an ELF file that is not 64-bit little-endian")
    for offset, size, count in ((programs, program_size, program_count), (sections, section_size, section_count)):
        if count and offset + size * count > len(image):
            raise FatBinaryError("an ELF file whose tables lie behind its end")
    if section_size != 64 and section_count:
        raise FatBinaryError(f"an ELF file with section headers of {section_size} bytes")
    for number in range(section_count):
        at = sections + number * section_size
        kind, offset, size = struct.unpack_from("<I16xQQ", image, at + 4)
        if kind != 8 and offset + size > len(image):  # SHT_NOBITS has no bytes in the file
            raise FatBinaryError(f"section {number} of an ELF file lies behind its end")


class GpuFunction:
    """A kernel, with the buffer that its parameters are passed in: one launch after another uses it, the driver copies at once."""

    def __init__(self, driver: Driver, module: GpuModule, name: str, handle: int) -> None:
        self.module = module
        self.name = name
        self.handle = handle
        self.alive = True
        self.max_dynamic_shared, self.non_portable_clusters = 0, False  # as the guest has set them
        self.checked: LaunchShape | None = None  # the latest shape that passed all checks
        self._layout = driver.parameters(handle)
        self.parameter_bytes = None if self._layout is None else end_of(self._layout)
        self.static_shared = driver.function_attribute(handle, FunctionAttribute.SHARED_SIZE_BYTES)
        self.most_shared = driver.function_attribute(handle, FunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES)
        size = MAX_PARAMETER_BYTES if self.parameter_bytes is None else self.parameter_bytes
        self.buffer = ParameterBuffer(size, self._layout)

    def lay_out(self, size: int) -> bool:
        """Takes parameters of this size from now on, if the kernel's can be laid out so."""
        if self._layout is None or self.parameter_bytes == size:
            return True
        # Always from the driver's layout: a wrong size that fits by chance must not spoil the right one.
        found = self._layout if size == end_of(self._layout) else laid_out(self._layout, size)
        if found is None:
            return False
        self.parameter_bytes = size
        self.buffer = ParameterBuffer(size, found)
        return True


class ParameterBuffer:
    """Parameters of one kernel as the driver takes them: an array of pointers where the layout is known, else (`extra`) all of them as they are."""

    def __init__(self, size: int, layout: list[Parameter] | None) -> None:
        self._bytes = (ctypes.c_uint8 * (size + _ALIGNMENT))()
        lead = -ctypes.addressof(self._bytes) % _ALIGNMENT
        self.address = ctypes.addressof(self._bytes) + lead
        self.view = memoryview(self._bytes).cast("B")[lead : lead + size]
        self.pointers = self.extra = 0
        if layout is not None:
            self._pointers = (ctypes.c_uint64 * max(1, len(layout)))(*(self.address + each.offset for each in layout))
            self.pointers = ctypes.addressof(self._pointers)
        else:
            self._size = ctypes.c_size_t(0)
            self._extra = (ctypes.c_uint64 * 5)(
                PARAM_BUFFER_POINTER, self.address, PARAM_BUFFER_SIZE, ctypes.addressof(self._size), PARAM_END
            )
            self.extra = ctypes.addressof(self._extra)

    def fill(self, parameters: memoryview | bytes) -> None:
        size = len(parameters)
        self.view[:size] = parameters
        if self.extra:
            self._size.value = size


def laid_out(layout: list[Parameter], size: int) -> list[Parameter] | None:
    """A layout of so many bytes in which the first parameter lies at a multiple of any alignment, as PTX has it. None: there is none.

    The driver's begins at a place in a constant bank that is a multiple of 16 alone, and puts what is aligned by more (a tensor map)
    where it is so in the bank. How much a parameter is aligned by it does not say.
    """
    for alignment in _LARGE_ALIGNMENTS:
        placed: list[Parameter] = []
        end = before = 0  # behind the last parameter: here, and in the driver's layout
        for offset, bytes_ in layout:
            aligned = bytes_ % alignment == 0
            start = -(-end // alignment) * alignment if aligned else end + offset - before
            placed.append(Parameter(start, bytes_))
            end, before = start + bytes_, offset + bytes_
        if end == size:
            return placed
    return None


def end_of(layout: list[Parameter]) -> int:
    return max((each.offset + each.size for each in layout), default=0)


class GpuModule:
    """A loaded image."""

    def __init__(self, driver: Driver, memory: Memory, image: bytes) -> None:
        """Loads it.

        Raises:
            CudaError: 200 it is malformed, 209 nothing in it runs on this GPU, 218 the driver refuses its PTX.
        """
        self._driver = driver
        self._memory = memory
        try:
            if joined.is_joined(image):
                parts = joined.parts(image)
                for part in parts:
                    check(part)
                used = _together(map(uses, parts))
                image = driver.link(parts)
            else:
                check(image)
                used = uses(image)
        except FatBinaryError as error:
            raise CudaError(INVALID_KERNEL_IMAGE, f"malformed image: {error}") from None
        self.prints, self.keeps = used
        self.handle = driver.load_module(image)
        self.functions: dict[str, GpuFunction] = {}
        self.variables: dict[str, tuple[int, int]] = {}
        self.base = 0  # a saved session knows none: one that has variables is not saved
        self.alive = True

    def function(self, name: str) -> GpuFunction:
        self._check_alive()
        found = self.functions.get(name)
        if found is None:
            handle = self._named(name, self._driver.function, INVALID_DEVICE_FUNCTION, "kernel")
            found = self.functions[name] = GpuFunction(self._driver, self, name, handle)
        return found

    def variable(self, name: str) -> tuple[int, int]:
        self._check_alive()
        found = self.variables.get(name)
        if found is None:
            found = self._named(name, self._driver.variable, INVALID_SYMBOL, "variable")
            self._memory.add_variable(name, *found)
            self.variables[name] = found
        return found

    def _check_alive(self) -> None:
        if not self.alive:
            raise CudaError(INVALID_RESOURCE_HANDLE, "the module has been unloaded")

    def _named(self, name: str, ask: Callable[[int, str], T], code: int, what: str) -> T:
        if "\0" in name:
            raise CudaError(code, f"the module has no {what} {name!r}")
        try:
            return ask(self.handle, name)
        except DriverError as error:
            if error.code != NOT_FOUND:
                raise
            raise CudaError(code, f"the module has no {what} {name!r}") from None

    def unload(self) -> None:
        """Waits for the module's kernels, as CUDA does."""
        self.end()
        for address, _ in self.variables.values():
            self._memory.remove_variable(address)
        self._driver.synchronize()
        self._driver.unload_module(self.handle)

    def end(self) -> None:
        """What was had from it is no longer there."""
        self.alive = False
        for function in self.functions.values():
            function.alive, function.checked = False, None
