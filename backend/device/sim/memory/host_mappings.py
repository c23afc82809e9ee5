"""Window memory that kernels also find at the program's own addresses: what it has registered (tape.md, "Host mappings").

Owns the second mapping of such pages, at the address that the guest names, and the table that compiled kernels look at (jit/runtime/structures.py, HostMappings). So a
kernel's access costs what any other does, and copies go on using the window's address. The address is the guest's choice, and this process may have
something else there, or must keep it free (its stack grows): then the host mapping is refused, and nothing has changed.

Ordering: a host mapping ends before the pages that it shows do.

Source: docs/explanation/systems.md, S2 point 1; CUDA programming guide, "Unified Virtual Address Space".
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from pathlib import Path

from farlane.backend.device.base import CudaError
from farlane.backend.device.sim.memory.window import PAGE, Window
from farlane.backend.generated_errors import INVALID_VALUE, NOT_SUPPORTED
from farlane.backend.jit.runtime.structures import GENERIC_WINDOWS, GENERIC_WINDOWS_END, HostMappings
from farlane.backend.system.mappings import MappingError

_STACK_ROOM = 1 << 30  # below the stack, where it may grow


class HostMappingTable:
    """The host mappings of one session's window."""

    def __init__(self, window: Window) -> None:
        self.table = HostMappings()
        self._window = window
        self._live: dict[int, tuple[int, int]] = {}  # address -> (device address, size)

    @property
    def pointer(self) -> ctypes._Pointer[HostMappings]:
        """For Launch.host_mappings."""
        return ctypes.pointer(self.table)

    def ranges(self) -> list[tuple[int, int]]:
        """[start, end) of each, at the program's addresses."""
        return [(address, address + size) for address, (_, size) in self._live.items()]

    def add(self, address: int, device: int, size: int) -> None:
        """Shows whole mapped pages of the window, [device, device + size), at the address. Raises CudaError; then there is no host mapping."""
        end = address + size
        if address % PAGE or device % PAGE or size % PAGE or size < PAGE or self._over(device, device + size):
            raise CudaError(INVALID_VALUE, f"a host mapping of {size} bytes of {device:#x} at {address:#x}")
        outside = end <= GENERIC_WINDOWS or address >= GENERIC_WINDOWS_END
        if not outside or len(self._live) == len(self.table.runs) or _near_stack(address, end):
            raise CudaError(NOT_SUPPORTED, f"kernels of this host cannot have memory at {address:#x}")
        try:
            self._window.show(device, size, address)
        except MappingError as error:
            raise CudaError(
                NOT_SUPPORTED,
                f"memory at {address:#x}, which the program has registered, cannot be at that address in the host's process: {error.strerror}",
            ) from None
        self._live[address] = device, size
        self._write()

    def end(self, start: int, end: int) -> None:
        """Ends the host mappings of pages in [start, end) of the window."""
        for address in self._over(start, end):
            device, size = self._live.pop(address)
            self._write()
            self._window.hide_again(device, size, address)

    def _over(self, start: int, end: int) -> list[int]:
        return [address for address, (device, size) in self._live.items() if device < end and start < device + size]

    def _write(self) -> None:
        for run, (start, end) in zip(self.table.runs, self.ranges(), strict=False):
            run.start, run.end = start, end
        self.table.count = len(self._live)


def _near_stack(start: int, end: int) -> bool:
    return any(start < high and low - _STACK_ROOM < end for low, high in _stacks(_maps()))


def _maps() -> list[str]:
    return Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()


def _stacks(maps: Iterable[str]) -> list[tuple[int, int]]:
    """Where memory lies that grows downwards."""
    found = []
    for line in maps:
        if line.endswith("[stack]"):
            low, _, high = line.split(" ", 1)[0].partition("-")
            found.append((int(low, 16), int(high, 16)))
    return found
