"""The shared TLB, its port, and what directories hear of it. The walks behind it: walks.py."""

from __future__ import annotations

from typing import Any

from farlane.backend.memory.compiling import inlined
from farlane.backend.memory.tlb import layout as at
from farlane.backend.memory.tlb.compiled.events import (
    DRAIN,
    ENQUEUE,
    FILL,
    push,
)
from farlane.backend.memory.tlb.compiled.intrinsics import state
from farlane.backend.memory.tlb.compiled.search import in_shared


@inlined
def tick(scalars: Any) -> int:
    scalars[at.V_CLOCK] += 1
    return scalars[at.V_CLOCK]


@inlined
def tell(address: int, time: int, kind: int, page: int) -> None:
    """Directories hear of a change of the shared TLB."""
    s = state(address)
    p = s.parameters
    if p[at.P_SHARING] == at.DIRECTORY:
        s.counts[at.N_UPDATE_MESSAGES] += p[at.P_CORES]
        # The bit of the shared TLB is read by one route only, and keeping it in all directories is most of the work.
        if p[at.P_ROUTE] == at.CHEAPEST:
            push(address, time + p[at.P_UPDATE], kind, 0, 0, page, 0)


@inlined
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
        if v[at.V_BLOCKED]:
            return
        head = v[at.V_INBOX_HEAD]
        core, page, arrival, slot = inbox[head, 0], inbox[head, 1], inbox[head, 2], inbox[head, 3]
        entry = in_shared(p, s.shared, page)
        reply = time + p[at.P_SHARED_LATENCY]
        if entry >= 0:
            n[at.N_SHARED_HITS] += 1
            s.shared[at.STAMP, entry] = tick(v)
            s.mshr[core, slot, at.M_FRAME] = s.shared[at.FRAME, entry]
            push(address, reply, FILL, core, 0, page, slot)
        else:
            chain = page & (at.CHAINS - 1)
            walk = s.chains[chain]
            while walk >= 0 and s.walks[walk, at.W_PAGE] != page:
                walk = s.walks[walk, at.W_NEXT]
            if walk >= 0:
                n[at.N_SHARED_MERGED] += 1
            elif v[at.V_BUFFERED] == p[at.P_QUEUE]:
                v[at.V_BLOCKED] = 1  # until a walk begins or ends
                return
            else:
                v[at.V_BUFFERED] += 1
                walk = v[at.V_FREE_WALK]
                v[at.V_FREE_WALK] = s.walks[walk, at.W_NEXT]
                s.walks[walk, at.W_PAGE], s.walks[walk, at.W_END] = page, 0
                s.walks[walk, at.W_NEXT], s.chains[chain] = s.chains[chain], walk
                for word in range(s.waiters.shape[1]):
                    s.waiters[walk, word] = 0
                push(address, reply, ENQUEUE, 0, 0, page, walk)
            s.waiters[walk, core >> 6] |= 1 << (core & 63)
            s.places[walk, core] = slot
            # When it ends is known once it has begun. Walks read an entry at least.
            reply = s.walks[walk, at.W_END]
            if not reply:
                reply = time + max(1, p[at.P_FIXED] + p[at.P_LEVEL])
        s.bounds[core, slot] = reply
        if v[at.V_PORT_CYCLE] != time:
            v[at.V_PORT_CYCLE], v[at.V_PORT_USED] = time, 0
        v[at.V_PORT_USED] += 1
        n[at.N_SHARED_WAIT] += time - arrival
        head += 1
        v[at.V_INBOX_HEAD] = 0 if head == len(inbox) else head
        v[at.V_INBOX] -= 1
