"""A core's requests: private hits, requests that join a miss, misses and whom they ask.

A core goes ahead of its turn while its own replies cannot come in between: a hit, and a request that joins a miss, depend on nothing but what the core's TLB and its MSHRs
hold, which replies alone change (`bounds`: no reply to this miss comes before); so does whether it stalls. Without peers a miss depends on nothing else either: what it sends is put in order by the
events. With them it reads a directory, or other TLBs, and waits for its turn.
"""

from __future__ import annotations

from typing import Any

from farlane.backend.memory.compiling import inlined
from farlane.backend.memory.tlb import layout as at
from farlane.backend.memory.tlb.compiled import directory
from farlane.backend.memory.tlb.compiled.events import FILL, REMOTE, SHARED, first, push, turn
from farlane.backend.memory.tlb.compiled.intrinsics import ahead, state
from farlane.backend.memory.tlb.compiled.records import known, recall
from farlane.backend.memory.tlb.compiled.search import find, free, in_private, in_shared

_AHEAD = 8  # requests: the cores' lie too far apart for the processor to predict


@inlined
def bound(s: Any, core: int) -> int:
    """No reply reaches the core before."""
    bounds, least = s.bounds[core], at.NEVER_COMES
    for slot in range(len(bounds)):
        least = min(least, bounds[slot])
    return least


@inlined
def send(address: int, source: int, target: int, time: int) -> int:
    """When a message arrives."""
    s = state(address)
    p = s.parameters
    columns, hop, link_cycles = p[at.P_COLUMNS], p[at.P_HOP], p[at.P_LINK]
    counts, links, mesh = s.counts, s.links, s.mesh
    across, down = mesh[target, 0] - mesh[source, 0], mesh[target, 1] - mesh[source, 1]
    counts[at.N_MESSAGES] += 1
    counts[at.N_HOPS] += abs(across) + abs(down)
    begun = time
    link, step = source * 4 + int(across < 0), 4 if across > 0 else -4
    for _ in range(abs(across)):
        time = max(time, links[link])
        links[link] = time + link_cycles
        time += hop
        link += step
    link, step = (source + across) * 4 + 2 + int(down < 0), columns * (4 if down > 0 else -4)
    for _ in range(abs(down)):
        time = max(time, links[link])
        links[link] = time + link_cycles
        time += hop
        link += step
    counts[at.N_NETWORK_WAIT] += time - begun - (abs(across) + abs(down)) * hop
    return time


@inlined
def _better(p: Any, s: Any, core: int, other: int, best: int) -> bool:
    """Whether a holder goes before the best of those with lower numbers."""
    if best < 0:
        return True
    return p[at.P_ROUTE] != at.FIRST and s.distance[core, other] < s.distance[core, best]


@inlined
def _shared_is_nearer(p: Any, s: Any, core: int, target: int) -> bool:
    cycles = 2 * s.distance[core, target] * p[at.P_HOP] + p[at.P_PRIVATE_LATENCY]
    return p[at.P_ROUTE] == at.CHEAPEST and p[at.P_SHARED_LATENCY] <= cycles


@inlined
def _ask(address: int, core: int, target: int, slot: int, page: int, time: int) -> None:
    s = state(address)
    s.counts[at.N_PEER_REQUESTS] += 1
    s.mshr[core, slot, at.M_AWAITED] += 1
    s.bounds[core, slot] = time
    push(address, send(address, core, target, time), REMOTE, core, target, page, slot)


@inlined
def _miss(address: int, time: int, core: int, slot: int, page: int) -> None:
    s = state(address)
    p = s.parameters
    sent = time + p[at.P_PRIVATE_LATENCY]
    sharing = p[at.P_SHARING]
    if sharing == at.PROBE:
        for i in range(s.near[core, 0]):
            _ask(address, core, s.near[core, 1 + i], slot, page, sent)
        if s.near[core, 0]:
            return
    elif sharing == at.DIRECTORY:
        sent += p[at.P_DIR_LATENCY]
        record = known(address, core, page)
        if record >= 0:
            directory.renew(address, core, record)
            target = directory.holder(s, core, record)
            if target >= 0:
                s.counts[at.N_DIRECTORY_HITS] += 1
                if _shared_is_nearer(p, s, core, target) and directory.knows_shared(s, core, record):
                    s.counts[at.N_BYPASSED] += 1
                else:
                    _ask(address, core, target, slot, page, sent)
                    return
    elif sharing == at.ORACLE:
        target, frame = -1, 0
        for other in range(p[at.P_CORES]):
            if other != core and _better(p, s, core, other, target):
                entry = in_private(p, s.private, other, page)
                if entry >= 0:
                    target, frame = other, s.private[other, at.FRAME, entry]
        if target >= 0:
            if _shared_is_nearer(p, s, core, target) and in_shared(p, s.shared, page) >= 0:
                s.counts[at.N_BYPASSED] += 1
            else:
                hops = s.distance[core, target]
                s.counts[at.N_PEER_REQUESTS] += 1
                s.counts[at.N_PEER_HITS] += 1
                s.counts[at.N_MESSAGES] += 2
                s.counts[at.N_HOPS] += 2 * hops
                s.mshr[core, slot, at.M_PEER], s.mshr[core, slot, at.M_FRAME] = 1, frame
                arrival = sent + 2 * hops * p[at.P_HOP] + p[at.P_PRIVATE_LATENCY]
                s.bounds[core, slot] = arrival
                push(address, arrival, FILL, core, 0, page, slot)
                return
    s.bounds[core, slot] = sent + 1  # it may join a walk that is about to end
    push(address, sent, SHARED, core, 0, page, slot)


@inlined
def issue(address: int, time: int, core: int, final: bool) -> bool:
    """Makes a core's requests for as long as nothing that is not known yet may come in between. False when what it asks next is not known."""
    s = state(address)
    p = s.parameters
    offsets, pages, gaps, left_out = s.offsets, s.pages, s.gaps, s.left_out
    some_left_out = len(left_out) > 0
    c, n, v = s.cores[core], s.counts, s.scalars
    latency, perfect, alone = p[at.P_PRIVATE_LATENCY], p[at.P_SHARING] == at.PERFECT, p[at.P_SHARING] == at.NONE
    tags, stamps = s.private[core, at.PAGE], s.private[core, at.STAMP]
    m, missed, bounds = s.mshr[core], s.missed[core], s.bounds[core]
    hints, mask = s.hints[core], at.HINTS - 1
    position, end = offsets[core] + c[at.C_NEXT], offsets[core + 1]
    ahead(pages, position + _AHEAD)
    ahead(gaps, position + _AHEAD)
    last, asked, absent = c[at.C_LAST], c[at.C_WANTED], c[at.C_ABSENT]
    until = bound(s, core) if c[at.C_MISSES] else at.NEVER_COMES
    clock, hits, requests, waits, stalled = v[at.V_CLOCK], 0, 0, 0, 0
    own = time  # its turn has come: nothing is before
    outcome = 0  # 1 it is not the core's turn, 2 it is stalled, 3 it has no more requests
    while outcome == 0:
        if position == end:
            outcome = 3
            break
        page = pages[position]
        if asked < 0:
            time = max(time, last + gaps[position])
        slot, joined, place, stalls = 0, -1, -1, False
        if page == absent:
            slot, absent = -1, -1  # what it stalled with; nothing of that page has come since
        elif not perfect:
            slot = hints[page & mask]
            if tags[slot] != page:
                slot = in_private(p, s.private, core, page)
                if slot >= 0:
                    hints[page & mask] = slot
                else:
                    joined = find(missed, 0, len(missed), page)
        if slot < 0:
            place = joined if joined >= 0 else free(missed, 0, len(missed))
            stalls = place < 0 or c[at.C_WAITING] == p[at.P_WAITING]
        reads = slot < 0 and joined < 0 and not stalls and not alone  # what others change too
        if (time >= until or reads) and time != own and not first(address, time, core):
            outcome = 1
            if slot < 0 and joined < 0:
                absent = page
                recall(s, core, page)
            break
        wanted = time if asked < 0 else asked
        if slot >= 0:
            hits += 1
            waits += latency + time - wanted
            clock += 1
            stamps[slot] = clock
            n[at.N_CYCLES] = max(n[at.N_CYCLES], time + latency)
        else:
            if stalls:
                asked = wanted
                absent = page if joined < 0 else -1
                outcome = 2
                break
            c[at.C_WAITING] += 1
            if joined >= 0:
                n[at.N_MERGED] += 1
                m[place, at.M_COUNT] += 1
                m[place, at.M_WANTED] += wanted
            else:
                n[at.N_MISSES] += 1
                c[at.C_MISSES] += 1
                missed[place], m[place, at.M_COUNT], m[place, at.M_WANTED] = page, 1, wanted
                m[place, at.M_AWAITED] = m[place, at.M_LAST] = m[place, at.M_PEER] = m[place, at.M_FRAME] = 0
                v[at.V_CLOCK] = clock
                _miss(address, time, core, place, page)
                clock = v[at.V_CLOCK]
                until = min(until, bounds[place])
        stalled += time - wanted
        more = left_out[position] if some_left_out else 0
        requests += 1 + more
        hits += more
        waits += more * latency
        position += 1
        last, asked = time, -1
        time += 1
    v[at.V_CLOCK] = clock
    n[at.N_PRIVATE_HITS] += hits
    n[at.N_LATENCY] += waits
    n[at.N_STALL_CYCLES] += stalled
    n[at.N_REQUESTS] += requests
    c[at.C_NEXT], c[at.C_LAST], c[at.C_WANTED], c[at.C_ABSENT] = position - offsets[core], last, asked, absent
    if outcome == 2:
        c[at.C_STALLED] = 1
    elif outcome == 1 or not final:
        turn(address, time, core)
    return outcome != 3 or final


@inlined
def remote(address: int, time: int, core: int, peer: int, page: int, slot: int) -> None:
    """A peer is asked."""
    s = state(address)
    p = s.parameters
    start = max(time, s.cores[peer, at.C_PORT])
    s.counts[at.N_NETWORK_WAIT] += start - time
    s.cores[peer, at.C_PORT] = start + 1
    reply = send(address, peer, core, start + p[at.P_PRIVATE_LATENCY])
    m, bounds = s.mshr[core], s.bounds[core]
    m[slot, at.M_AWAITED] -= 1
    entry = s.hints[peer, page & (at.HINTS - 1)]
    if s.private[peer, at.PAGE, entry] != page:
        entry = in_private(p, s.private, peer, page)
    if entry < 0:
        s.counts[at.N_PEER_MISSES] += 1
        m[slot, at.M_LAST] = max(m[slot, at.M_LAST], reply)
    elif not m[slot, at.M_PEER]:
        s.counts[at.N_PEER_HITS] += 1
        m[slot, at.M_PEER], m[slot, at.M_FRAME] = reply, s.private[peer, at.FRAME, entry]
    else:
        m[slot, at.M_PEER] = min(m[slot, at.M_PEER], reply)
    if m[slot, at.M_AWAITED]:
        return
    if m[slot, at.M_PEER]:
        bounds[slot] = max(time, m[slot, at.M_PEER])
        push(address, bounds[slot], FILL, core, 0, page, slot)
    else:
        bounds[slot] = m[slot, at.M_LAST] + 1
        push(address, m[slot, at.M_LAST], SHARED, core, 0, page, slot)
