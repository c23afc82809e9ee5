"""Modules of a session: parsed device code, and its variables placed in device memory.

Owns the choice of code in an image, the layout and initial contents of variables, and the kernels' entry in a session.
Parsing and compiling is the jit's. A parsed text is shared by the sessions of a device (it is immutable); variables are
each session's own.

Source: PTX ISA, "Variables" (initialisers, generic()); docs/explanation/systems.md, S2 point 4 (a task at the range it expects).
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from ctypes import Array, c_uint64
from typing import TYPE_CHECKING

from farlane.backend import jit
from farlane.backend.device.base import CudaError, Rows
from farlane.backend.device.sim.memory.memory import MODULE_ALIGNMENT, Memory, Part
from farlane.backend.device.sim.memory.window import PAGE
from farlane.backend.device.sim.observers.observer import Observers
from farlane.backend.fatbin import FatBinaryError, choose_all
from farlane.backend.generated_errors import (
    INVALID_DEVICE_FUNCTION,
    INVALID_KERNEL_IMAGE,
    INVALID_PTX,
    INVALID_SYMBOL,
    NOT_SUPPORTED,
)
from farlane.demangle import demangled, readable

if TYPE_CHECKING:
    from farlane.backend.device.base import LaunchShape
    from farlane.backend.device.sim.runtime.prepared import Prepared


_PLACED = ("global", "const")


class Library:
    """The parsed texts of a device, by the digest of the image they came from: the latest, `capacity` characters."""

    def __init__(self, capability: tuple[int, int], capacity: int = 256 << 20) -> None:
        self._capability = capability
        self._capacity = capacity
        self._characters = 0
        self._parsed: OrderedDict[bytes, jit.Module] = OrderedDict()
        self._lock = threading.Lock()

    def parse(self, image: bytes) -> jit.Module:
        """The module of an image.

        Raises:
            CudaError: 200 malformed image, 209 nothing in it can run here, 218 malformed PTX, 801 unsupported PTX.
        """
        digest = hashlib.blake2b(image, digest_size=32).digest()
        with self._lock:
            found = self._parsed.get(digest)
            if found is not None:
                self._parsed.move_to_end(digest)
                return found
        try:
            module = jit.parse_module(jit.link(choose_all(image, self._capability, any_ptx=True)))
        except FatBinaryError as error:
            raise CudaError(INVALID_KERNEL_IMAGE, f"malformed image: {error}") from None
        except jit.PtxError as error:
            raise ptx_error(error) from None
        with self._lock:
            if digest not in self._parsed:
                self._characters += len(module.text)
            self._parsed[digest] = module
            while self._characters > self._capacity and len(self._parsed) > 1:
                self._characters -= len(self._parsed.popitem(last=False)[1].text)
        return module

    def check(self, image: bytes, unit: bool) -> None:
        """Reads every function of an image. What is only not supported is reported by the launch that needs it.

        Raises:
            CudaError: as `parse`; 218 for a malformed instruction; 200 for variables, and calls of functions, that nothing defines, all of which are
                named, except in a `unit`, which will be linked with others.
        """
        module = self.parse(image)
        missing = [
            f"undefined reference to '{variable.name}'"
            for variable in module.variables
            if variable.extern and variable.space in _PLACED
        ]
        for function in module.functions.values():
            if function.body is None:
                continue
            try:
                body = jit.body_of(module, function)
            except jit.UnsupportedError:
                continue
            except jit.PtxError as error:
                raise ptx_error(error, function.name) from None
            names = dict.fromkeys(jit.undefined(module, body))
            missing += [f"undefined reference to '{demangled(name)}' in '{demangled(function.name)}'" for name in names]
        if missing and not unit:
            raise CudaError(INVALID_KERNEL_IMAGE, "\n".join(missing))


def ptx_error(error: jit.PtxError, kernel: str = "") -> CudaError:
    """What CUDA reports for code that the jit refuses."""
    unsupported = isinstance(error, jit.UnsupportedError)
    line = f"line {error.line}: " if error.line else ""
    where = f"kernel {demangled(error.kernel or kernel)}: " if error.kernel or kernel else ""
    return CudaError(NOT_SUPPORTED if unsupported else INVALID_PTX, f"{where}PTX: {line}{error.message}")


class SimModule:
    """A module loaded by one session."""

    def __init__(self, parsed: jit.Module, memory: Memory, observers: Observers, base: int | None = None) -> None:
        """Places the module's variables, and tells the observers of their content.

        Args:
            base: where they are already, of a session that was restored; 0: it has none.

        Raises:
            CudaError: 2 no room for them, 200 one refers to something that the image does not define.
        """
        self.parsed = parsed
        self._memory, self._observers = memory, observers
        self._base: int | None = None
        self.functions: dict[str, SimFunction] = {}
        addresses = self._place(parsed.variables, base)
        #: Launch.variables of every launch of this module's kernels.
        self.addresses: Array[c_uint64] = (c_uint64 * max(1, len(addresses)))(*addresses)
        try:
            if base is None:
                self._initialise(parsed.variables, addresses)
        except CudaError:
            self.unload()
            raise

    def unload(self) -> None:
        """Gives the variables' memory back. Idempotent."""
        if self._base is not None:
            self._memory.free_module(self._base)
            self._base = None
        self.end()

    def end(self) -> None:
        """Ends the functions; the memory is, or has been, given back with everything else."""
        self._base = None
        for function in self.functions.values():
            function.end()

    def function(self, name: str) -> SimFunction:
        found = self.functions.get(name)
        if found is None:
            if name not in self.parsed.entries:
                raise CudaError(INVALID_DEVICE_FUNCTION, f"the module has no kernel {demangled(name)!r}")
            found = self.functions[name] = SimFunction(self, self.parsed.entries[name])
        return found

    def variable(self, name: str) -> tuple[int, int]:
        for index, variable in enumerate(self.parsed.variables):
            if variable.name == name and variable.space in _PLACED:
                return self.addresses[index], variable.size
        raise CudaError(INVALID_SYMBOL, f"the module has no variable {name!r}")

    @property
    def base(self) -> int:
        """Of its variables; 0: it has none."""
        return self._base or 0

    def _place(self, variables: Sequence[jit.Variable], there: int | None) -> list[int]:
        """Lays the variables out in one range and returns an address for each, 0 for those not in memory. Constant ones come last, in pages of their own."""
        parts: list[Part | None] = [None] * len(variables)
        size = 0
        constant = False
        for number, variable in sorted(enumerate(variables), key=lambda each: each[1].space == "const"):
            if variable.space not in _PLACED:
                continue
            if variable.extern:
                raise CudaError(
                    INVALID_KERNEL_IMAGE,
                    f"the variable {variable.name!r} is declared extern, and no translation unit of the image defines it",
                )
            if not constant and variable.space == "const":
                constant = True
                size = -(-size // PAGE) * PAGE
            size = -(-size // variable.align) * variable.align
            label = f"{'constant' if constant else 'variable'} {readable(variable.name)}"
            part = Part(size, max(1, variable.size), label, not constant)  # an address of its own for each
            parts[number] = part
            size += part.size
        placed = [part for part in parts if part is not None]
        if not placed:
            return [0] * len(parts)
        alignment = max(MODULE_ALIGNMENT, *(variable.align for variable in variables if variable.space in _PLACED))
        if any(variable.managed for variable in variables):
            alignment = max(alignment, PAGE)  # a guest maps whole pages for them
        if constant:
            alignment = max(alignment, PAGE)
            size = -(-size // PAGE) * PAGE
        if there is None:
            self._base = base = self._memory.allocate_module(size, placed, alignment)
        else:
            self._base = base = self._memory.require_area(there, placed)
        return [0 if part is None else base + part.offset for part in parts]

    def _initialise(self, variables: Sequence[jit.Variable], addresses: list[int]) -> None:
        by_name = {variable.name: address for variable, address in zip(variables, addresses, strict=True) if address}
        for variable, address in zip(variables, addresses, strict=True):
            if not address or (variable.initial is None and not variable.relocations):
                continue
            content = bytearray(variable.initial or b"")  # what it does not reach is zero already
            for relocation in variable.relocations:
                end = relocation.offset + relocation.size
                target = by_name.get(relocation.symbol)
                if target is None and relocation.symbol in self.parsed.functions:
                    target = self.parsed.function_number(relocation.symbol)  # what a pointer to it holds
                if target is None:
                    raise CudaError(
                        INVALID_KERNEL_IMAGE,
                        f"the initial value of {variable.name!r} needs the address of {relocation.symbol!r}, "
                        "which is neither a variable in memory nor a function",
                    )
                content.extend(bytes(max(0, end - len(content))))
                value = (target + relocation.addend) & ((1 << 8 * relocation.size) - 1)
                content[relocation.offset : end] = value.to_bytes(relocation.size, "little")
            size = len(content)
            rows = Rows(address, size, size, 1)
            self._memory.write(rows, memoryview(content))
            self._observers.initialised(rows)


class SimFunction:
    """A kernel of a loaded module, compiled for each block shape at the first launch with it."""

    def __init__(self, module: SimModule, entry: jit.Entry) -> None:
        self.module = module
        self.entry = entry
        self.name = entry.name
        self.alive = True
        self.max_dynamic_shared = 0  # cudaFuncAttributeMaxDynamicSharedMemorySize
        self.non_portable_clusters = False  # cudaFuncAttributeNonPortableClusterSizeAllowed
        self.prepared: Prepared | None = None  # the latest launch, see launches.py
        self.earlier: dict[LaunchShape, Prepared] = {}  # launches of other shapes, the latest last
        self.compiled: dict[tuple[int, int, int], jit.CompiledKernel] = {}

    def end(self) -> None:
        """The module has been unloaded."""
        self.alive = False
        self.unprepare()

    def forget(self) -> None:
        """What launches are checked against or compiled with has changed."""
        self.unprepare()
        self.compiled.clear()

    def unprepare(self) -> None:
        """What launches are checked against has changed."""
        self.prepared = None
        self.earlier.clear()
