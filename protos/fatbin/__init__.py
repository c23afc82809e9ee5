"""Fat binaries, the container in which programs carry device code: read by the host for what it runs, and by the analyzer for what kernels
are passed.

Owns splitting an image into entries and decompressing them (`container`); what an entry holds is the reader's.
"""

from __future__ import annotations

from farlane.fatbin.container import ELF_MAGIC, MAGIC, Entry, FatBinaryError, Kind, parse

__all__ = ["ELF_MAGIC", "MAGIC", "Entry", "FatBinaryError", "Kind", "parse"]
