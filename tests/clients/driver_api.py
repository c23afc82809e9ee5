"""The driver API by ctypes and nothing else: three kernels, for guests that import no package with CUDA in it."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path

PTX = b"""
.version 7.5
.target sm_75
.address_size 64

// out[i] = i + 1, for every thread of the launch
.visible .entry store(.param .u64 out)
{
    .reg .u32 %r<4>;
    .reg .u64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    add.u32 %r2, %r1, 1;
    st.global.u32 [%rd3], %r2;
    ret;
}

// A block's threads read their neighbour's word of shared memory, with no barrier after they have written it.
.visible .entry neighbour(.param .u64 out)
{
    .shared .align 4 .b8 words[1024];
    .reg .u32 %r<6>;
    .reg .u64 %rd<8>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    mov.u64 %rd3, words;
    add.u64 %rd4, %rd3, %rd2;
    st.shared.u32 [%rd4], %r1;
    xor.b32 %r2, %r1, 32;
    mul.wide.u32 %rd5, %r2, 4;
    add.u64 %rd6, %rd3, %rd5;
    ld.shared.u32 %r3, [%rd6];
    add.u64 %rd7, %rd1, %rd2;
    st.global.u32 [%rd7], %r3;
    ret;
}
"""


class Error(Exception):
    """A CUresult."""


class Cuda:
    """The first device's primary context, and the module above or another image of it."""

    def __init__(self, image: bytes = PTX) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)
        context, self._module = ctypes.c_void_p(), ctypes.c_void_p()
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self("cuCtxSetCurrent", context)
        self("cuModuleLoadData", ctypes.byref(self._module), image)

    def __call__(self, name: str, *arguments: object) -> None:
        if code := getattr(self._library, name)(*arguments):
            raise Error(f"{name}: {code}")

    def allocate(self, size: int) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def free(self, address: ctypes.c_uint64) -> None:
        self("cuMemFree_v2", address)

    def launch(self, kernel: str, threads: int, address: ctypes.c_uint64) -> None:
        function = ctypes.c_void_p()
        self("cuModuleGetFunction", ctypes.byref(function), self._module, kernel.encode())
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(address))
        self("cuLaunchKernel", function, 1, 1, 1, threads, 1, 1, 0, None, parameters, None)

    def synchronize(self) -> None:
        self("cuCtxSynchronize")

    def read(self, address: ctypes.c_uint64, count: int) -> list[int]:
        words = (ctypes.c_uint32 * count)()
        self("cuMemcpyDtoH_v2", words, address, ctypes.c_size_t(4 * count))
        return list(words)


def assembled(ptxas: str, count: int) -> list[int]:
    """What the first kernel stores, in the image that this ptxas makes of the module."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "module.ptx", Path(folder) / "module.cubin"
        source.write_bytes(PTX)
        subprocess.run([ptxas, "-arch=sm_90a", source, "-o", target], check=True)
        return stored(count, target.read_bytes())


def stored(count: int = 4, image: bytes = PTX) -> list[int]:
    """What the first kernel stores: 1, 2, ..."""
    cuda = Cuda(image)
    memory = cuda.allocate(4 * count)
    cuda.launch("store", count, memory)
    words = cuda.read(memory, count)
    cuda.free(memory)
    return words
