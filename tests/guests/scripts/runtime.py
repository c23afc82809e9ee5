"""NVIDIA's own shared runtime, loaded by its path as packages do that bring it along: it asks the driver for all it does."""

from __future__ import annotations

import ctypes
from importlib.metadata import files
from pathlib import Path

place = next(file for file in files("nvidia-cuda-runtime") or () if file.name == "libcudart.so.13")
runtime = ctypes.CDLL(str(Path(place.locate()).resolve()))


def call(name: str, *arguments: object) -> None:
    status = getattr(runtime, name)(*arguments)
    assert status == 0, (name, status)


version, memory, back = ctypes.c_int(), ctypes.c_void_p(), ctypes.create_string_buffer(64)
call("cudaRuntimeGetVersion", ctypes.byref(version))
call("cudaSetDevice", 0)
call("cudaMalloc", ctypes.byref(memory), ctypes.c_size_t(64))
call("cudaMemset", memory, 7, ctypes.c_size_t(64))
call("cudaMemcpy", back, memory, ctypes.c_size_t(64), 2)
assert back.raw == bytes([7]) * 64
stream = ctypes.c_void_p()
call("cudaStreamCreate", ctypes.byref(stream))
call("cudaMemsetAsync", memory, 9, ctypes.c_size_t(32), stream)
call("cudaStreamSynchronize", stream)
call("cudaMemcpy", back, memory, ctypes.c_size_t(64), 2)
assert back.raw == bytes([9]) * 32 + bytes([7]) * 32
call("cudaFree", memory)
print("PASS")
