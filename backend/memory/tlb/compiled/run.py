"""Events until none is left, or until a core's next request is not known yet.

`entry` is what Python calls: with the address of a table that has, for each array of layout.State, its address and its lengths.
"""

from __future__ import annotations

from farlane.backend.memory.compiling import inlined
from farlane.backend.memory.tlb import layout as at
from farlane.backend.memory.tlb.compiled import events
from farlane.backend.memory.tlb.compiled.directory import forget, hear
from farlane.backend.memory.tlb.compiled.events import (
    BYTE,
    CORE,
    DRAIN,
    ENQUEUE,
    FILL,
    ISSUE,
    KIND,
    PEER,
    REMOTE,
    SHARED,
    WALK_DONE,
    pop,
    turn,
)
from farlane.backend.memory.tlb.compiled.intrinsics import state
from farlane.backend.memory.tlb.compiled.private import fill
from farlane.backend.memory.tlb.compiled.requests import issue, remote
from farlane.backend.memory.tlb.compiled.shared import drain
from farlane.backend.memory.tlb.compiled.walks import start_walks, walk_done


def entry(address: int, what: int, begin: int) -> int:
    """`what`: see layout.py. `begin`: a kernel begins. Answers V_ERROR."""
    p = state(address).parameters
    if what == at.FORGET:
        forget(address)
        return 0
    # Three times the same: in each, LLVM leaves out what the condition before it rules out.
    if p[at.P_SHARING] == at.NONE:
        return _run(address, what == at.FINISH, begin)
    if p[at.P_SHARING] == at.DIRECTORY and p[at.P_WORDS] == 1:
        return _run(address, what == at.FINISH, begin)
    return _run(address, what == at.FINISH, begin)


@inlined
def _run(address: int, final: bool, begin: int) -> int:
    """Events until none is left, or none is certain. Answers V_ERROR."""
    s = state(address)
    v = s.scalars
    if begin:
        for core in range(s.parameters[at.P_CORES]):
            turn(address, 0, core)
    while (v[at.V_EVENTS] or v[at.V_LATER] or v[at.V_NEWS] != at.NEVER_COMES) and not v[at.V_ERROR]:
        time, key, arg = pop(address)
        kind, core, peer, page = key >> KIND, key >> CORE & BYTE, key >> PEER & BYTE, key & events.PAGE
        if kind == ISSUE:
            if not issue(address, time, core, final):
                break
        elif kind == FILL:
            fill(address, time, core, page, arg)
        elif kind == SHARED:
            s.counts[at.N_SHARED_ACCESSES] += 1
            tail = v[at.V_INBOX_HEAD] + v[at.V_INBOX]
            tail -= len(s.inbox) if tail >= len(s.inbox) else 0
            s.inbox[tail, 0], s.inbox[tail, 1], s.inbox[tail, 2], s.inbox[tail, 3] = core, page, time, arg
            v[at.V_INBOX] += 1
            drain(address, time)
        elif kind == WALK_DONE:
            walk_done(address, time, page, arg)
        elif kind == ENQUEUE:
            tail = v[at.V_QUEUE_HEAD] + v[at.V_QUEUE]
            tail -= len(s.queue) if tail >= len(s.queue) else 0
            s.queue[tail, 0], s.queue[tail, 1], s.queue[tail, 2] = page, time, arg
            v[at.V_QUEUE] += 1
            start_walks(address, time)
        elif kind == DRAIN:
            v[at.V_DRAIN] = -1
            drain(address, time)
        elif kind == REMOTE:
            remote(address, time, core, peer, page, arg)
        else:
            hear(address, kind, core, page)
    error: int = v[at.V_ERROR]
    return error
