"""The fast model's state as arrays, and where in them is what.

State is everything that changes. Fields of a record lie in the second dimension, so that a search through the pages of one core reads consecutive words.
After a change here save kernel.py anew, or its compiled code is taken from the disk with the old numbers in it.
-1 is a page number that no request has: an entry that is free.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from farlane.backend.memory.tlb import mesh
from farlane.backend.memory.tlb.counts import NAMES
from farlane.backend.memory.tlb.spec import Spec

Array = npt.NDArray[Any]

# Entries of a TLB: private [core, field, slot], shared [field, slot]
PAGE, STAMP, FRAME = range(3)
TLB_FIELDS = 3
# Entries of a directory [core, field, slot]; PAGE and STAMP as above
D_SHARED, D_REPLIES, D_DEGREE = range(2, 5)
DIRECTORY_FIELDS = 5
# MSHR entries [core, field, slot]
M_COUNT, M_WANTED, M_AWAITED, M_LAST, M_PEER, M_FRAME = range(1, 7)
MSHR_FIELDS = 7
# Cores [core, field]
C_WAITING, C_STALLED, C_PORT, C_LAST, C_WANTED, C_NEXT, C_MISSES = range(7)
CORE_FIELDS = 7
# Walks under way [field, slot]
W_PAGE, W_FRAME = range(2)
# Scalars
(
    V_EVENTS,
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
) = range(11)
SCALARS = 11
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
    P_FILL,
    P_FILL_THRESHOLD,
    P_PEER_FILL,
    P_MRU,
    P_CANDIDATES,
    P_SPARE,
) = range(30)
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
    """All that changes, but `near`, which is kept here because it goes where these go."""

    cores: Array
    private: Array
    directory: Array
    holders: Array  # [core, slot, other core]: the L1 bitmaps, a byte per bit
    mshr: Array
    shared: Array
    walks: Array
    walk_waiters: Array  # [walk, core]
    walk_cache: Array  # [key or stamp, slot]
    inbox: Array  # a ring of (core, page, arrival)
    queue: Array  # a ring of (walk, since)
    links: Array
    near: Array  # [core, count and then the cores]
    events: Array  # a binary heap of (time, key)
    scalars: Array
    counts: Array


# What stays from one kernel to the next. Between kernels nothing is under way, so the rest is empty.
CONTENTS = ("private", "directory", "holders", "shared", "walk_cache", "scalars")


def parameters(spec: Spec, root: int, base: int) -> Array:
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
        *(
            ("always", "never", "shared-entries").index(spec.policy.fill),
            spec.policy.fill_threshold,
            spec.policy.peer_fill,
        ),
        *(int(spec.policy.eviction == "mru"), spec.policy.candidates, spec.policy.spare_degree),
    ]
    return np.array(values, dtype=np.int64)


def empty(spec: Spec) -> State:
    """The state of a hierarchy that has seen nothing."""
    cores, p, w = spec.cores, spec.private, spec.walk
    uses_directory = spec.sharing == "directory"
    entries = spec.directory.entries if uses_directory else 1
    radius = spec.probe_radius if spec.sharing == "probe" else spec.directory.radius
    lists = [mesh.neighbours(core, cores, spec.network.columns, radius) for core in range(cores)]
    near = np.zeros((cores, 1 + max(map(len, lists))), dtype=np.int64)
    for core, others in enumerate(lists):
        near[core, 0] = len(others)
        near[core, 1 : 1 + len(others)] = others
    requests = cores * p.mshr
    # A miss has at most one event, or one per probe. Each fill sends two updates, which live for `update_cycles`, and an MSHR entry fills at most
    # every second cycle; walks send two more.
    probes = near.shape[1] if spec.sharing == "probe" else 1
    updates = 2 * (spec.directory.update_cycles // 2 + 2) * (requests + w.walkers) if uses_directory else 0
    events = 2 * cores + requests * probes + updates + w.queue + 2 * w.walkers + 64

    def free(*shape: int) -> Array:
        return np.full(shape, -1, dtype=np.int64)

    def zero(*shape: int) -> Array:
        return np.zeros(shape, dtype=np.int64)

    return State(
        cores=zero(cores, CORE_FIELDS),
        private=free(cores, TLB_FIELDS, p.entries),
        directory=free(cores, DIRECTORY_FIELDS, entries),
        holders=np.zeros((cores, entries, cores if uses_directory else 1), dtype=np.uint8),
        mshr=free(cores, MSHR_FIELDS, p.mshr),
        shared=free(TLB_FIELDS, spec.shared.entries),
        walks=free(2, w.queue + w.walkers),
        walk_waiters=np.zeros((w.queue + w.walkers, cores), dtype=np.uint8),
        walk_cache=free(2, w.cache_entries),
        inbox=zero(requests, 3),
        queue=zero(w.queue + 1, 2),
        links=zero(4 * cores),
        near=near,
        events=zero(events, 2),
        scalars=zero(SCALARS),
        counts=zero(len(NAMES)),
    )


def begin(state: State, spec: Spec) -> None:
    """Time and counts begin anew; contents stay."""
    state.cores[:] = 0
    state.cores[:, C_WANTED] = -1
    state.links[:] = 0
    state.counts[:] = 0
    clock = state.scalars[V_CLOCK]
    state.scalars[:] = 0
    state.scalars[V_CLOCK] = clock
    state.scalars[V_DRAIN] = state.scalars[V_PORT_CYCLE] = -1
    state.scalars[V_IDLE] = spec.walk.walkers
