"""Compiled code that compares memory with a copy of it, page by page, and brings the copy up to date.

Owns the structure that pages.ll reads; fixed.py compiles it. Knows addresses only: what the pages are for is the
caller's (device/sim/memory/journal.py). numpy needs three passes and a byte for each word for the same.
"""

from __future__ import annotations

import ctypes

from farlane.backend.jit.compile.routines import fixed


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


def take(pages: Pages) -> int:
    """Makes the shadow like the memory; the number of pages that differed. Without the GIL."""
    fixed.function(("pages.ll",), Pages)(pages)
    return int(pages.count)
