"""Compiled code that compares memory with a copy of it, page by page, and brings the copy up to date.

Owns the structure that pages.ll reads (mirrored there) and the code's compilation, kept on disk like a kernel's. Knows addresses only: what
the pages are for is the caller's (device/sim/journal.py). numpy needs three passes and a byte for each word for the same.
"""

from __future__ import annotations

import ctypes
import functools
from importlib import resources

from farlane.backend.jit import cache, native
from farlane.backend.jit.abi import Options

PAGE = 4096


class Pages(ctypes.Structure):
    """Two areas of whole pages, and where the difference goes: room for all of them."""

    _fields_ = (
        ("memory", ctypes.c_void_p),
        ("shadow", ctypes.c_void_p),
        ("pages", ctypes.c_uint64),
        ("numbers", ctypes.c_void_p),  # out: u64[], which pages differed, rising
        ("contents", ctypes.c_void_p),  # out: what the shadow held of each
        ("count", ctypes.c_uint64),  # out
    )


class _Code:
    def __init__(self) -> None:
        text = resources.files(__package__).joinpath("pages.ll").read_text(encoding="utf-8")
        key = cache.fixed_key(text, native.version())
        stored = cache.load_object(key)
        image = stored[1] if stored is not None else native.compile_ir(text, Options())
        if stored is None:
            cache.save_object(key, b"", image)
        self._code = native.Code(image)
        self.run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(self._code.address)


@functools.cache
def _code() -> _Code:
    return _Code()


def take(pages: Pages) -> int:
    """Makes the shadow like the memory; the number of pages that differed. Without the GIL."""
    _code().run(ctypes.addressof(pages), None)
    return int(pages.count)
