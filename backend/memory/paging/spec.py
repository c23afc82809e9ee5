"""Sizes of pages, the shape of the page table, and the bits of its entries.

48-bit virtual addresses, four levels. The upper three have nine bits each. Below them lies a table of 512 entries of 4 KiB pages or of 32 entries of
64 KiB pages; an entry of the third level may instead map 2 MiB itself. That is the shape of NVIDIA's Pascal format (one table of small and one of big
pages below each directory entry), with one kind of lower table per directory entry. The layout of the bits is ours.
"""

from __future__ import annotations

PAGE_4K = 4 << 10
PAGE_64K = 64 << 10
PAGE_2M = 2 << 20
PAGE_BYTES = (PAGE_4K, PAGE_64K, PAGE_2M)

ADDRESS_BITS = 48
LEVELS = 4
LEVEL_SHIFTS = (39, 30, 21, 12)  # of a 4 KiB page's table
LEVEL_ENTRIES = 512
BIG_SHIFT = 16  # of a 64 KiB page's table
BIG_ENTRIES = 32
TABLE_BYTES = 4096
WORD_BYTES = 8

# An entry is one 64-bit word: flags in the low twelve bits, a physical address above.
VALID = 1
WRITABLE = 2
LEAF = 4  # maps memory; otherwise it points to the next table
BIG = 8  # points to a table of 64 KiB pages
ADDRESS_MASK = ((1 << 52) - 1) & ~0xFFF


def shift_of(page_bytes: int) -> int:
    """log2 of a page's size."""
    if page_bytes not in PAGE_BYTES:
        raise ValueError(f"pages have {', '.join(map(str, PAGE_BYTES))} bytes, not {page_bytes}")
    return page_bytes.bit_length() - 1


def levels_of(page_bytes: int) -> int:
    """How many entries a full walk to such a page reads."""
    return LEVELS - 1 if page_bytes == PAGE_2M else LEVELS
