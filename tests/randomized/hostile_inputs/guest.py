"""A guest that loads damaged images by every load function of the driver API and the runtime: `guest.py SEED COUNT GOOD...`.

GOOD are files with images: PTX ends in .ptx, anything else is a fat binary. Each input is a good one, damaged by chance; it lies at the end
of memory whose next page is not mapped. After every 20 inputs a good module is loaded and its kernel run. Prints how many inputs were
accepted and refused; a crash, a hang or a wrong result ends it otherwise.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import struct
import sys
import tempfile
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from pathlib import Path

PAGE = mmap.PAGESIZE
LOG_BYTES = 512
# CU_JIT_INPUT_PTX, _FATBINARY, _LIBRARY; CU_JIT_ERROR_LOG_BUFFER and its size.
INPUTS = (1, 2, 4)
ERROR_LOG, ERROR_LOG_BYTES = 5, 6
EXTREMES = (0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, 1 << 20, 1 << 32, (1 << 63) - 1, (1 << 64) - 1)

cuda = ctypes.CDLL("libcuda.so.1")
cudart = ctypes.CDLL("libcudart.so.13")
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = c_void_p
libc.mmap.argtypes = [c_void_p, c_size_t, c_int, c_int, c_int, c_size_t]
libc.munmap.argtypes = [c_void_p, c_size_t]
libc.mprotect.argtypes = [c_void_p, c_size_t, c_int]


def must(result: int, what: str) -> None:
    if result:
        raise SystemExit(f"{what}: {result}")


class AtThePagesEnd:
    """Bytes in memory of their own; what follows them is not mapped."""

    def __init__(self, data: bytes) -> None:
        pages = -(-max(len(data), 1) // PAGE)
        self._size = (pages + 1) * PAGE
        self._start = libc.mmap(None, self._size, mmap.PROT_READ | mmap.PROT_WRITE, 0x22, -1, 0)
        self.address = self._start + pages * PAGE - len(data)
        ctypes.memmove(self.address, data, len(data))
        libc.mprotect(self._start + pages * PAGE, PAGE, 0)

    def __enter__(self) -> int:
        return self.address

    def __exit__(self, *_: object) -> None:
        libc.munmap(self._start, self._size)


def damaged(chance: random.Random, goods: list[bytes]) -> bytes:
    data = bytearray(chance.choice(goods))
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(data)) if data else 0
        # Headers are where the lengths are.
        at = chance.choice((at, at % 128, at % 24))
        match chance.randrange(8):
            case 0:
                del data[at:]
            case 1 if data:
                data[at % len(data)] ^= 1 << chance.randrange(8)
            case 2:
                data[at : at + 4] = struct.pack("<I", chance.choice(EXTREMES) & 0xFFFFFFFF)
            case 3:
                data[at : at + 8] = struct.pack("<Q", (chance.choice(EXTREMES) + chance.randrange(-2, 3)) % (1 << 64))
            case 4:
                data[at : at + chance.randrange(200)] = b""
            case 5:
                data[at:at] = data[at : at + chance.randrange(500)]
            case 6:
                other = chance.choice(goods)
                data[at:] = other[chance.randrange(len(other)) :]
            case _:
                data[at : at + chance.randrange(40)] = chance.randbytes(chance.randrange(40))
    return bytes(data)


def load_with_log(address: int) -> int:
    module, log = c_void_p(), ctypes.create_string_buffer(LOG_BYTES)
    options = (c_uint * 2)(ERROR_LOG, ERROR_LOG_BYTES)
    values = (c_void_p * 2)(ctypes.addressof(log), LOG_BYTES)
    result = cuda.cuModuleLoadDataEx(byref(module), c_void_p(address), c_uint(2), options, values)
    return result or cuda.cuModuleUnload(module)


def load(name: str, unload: str) -> Callable[[int], int]:
    def run(address: int) -> int:
        module = c_void_p()
        return getattr(cuda, name)(byref(module), c_void_p(address)) or getattr(cuda, unload)(module)

    return run


def load_library(library: ctypes.CDLL, name: str, unload: str) -> Callable[[int], int]:
    def run(address: int) -> int:
        loaded, none = c_void_p(), c_void_p()
        result = getattr(library, name)(byref(loaded), c_void_p(address), none, none, c_uint(0), none, none, c_uint(0))
        return result or getattr(library, unload)(loaded)

    return run


def link(kind: int, address: int, size: int) -> int:
    state, image, length = c_void_p(), c_void_p(), c_size_t()
    must(cuda.cuLinkCreate_v2(c_uint(0), None, None, byref(state)), "cuLinkCreate")
    result = cuda.cuLinkAddData_v2(
        state, c_int(kind), c_void_p(address), c_size_t(size), c_char_p(b"input"), c_uint(0), None, None
    )
    result = result or cuda.cuLinkComplete(state, byref(image), byref(length))
    must(cuda.cuLinkDestroy(state), "cuLinkDestroy")
    return int(result)


def load_file(path: Path) -> int:
    module = c_void_p()
    return cuda.cuModuleLoad(byref(module), str(path).encode()) or cuda.cuModuleUnload(module)


LOADS = (
    load("cuModuleLoadData", "cuModuleUnload"),
    load("cuModuleLoadFatBinary", "cuModuleUnload"),
    load_with_log,
    load_library(cuda, "cuLibraryLoadData", "cuLibraryUnload"),
    load_library(cudart, "cudaLibraryLoadData", "cudaLibraryUnload"),
)


def still_works(good: bytes, memory: c_ulonglong) -> None:
    module, function = c_void_p(), c_void_p()
    must(cuda.cuModuleLoadData(byref(module), c_char_p(good + b"\0")), "a good module")
    must(cuda.cuModuleGetFunction(byref(function), module, b"increment"), "its kernel")
    must(cuda.cuMemsetD32_v2(memory, c_uint(41), c_size_t(64)), "cuMemsetD32")
    parameters = (c_void_p * 1)(ctypes.addressof(memory))
    must(cuda.cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, parameters, None), "cuLaunchKernel")
    values = (c_uint * 64)()
    must(cuda.cuMemcpyDtoH_v2(values, memory, c_size_t(256)), "cuMemcpyDtoH")
    must(cuda.cuModuleUnload(module), "cuModuleUnload")
    if list(values) != [42] * 64:
        raise SystemExit(f"wrong values: {list(values)}")


def main() -> None:
    chance, count = random.Random(int(sys.argv[1])), int(sys.argv[2])
    paths = [Path(name) for name in sys.argv[3:]]
    goods = [path.read_bytes() for path in paths]
    good = next(data for path, data in zip(paths, goods, strict=True) if path.suffix == ".ptx")
    context, memory = c_void_p(), c_ulonglong()
    must(cuda.cuInit(c_uint(0)), "cuInit")
    must(cuda.cuDevicePrimaryCtxRetain(byref(context), c_int(0)), "cuDevicePrimaryCtxRetain")
    must(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    must(cuda.cuMemAlloc_v2(byref(memory), c_size_t(256)), "cuMemAlloc")
    accepted = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            data = damaged(chance, goods)
            choice = chance.randrange(len(LOADS) + len(INPUTS) + 1)
            if choice < len(LOADS):
                with AtThePagesEnd(data) as address:
                    result = LOADS[choice](address)
            elif choice < len(LOADS) + len(INPUTS):
                with AtThePagesEnd(data) as address:
                    result = link(INPUTS[choice - len(LOADS)], address, len(data))
            else:
                path = Path(folder) / "image"
                path.write_bytes(data)
                result = load_file(path)
            accepted += result == 0
            if number % 20 == 0:
                still_works(good, memory)
    still_works(good, memory)
    print(f"accepted {accepted}, refused {count - accepted}")


main()
