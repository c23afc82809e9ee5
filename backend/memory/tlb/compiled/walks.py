"""The walkers, the walk cache, and the end of a walk: the shared TLB and those that wait for it are filled."""

from __future__ import annotations

from typing import Any

from farlane.backend.memory.compiling import inlined
from farlane.backend.memory.tlb import layout as at
from farlane.backend.memory.tlb.compiled.events import SHARED_CLEAR, SHARED_SET, WALK_DONE, push
from farlane.backend.memory.tlb.compiled.intrinsics import lowest, state
from farlane.backend.memory.tlb.compiled.private import fill
from farlane.backend.memory.tlb.compiled.search import in_walk_cache, oldest, set_of
from farlane.backend.memory.tlb.compiled.shared import drain, tell, tick

# Page table: see paging/spec.py
_VALID, _LEAF, _BIG = 1, 4, 8
_ADDRESS = ((1 << 52) - 1) & ~0xFFF
_LEVELS = 4


@inlined
def _shift(level: int) -> int:
    return 39 - 9 * level


@inlined
def _walk(address: int, page: int, walk: int) -> int:
    """Reads the page table; the frame goes into the walk. Answers how many entries it read."""
    s = state(address)
    p, words = s.parameters, s.words
    place = page << p[at.P_SHIFT]
    begin = 0
    for level in range(_LEVELS - 2, -1, -1):
        entry = in_walk_cache(s, level << 48 | place >> _shift(level))
        if entry >= 0:
            s.walk_cache[1, entry] = tick(s.scalars)
            s.counts[at.N_WALK_CACHE_HITS] += 1
            begin = level + 1
            break
    table, big, reads = s.tree[at.T_ROOT], 0, 0
    s.walks[walk, at.W_FRAME], s.walks[walk, at.W_TABLES] = -1, _LEVELS - 1
    for level in range(_LEVELS):
        shift = 16 if big else _shift(level)
        word = words[(table - s.tree[at.T_BEGIN]) // 8 + ((place >> shift) & (31 if big else 511))]
        reads += level >= begin
        if word & _VALID and word & _LEAF and shift >= p[at.P_SHIFT]:
            s.walks[walk, at.W_FRAME] = (word & _ADDRESS) + (place & ((1 << shift) - 1))
        if not word & _VALID or word & _LEAF:
            s.walks[walk, at.W_TABLES] = level
            break
        table, big = word & _ADDRESS, word & _BIG
    return reads


@inlined
def _learn(address: int, page: int, tables: int) -> None:
    """Puts the tables on the way to a page into the walk cache."""
    s = state(address)
    if not s.walk_cache.shape[1]:
        return
    place = page << s.parameters[at.P_SHIFT]
    for level in range(tables):
        key = level << 48 | place >> _shift(level)
        entry = in_walk_cache(s, key)
        if entry < 0:
            entry = oldest(s.walk_cache[0], s.walk_cache[1], 0, s.walk_cache.shape[1])
            s.walk_cache[0, entry] = key
        s.walk_cache[1, entry] = tick(s.scalars)


@inlined
def start_walks(address: int, time: int) -> None:
    s = state(address)
    p = s.parameters
    v, n, started = s.scalars, s.counts, False
    while v[at.V_IDLE] and v[at.V_QUEUE]:
        head = v[at.V_QUEUE_HEAD]
        page, since, walk = s.queue[head, 0], s.queue[head, 1], s.queue[head, 2]
        head += 1
        v[at.V_QUEUE_HEAD] = 0 if head == len(s.queue) else head
        v[at.V_QUEUE] -= 1
        v[at.V_IDLE] -= 1
        v[at.V_BUFFERED] -= 1
        started = True
        reads = _walk(address, page, walk)
        cycles = max(1, p[at.P_FIXED] + reads * p[at.P_LEVEL])
        n[at.N_WALKS] += 1
        n[at.N_WALK_READS] += reads
        n[at.N_WALK_WAIT] += time - since
        n[at.N_WALK_CYCLES] += cycles
        n[at.N_FAULTS] += s.walks[walk, at.W_FRAME] < 0
        s.walks[walk, at.W_END] = time + cycles
        for word in range(s.waiters.shape[1]):
            bits = s.waiters[walk, word]
            while bits != 0:
                core = word << 6 | lowest(bits)
                bits &= bits - 1
                s.bounds[core, s.places[walk, core]] = time + cycles
        push(address, time + cycles, WALK_DONE, 0, 0, page, walk)
    if started:
        v[at.V_BLOCKED] = 0
        drain(address, time)


@inlined
def _end(s: Any, page: int, walk: int) -> None:
    """The walk's place is free."""
    chain = page & (at.CHAINS - 1)
    behind = s.walks[walk, at.W_NEXT]
    before = s.chains[chain]
    if before == walk:
        s.chains[chain] = behind
    else:
        while s.walks[before, at.W_NEXT] != walk:
            before = s.walks[before, at.W_NEXT]
        s.walks[before, at.W_NEXT] = behind
    s.walks[walk, at.W_NEXT] = s.scalars[at.V_FREE_WALK]
    s.scalars[at.V_FREE_WALK] = walk


@inlined
def walk_done(address: int, time: int, page: int, walk: int) -> None:
    s = state(address)
    p = s.parameters
    frame = s.walks[walk, at.W_FRAME]
    _end(s, page, walk)
    s.scalars[at.V_IDLE] += 1
    s.scalars[at.V_BLOCKED] = 0
    _learn(address, page, s.walks[walk, at.W_TABLES])
    if frame >= 0:
        ways = p[at.P_SHARED_WAYS]
        begin = set_of(page, p[at.P_SHARED_SETS]) * ways
        entry = oldest(s.shared[at.PAGE], s.shared[at.STAMP], begin, ways)
        if s.shared[at.PAGE, entry] >= 0:
            tell(address, time, SHARED_CLEAR, s.shared[at.PAGE, entry])
        s.shared[at.PAGE, entry], s.shared[at.FRAME, entry] = page, frame
        s.shared[at.STAMP, entry] = tick(s.scalars)
        tell(address, time, SHARED_SET, page)
    for word in range(s.waiters.shape[1]):
        bits = s.waiters[walk, word]
        while bits != 0:
            core = word << 6 | lowest(bits)
            bits &= bits - 1
            slot = s.places[walk, core]
            s.mshr[core, slot, at.M_FRAME] = frame
            fill(address, time, core, page, slot)  # the first event of this cycle
    start_walks(address, time)
