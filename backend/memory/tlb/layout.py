"""The compiled model's state as arrays, and where in them is what.

State is everything that changes. Fields of a record lie in the second dimension, so that a search through the pages of one core reads consecutive words. All are 64-bit.
-1 is a page number that no request has: an entry that is free.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt
from farlane.backend.memory.tlb.counts import NAMES

Array = npt.NDArray[Any]

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
NAMED = 8192  # chains of records by their pages' bits, in the order in which they were made; behind them the first free record, and how many have ever been in use
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
) = range(30)
# The page table
T_ROOT, T_BEGIN = range(2)
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
    """All that changes, and what compiled code needs beside it: the first lines are the table of these arrays, the spec, the page table and the requests."""

    table: Array  # [array, address and lengths]
    parameters: Array
    near: Array  # [core, count and then the cores]
    distance: Array
    mesh: Array  # [core, column and row]
    rings: Array  # [core, ring, word]: the cores that its directory hears, all of them and then those of each distance
    tree: Array  # where the page table's root and its words are
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


DIMENSIONS = {"private": 3, "mshr": 3, "rings": 3} | dict.fromkeys(
    (
        "parameters",
        "tree",
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
COLUMNS = 4  # of the table of arrays: address and lengths
# Lengths that are the same in all hierarchies: code has them as constants
LAST = {
    "table": COLUMNS,
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

# What stays from one kernel to the next. Between kernels nothing is under way, so the rest is empty.
CONTENTS = (
    "private", "records", "named", "in_shared", "sets", "levels", "uses", "latest", "shared", "walk_cache", "scalars",
)  # fmt: skip
