"""Events in the order (cycle, key): a wheel with a list for each of the next cycles, and a heap for what is later.

The key orders the events of a cycle and holds what they are about: kind, core, peer, page. `arg` goes along. No event lies before the latest one taken. All events of the
wheel are before all of the heap, and within `WHEEL` cycles of the latest one taken.
"""

from __future__ import annotations

from farlane.backend.memory.compiling import inner
from farlane.backend.memory.tlb import layout as at
from farlane.backend.memory.tlb.compiled.intrinsics import lowest, state

FILL, WALK_DONE, ENQUEUE, SHARED, DRAIN, REMOTE, UPDATE_SET, UPDATE_CLEAR, SHARED_SET, SHARED_CLEAR, ISSUE = range(11)
KIND, CORE, PEER = 58, 50, 42
BYTE, PAGE = 0xFF, (1 << 42) - 1
_MASK = at.WHEEL - 1
_WORDS = at.WHEEL // 64


@inner
def _insert(address: int, time: int, key: int, arg: int) -> None:
    """Into the wheel."""
    s = state(address)
    v, nodes = s.scalars, s.nodes
    node = v[at.V_FREE]
    if node < 0:
        v[at.V_ERROR] = 1
        return
    v[at.V_FREE] = nodes[node, at.E_NEXT]
    nodes[node, at.E_KEY], nodes[node, at.E_ARG] = key, arg
    v[at.V_EVENTS] += 1
    bucket = time & _MASK
    head, tail = s.wheel[bucket, 0], s.wheel[bucket, 1]
    if head < 0:
        s.occupied[bucket >> 6] |= 1 << (bucket & 63)
        s.wheel[bucket, 0] = s.wheel[bucket, 1] = node
        nodes[node, at.E_NEXT] = -1
    elif key > nodes[tail, at.E_KEY]:
        nodes[tail, at.E_NEXT] = node
        nodes[node, at.E_NEXT] = -1
        s.wheel[bucket, 1] = node
    elif key < nodes[head, at.E_KEY]:
        nodes[node, at.E_NEXT] = head
        s.wheel[bucket, 0] = node
    else:
        before = head
        if (
            key >> KIND == UPDATE_SET
            and v[at.V_UPDATE_TIME] == time > v[at.V_NOW]
            and nodes[v[at.V_UPDATE], at.E_KEY] < key
        ):
            before = v[at.V_UPDATE]  # they come in the order of their cores, mostly, and lie before others
        behind = nodes[before, at.E_NEXT]
        while nodes[behind, at.E_KEY] < key:  # the tail's is greater
            before, behind = behind, nodes[behind, at.E_NEXT]
        nodes[before, at.E_NEXT] = node
        nodes[node, at.E_NEXT] = behind
    if key >> KIND == UPDATE_SET:
        v[at.V_UPDATE], v[at.V_UPDATE_TIME] = node, time


@inner
def push(address: int, time: int, kind: int, core: int, peer: int, page: int, arg: int) -> None:
    s = state(address)
    key = kind << KIND | core << CORE | peer << PEER | page
    v, later = s.scalars, s.later
    if time - v[at.V_NOW] < at.WHEEL:
        _insert(address, time, key, arg)
        return
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


@inner
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


@inner
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


@inner
def first(address: int, time: int, key: int) -> bool:
    """Whether no event comes before this one."""
    s = state(address)
    v = s.scalars
    if v[at.V_EVENTS] == 0:
        return v[at.V_LATER] == 0 or s.later[0, 0] > time or (s.later[0, 0] == time and s.later[0, 1] > key)
    bucket = _bucket(address)
    now = v[at.V_NOW]
    top = now + ((bucket - now) & _MASK)
    return top > time or (top == time and s.nodes[s.wheel[bucket, 0], at.E_KEY] > key)


@inner
def pop(address: int) -> tuple[int, int, int]:
    """(cycle, key, arg) of the next event; there must be one."""
    s = state(address)
    v = s.scalars
    if v[at.V_EVENTS] == 0:
        v[at.V_NOW] = s.later[0, 0]
        _nearer(address)
    bucket = _bucket(address)
    time = v[at.V_NOW] + ((bucket - v[at.V_NOW]) & _MASK)
    node = s.wheel[bucket, 0]
    key, arg, behind = s.nodes[node, at.E_KEY], s.nodes[node, at.E_ARG], s.nodes[node, at.E_NEXT]
    s.wheel[bucket, 0] = behind
    if behind < 0:
        s.occupied[bucket >> 6] &= ~(1 << (bucket & 63))
    s.nodes[node, at.E_NEXT] = v[at.V_FREE]
    v[at.V_FREE] = node
    v[at.V_EVENTS] -= 1
    v[at.V_NOW] = time
    if v[at.V_LATER]:
        _nearer(address)
    return time, key, arg
