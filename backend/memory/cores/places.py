"""The arrays of compiled/run.py: their places in the table, and sizes. All are 64-bit and have two dimensions."""

from __future__ import annotations

CORE, KEY, ASKED, ORDER, OTHER, COUNTS, OFFSETS, LAST, BEGIN, PAGE, GAP, LEFT, SEEN = range(13)
BITS = 11
DIGITS = 1 << BITS  # at least as many as cores
WARP_BITS = 5
RECENT = (
    64  # places for pages asked for lately; where two share one, the earlier is forgotten and its next request is kept
)
MAX_GAP = 1 << 30  # tlb/stream.py
