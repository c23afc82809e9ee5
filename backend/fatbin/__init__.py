"""Images of device code as untrusted bytes: fat binaries (`farlane.fatbin`), bare PTX and bare cubins.

Owns: telling what an image is, and choosing the PTX that a device of a given compute capability runs (`choice`). Does not
parse PTX: that is the jit's.
"""

from __future__ import annotations

from farlane.backend.fatbin.choice import choose, choose_all
from farlane.fatbin import Entry, FatBinaryError, Kind, parse

__all__ = ["Entry", "FatBinaryError", "Kind", "choose", "choose_all", "parse"]
