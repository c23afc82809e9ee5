"""Events in the order (cycle, key): a wheel with lists for each of the next cycles, a heap for what is later, and rings for news.

A cycle has a list for each of a few groups of kinds, so that an event finds its place near the end of one, or near the event before it: cores come in order, mostly. A core's turn to make requests (ISSUE) is the last kind of a cycle, one of each core at most and no more than its number: on the wheel it is a bit.
News of what private TLBs took and gave up all take as long, so they come in order, but for those of one cycle: they are in rings, one of each kind.

The key orders the events of a cycle and holds what they are about: kind, core, peer, page. `arg` goes along. No event lies before the latest one taken. All events of the
wheel are before all of the heap, and within `WHEEL` cycles of the latest one taken.
"""

from __future__ import annotations

from typing import Any

from farlane.backend.memory.compiling import inlined
from farlane.backend.memory.tlb import layout as at
from farlane.backend.memory.tlb.compiled.intrinsics import lowest, state

FILL, WALK_DONE, ENQUEUE, SHARED, DRAIN, REMOTE, UPDATE_SET, UPDATE_CLEAR, SHARED_SET, SHARED_CLEAR, ISSUE = range(11)
KIND, CORE, PEER = 58, 50, 42
BYTE, PAGE = 0xFF, (1 << 42) - 1
_MASK = at.WHEEL - 1
_WORDS = at.WHEEL // 64


_TURNS = -1 << at.LISTS  # of the bits of a cycle
_OTHERS = 2  # the lists of kinds before news


@inlined
def _ready(s: Any, bucket: int, bits: int) -> None:
    """A cycle has something more."""
    s.wheel[bucket, at.READY] |= bits
    s.occupied[bucket >> 6] |= 1 << (bucket & 63)


@inlined
def _turn(s: Any, bucket: int, core: int) -> None:
    """A core's turn, into the wheel."""
    s.turns[bucket, core >> 6] |= 1 << (core & 63)
    _ready(s, bucket, 1 << at.LISTS << (core >> 6))
    s.scalars[at.V_EVENTS] += 1


@inlined
def turn(address: int, time: int, core: int) -> None:
    """A core may make requests from a cycle on."""
    s = state(address)
    if time - s.scalars[at.V_NOW] < at.WHEEL:
        _turn(s, time & _MASK, core)
    else:
        _later(address, time, ISSUE << KIND | core << CORE, 0)


@inlined
def _insert(address: int, time: int, key: int, arg: int) -> None:
    """Into the wheel."""
    s = state(address)
    v, nodes = s.scalars, s.nodes
    if key >> KIND == ISSUE:
        _turn(s, time & _MASK, key >> CORE & BYTE)
        return
    node = v[at.V_FREE]
    if node < 0:
        v[at.V_ERROR] = 1
        return
    v[at.V_FREE] = nodes[node, at.E_NEXT]
    nodes[node, at.E_KEY], nodes[node, at.E_ARG] = key, arg
    v[at.V_EVENTS] += 1
    bucket, kind = time & _MASK, key >> KIND
    cycle = s.wheel[bucket]
    number = int(kind > FILL) + int(kind > REMOTE)
    which = at.L_FIELDS * number
    if cycle[at.READY] >> number & 1 == 0:
        _ready(s, bucket, 1 << number)
        cycle[which + at.L_FIRST] = cycle[which + at.L_LAST] = node
        nodes[node, at.E_NEXT] = -1
    elif key > nodes[cycle[which + at.L_LAST], at.E_KEY]:
        nodes[cycle[which + at.L_LAST], at.E_NEXT] = node
        cycle[which + at.L_LAST] = node
        nodes[node, at.E_NEXT] = -1
    else:
        before, behind, latest = -1, cycle[which + at.L_FIRST], cycle[which + at.L_LATEST]
        if time > v[at.V_NOW] and nodes[latest, at.E_KEY] < key:  # none of a later cycle has been taken
            before, behind = latest, nodes[latest, at.E_NEXT]
        while nodes[behind, at.E_KEY] < key:  # the last one's is greater
            before, behind = behind, nodes[behind, at.E_NEXT]
        if before < 0:
            cycle[which + at.L_FIRST] = node
        else:
            nodes[before, at.E_NEXT] = node
        nodes[node, at.E_NEXT] = behind
    cycle[which + at.L_LATEST] = node


@inlined
def tell_taken(address: int, time: int, core: int, page: int) -> None:
    """News that a core's TLB took a page."""
    s = state(address)
    _tell(s, s.taken, at.V_TAKEN, time, UPDATE_SET << KIND | core << CORE | page)


@inlined
def tell_given(address: int, time: int, core: int, page: int) -> None:
    """News that a core's TLB gave up a page."""
    s = state(address)
    _tell(s, s.given, at.V_GIVEN, time, UPDATE_CLEAR << KIND | core << CORE | page)


@inlined
def _tell(s: Any, ring: Any, which: int, time: int, key: int) -> None:
    """Behind the news of the same cycle with smaller keys. `which`: how many there are; where the first is, follows."""
    v, size = s.scalars, len(ring)
    count, head = v[which], v[which + 1]
    if count == size:
        v[at.V_ERROR] = 1
        return
    v[which] = count + 1
    v[at.V_NEWS] = min(v[at.V_NEWS], time)
    place = head + count
    place -= size if place >= size else 0
    while count > 0:
        before = (place if place > 0 else size) - 1
        if ring[before, 0] < time or ring[before, 1] < key:
            break
        ring[place, 0], ring[place, 1] = ring[before, 0], ring[before, 1]
        place = before
        count -= 1
    ring[place, 0], ring[place, 1] = time, key


@inlined
def _hear(s: Any, ring: Any, which: int) -> int:
    """The key of the first news of a ring, which is taken."""
    v = s.scalars
    head = v[which + 1]
    key = ring[head, 1]
    head += 1
    v[which + 1] = 0 if head == len(ring) else head
    v[which] -= 1
    first = at.NEVER_COMES
    if v[at.V_TAKEN]:
        first = s.taken[v[at.V_TAKEN_HEAD], 0]
    if v[at.V_GIVEN]:
        first = min(first, s.given[v[at.V_GIVEN_HEAD], 0])
    v[at.V_NEWS] = first
    return key


@inlined
def push(address: int, time: int, kind: int, core: int, peer: int, page: int, arg: int) -> None:
    s = state(address)
    key = kind << KIND | core << CORE | peer << PEER | page
    if time - s.scalars[at.V_NOW] < at.WHEEL:
        _insert(address, time, key, arg)
    else:
        _later(address, time, key, arg)


@inlined
def _later(address: int, time: int, key: int, arg: int) -> None:
    """Into the heap."""
    s = state(address)
    v, later = s.scalars, s.later
    size = v[at.V_LATER]
    if size == len(later):
        v[at.V_ERROR] = 1
        return
    v[at.V_LATER] = size + 1
    i = size
    while i > 0:
        up = (i - 1) // 2
        if later[up, 0] < time or (later[up, 0] == time and later[up, 1] <= key):
            break
        later[i, 0], later[i, 1], later[i, 2] = later[up, 0], later[up, 1], later[up, 2]
        i = up
    later[i, 0], later[i, 1], later[i, 2] = time, key, arg


@inlined
def _nearer(address: int) -> None:
    """What has come within reach of the wheel goes there."""
    s = state(address)
    v, later = s.scalars, s.later
    while v[at.V_LATER] and later[0, 0] - v[at.V_NOW] < at.WHEEL:
        top, top_key, top_arg = later[0, 0], later[0, 1], later[0, 2]
        size = v[at.V_LATER] - 1
        v[at.V_LATER] = size
        time, key, arg = later[size, 0], later[size, 1], later[size, 2]
        i = 0
        while True:
            low = 2 * i + 1
            if low >= size:
                break
            right = low + 1
            if right < size and (
                later[right, 0] < later[low, 0]
                or (later[right, 0] == later[low, 0] and later[right, 1] < later[low, 1])
            ):
                low = right
            if time < later[low, 0] or (time == later[low, 0] and key <= later[low, 1]):
                break
            later[i, 0], later[i, 1], later[i, 2] = later[low, 0], later[low, 1], later[low, 2]
            i = low
        later[i, 0], later[i, 1], later[i, 2] = time, key, arg
        _insert(address, top, top_key, top_arg)


@inlined
def _bucket(address: int) -> int:
    """The first one of the wheel that is not empty."""
    s = state(address)
    start = s.scalars[at.V_NOW] & _MASK
    word = start >> 6
    bits = s.occupied[word] & (-1 << (start & 63))
    while bits == 0:
        word = (word + 1) & (_WORDS - 1)
        bits = s.occupied[word]
    return word << 6 | lowest(bits)


@inlined
def first(address: int, time: int, core: int) -> bool:
    """Whether no event comes before a core's turn in a cycle."""
    s = state(address)
    v = s.scalars
    if v[at.V_NEWS] <= time:
        return False
    if v[at.V_EVENTS] == 0:
        return (
            v[at.V_LATER] == 0
            or s.later[0, 0] > time
            or (s.later[0, 0] == time and s.later[0, 1] > ISSUE << KIND | core << CORE)
        )
    bucket = _bucket(address)
    now = v[at.V_NOW]
    top = now + ((bucket - now) & _MASK)
    if top != time:
        return top > time
    ready = s.wheel[bucket, at.READY]
    if ready & ~_TURNS:
        return False
    word = lowest(ready) - at.LISTS
    return word << 6 | lowest(s.turns[bucket, word]) > core


@inlined
def pop(address: int) -> tuple[int, int, int]:
    """(cycle, key, arg) of the next event; there must be one."""
    s = state(address)
    v = s.scalars
    if v[at.V_EVENTS] == 0 and v[at.V_LATER] and s.later[0, 0] <= v[at.V_NEWS]:
        v[at.V_NOW] = s.later[0, 0]
        _nearer(address)
    time, bucket, ready = at.NEVER_COMES, 0, 0
    if v[at.V_EVENTS]:
        bucket = _bucket(address)
        time = v[at.V_NOW] + ((bucket - v[at.V_NOW]) & _MASK)
        ready = s.wheel[bucket, at.READY]
    news = v[at.V_NEWS]
    if news < time or (news == time and ready & ((1 << _OTHERS) - 1) == 0):
        time, arg = news, 0
        if v[at.V_TAKEN] and s.taken[v[at.V_TAKEN_HEAD], 0] == time:
            key = _hear(s, s.taken, at.V_TAKEN)
        else:
            key = _hear(s, s.given, at.V_GIVEN)
    else:
        which = lowest(ready)
        if which < at.LISTS:
            node = s.wheel[bucket, which * at.L_FIELDS + at.L_FIRST]
            key, arg = s.nodes[node, at.E_KEY], s.nodes[node, at.E_ARG]
            left = s.nodes[node, at.E_NEXT] + 1
            s.wheel[bucket, which * at.L_FIELDS + at.L_FIRST] = left - 1
            s.nodes[node, at.E_NEXT] = v[at.V_FREE]
            v[at.V_FREE] = node
        else:
            word = which - at.LISTS
            bits = s.turns[bucket, word]
            key, arg = ISSUE << KIND | (word << 6 | lowest(bits)) << CORE, 0
            left = bits & (bits - 1)
            s.turns[bucket, word] = left
        if left == 0:
            ready &= ready - 1
            s.wheel[bucket, at.READY] = ready
            if ready == 0:
                s.occupied[bucket >> 6] &= ~(1 << (bucket & 63))
        v[at.V_EVENTS] -= 1
    v[at.V_NOW] = time
    if v[at.V_LATER]:
        _nearer(address)
    return time, key, arg
