"""The shared TLB and the walkers."""

from __future__ import annotations

from typing import Any

from farlane.backend.memory.compiling import inner, leaf
from farlane.backend.memory.tlb import layout as at
from farlane.backend.memory.tlb.compiled.events import (
    DRAIN,
    ENQUEUE,
    FILL,
    SHARED_CLEAR,
    SHARED_SET,
    WALK_DONE,
    push,
)
from farlane.backend.memory.tlb.compiled.intrinsics import lowest, state
from farlane.backend.memory.tlb.compiled.search import find, free, in_shared, in_walk_cache, oldest, set_of

# Page table: see paging/spec.py
_VALID, _LEAF, _BIG = 1, 4, 8
_ADDRESS = ((1 << 52) - 1) & ~0xFFF
_LEVELS = 4


@leaf
def tick(scalars: Any) -> int:
    scalars[at.V_CLOCK] += 1
    return scalars[at.V_CLOCK]


@inner
def tell(address: int, time: int, kind: int, core: int, page: int) -> None:
    """Directories hear of a change."""
    s = state(address)
    p = s.parameters
    if p[at.P_SHARING] == at.DIRECTORY:
        everybody = kind in (SHARED_SET, SHARED_CLEAR)
        s.counts[at.N_UPDATE_MESSAGES] += p[at.P_CORES] if everybody else s.near[core, 0]
        if everybody and p[at.P_ROUTE] != at.CHEAPEST:
            return  # the bit of the shared TLB is read by that route only, and keeping it in all directories is most of the work
        push(address, time + p[at.P_UPDATE], kind, core, 0, page, 0)


@inner
def drain(address: int, time: int) -> None:
    s = state(address)
    p = s.parameters
    v, n, inbox = s.scalars, s.counts, s.inbox
    while v[at.V_INBOX]:
        if v[at.V_PORT_CYCLE] == time and v[at.V_PORT_USED] == p[at.P_PORTS]:
            if v[at.V_DRAIN] < 0:
                v[at.V_DRAIN] = time + 1
                push(address, time + 1, DRAIN, 0, 0, 0, 0)
            return
        head = v[at.V_INBOX_HEAD]
        core, page, arrival, slot = inbox[head, 0], inbox[head, 1], inbox[head, 2], inbox[head, 3]
        entry = in_shared(p, s.shared, page)
        reply = time + p[at.P_SHARED_LATENCY]
        if entry >= 0:
            n[at.N_SHARED_HITS] += 1
            s.shared[at.STAMP, entry] = tick(v)
            s.mshr[core, at.M_FRAME, slot] = s.shared[at.FRAME, entry]
            push(address, reply, FILL, core, 0, page, slot)
        else:
            walk = find(s.walks[at.W_PAGE], page)
            if walk >= 0:
                n[at.N_SHARED_MERGED] += 1
            elif v[at.V_BUFFERED] == p[at.P_QUEUE]:
                return
            else:
                v[at.V_BUFFERED] += 1
                walk = free(s.walks[at.W_PAGE])
                s.walks[at.W_PAGE, walk] = page
                s.walks[at.W_END, walk] = 0
                for word in range(s.waiters.shape[1]):
                    s.waiters[walk, word] = 0
                push(address, reply, ENQUEUE, 0, 0, page, walk)
            s.waiters[walk, core >> 6] |= 1 << (core & 63)
            s.places[walk, core] = slot
            # When it ends is known once it has begun. Walks read an entry at least.
            reply = s.walks[at.W_END, walk]
            if not reply:
                reply = time + max(1, p[at.P_FIXED] + p[at.P_LEVEL])
        s.mshr[core, at.M_BOUND, slot] = reply
        if v[at.V_PORT_CYCLE] != time:
            v[at.V_PORT_CYCLE], v[at.V_PORT_USED] = time, 0
        v[at.V_PORT_USED] += 1
        n[at.N_SHARED_WAIT] += time - arrival
        head += 1
        v[at.V_INBOX_HEAD] = 0 if head == len(inbox) else head
        v[at.V_INBOX] -= 1


@leaf
def _shift(level: int) -> int:
    return 39 - 9 * level


@inner
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
    table, big, reads = p[at.P_ROOT], 0, 0
    s.walks[at.W_FRAME, walk] = -1
    for level in range(_LEVELS):
        shift = 16 if big else _shift(level)
        word = words[(table - p[at.P_TABLES]) // 8 + ((place >> shift) & (31 if big else 511))]
        reads += level >= begin
        if word & _VALID and word & _LEAF and shift >= p[at.P_SHIFT]:
            s.walks[at.W_FRAME, walk] = (word & _ADDRESS) + (place & ((1 << shift) - 1))
        if not word & _VALID or word & _LEAF:
            break
        table, big = word & _ADDRESS, word & _BIG
    return reads


@inner
def _learn(address: int, page: int) -> None:
    """Puts the tables on the way to a page into the walk cache."""
    s = state(address)
    p, words = s.parameters, s.words
    if not s.walk_cache.shape[1]:
        return
    place, table = page << p[at.P_SHIFT], p[at.P_ROOT]
    for level in range(_LEVELS - 1):
        word = words[(table - p[at.P_TABLES]) // 8 + ((place >> _shift(level)) & 511)]
        if not word & _VALID or word & _LEAF:
            return
        key = level << 48 | place >> _shift(level)
        entry = in_walk_cache(s, key)
        if entry < 0:
            entry = oldest(s.walk_cache[0], s.walk_cache[1])
            s.walk_cache[0, entry] = key
        s.walk_cache[1, entry] = tick(s.scalars)
        table = word & _ADDRESS


@inner
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
        n[at.N_FAULTS] += s.walks[at.W_FRAME, walk] < 0
        s.walks[at.W_END, walk] = time + cycles
        for word in range(s.waiters.shape[1]):
            bits = s.waiters[walk, word]
            while bits != 0:
                core = word << 6 | lowest(bits)
                bits &= bits - 1
                s.mshr[core, at.M_BOUND, s.places[walk, core]] = time + cycles
        push(address, time + cycles, WALK_DONE, 0, 0, page, walk)
    if started:
        drain(address, time)


@inner
def walk_done(address: int, time: int, page: int, walk: int) -> None:
    s = state(address)
    p = s.parameters
    frame = s.walks[at.W_FRAME, walk]
    s.walks[at.W_PAGE, walk] = -1
    s.scalars[at.V_IDLE] += 1
    _learn(address, page)
    if frame >= 0:
        ways = p[at.P_SHARED_WAYS]
        begin = set_of(page, p[at.P_SHARED_SETS]) * ways
        entry = begin + oldest(s.shared[at.PAGE, begin : begin + ways], s.shared[at.STAMP, begin : begin + ways])
        if s.shared[at.PAGE, entry] >= 0:
            tell(address, time, SHARED_CLEAR, 0, s.shared[at.PAGE, entry])
        s.shared[at.PAGE, entry], s.shared[at.FRAME, entry] = page, frame
        s.shared[at.STAMP, entry] = tick(s.scalars)
        tell(address, time, SHARED_SET, 0, page)
    for word in range(s.waiters.shape[1]):
        bits = s.waiters[walk, word]
        while bits != 0:
            core = word << 6 | lowest(bits)
            bits &= bits - 1
            slot = s.places[walk, core]
            s.mshr[core, at.M_FRAME, slot] = frame
            push(address, time, FILL, core, 0, page, slot)
    start_walks(address, time)
