"""Replies: private TLBs take them or not, and directories hear of it."""

from __future__ import annotations

from typing import Any

from farlane.backend.memory.compiling import inner, leaf
from farlane.backend.memory.tlb import layout as at
from farlane.backend.memory.tlb.compiled.events import ISSUE, SHARED_CLEAR, SHARED_SET, UPDATE_CLEAR, UPDATE_SET, push
from farlane.backend.memory.tlb.compiled.intrinsics import ones, state
from farlane.backend.memory.tlb.compiled.search import directory_set, find, free, in_directory, set_of
from farlane.backend.memory.tlb.compiled.shared import tell, tick


@leaf
def _holders(holders: Any, entry: int) -> int:
    """The sharing degree of a directory's entry."""
    count = 0
    for word in range(len(holders)):
        count += ones(holders[word, entry])
    return count


@inner
def _degree(address: int, core: int, page: int) -> int:
    s = state(address)
    p = s.parameters
    entry = in_directory(p, s.directory, core, page)
    return _holders(s.holders, entry) if entry >= 0 else 1


@inner
def _may_fill(address: int, core: int, from_peer: bool, replies: int, room: bool) -> bool:
    s = state(address)
    p = s.parameters
    if from_peer:
        return p[at.P_PEER_FILL] > 0 and replies >= p[at.P_PEER_FILL]
    if room or p[at.P_FILL] == at.ALWAYS:
        return True
    if p[at.P_FILL] != at.SHARED_ENTRIES or p[at.P_SHARING] != at.DIRECTORY:
        return False
    total, pages = 0, s.private[core, at.PAGE]
    for slot in range(len(pages)):
        if pages[slot] >= 0 and _degree(address, core, pages[slot]) > 1:
            total += 1
            if total >= p[at.P_FILL_THRESHOLD]:
                return True
    return False


@inner
def _victim(address: int, core: int, begin: int, ways: int) -> int:
    """The place to evict of a full set."""
    s = state(address)
    p = s.parameters
    stamps, pages = s.private[core, at.STAMP, begin : begin + ways], s.private[core, at.PAGE, begin : begin + ways]
    sign = -1 if p[at.P_MRU] else 1
    spare = p[at.P_SPARE]
    favourite, passed = -1, 0
    last = -(1 << 44)
    for _ in range(min(p[at.P_CANDIDATES], ways) if spare else 1):
        packed = 1 << 62
        for slot in range(len(stamps)):  # the next one in the order of use
            rank = sign * stamps[slot]
            packed = min(packed, (rank << 17) + slot if rank > last else 1 << 62)
        best = packed & ((1 << 17) - 1)
        last = sign * stamps[best]
        if favourite < 0:
            favourite = best
        if not spare or _degree(address, core, pages[best]) < spare:
            favourite = best
            break
        passed += 1
    s.counts[at.N_SPARED] += passed
    return begin + favourite


@leaf
def _clear_holder(s: Any, entry: int, holder: int) -> None:
    s.holders[holder >> 6, entry] &= ~(1 << (holder & 63))
    if not _holders(s.holders, entry):
        s.directory[at.PAGE, entry] = -1


@leaf
def _remember(s: Any, core: int, page: int, holder: int, shared: bool) -> int:
    p = s.parameters
    d, ways = s.directory, p[at.P_DIR_WAYS]
    begin = directory_set(p, core, page)
    tags = d[at.PAGE, begin : begin + ways]
    entry = find(tags, page)
    fresh = entry < 0
    if fresh:
        entry = free(tags)
        if entry < 0:
            # The one used least recently of those that this core's own TLB does not hold, or else of all.
            stamps, packed = d[at.STAMP, begin : begin + ways], 1 << 62
            holders, bit = s.holders[core >> 6, begin : begin + ways], core & 63
            for slot in range(len(stamps)):
                own = holders[slot] >> bit & 1
                packed = min(packed, (own << 61) + (stamps[slot] << 16) + slot)
            entry = packed & 0xFFFF
        for word in range(len(s.holders)):
            s.holders[word, begin + entry] = 0
        d[at.D_SHARED, begin + entry] = d[at.D_REPLIES, begin + entry] = 0
        d[at.PAGE, begin + entry] = page
    entry += begin
    s.holders[holder >> 6, entry] |= 1 << (holder & 63)
    if shared:
        d[at.D_SHARED, entry] = 1
    if fresh or holder == core:
        d[at.STAMP, entry] = tick(s.scalars)
    return entry


@inner
def fill(address: int, time: int, core: int, page: int, slot: int) -> None:
    s = state(address)
    p = s.parameters
    n, c, m = s.counts, s.cores[core], s.mshr[core]
    missed, bounds = s.missed[core], s.bounds[core]
    waiters, frame, from_peer = m[slot, at.M_COUNT], m[slot, at.M_FRAME], m[slot, at.M_PEER] != 0
    n[at.N_LATENCY] += waiters * time - m[slot, at.M_WANTED]
    n[at.N_CYCLES] = max(n[at.N_CYCLES], time)
    c[at.C_WAITING] -= waiters
    c[at.C_MISSES] -= 1
    if c[at.C_ABSENT] == page:
        c[at.C_ABSENT] = -1
    missed[slot], bounds[slot] = -1, at.NEVER_COMES
    if frame >= 0:
        directory, replies = p[at.P_SHARING] == at.DIRECTORY, 1
        if directory and from_peer:
            entry = in_directory(p, s.directory, core, page)
            if entry >= 0:
                replies = min(7, s.directory[at.D_REPLIES, entry] + 1)
                s.directory[at.D_REPLIES, entry] = replies
        tlb, ways = s.private[core], p[at.P_PRIVATE_WAYS]
        begin = set_of(page, p[at.P_PRIVATE_SETS]) * ways
        place = free(tlb[at.PAGE, begin : begin + ways])
        if _may_fill(address, core, from_peer, replies, place >= 0):
            n[at.N_FILLS] += 1
            if place >= 0:
                place += begin
            else:
                place = _victim(address, core, begin, ways)
                n[at.N_EVICTIONS] += 1
                victim = tlb[at.PAGE, place]
                if directory:
                    entry = in_directory(p, s.directory, core, victim)
                    if entry >= 0:
                        _clear_holder(s, entry, core)
                    tell(address, time, UPDATE_CLEAR, core, victim)
            tlb[at.PAGE, place], tlb[at.FRAME, place] = page, frame
            tlb[at.STAMP, place] = tick(s.scalars)
            s.hints[core, page & (at.HINTS - 1)] = place
            if directory:
                s.directory[at.D_REPLIES, _remember(s, core, page, core, not from_peer)] = 0
                tell(address, time, UPDATE_SET, core, page)
        else:
            n[at.N_FILLS_REFUSED] += 1
    if c[at.C_STALLED]:
        c[at.C_STALLED] = 0
        push(address, time, ISSUE, core, 0, 0, 0)


@inner
def update(address: int, kind: int, core: int, page: int) -> None:
    """What a core's TLB took or gave up reaches the directories near it."""
    s = state(address)
    p = s.parameters
    if kind in (SHARED_SET, SHARED_CLEAR):
        for near in range(p[at.P_CORES]):
            entry = in_directory(p, s.directory, near, page)
            if entry >= 0:
                s.directory[at.D_SHARED, entry] = kind == SHARED_SET
        return
    for i in range(s.near[core, 0]):
        near = s.near[core, 1 + i]
        if kind == UPDATE_SET:
            _remember(s, near, page, core, False)
        else:
            entry = in_directory(p, s.directory, near, page)
            if entry >= 0:
                _clear_holder(s, entry, core)
