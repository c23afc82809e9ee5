"""Capstone's shared library, without its Python package; the analyzer's only user of it.

The package declares all of Capstone's architectures when it is imported, which takes longer than a small program's
analysis, and copies every operand several times. Only its library is used, where the package keeps it. The records'
layout is that of Capstone 5, which any other version refuses.

Source: Capstone 5, include/capstone/capstone.h and x86.h.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

MAJOR = 5
CHUNK = 4096  # instructions decoded at once: a record of one takes nearly 2 KiB

# Of the details: kinds of operands, and access.
REGISTER, IMMEDIATE, WRITE = 1, 2, 2

# Of a record of details, which holds those of an x86 instruction at 96.
WRITTEN, WRITTEN_COUNT, COUNT, OPERANDS, OPERAND_BYTES = 42, 82, 96 + 64, 96 + 72, 48
DETAIL_BYTES = OPERANDS + 8 * OPERAND_BYTES
# Kind; segment (or a register, or the low half of a number), base (the high half), index, scale, displacement; size,
# access.
OPERAND = struct.Struct("<I4xIIIiqBB")

_X86, _MODE_64, _DETAIL, _ON = 3, 8, 2, 3


class _Record(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_uint),
        ("address", ctypes.c_uint64),
        ("size", ctypes.c_uint16),
        ("bytes", ctypes.c_ubyte * 24),
        ("mnemonic", ctypes.c_char * 32),
        ("op_str", ctypes.c_char * 160),
        ("detail", ctypes.c_void_p),
    )


_Records = ctypes.POINTER(_Record)
RECORD_BYTES = ctypes.sizeof(_Record)
# Of a record: the address, the size, and the texts of mnemonic and operands; or the bytes, the mnemonic, and where the
# details are. All records at once are taken apart so: field by field through ctypes took longer than decoding them.
PLAIN = struct.Struct("<8xQH24x32s160s14x")
DETAILED = struct.Struct("<8xQH24s32s166xQ")
assert PLAIN.size == DETAILED.size == RECORD_BYTES


def text(field: bytes) -> str:
    """A field's text, which a zero ends."""
    return field.partition(b"\0")[0].decode("ascii")


def _load() -> ctypes.CDLL:
    found = PathFinder.find_spec("capstone")
    if found is None or found.origin is None:
        raise ImportError("the package capstone is not installed")
    library = ctypes.CDLL(str(_file(Path(found.origin).parent)))
    library.cs_version.restype = ctypes.c_uint
    library.cs_version.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    major = library.cs_version(None, None) >> 8
    if major != MAJOR:
        raise ImportError(f"Capstone {MAJOR} is needed, not {major}")
    library.cs_open.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_size_t))
    library.cs_option.argtypes = (ctypes.c_size_t, ctypes.c_int, ctypes.c_size_t)
    library.cs_close.argtypes = (ctypes.POINTER(ctypes.c_size_t),)
    library.cs_reg_name.argtypes = (ctypes.c_size_t, ctypes.c_uint)
    library.cs_reg_name.restype = ctypes.c_char_p
    library.cs_disasm.restype = ctypes.c_size_t
    library.cs_disasm.argtypes = (
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_uint64,
        ctypes.c_size_t,
        ctypes.POINTER(_Records),
    )
    library.cs_free.restype = None
    library.cs_free.argtypes = (_Records, ctypes.c_size_t)
    return library


def _file(package: Path) -> Path | str:
    """The library beside the package; a distribution's package has it where the system's libraries are."""
    bundled = sorted((package / "lib").glob("libcapstone.so*"))
    return bundled[0] if bundled else f"libcapstone.so.{MAJOR}"


_LIBRARY = _load()


class Disassembler:
    """One of Capstone's handles for x86-64, with or without details.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, details: bool) -> None:
        self._handle = ctypes.c_size_t()
        if _LIBRARY.cs_open(_X86, _MODE_64, ctypes.byref(self._handle)):
            raise OSError("Capstone does not start")
        if details and _LIBRARY.cs_option(self._handle, _DETAIL, _ON):
            raise OSError("Capstone gives no details")

    def __del__(self) -> None:
        if self._handle:
            _LIBRARY.cs_close(ctypes.byref(self._handle))

    def registers(self) -> dict[str, int]:
        """Name -> number, of all registers."""
        found: dict[str, int] = {}
        number = 1
        while name := _LIBRARY.cs_reg_name(self._handle, number):
            found[name.decode("ascii")] = number
            number += 1
        return found

    def records(self, code: bytes, address: int, fields: struct.Struct) -> Iterator[tuple[Any, ...]]:
        """Some fields (`PLAIN`, `DETAILED`) of a range of code's records, up to what cannot be decoded; where details
        are is told of those that lie there until the next record is asked for.
        """
        offset = 0
        while offset < len(code):
            records = _Records()
            rest = code[offset:] if offset else code
            count = _LIBRARY.cs_disasm(self._handle, rest, len(rest), address + offset, CHUNK, ctypes.byref(records))
            if not count:
                break
            try:
                yield from fields.iter_unpack(ctypes.string_at(records, count * RECORD_BYTES))
                last = records[count - 1]
                offset = last.address + last.size - address
            finally:
                _LIBRARY.cs_free(records, count)
            if count < CHUNK:
                break
