"""Paged device memory: physical frames and a multi-level page table that lies in simulated memory.

    spec.py     sizes of pages and tables, and the bits of an entry
    frames.py   which physical frames are free
    table.py    the page table: map, unmap, protect, translate, and the words that a walker reads

What a walk costs and who waits for it is timing, and lives in `tlb`. Page faults are exceptions here; what a fault is called in CUDA is the device's business.
"""

from farlane.backend.memory.paging.frames import Frames, OutOfFrames
from farlane.backend.memory.paging.spec import PAGE_2M, PAGE_4K, PAGE_64K, PAGE_BYTES
from farlane.backend.memory.paging.table import Fault, PageFault, PageTable, Translation

__all__ = [
    "PAGE_2M",
    "PAGE_4K",
    "PAGE_64K",
    "PAGE_BYTES",
    "Fault",
    "Frames",
    "OutOfFrames",
    "PageFault",
    "PageTable",
    "Translation",
]
