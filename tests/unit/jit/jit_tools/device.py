"""A tiny device for tests of the translator: one memory window, page flags, launches on one or two threads."""

from __future__ import annotations

import ctypes
import math
import mmap
import struct
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from farlane.backend import jit

WINDOW = 64 << 20
PAGE_SHIFT = 12


class TinyDevice:
    """Memory [base, base + WINDOW); allocations are page aligned with an inaccessible page between them.

    Args:
        options: what kernels are compiled with, unless a launch says it.
    """

    def __init__(self, options: jit.Options | None = None) -> None:
        self._options = options or jit.Options(cache=False)
        self._map = mmap.mmap(-1, WINDOW)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.flags = np.zeros(WINDOW >> PAGE_SHIFT, dtype=np.uint8)
        self.top = 1 << PAGE_SHIFT
        self.workers = [jit.Worker(index) for index in range(2)]
        self.fault = jit.Fault()
        self.modules: dict[int, tuple[jit.Module, Any]] = {}

    def allocate(self, size: int, flags: int = jit.PAGE_READABLE | jit.PAGE_WRITABLE) -> int:
        pages = max(1, (size + 4095) >> PAGE_SHIFT)
        first = self.top >> PAGE_SHIFT
        self.flags[first : first + pages] = flags
        self.top += (pages + 1) << PAGE_SHIFT
        assert self.top < WINDOW
        return self.base + (first << PAGE_SHIFT)

    def upload(self, array: np.ndarray) -> int:
        array = np.ascontiguousarray(array)
        address = self.allocate(array.nbytes)
        ctypes.memmove(address, array.ctypes.data, array.nbytes)
        return address

    def download(self, address: int, dtype: Any, count: int) -> np.ndarray:
        array = np.empty(count, dtype=dtype)
        ctypes.memmove(array.ctypes.data, address, array.nbytes)
        return array

    def load(self, text: str) -> jit.Module:
        module = jit.parse_module(text)
        addresses: dict[str, int] = {}
        for variable in module.variables:
            if variable.space != "shared":
                addresses[variable.name] = self.allocate(max(variable.size, 1))
        for variable in module.variables:
            if variable.initial is not None:
                data = bytearray(variable.initial)
                for item in variable.relocations:
                    target = addresses.get(item.symbol) or module.function_number(item.symbol)
                    data[item.offset : item.offset + item.size] = (target + item.addend).to_bytes(item.size, "little")
                ctypes.memmove(addresses[variable.name], bytes(data), len(data))
        table = (ctypes.c_uint64 * max(1, len(module.variables)))(
            *[addresses.get(variable.name, 0) for variable in module.variables]
        )
        self.modules[id(module)] = (module, table)
        module_addresses[id(module)] = addresses
        return module

    def address(self, module: jit.Module, name: str) -> int:
        return module_addresses[id(module)][name]

    def launch(
        self,
        module: jit.Module,
        name: str,
        grid: Sequence[int] | int,
        block: Sequence[int] | int,
        arguments: Sequence[Any],
        *,
        shared: int = 0,
        threads: int = 1,
        options: jit.Options | None = None,
        check: int | None = None,
        cluster: Sequence[int] | None = None,
        chunk: int = 1,
        streamed: int = 1,
        sharers: int = 0,
        grain: int = 1,
    ) -> int:
        grid3, block3 = triple(grid), triple(block)
        kernel = jit.compile_kernel(module, name, block3, options or self._options)
        parameters = self.pack(module, name, arguments)
        self.fault = jit.Fault()
        launch = jit.Launch(
            parameters=ctypes.addressof(parameters),
            variables=ctypes.addressof(self.modules[id(module)][1]),
            window_base=self.base,
            window_size=WINDOW,
            page_flags=self.flags.ctypes.data,
            fault=ctypes.pointer(self.fault),
            next_block=0,
            end_block=grid3[0] * grid3[1] * grid3[2],
            page_shift=PAGE_SHIFT,
            chunk=chunk if cluster is None else math.prod(cluster),
            grid=grid3,
            block=block3,
            dynamic_shared=shared,
            check=check,
            streamed=streamed,
            sharers=sharers,
            grain=grain,
        )
        if cluster is not None:
            launch.cluster, launch.cluster_blocks, launch.cluster_explicit = triple(cluster), math.prod(cluster), 1
        self.kernel, self.last = kernel, launch
        statuses = [0] * threads
        if threads == 1:
            self.workers[0].reserve(kernel, launch)
            return kernel.run(launch, self.workers[0])

        def work(index: int) -> None:
            self.workers[index].reserve(kernel, launch)
            statuses[index] = kernel.run(launch, self.workers[index])

        running = [threading.Thread(target=work, args=(index,)) for index in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return max(statuses, key=lambda status: {0: 0, 2: 1, 1: 2}[status])

    @staticmethod
    def pack(module: jit.Module, name: str, arguments: Sequence[Any]) -> Any:
        entry = module.entries[name]
        assert len(arguments) == len(entry.parameters)
        buffer = bytearray(entry.parameter_bytes + 64)
        for item, value in zip(entry.parameters, arguments, strict=True):
            if isinstance(value, bytes):
                raw = value
            elif isinstance(value, (np.generic, np.ndarray)):
                raw = value.tobytes()
            elif isinstance(value, float):
                raw = struct.pack("<f" if item.size == 4 else "<d", value)
            else:
                raw = (int(value) & ((1 << 8 * item.size) - 1)).to_bytes(item.size, "little")
            assert len(raw) == item.size, (item, value)
            buffer[item.offset : item.offset + item.size] = raw
        return (ctypes.c_char * len(buffer)).from_buffer(buffer)


module_addresses: dict[int, dict[str, int]] = {}


def triple(value: Sequence[int] | int) -> tuple[int, int, int]:
    parts = (value,) if isinstance(value, int) else tuple(value)
    x, y, z = parts + (1,) * (3 - len(parts))
    return (x, y, z)
