"""Looking through the entries of a set, a vector at a time.

-1 is a page number that no request has: an entry that is free.
"""

from __future__ import annotations

from typing import Any

from farlane.backend.memory.compiling import inlined
from farlane.backend.memory.tlb import layout as at
from farlane.backend.memory.tlb.compiled.intrinsics import LANES, equal, lowest

_WAYS = 17  # bits of a place in a set


@inlined
def find(words: Any, first: int, end: int, word: int) -> int:
    """The first place of a word in a part of a row, or -1."""
    place = first
    while place + 2 * LANES <= end:
        found = equal(words, place, word) | equal(words, place + LANES, word) << LANES
        if found:
            return place + lowest(found)
        place += 2 * LANES
    if place + LANES <= end:
        found = equal(words, place, word)
        if found:
            return place + lowest(found)
        place += LANES
    while place < end:
        if words[place] == word:
            return place
        place += 1
    return -1


@inlined
def free(pages: Any, first: int, end: int) -> int:
    """The first free place, or -1."""
    return find(pages, first, end, -1)


@inlined
def oldest(pages: Any, stamps: Any, first: int, count: int) -> int:
    """The first free place, or the one used least recently."""
    best = 1 << 62
    for way in range(count):
        best = min(best, ((stamps[first + way] if pages[first + way] >= 0 else -1) << _WAYS) + way)
    return first + (best & ((1 << _WAYS) - 1))


@inlined
def set_of(page: int, sets: int) -> int:
    """The set of a page: a division only where it must be."""
    return page & (sets - 1) if sets & (sets - 1) == 0 else page % sets


@inlined
def in_private(p: Any, private: Any, core: int, page: int) -> int:
    ways = p[at.P_PRIVATE_WAYS]
    first = set_of(page, p[at.P_PRIVATE_SETS]) * ways
    return find(private[core, at.PAGE], first, first + ways, page)


@inlined
def in_shared(p: Any, shared: Any, page: int) -> int:
    ways = p[at.P_SHARED_WAYS]
    first = set_of(page, p[at.P_SHARED_SETS]) * ways
    return find(shared[at.PAGE], first, first + ways, page)


@inlined
def in_walk_cache(s: Any, key: int) -> int:
    """A place of the walk cache, or -1. Neighbours ask for the same tables, so it is tried first where a key was found last."""
    number = (key >> 48) * at.GUESSES + (key & (at.GUESSES - 1))
    guess = s.guesses[number]
    if guess < s.walk_cache.shape[1] and s.walk_cache[0, guess] == key:
        return guess
    slot = find(s.walk_cache[0], 0, s.walk_cache.shape[1], key)
    if slot >= 0:
        s.guesses[number] = slot
    return slot
