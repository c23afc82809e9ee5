"""Memory mappings as the C library has them: at addresses of the caller's choice, with protections that change. What `mmap` of Python does not do.

Linux, 64 bits. The functions of `libc` return as the system does; `checked` and `mapped` make errors of it.
"""

from __future__ import annotations

import ctypes
import os

PROT_NONE, PROT_READ, PROT_WRITE, PROT_EXEC = 0, 1, 2, 4
MAP_SHARED, MAP_PRIVATE, MAP_FIXED = 0x01, 0x02, 0x10
MAP_ANONYMOUS, MAP_NORESERVE, MAP_FIXED_NOREPLACE = 0x20, 0x4000, 0x100000
MREMAP_MAYMOVE, MREMAP_FIXED = 1, 2
MADV_DONTNEED, MADV_NOHUGEPAGE, MADV_DONTDUMP = 4, 15, 16
FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2
MAP_FAILED = (1 << 64) - 1

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_uint64
libc.mmap.argtypes = [ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mremap.restype = ctypes.c_uint64
libc.mremap.argtypes = [ctypes.c_uint64, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint64]
for _name, _kinds in (
    ("munmap", [ctypes.c_uint64, ctypes.c_size_t]),
    ("mprotect", [ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int]),
    ("madvise", [ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int]),
    ("fallocate", [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]),
):
    getattr(libc, _name).restype = ctypes.c_int
    getattr(libc, _name).argtypes = _kinds


class MappingError(OSError):
    """The system did not give what was asked for."""


def checked(result: int, what: str) -> None:
    """Raises MappingError for what a function that returns 0 for success has returned."""
    if result != 0:
        number = ctypes.get_errno()
        raise MappingError(number, f"{what}: {os.strerror(number)}")


def mapped(address: int, what: str) -> int:
    """The address that a function has returned which maps. Raises MappingError."""
    if address == MAP_FAILED:
        number = ctypes.get_errno()
        raise MappingError(number, f"{what}: {os.strerror(number)}")
    return address
