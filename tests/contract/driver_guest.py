"""A guest of the contract suite: a process that calls the driver API (`libcuda.so.1`) for the tests, one request at a time.

Run as a program under Farlane's shim: it reads pickled requests (a method of `Guest` and its arguments) from standard input and
writes pickled answers to standard output. An answer is (0, the method's value), or (the CUresult, whether it is sticky).
"""

from __future__ import annotations

import ctypes
import pickle
import sys
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any

NOT_READY = 600
HOST, DEVICE = 1, 2  # CUmemorytype
# CU_LAUNCH_PARAM_END, _BUFFER_POINTER, _BUFFER_SIZE
END, BUFFER_POINTER, BUFFER_SIZE = 0, 1, 2


class Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = [
        (f"{end}_{name}", kind)
        for end in ("source", "target")
        for name, kind in (
            ("x", c_size_t),
            ("y", c_size_t),
            ("type", c_uint),
            ("host", c_void_p),
            ("device", c_ulonglong),
            ("array", c_void_p),
            ("pitch", c_size_t),
        )
    ] + [("width", c_size_t), ("height", c_size_t)]


class Failed(Exception):
    """A CUresult that is not success."""


class Guest:
    """The driver API, with a context of the contract's shape: rows are (address, pitch, width, height)."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", c_uint(0))
        self._begin()

    def _call(self, name: str, *arguments: Any) -> None:
        result = getattr(self._cuda, name)(*arguments)
        if result:
            raise Failed(result)

    def _begin(self) -> None:
        context = c_void_p()
        self._call("cuDevicePrimaryCtxRetain", byref(context), c_int(0))
        self._call("cuCtxSetCurrent", context)

    def _made(self, name: str, *arguments: Any) -> int:
        made = c_void_p()
        self._call(name, byref(made), *arguments)
        return made.value or 0

    def sticky(self) -> bool:
        """Whether the context is lost: it says so whatever it is asked."""
        return bool(self._cuda.cuCtxSynchronize())

    def reset(self) -> None:
        self._call("cuDevicePrimaryCtxReset_v2", c_int(0))
        self._begin()

    def allocate(self, size: int) -> int:
        return self._made("cuMemAlloc_v2", c_size_t(size))

    def free(self, address: int) -> None:
        self._call("cuMemFree_v2", c_ulonglong(address))

    def set(self, rows: tuple[int, int, int, int], value: int, element: int, stream: int) -> None:
        address, pitch, width, height = rows
        bits = {1: 8, 2: 16, 4: 32}[element]
        kind = {1: ctypes.c_ubyte, 2: ctypes.c_ushort, 4: c_uint}[element](value)
        elements, on = c_size_t(width // element), c_void_p(stream)
        if height == 1:
            self._call(f"cuMemsetD{bits}Async", c_ulonglong(address), kind, elements, on)
        else:
            self._call(
                f"cuMemsetD2D{bits}Async", c_ulonglong(address), c_size_t(pitch), kind, elements, c_size_t(height), on
            )

    def write(self, rows: tuple[int, int, int, int], data: bytes, stream: int) -> None:
        address, pitch, width, height = rows
        held = ctypes.create_string_buffer(data, max(len(data), 1))
        if height == 1:
            self._call("cuMemcpyHtoDAsync_v2", c_ulonglong(address), held, c_size_t(width), c_void_p(stream))
        else:
            copy = Copy2D(width=width, height=height, source_type=HOST, target_type=DEVICE)
            copy.source_host, copy.source_pitch = ctypes.addressof(held), width
            copy.target_device, copy.target_pitch = address, pitch
            self._call("cuMemcpy2DAsync_v2", byref(copy), c_void_p(stream))
        # The bytes may change as soon as a call with pageable memory has returned.
        ctypes.memset(held, 0x5A, len(held))

    def read(self, rows: tuple[int, int, int, int], stream: int) -> bytes:
        address, pitch, width, height = rows
        held = ctypes.create_string_buffer(width * height)
        if height == 1:
            self._call("cuMemcpyDtoHAsync_v2", held, c_ulonglong(address), c_size_t(width), c_void_p(stream))
        else:
            copy = Copy2D(width=width, height=height, source_type=DEVICE, target_type=HOST)
            copy.source_device, copy.source_pitch = address, pitch
            copy.target_host, copy.target_pitch = ctypes.addressof(held), width
            self._call("cuMemcpy2DAsync_v2", byref(copy), c_void_p(stream))
        self._call("cuStreamSynchronize", c_void_p(stream))
        return held.raw

    def copy(self, target: tuple[int, int, int, int], source: tuple[int, int, int, int], stream: int) -> None:
        _, _, width, height = source
        if height == 1:
            addresses = c_ulonglong(target[0]), c_ulonglong(source[0])
            self._call("cuMemcpyDtoDAsync_v2", *addresses, c_size_t(width), c_void_p(stream))
        else:
            copy = Copy2D(width=width, height=height, source_type=DEVICE, target_type=DEVICE)
            copy.source_device, copy.source_pitch = source[0], source[1]
            copy.target_device, copy.target_pitch = target[0], target[1]
            self._call("cuMemcpy2DAsync_v2", byref(copy), c_void_p(stream))

    def load_module(self, image: bytes) -> int:
        return self._made("cuModuleLoadData", c_char_p(image))

    def unload_module(self, module: int) -> None:
        self._call("cuModuleUnload", c_void_p(module))

    def function(self, module: int, name: str) -> int:
        return self._made("cuModuleGetFunction", c_void_p(module), name.encode())

    def set_function_attribute(self, function: int, attribute: int, value: int) -> None:
        self._call("cuFuncSetAttribute", c_void_p(function), c_int(attribute), c_int(value))

    def variable(self, module: int, name: str) -> tuple[int, int]:
        address, size = c_ulonglong(), c_size_t()
        self._call("cuModuleGetGlobal_v2", byref(address), byref(size), c_void_p(module), name.encode())
        return address.value, size.value

    def launch(
        self, function: int, grid: tuple[int, ...], block: tuple[int, ...], shared: int, parameters: bytes, stream: int
    ) -> None:
        held, size = ctypes.create_string_buffer(parameters, max(len(parameters), 1)), c_size_t(len(parameters))
        places = (c_void_p * 5)(BUFFER_POINTER, ctypes.addressof(held), BUFFER_SIZE, ctypes.addressof(size), END)
        shape = [c_uint(number) for number in (*grid, *block, shared)]
        self._call("cuLaunchKernel", c_void_p(function), *shape, c_void_p(stream), None, places)

    def create_stream(self, flags: int, priority: int) -> int:
        return self._made("cuStreamCreateWithPriority", c_uint(flags), c_int(priority))

    def destroy_stream(self, stream: int) -> None:
        self._call("cuStreamDestroy_v2", c_void_p(stream))

    def wait_event(self, stream: int, event: int) -> None:
        self._call("cuStreamWaitEvent", c_void_p(stream), c_void_p(event), c_uint(0))

    def _done(self, result: int) -> bool:
        if result not in (0, NOT_READY):
            raise Failed(result)
        return result == 0

    def stream_done(self, stream: int) -> bool:
        return self._done(self._cuda.cuStreamQuery(c_void_p(stream)))

    def create_event(self, flags: int) -> int:
        return self._made("cuEventCreate", c_uint(flags))

    def destroy_event(self, event: int) -> None:
        self._call("cuEventDestroy_v2", c_void_p(event))

    def record_event(self, event: int, stream: int, flags: int) -> None:
        self._call("cuEventRecordWithFlags", c_void_p(event), c_void_p(stream), c_uint(flags))

    def event_done(self, event: int) -> bool:
        return self._done(self._cuda.cuEventQuery(c_void_p(event)))

    def elapsed_ms(self, start: int, end: int) -> float:
        milliseconds = c_float()
        self._call("cuEventElapsedTime", byref(milliseconds), c_void_p(start), c_void_p(end))
        return milliseconds.value

    def synchronize(self, stream: int | None, event: int | None) -> None:
        if stream is not None:
            self._call("cuStreamSynchronize", c_void_p(stream))
        elif event is not None:
            self._call("cuEventSynchronize", c_void_p(event))
        else:
            self._call("cuCtxSynchronize")

    def set_limit(self, limit: int, value: int) -> None:
        self._call("cuCtxSetLimit", c_int(limit), c_size_t(value))


def main() -> None:
    guest = Guest()
    while True:
        try:
            method, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer: tuple[int, Any]
        try:
            answer = 0, getattr(guest, method)(*arguments)
        except Failed as failed:
            answer = failed.args[0], guest.sticky()
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
