"""The compiled model's state as arrays, and where in them is what.

State is everything that changes. Fields of a record lie in the second dimension, so that a search through the pages of one core reads consecutive words. All are 64-bit.
-1 is a page number that no request has: an entry that is free.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from farlane.backend.memory.paging.spec import LEVELS
from farlane.backend.memory.tlb import mesh
from farlane.backend.memory.tlb.counts import NAMES
from farlane.backend.memory.tlb.spec import Spec

Array = npt.NDArray[Any]
_LINE = 8  # words of a line of the cache

# Entries of a TLB: private [core, field, slot], shared [field, slot]
PAGE, STAMP, FRAME = range(3)
TLB_FIELDS = 3
HINTS = 64  # of each core: where a page was found last, by the low bits of its number; not to be trusted
# What directories know (compiled/records.py). Records [number, field]: a line of the cache each, and R_FIELDS for each 64 cores. R_CHAIN: the next record of the pages that share
# its place in `named`, or the next free one; -1 at the end. R_LINKS: the records made before and after it in its set, each one more than its number, 0 for none
R_MADE, R_PAGE, R_CHAIN, R_LINKS, R_WORDS = range(5)
R_HEARD, R_MEMBERS, R_OWN, R_USED = range(4)
R_FIELDS = 4
BEFORE, AFTER = 32, (1 << 32) - 1  # of R_LINKS: how far up, and which bits
NAMED = 2048  # chains of records by their pages' bits, in the order in which they were made; behind them the first free record, and how many have ever been in use
A_FIRST, A_LAST = range(2)
A_FREE, A_EVER = range(2)
# Of a set: its records made first and last, and one before which no record has a member that does not hold its page itself; -1 for none
S_FIRST, S_LAST, S_FOREIGN = range(3)
SET_FIELDS = 4
U_RECORD, U_WORD = range(2)  # by set, core and way: 0 for none
A_MOMENT, A_RECORD = range(2)
# MSHR entries [core, slot, field]: a line of the cache each. Their pages and bounds lie apart, for searches
M_COUNT, M_WANTED, M_AWAITED, M_LAST, M_PEER, M_FRAME = range(6)
MSHR_FIELDS = 8
NEVER_COMES = 1 << 62
# Cores [core, field]. C_ABSENT: the page that the core is stalled with, if it is neither in the TLB nor on its way; -1 otherwise
C_WAITING, C_STALLED, C_PORT, C_LAST, C_WANTED, C_NEXT, C_MISSES, C_ABSENT = range(8)
CORE_FIELDS = 8
# Walks under way [slot, field]. W_END: when it ends, 0 before it has begun. W_TABLES: tables behind the root on the way. W_NEXT: of those with the same CHAINS bits of
# their page, or of the free ones
W_PAGE, W_FRAME, W_END, W_TABLES, W_NEXT = range(5)
WALK_FIELDS = 8
CHAINS = 256
GUESSES = 64  # of each level: where in the walk cache a key was found last; not to be trusted
# Events
WHEEL = 1024  # cycles; a multiple of 64
E_KEY, E_ARG, E_NEXT = range(3)
NODE_FIELDS = 4
# Of each cycle LISTS lists of events; of each its first and last node, and the one that came last. READY, of a cycle: a bit for each list that has events, and behind them for each word of
# `turns` that has a bit
LISTS = 3
L_FIRST, L_LAST, L_LATEST = range(3)
L_FIELDS = 4
READY = LISTS * L_FIELDS
WHEEL_FIELDS = 16
# News of private TLBs: rings of (cycle, key). What comes within `update_cycles` is on the wheel, not in the heap: WHEEL is more than they can be
NEWS_FIELDS = 2
# Scalars. V_EVENTS: on the wheel. V_NEWS: the cycle of the first news in the rings, or NEVER_COMES. V_LATER: in the heap. V_FREE: the first free node of the wheel. V_BLOCKED: the first at the shared TLB's port waits for the page-walk buffer.
(
    V_EVENTS,
    V_LATER,
    V_FREE,
    V_NOW,
    V_ERROR,
    V_DRAIN,
    V_PORT_CYCLE,
    V_PORT_USED,
    V_BUFFERED,
    V_IDLE,
    V_INBOX,
    V_INBOX_HEAD,
    V_QUEUE,
    V_QUEUE_HEAD,
    V_CLOCK,
    V_BLOCKED,
    V_FREE_WALK,
    V_NEWS,
    V_TAKEN,
    V_TAKEN_HEAD,
    V_GIVEN,
    V_GIVEN_HEAD,
) = range(22)
SCALARS = 22
# Parameters
(
    P_CORES,
    P_SHARING,
    P_SHIFT,
    P_ROOT,
    P_TABLES,
    P_PRIVATE_WAYS,
    P_PRIVATE_SETS,
    P_PRIVATE_LATENCY,
    P_WAITING,
    P_SHARED_WAYS,
    P_SHARED_SETS,
    P_SHARED_LATENCY,
    P_PORTS,
    P_QUEUE,
    P_LEVEL,
    P_FIXED,
    P_COLUMNS,
    P_HOP,
    P_LINK,
    P_DIR_WAYS,
    P_DIR_SETS,
    P_DIR_LATENCY,
    P_UPDATE,
    P_ROUTE,
    P_WORDS,
    P_LEVELS,
    P_FILL,
    P_FILL_THRESHOLD,
    P_PEER_FILL,
    P_MRU,
    P_CANDIDATES,
    P_SPARE,
) = range(32)
# Counts, in the order of counts.Counts
(
    N_REQUESTS,
    N_PRIVATE_HITS,
    N_MERGED,
    N_MISSES,
    N_DIRECTORY_HITS,
    N_BYPASSED,
    N_PEER_REQUESTS,
    N_PEER_HITS,
    N_PEER_MISSES,
    N_SHARED_ACCESSES,
    N_SHARED_HITS,
    N_SHARED_MERGED,
    N_WALKS,
    N_WALK_READS,
    N_WALK_CACHE_HITS,
    N_FAULTS,
    N_FILLS,
    N_FILLS_REFUSED,
    N_EVICTIONS,
    N_SPARED,
    N_MESSAGES,
    N_HOPS,
    N_UPDATE_MESSAGES,
    N_LATENCY,
    N_STALL_CYCLES,
    N_NETWORK_WAIT,
    N_SHARED_WAIT,
    N_WALK_WAIT,
    N_WALK_CYCLES,
    N_CYCLES,
) = range(len(NAMES))
NONE, DIRECTORY, PROBE, ORACLE, PERFECT = range(5)
FIRST, NEAREST, CHEAPEST = range(3)
ALWAYS, NEVER, SHARED_ENTRIES = range(3)


class State(NamedTuple):
    """All that changes, and what compiled code needs beside it: the first lines are the spec, the page table's words and the requests."""

    parameters: Array
    near: Array  # [core, count and then the cores]
    distance: Array
    mesh: Array  # [core, column and row]
    rings: (
        Array  # [core, ring and word]: the cores that its directory hears, all of them and then those of each distance
    )
    words: Array
    offsets: Array
    pages: Array
    gaps: Array
    left_out: Array

    cores: Array
    private: Array
    hints: Array
    records: Array
    named: Array  # the first and the last record of each chain
    in_shared: Array  # [record, word]: members that know that the shared TLB has the page; kept for the route that asks
    sets: Array
    levels: Array  # [set, bit of a count for each word]: how many entries directories have
    uses: Array
    latest: Array  # of each core, when an entry of its directory was used last
    candidates: Array  # of 64 directories, while room is made
    mshr: Array
    missed: Array  # [core, slot]: the page of an MSHR entry, -1 where it is free
    bounds: Array  # [core, slot]: no reply to an MSHR entry before this cycle
    shared: Array
    walks: Array
    chains: Array  # the first walk of each
    waiters: Array  # [walk, word]: a bit per core that waits for it
    places: Array  # [walk, core]: its MSHR entry
    walk_cache: Array  # [key or stamp, slot]
    guesses: Array
    inbox: Array  # a ring of (core, page, arrival, MSHR entry)
    queue: Array  # a ring of (page, since, walk)
    links: Array
    wheel: Array  # [cycle, list and field]
    turns: Array  # [cycle, word]: a bit for each core whose turn it is to make requests
    occupied: Array  # a bit per cycle of the wheel
    nodes: Array
    taken: Array  # a ring: what private TLBs took
    given: Array  # a ring: what they gave up
    later: Array  # a binary heap of (cycle, key, arg)
    scalars: Array
    counts: Array


DIMENSIONS = {"private": 3, "mshr": 3} | dict.fromkeys(
    (
        "parameters",
        "words",
        "latest",
        "offsets",
        "pages",
        "gaps",
        "left_out",
        "guesses",
        "chains",
        "links",
        "occupied",
        "scalars",
        "counts",
    ),
    1,
)  # the others have 2
# Lengths that are the same in all hierarchies: code has them as constants
LAST = {
    "named": 2,
    "mesh": 2,
    "cores": CORE_FIELDS,
    "hints": HINTS,
    "sets": SET_FIELDS,
    "candidates": 64,
    "mshr": MSHR_FIELDS,
    "walks": WALK_FIELDS,
    "inbox": 4,
    "queue": 4,
    "wheel": WHEEL_FIELDS,
    "nodes": NODE_FIELDS,
    "taken": NEWS_FIELDS,
    "given": NEWS_FIELDS,
    "later": 4,
}
# What is done: as much as is certain without requests to come; all that is left; directories forget `pages`, which are in order
CONTINUE, FINISH, FORGET = range(3)
COLUMNS = 4  # of the table of arrays: address and lengths


# What stays from one kernel to the next. Between kernels nothing is under way, so the rest is empty.
CONTENTS = (
    "private", "records", "named", "in_shared", "sets", "levels", "uses", "latest", "shared", "walk_cache", "scalars",
)  # fmt: skip


def _parameters(spec: Spec, root: int, base: int) -> Array:
    """The spec as the kernel reads it."""
    s, p, d, w, n = spec.shared, spec.private, spec.directory, spec.walk, spec.network
    values = [
        *(
            spec.cores,
            ("none", "directory", "probe", "oracle", "perfect").index(spec.sharing),
            spec.page_shift,
            root,
            base,
        ),
        *(p.ways, p.entries // p.ways, p.latency, p.waiting),
        *(s.ways, s.entries // s.ways, s.latency, s.ports),
        *(w.queue, w.level_cycles, w.fixed_cycles),
        *(n.columns, n.hop_cycles, n.link_cycles),
        *(d.ways, d.entries // d.ways, d.latency, d.update_cycles, ("first", "nearest", "cheapest").index(d.route)),
        *(-(-spec.cores // 64), d.ways.bit_length()),
        *(
            ("always", "never", "shared-entries").index(spec.policy.fill),
            spec.policy.fill_threshold,
            spec.policy.peer_fill,
        ),
        *(int(spec.policy.eviction == "mru"), spec.policy.candidates, spec.policy.spare_degree),
    ]
    return np.array(values, dtype=np.int64)


def empty(spec: Spec, table: Array, root: int, base: int) -> State:
    """The state of a hierarchy that has seen nothing. `table`: the page table's words, of which `root` and `base` are addresses."""
    cores, p, w = spec.cores, spec.private, spec.walk
    uses_directory = spec.sharing == "directory"
    hops = mesh.distances(cores, spec.network.columns).astype(np.int64)
    near = mesh.nearest(hops, {"probe": spec.probe_radius, "directory": spec.directory.radius}.get(spec.sharing, 0))
    requests = cores * p.mshr
    # A miss has at most one event, or one per probe. Each fill sends two updates, which live for `update_cycles`, and an MSHR entry fills at most
    # every second cycle; walks send two more.
    probes = near.shape[1] if spec.sharing == "probe" else 1
    updates = 2 * (spec.directory.update_cycles // 2 + 2) * (requests + w.walkers) if uses_directory else 0
    events = 2 * cores + requests * probes + updates + w.queue + 2 * w.walkers + 64
    news = updates // 2 + 64

    def free(*shape: int) -> Array:
        return np.full(shape, -1, dtype=np.int64)

    def zero(*shape: int) -> Array:
        """Rows begin with a line of the cache where they are as long as lines."""
        count = math.prod(shape)
        whole = np.zeros(count + _LINE, dtype=np.int64)
        begin = -(whole.ctypes.data // 8) % _LINE
        return whole[begin : begin + count].reshape(shape)

    words = -(-cores // 64)
    ways = spec.directory.ways
    sets, records, uses = 1, 1, 1
    if uses_directory:
        sets = spec.directory.entries // ways
        uses = sets * cores * ways
        records = uses + 1  # each has a member, and a member one for each of its entries; one is made before it has
    return State(
        parameters=_parameters(spec, root, base),
        near=near,
        distance=hops,
        mesh=np.stack(np.divmod(np.arange(cores), spec.network.columns)[::-1], axis=1).astype(np.int64),
        rings=mesh.rings(hops, spec.directory.radius) if uses_directory else zero(cores, words),
        words=table,
        offsets=zero(cores + 1),
        pages=zero(0),
        gaps=zero(0),
        left_out=zero(0),
        cores=zero(cores, CORE_FIELDS),
        private=free(cores, TLB_FIELDS, p.entries),
        hints=zero(cores, HINTS),
        records=zero(records, -(-(R_WORDS + R_FIELDS * words) // 8) * 8),
        named=_unnamed(),
        in_shared=zero(records, words),
        sets=free(sets, SET_FIELDS),
        levels=zero(sets, words * ways.bit_length()),
        uses=zero(2, uses),
        latest=zero(cores),
        candidates=zero(2, LAST["candidates"]),
        mshr=zero(cores, p.mshr, MSHR_FIELDS),
        missed=free(cores, p.mshr),
        bounds=zero(cores, p.mshr),
        shared=free(TLB_FIELDS, spec.shared.entries),
        walks=free(w.queue + w.walkers, WALK_FIELDS),
        chains=free(CHAINS),
        waiters=zero(w.queue + w.walkers, words),
        places=zero(w.queue + w.walkers, cores),
        walk_cache=free(2, w.cache_entries),
        guesses=zero((LEVELS - 1) * GUESSES),
        inbox=zero(requests, LAST["inbox"]),
        queue=zero(w.queue + 1, LAST["queue"]),
        links=zero(4 * cores),
        wheel=zero(WHEEL, WHEEL_FIELDS),
        turns=zero(WHEEL, words),
        occupied=zero(WHEEL // 64),
        nodes=zero(events, NODE_FIELDS),
        taken=zero(news, NEWS_FIELDS),
        given=zero(news, NEWS_FIELDS),
        later=zero(events, LAST["later"]),
        scalars=zero(SCALARS),
        counts=zero(len(NAMES)),
    )


def _unnamed() -> Array:
    """No record has a page, and none has been in use."""
    found = np.full((NAMED + 1, 2), -1, dtype=np.int64)
    found[NAMED, A_EVER] = 0
    return found


def begin(state: State, spec: Spec) -> None:
    """Time and counts begin anew; contents stay."""
    state.cores[:] = 0
    state.cores[:, C_WANTED] = state.cores[:, C_ABSENT] = -1
    state.missed[:] = -1
    state.bounds[:] = NEVER_COMES
    state.links[:] = 0
    state.counts[:] = 0
    clock = state.scalars[V_CLOCK]
    state.scalars[:] = 0
    state.scalars[V_CLOCK] = clock
    state.scalars[V_DRAIN] = state.scalars[V_PORT_CYCLE] = -1
    state.scalars[V_NEWS] = NEVER_COMES
    state.scalars[V_IDLE] = spec.walk.walkers
    state.chains[:] = -1
    state.walks[:, W_NEXT] = _list(len(state.walks))
    state.wheel[:] = -1
    state.wheel[:, READY] = 0
    state.turns[:] = 0
    state.occupied[:] = 0
    state.nodes[:, E_NEXT] = _list(len(state.nodes))


def _list(count: int) -> Array:
    """Each points to the next, the last one to none."""
    found = np.arange(1, count + 1, dtype=np.int64)
    found[-1] = -1
    return found
