"""Replies: private TLBs take them or not, and directories hear of it."""

from __future__ import annotations

from farlane.backend.memory.compiling import inlined
from farlane.backend.memory.tlb import layout as at
from farlane.backend.memory.tlb.compiled import directory
from farlane.backend.memory.tlb.compiled.events import tell_given, tell_taken, turn
from farlane.backend.memory.tlb.compiled.intrinsics import state
from farlane.backend.memory.tlb.compiled.search import free, set_of
from farlane.backend.memory.tlb.compiled.shared import tick

_WAYS = 17  # bits of a place in a set


@inlined
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
        if pages[slot] >= 0 and directory.degree(address, core, pages[slot]) > 1:
            total += 1
            if total >= p[at.P_FILL_THRESHOLD]:
                return True
    return False


@inlined
def _victim(address: int, core: int, begin: int, ways: int) -> int:
    """The place to evict of a full set."""
    s = state(address)
    p = s.parameters
    stamps, pages = s.private[core, at.STAMP], s.private[core, at.PAGE]
    sign = -1 if p[at.P_MRU] else 1
    spare = p[at.P_SPARE]
    if not spare:
        packed = 1 << 62
        for way in range(ways):
            packed = min(packed, ((sign * stamps[begin + way]) << _WAYS) + way)
        return begin + (packed & ((1 << _WAYS) - 1))
    favourite, passed = -1, 0
    last = -(1 << 44)
    for _ in range(min(p[at.P_CANDIDATES], ways)):
        packed = 1 << 62
        for way in range(ways):  # the next one in the order of use
            rank = sign * stamps[begin + way]
            packed = min(packed, (rank << _WAYS) + way if rank > last else 1 << 62)
        best = begin + (packed & ((1 << _WAYS) - 1))
        last = sign * stamps[best]
        if favourite < 0:
            favourite = best
        if directory.degree(address, core, pages[best]) < spare:
            favourite = best
            break
        passed += 1
    s.counts[at.N_SPARED] += passed
    return favourite


@inlined
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
        listed, replies = p[at.P_SHARING] == at.DIRECTORY, 1
        if listed and from_peer and p[at.P_PEER_FILL]:
            replies = directory.replied(address, core, page)
        tlb, ways = s.private[core], p[at.P_PRIVATE_WAYS]
        begin, place = set_of(page, p[at.P_PRIVATE_SETS]) * ways, -1
        if not from_peer or p[at.P_PEER_FILL]:
            place = free(tlb[at.PAGE], begin, begin + ways)
        if _may_fill(address, core, from_peer, replies, place >= 0):
            n[at.N_FILLS] += 1
            heard = time + p[at.P_UPDATE]
            if place < 0:
                place = _victim(address, core, begin, ways)
                n[at.N_EVICTIONS] += 1
                if listed:
                    victim = tlb[at.PAGE, place]
                    directory.give_up(address, core, victim)
                    n[at.N_UPDATE_MESSAGES] += s.near[core, 0]
                    tell_given(address, heard, core, victim)
            tlb[at.PAGE, place], tlb[at.FRAME, place] = page, frame
            tlb[at.STAMP, place] = tick(s.scalars)
            s.hints[core, page & (at.HINTS - 1)] = place
            if listed:
                directory.take(address, core, page, not from_peer)
                n[at.N_UPDATE_MESSAGES] += s.near[core, 0]
                tell_taken(address, heard, core, page)
        else:
            n[at.N_FILLS_REFUSED] += 1
    if c[at.C_STALLED]:
        c[at.C_STALLED] = 0
        turn(address, time, core)
