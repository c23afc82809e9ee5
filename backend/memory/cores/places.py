"""The arrays of compiled/run.py: their places in the table, and sizes. All are 64-bit and have two dimensions."""

from __future__ import annotations

(
    WORDS,
    START,
    WHERE,
    PHASE,
    LONGEST,
    CORE,
    KEY,
    ASKED,
    ORDER,
    OTHER,
    COUNTS,
    OFFSETS,
    LAST,
    SPAN,
    PAGE,
    GAP,
    LEFT,
    SEEN,
) = range(18)
# Of the row SPAN: a window of time, cycles between a warp's instructions, requests taken so far.
BEGIN, END, ISSUE, TAKEN = range(4)
FILTER, SORT, TAKE, MEASURE = range(4)  # what the entry does
BITS = 11
DIGITS = 1 << BITS  # at least as many as cores
FEW = 4096  # requests of a core that are put in order by smaller digits
FEW_BITS = 8
WARP_BITS = 5
PAGE_BITS = 42
# Places for pages asked for lately; where two share one, the earlier is forgotten and its next request is kept.
RECENT = 64
MAX_GAP = 1 << 30  # tlb/stream.py
