"""The TLB hierarchy compiled: `reference.py` over arrays, event for event.

Read the reference first; names and order are the same. Two things differ, neither of which may show in a count: what the reference keeps in dictionaries lies
in arrays that are searched, and a core that has no miss under way makes its hits without waiting for its turn, because until it misses nothing that the
others do can change what its TLB holds.

An event is (time, key); the key orders the events of a cycle and holds what they are about: kind, core, peer, page.
"""

from __future__ import annotations

from typing import Any

from farlane.backend.memory.tlb import layout as at
from numba import njit

FILL, WALK_DONE, ENQUEUE, SHARED, DRAIN, REMOTE, UPDATE_SET, UPDATE_CLEAR, SHARED_SET, SHARED_CLEAR, ISSUE = range(11)
_KIND, _CORE, _PEER = 58, 50, 42
_BYTE, _PAGE = 0xFF, (1 << 42) - 1

# Page table: see paging/spec.py
_VALID, _LEAF, _BIG = 1, 4, 8
_ADDRESS = ((1 << 52) - 1) & ~0xFFF
_LEVELS = 4


# No wrappers for Python where only compiled code calls, which is half of the time that compiling takes, and no reference counts: nothing is allocated here.
# Compiled code is kept on disk. Numba compares the age of this file only, hence one file; after a change of layout.py it must be saved anew.
_OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False}
_WITHOUT: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_outer: Any = njit(nogil=True, **_OPTIONS)
_inner: Any = njit(**_OPTIONS, **_WITHOUT)
_leaf: Any = njit(forceinline=True, **_OPTIONS, **_WITHOUT)


@_inner
def _push(events: Any, scalars: Any, time: int, kind: int, core: int, peer: int, page: int) -> None:
    size = scalars[at.V_EVENTS]
    if size == len(events):
        raise RuntimeError("more events than the model has room for")
    key = kind << _KIND | core << _CORE | peer << _PEER | page
    scalars[at.V_EVENTS] = size + 1
    i = size
    while i > 0:
        up = (i - 1) // 2
        if events[up, 0] < time or (events[up, 0] == time and events[up, 1] <= key):
            break
        events[i, 0], events[i, 1] = events[up, 0], events[up, 1]
        i = up
    events[i, 0], events[i, 1] = time, key


@_inner
def _pop(events: Any, scalars: Any) -> tuple[int, int]:
    size = scalars[at.V_EVENTS] - 1
    scalars[at.V_EVENTS] = size
    top_time, top_key = events[0, 0], events[0, 1]
    time, key = events[size, 0], events[size, 1]
    i = 0
    while True:
        low = 2 * i + 1
        if low >= size:
            break
        right = low + 1
        if right < size and (
            events[right, 0] < events[low, 0]
            or (events[right, 0] == events[low, 0] and events[right, 1] < events[low, 1])
        ):
            low = right
        if time < events[low, 0] or (time == events[low, 0] and key <= events[low, 1]):
            break
        events[i, 0], events[i, 1] = events[low, 0], events[low, 1]
        i = low
    events[i, 0], events[i, 1] = time, key
    return top_time, top_key


@_leaf
def _find(pages: Any, first: int, count: int, page: int) -> int:
    """The slot of a page among `count` from `first` on, or -1."""
    for slot in range(first, first + count):
        if pages[slot] == page:
            return slot
    return -1


@_leaf
def _oldest(pages: Any, stamps: Any, first: int, count: int) -> int:
    """A free slot of a set, or the one used least recently."""
    best = first
    for slot in range(first, first + count):
        if pages[slot] < 0:
            return slot
        if stamps[slot] < stamps[best]:
            best = slot
    return best


@_leaf
def _tick(scalars: Any) -> int:
    scalars[at.V_CLOCK] += 1
    return scalars[at.V_CLOCK]


@_leaf
def _in_private(p: Any, private: Any, core: int, page: int) -> int:
    ways = p[at.P_PRIVATE_WAYS]
    return _find(private[core, at.PAGE], page % p[at.P_PRIVATE_SETS] * ways, ways, page)


@_leaf
def _in_shared(p: Any, shared: Any, page: int) -> int:
    ways = p[at.P_SHARED_WAYS]
    return _find(shared[at.PAGE], page % p[at.P_SHARED_SETS] * ways, ways, page)


@_leaf
def _in_directory(p: Any, directory: Any, core: int, page: int) -> int:
    ways = p[at.P_DIR_WAYS]
    return _find(directory[core, at.PAGE], page % p[at.P_DIR_SETS] * ways, ways, page)


@_leaf
def _in_mshr(mshr: Any, core: int, page: int) -> int:
    return _find(mshr[core, at.PAGE], 0, mshr.shape[2], page)


@_leaf
def _distance(p: Any, one: int, other: int) -> int:
    columns = p[at.P_COLUMNS]
    return abs(one % columns - other % columns) + abs(one // columns - other // columns)


@_inner
def _send(p: Any, links: Any, counts: Any, source: int, target: int, time: int) -> int:
    columns, here = p[at.P_COLUMNS], source
    counts[at.N_MESSAGES] += 1
    while here != target:
        if here % columns != target % columns:
            east = target % columns > here % columns
            link, step = here * 4 + (0 if east else 1), (1 if east else -1)
        else:
            south = target > here
            link, step = here * 4 + (2 if south else 3), (columns if south else -columns)
        start = max(time, links[link])
        counts[at.N_NETWORK_WAIT] += start - time
        counts[at.N_HOPS] += 1
        links[link] = start + p[at.P_LINK]
        time = start + p[at.P_HOP]
        here += step
    return time


@_inner
def _tell(p: Any, s: Any, time: int, kind: int, core: int, page: int) -> None:
    if p[at.P_SHARING] == at.DIRECTORY:
        everybody = kind in (SHARED_SET, SHARED_CLEAR)
        s.counts[at.N_UPDATE_MESSAGES] += p[at.P_CORES] if everybody else s.near[core, 0]
        if everybody and p[at.P_ROUTE] != at.CHEAPEST:
            return  # the bit of the shared TLB is read by that route only, and keeping it in all directories is most of the work
        _push(s.events, s.scalars, time + p[at.P_UPDATE], kind, core, 0, page)


@_leaf
def _better(p: Any, core: int, other: int, best: int) -> bool:
    """Whether a holder goes before the best of those with lower numbers."""
    if best < 0:
        return True
    return p[at.P_ROUTE] != at.FIRST and _distance(p, core, other) < _distance(p, core, best)


@_leaf
def _shared_is_nearer(p: Any, core: int, target: int) -> bool:
    cycles = 2 * _distance(p, core, target) * p[at.P_HOP] + p[at.P_PRIVATE_LATENCY]
    return p[at.P_ROUTE] == at.CHEAPEST and p[at.P_SHARED_LATENCY] <= cycles


@_inner
def _ask(p: Any, s: Any, core: int, target: int, slot: int, page: int, time: int) -> None:
    s.counts[at.N_PEER_REQUESTS] += 1
    s.mshr[core, at.M_AWAITED, slot] += 1
    _push(s.events, s.scalars, _send(p, s.links, s.counts, core, target, time), REMOTE, core, target, page)


@_inner
def _miss(p: Any, s: Any, time: int, core: int, slot: int, page: int) -> None:
    send = time + p[at.P_PRIVATE_LATENCY]
    sharing = p[at.P_SHARING]
    if sharing == at.PROBE:
        for i in range(s.near[core, 0]):
            _ask(p, s, core, s.near[core, 1 + i], slot, page, send)
        if s.near[core, 0]:
            return
    elif sharing == at.DIRECTORY:
        send += p[at.P_DIR_LATENCY]
        entry = _in_directory(p, s.directory, core, page)
        if entry >= 0:
            s.directory[core, at.STAMP, entry] = _tick(s.scalars)
            target = -1
            for other in range(p[at.P_CORES]):
                if s.holders[core, entry, other] and other != core and _better(p, core, other, target):
                    target = other
            if target >= 0:
                s.counts[at.N_DIRECTORY_HITS] += 1
                if s.directory[core, at.D_SHARED, entry] and _shared_is_nearer(p, core, target):
                    s.counts[at.N_BYPASSED] += 1
                else:
                    _ask(p, s, core, target, slot, page, send)
                    return
    elif sharing == at.ORACLE:
        target, frame = -1, 0
        for other in range(p[at.P_CORES]):
            if other != core and _better(p, core, other, target):
                entry = _in_private(p, s.private, other, page)
                if entry >= 0:
                    target, frame = other, s.private[other, at.FRAME, entry]
        if target >= 0:
            if _shared_is_nearer(p, core, target) and _in_shared(p, s.shared, page) >= 0:
                s.counts[at.N_BYPASSED] += 1
            else:
                hops = _distance(p, core, target)
                s.counts[at.N_PEER_REQUESTS] += 1
                s.counts[at.N_PEER_HITS] += 1
                s.counts[at.N_MESSAGES] += 2
                s.counts[at.N_HOPS] += 2 * hops
                s.mshr[core, at.M_PEER, slot], s.mshr[core, at.M_FRAME, slot] = 1, frame
                _push(s.events, s.scalars, send + 2 * hops * p[at.P_HOP] + p[at.P_PRIVATE_LATENCY], FILL, core, 0, page)
                return
    _push(s.events, s.scalars, send, SHARED, core, 0, page)


@_inner
def _issue(
    p: Any, s: Any, time: int, core: int, offsets: Any, pages: Any, gaps: Any, left_out: Any, final: bool
) -> bool:
    """Makes a core's requests for as long as it is its turn. False when what it asks next is not known yet."""
    c, n = s.cores[core], s.counts
    latency, perfect = p[at.P_PRIVATE_LATENCY], p[at.P_SHARING] == at.PERFECT
    while True:
        position = offsets[core] + c[at.C_NEXT]
        if position == offsets[core + 1]:
            if not final:
                _push(s.events, s.scalars, time, ISSUE, core, 0, 0)
            return final
        page = pages[position]
        if c[at.C_WANTED] < 0:
            time = max(time, c[at.C_LAST] + gaps[position])
        slot = 0 if perfect else _in_private(p, s.private, core, page)
        if s.scalars[at.V_EVENTS] and not (slot >= 0 and c[at.C_MISSES] == 0):
            key = ISSUE << _KIND | core << _CORE
            top, top_key = s.events[0, 0], s.events[0, 1]
            if top < time or (top == time and top_key < key):
                _push(s.events, s.scalars, time, ISSUE, core, 0, 0)
                return True
        wanted = time if c[at.C_WANTED] < 0 else c[at.C_WANTED]
        if slot >= 0:
            n[at.N_PRIVATE_HITS] += 1
            n[at.N_LATENCY] += latency + time - wanted
            n[at.N_CYCLES] = max(n[at.N_CYCLES], time + latency)
            if not perfect:
                s.private[core, at.STAMP, slot] = _tick(s.scalars)
        else:
            slot = _in_mshr(s.mshr, core, page)
            free = slot if slot >= 0 else _in_mshr(s.mshr, core, -1)
            if free < 0 or c[at.C_WAITING] == p[at.P_WAITING]:
                c[at.C_STALLED], c[at.C_WANTED] = 1, wanted
                return True
            c[at.C_WAITING] += 1
            if slot >= 0:
                n[at.N_MERGED] += 1
                s.mshr[core, at.M_COUNT, slot] += 1
                s.mshr[core, at.M_WANTED, slot] += wanted
            else:
                n[at.N_MISSES] += 1
                c[at.C_MISSES] += 1
                s.mshr[core, :, free] = 0
                s.mshr[core, at.PAGE, free] = page
                s.mshr[core, at.M_COUNT, free] = 1
                s.mshr[core, at.M_WANTED, free] = wanted
                _miss(p, s, time, core, free, page)
        n[at.N_STALL_CYCLES] += time - wanted
        n[at.N_REQUESTS] += 1 + left_out[position]
        n[at.N_PRIVATE_HITS] += left_out[position]
        n[at.N_LATENCY] += left_out[position] * latency
        c[at.C_NEXT] += 1
        c[at.C_LAST], c[at.C_WANTED] = time, -1
        time += 1


@_inner
def _remote(p: Any, s: Any, time: int, core: int, peer: int, page: int) -> None:
    start = max(time, s.cores[peer, at.C_PORT])
    s.counts[at.N_NETWORK_WAIT] += start - time
    s.cores[peer, at.C_PORT] = start + 1
    reply = _send(p, s.links, s.counts, peer, core, start + p[at.P_PRIVATE_LATENCY])
    slot = _in_mshr(s.mshr, core, page)
    m = s.mshr[core]
    m[at.M_AWAITED, slot] -= 1
    entry = _in_private(p, s.private, peer, page)
    if entry < 0:
        s.counts[at.N_PEER_MISSES] += 1
        m[at.M_LAST, slot] = max(m[at.M_LAST, slot], reply)
    elif not m[at.M_PEER, slot]:
        s.counts[at.N_PEER_HITS] += 1
        m[at.M_PEER, slot], m[at.M_FRAME, slot] = reply, s.private[peer, at.FRAME, entry]
    else:
        m[at.M_PEER, slot] = min(m[at.M_PEER, slot], reply)
    if m[at.M_AWAITED, slot]:
        return
    if m[at.M_PEER, slot]:
        _push(s.events, s.scalars, max(time, m[at.M_PEER, slot]), FILL, core, 0, page)
    else:
        _push(s.events, s.scalars, m[at.M_LAST, slot], SHARED, core, 0, page)


# The shared TLB and the walkers


@_inner
def _drain(p: Any, s: Any, time: int) -> None:
    v, n, inbox = s.scalars, s.counts, s.inbox
    while v[at.V_INBOX]:
        if v[at.V_PORT_CYCLE] == time and v[at.V_PORT_USED] == p[at.P_PORTS]:
            if v[at.V_DRAIN] < 0:
                v[at.V_DRAIN] = time + 1
                _push(s.events, s.scalars, time + 1, DRAIN, 0, 0, 0)
            return
        head = v[at.V_INBOX_HEAD]
        core, page, arrival = inbox[head, 0], inbox[head, 1], inbox[head, 2]
        entry = _in_shared(p, s.shared, page)
        if entry >= 0:
            n[at.N_SHARED_HITS] += 1
            s.shared[at.STAMP, entry] = _tick(s.scalars)
            s.mshr[core, at.M_FRAME, _in_mshr(s.mshr, core, page)] = s.shared[at.FRAME, entry]
            _push(s.events, s.scalars, time + p[at.P_SHARED_LATENCY], FILL, core, 0, page)
        else:
            walk = _find(s.walks[at.W_PAGE], 0, s.walks.shape[1], page)
            if walk >= 0:
                n[at.N_SHARED_MERGED] += 1
            elif v[at.V_BUFFERED] == p[at.P_QUEUE]:
                return
            else:
                v[at.V_BUFFERED] += 1
                walk = _find(s.walks[at.W_PAGE], 0, s.walks.shape[1], -1)
                s.walks[at.W_PAGE, walk] = page
                s.walk_waiters[walk, :] = 0
                _push(s.events, s.scalars, time + p[at.P_SHARED_LATENCY], ENQUEUE, 0, 0, page)
            s.walk_waiters[walk, core] = 1
        if v[at.V_PORT_CYCLE] != time:
            v[at.V_PORT_CYCLE], v[at.V_PORT_USED] = time, 0
        v[at.V_PORT_USED] += 1
        n[at.N_SHARED_WAIT] += time - arrival
        v[at.V_INBOX_HEAD] = (head + 1) % len(inbox)
        v[at.V_INBOX] -= 1


@_leaf
def _shift(level: int) -> int:
    return 39 - 9 * level


@_inner
def _walk(p: Any, s: Any, words: Any, page: int, walk: int) -> int:
    """Reads the page table; the frame goes into the walk. Answers how many entries it read."""
    address = page << p[at.P_SHIFT]
    begin = 0
    for level in range(_LEVELS - 2, -1, -1):
        entry = _find(s.walk_cache[0], 0, s.walk_cache.shape[1], level << 48 | address >> _shift(level))
        if entry >= 0:
            s.walk_cache[1, entry] = _tick(s.scalars)
            s.counts[at.N_WALK_CACHE_HITS] += 1
            begin = level + 1
            break
    table, big, reads = p[at.P_ROOT], 0, 0
    s.walks[at.W_FRAME, walk] = -1
    for level in range(_LEVELS):
        shift = 16 if big else _shift(level)
        word = words[(table - p[at.P_TABLES]) // 8 + (address >> shift) % (32 if big else 512)]
        reads += level >= begin
        if word & _VALID and word & _LEAF and shift >= p[at.P_SHIFT]:
            s.walks[at.W_FRAME, walk] = (word & _ADDRESS) + (address & ((1 << shift) - 1))
        if not word & _VALID or word & _LEAF:
            break
        table, big = word & _ADDRESS, word & _BIG
    return reads


@_inner
def _learn(p: Any, s: Any, words: Any, page: int) -> None:
    """Puts the tables on the way to a page into the walk cache."""
    size = s.walk_cache.shape[1]
    if not size:
        return
    address, table = page << p[at.P_SHIFT], p[at.P_ROOT]
    for level in range(_LEVELS - 1):
        word = words[(table - p[at.P_TABLES]) // 8 + (address >> _shift(level)) % 512]
        if not word & _VALID or word & _LEAF:
            return
        key = level << 48 | address >> _shift(level)
        entry = _find(s.walk_cache[0], 0, size, key)
        if entry < 0:
            entry = _oldest(s.walk_cache[0], s.walk_cache[1], 0, size)
        s.walk_cache[0, entry], s.walk_cache[1, entry] = key, _tick(s.scalars)
        table = word & _ADDRESS


@_inner
def _start_walks(p: Any, s: Any, words: Any, time: int) -> None:
    v, n, started = s.scalars, s.counts, False
    while v[at.V_IDLE] and v[at.V_QUEUE]:
        head = v[at.V_QUEUE_HEAD]
        page, since = s.queue[head, 0], s.queue[head, 1]
        v[at.V_QUEUE_HEAD] = (head + 1) % len(s.queue)
        v[at.V_QUEUE] -= 1
        v[at.V_IDLE] -= 1
        v[at.V_BUFFERED] -= 1
        started = True
        walk = _find(s.walks[at.W_PAGE], 0, s.walks.shape[1], page)
        reads = _walk(p, s, words, page, walk)
        cycles = max(1, p[at.P_FIXED] + reads * p[at.P_LEVEL])
        n[at.N_WALKS] += 1
        n[at.N_WALK_READS] += reads
        n[at.N_WALK_WAIT] += time - since
        n[at.N_WALK_CYCLES] += cycles
        n[at.N_FAULTS] += s.walks[at.W_FRAME, walk] < 0
        _push(s.events, s.scalars, time + cycles, WALK_DONE, 0, 0, page)
    if started:
        _drain(p, s, time)


@_inner
def _walk_done(p: Any, s: Any, words: Any, time: int, page: int) -> None:
    walk = _find(s.walks[at.W_PAGE], 0, s.walks.shape[1], page)
    frame = s.walks[at.W_FRAME, walk]
    s.walks[at.W_PAGE, walk] = -1
    s.scalars[at.V_IDLE] += 1
    _learn(p, s, words, page)
    if frame >= 0:
        ways = p[at.P_SHARED_WAYS]
        entry = _oldest(s.shared[at.PAGE], s.shared[at.STAMP], page % p[at.P_SHARED_SETS] * ways, ways)
        if s.shared[at.PAGE, entry] >= 0:
            _tell(p, s, time, SHARED_CLEAR, 0, s.shared[at.PAGE, entry])
        s.shared[at.PAGE, entry], s.shared[at.FRAME, entry], s.shared[at.STAMP, entry] = page, frame, _tick(s.scalars)
        _tell(p, s, time, SHARED_SET, 0, page)
    for core in range(p[at.P_CORES]):
        if s.walk_waiters[walk, core]:
            s.mshr[core, at.M_FRAME, _in_mshr(s.mshr, core, page)] = frame
            _push(s.events, s.scalars, time, FILL, core, 0, page)
    _start_walks(p, s, words, time)


# Private TLBs and directories


@_leaf
def _degree(p: Any, directory: Any, core: int, page: int) -> int:
    entry = _in_directory(p, directory, core, page)
    return directory[core, at.D_DEGREE, entry] if entry >= 0 else 1


@_inner
def _may_fill(p: Any, s: Any, core: int, from_peer: bool, replies: int, room: bool) -> bool:
    if from_peer:
        return p[at.P_PEER_FILL] > 0 and replies >= p[at.P_PEER_FILL]
    if room or p[at.P_FILL] == at.ALWAYS:
        return True
    if p[at.P_FILL] != at.SHARED_ENTRIES or p[at.P_SHARING] != at.DIRECTORY:
        return False
    total, pages = 0, s.private[core, at.PAGE]
    for slot in range(len(pages)):
        if pages[slot] >= 0 and _degree(p, s.directory, core, pages[slot]) > 1:
            total += 1
            if total >= p[at.P_FILL_THRESHOLD]:
                return True
    return False


@_inner
def _victim(p: Any, s: Any, core: int, first: int, ways: int) -> int:
    """The slot to evict of a full set."""
    stamps, pages = s.private[core, at.STAMP], s.private[core, at.PAGE]
    sign = -1 if p[at.P_MRU] else 1
    spare = p[at.P_SPARE]
    favourite, passed = -1, 0
    last = -(1 << 62)
    for _ in range(min(p[at.P_CANDIDATES], ways) if spare else 1):
        best = -1
        for slot in range(first, first + ways):  # the next one in the order of use
            rank = sign * stamps[slot]
            if rank > last and (best < 0 or rank < sign * stamps[best]):
                best = slot
        last = sign * stamps[best]
        if favourite < 0:
            favourite = best
        if not spare or _degree(p, s.directory, core, pages[best]) < spare:
            favourite = best
            break
        passed += 1
    s.counts[at.N_SPARED] += passed
    return favourite


@_inner
def _clear_holder(directory: Any, holders: Any, core: int, entry: int, holder: int) -> None:
    d = directory[core]
    if holders[core, entry, holder]:
        holders[core, entry, holder] = 0
        d[at.D_DEGREE, entry] -= 1
    if not d[at.D_DEGREE, entry]:
        d[at.PAGE, entry] = -1


@_inner
def _remember(
    p: Any, directory: Any, holders: Any, scalars: Any, core: int, page: int, holder: int, shared: bool
) -> int:
    d, ways = directory[core], p[at.P_DIR_WAYS]
    first = page % p[at.P_DIR_SETS] * ways
    entry = _find(d[at.PAGE], first, ways, page)
    fresh = entry < 0
    if fresh:
        entry = _find(d[at.PAGE], first, ways, -1)
        if entry < 0:
            foreign, best = -1, first
            for slot in range(first, first + ways):
                if d[at.STAMP, slot] < d[at.STAMP, best]:
                    best = slot
                if not holders[core, slot, core] and (foreign < 0 or d[at.STAMP, slot] < d[at.STAMP, foreign]):
                    foreign = slot
            entry = foreign if foreign >= 0 else best
        holders[core, entry, :] = 0
        d[:, entry] = 0
        d[at.PAGE, entry] = page
    if not holders[core, entry, holder]:
        holders[core, entry, holder] = 1
        d[at.D_DEGREE, entry] += 1
    if shared:
        d[at.D_SHARED, entry] = 1
    if fresh or holder == core:
        d[at.STAMP, entry] = _tick(scalars)
    return entry


@_inner
def _fill(p: Any, s: Any, time: int, core: int, page: int) -> None:
    n, c, m, slot = s.counts, s.cores[core], s.mshr[core], _in_mshr(s.mshr, core, page)
    waiters, frame, from_peer = m[at.M_COUNT, slot], m[at.M_FRAME, slot], m[at.M_PEER, slot] != 0
    n[at.N_LATENCY] += waiters * time - m[at.M_WANTED, slot]
    n[at.N_CYCLES] = max(n[at.N_CYCLES], time)
    c[at.C_WAITING] -= waiters
    c[at.C_MISSES] -= 1
    m[at.PAGE, slot] = -1
    if frame >= 0:
        directory, replies = p[at.P_SHARING] == at.DIRECTORY, 1
        if directory and from_peer:
            entry = _in_directory(p, s.directory, core, page)
            if entry >= 0:
                replies = min(7, s.directory[core, at.D_REPLIES, entry] + 1)
                s.directory[core, at.D_REPLIES, entry] = replies
        tlb, ways = s.private[core], p[at.P_PRIVATE_WAYS]
        first = page % p[at.P_PRIVATE_SETS] * ways
        place = _find(tlb[at.PAGE], first, ways, -1)
        if _may_fill(p, s, core, from_peer, replies, place >= 0):
            n[at.N_FILLS] += 1
            if place < 0:
                place = _victim(p, s, core, first, ways)
                n[at.N_EVICTIONS] += 1
                victim = tlb[at.PAGE, place]
                if directory:
                    entry = _in_directory(p, s.directory, core, victim)
                    if entry >= 0:
                        _clear_holder(s.directory, s.holders, core, entry, core)
                    _tell(p, s, time, UPDATE_CLEAR, core, victim)
            tlb[at.PAGE, place], tlb[at.FRAME, place], tlb[at.STAMP, place] = page, frame, _tick(s.scalars)
            if directory:
                s.directory[
                    core, at.D_REPLIES, _remember(p, s.directory, s.holders, s.scalars, core, page, core, not from_peer)
                ] = 0
                _tell(p, s, time, UPDATE_SET, core, page)
        else:
            n[at.N_FILLS_REFUSED] += 1
    if c[at.C_STALLED]:
        c[at.C_STALLED] = 0
        _push(s.events, s.scalars, time, ISSUE, core, 0, 0)


@_inner
def _update(p: Any, s: Any, kind: int, core: int, page: int) -> None:
    if kind in (SHARED_SET, SHARED_CLEAR):
        for near in range(p[at.P_CORES]):
            entry = _in_directory(p, s.directory, near, page)
            if entry >= 0:
                s.directory[near, at.D_SHARED, entry] = kind == SHARED_SET
        return
    for i in range(s.near[core, 0]):
        near = s.near[core, 1 + i]
        if kind == UPDATE_SET:
            _remember(p, s.directory, s.holders, s.scalars, near, page, core, False)
        else:
            entry = _in_directory(p, s.directory, near, page)
            if entry >= 0:
                _clear_holder(s.directory, s.holders, near, entry, core)


@_outer
def run(p: Any, s: Any, words: Any, offsets: Any, pages: Any, gaps: Any, left_out: Any, final: bool) -> None:
    """Takes events until none is left, or, if more requests are to come, until a core has none."""
    while s.scalars[at.V_EVENTS]:
        time, key = _pop(s.events, s.scalars)
        kind, core, peer, page = key >> _KIND, key >> _CORE & _BYTE, key >> _PEER & _BYTE, key & _PAGE
        if kind == ISSUE:
            if not _issue(p, s, time, core, offsets, pages, gaps, left_out, final):
                return
        elif kind == FILL:
            _fill(p, s, time, core, page)
        elif kind == WALK_DONE:
            _walk_done(p, s, words, time, page)
        elif kind == ENQUEUE:
            tail = (s.scalars[at.V_QUEUE_HEAD] + s.scalars[at.V_QUEUE]) % len(s.queue)
            s.queue[tail, 0], s.queue[tail, 1] = page, time
            s.scalars[at.V_QUEUE] += 1
            _start_walks(p, s, words, time)
        elif kind == SHARED:
            s.counts[at.N_SHARED_ACCESSES] += 1
            tail = (s.scalars[at.V_INBOX_HEAD] + s.scalars[at.V_INBOX]) % len(s.inbox)
            s.inbox[tail, 0], s.inbox[tail, 1], s.inbox[tail, 2] = core, page, time
            s.scalars[at.V_INBOX] += 1
            _drain(p, s, time)
        elif kind == DRAIN:
            s.scalars[at.V_DRAIN] = -1
            _drain(p, s, time)
        elif kind == REMOTE:
            _remote(p, s, time, core, peer, page)
        else:
            _update(p, s, kind, core, page)


@_outer
def begin(p: Any, s: Any) -> None:
    """The first events of a kernel."""
    for core in range(p[at.P_CORES]):
        _push(s.events, s.scalars, 0, ISSUE, core, 0, 0)
