"""The block dispatcher (slots/dispatcher.py) and its cores (slots/core.py) for the two-ended rule, over arrays, step for step.

Read those first. A core's slots are a row of words that are 1 when free. Blocks are numbered in the order in which they are asked for. `entry` is what Python calls, with
the address of a table of (address, rows, columns) of `TABLES`.
"""

from __future__ import annotations

from typing import Any

from farlane.backend.memory.compiling import inner, table
from farlane.backend.memory.slots import layout as at


@inner
def _place(free: Any, wanted: int) -> int:
    """The first of `wanted` free slots in a row, nearest to either end; -1 when there are none."""
    slots = len(free)
    low, run = -1, 0
    for slot in range(slots):
        run = run + 1 if free[slot] else 0
        if run == wanted:
            low = slot - wanted + 1
            break
    if low < 0:
        return -1
    high, run = low, 0
    for slot in range(slots - 1, low, -1):
        run = run + 1 if free[slot] else 0
        if run == wanted:
            high = slot
            break
    return low if low + high <= slots - wanted else high


@inner
def _later(block: int, other: int, ends: Any) -> bool:
    return bool(ends[block] > ends[other] or (ends[block] == ends[other] and block > other))


@inner
def _step(address: int, core: int, cycle: int) -> None:
    """Those who wait at a core enter in order."""
    free, cores, waiting = table(address, at.FREE), table(address, at.CORES), table(address, at.WAITING)
    kernels, blocks, placed = table(address, at.KERNELS), table(address, at.BLOCKS), table(address, at.PLACED)
    scalars, heap = table(address, at.SCALARS)[0], table(address, at.HEAP)[0]
    ends = blocks[at.B_END]
    limits = table(address, at.LIMITS)[0]
    c = cores[core]
    while c[at.C_WAITING]:
        block = waiting[core, c[at.C_HEAD]]
        kernel = kernels[blocks[at.B_KERNEL, block]]
        if (
            c[at.C_RESIDENT] >= limits[at.L_BLOCKS]
            or c[at.C_REGISTERS] + kernel[at.K_REGISTERS] > limits[at.L_REGISTERS]
            or c[at.C_THREADS] + kernel[at.K_THREADS] > limits[at.L_THREADS]
        ):
            break
        wanted, start = kernel[at.K_SLOTS], -1
        if wanted:
            start = _place(free[core], wanted)
            if start < 0:
                break
            for slot in range(start, start + wanted):
                free[core, slot] = 0
        c[at.C_HEAD] = c[at.C_HEAD] + 1 if c[at.C_HEAD] + 1 < waiting.shape[1] else 0
        c[at.C_WAITING] -= 1
        c[at.C_RESIDENT] += 1
        c[at.C_REGISTERS] += kernel[at.K_REGISTERS]
        c[at.C_THREADS] += kernel[at.K_THREADS]
        c[at.C_USED] += wanted
        c[at.C_QUEUED] -= wanted
        scalars[at.V_USED] += wanted
        blocks[at.B_START, block] = start
        duration = table(address, at.DURATIONS)[0, kernel[at.K_FIRST] + blocks[at.B_NUMBER, block]]
        ends[block] = cycle + max(1, duration)
        row = placed[scalars[at.V_PLACED]]
        scalars[at.V_PLACED] += 1
        row[0], row[1], row[2], row[3] = blocks[at.B_KERNEL, block], blocks[at.B_NUMBER, block], core, start
        row[4], row[5], row[6] = blocks[at.B_ASKED, block], cycle, ends[block]
        i = scalars[at.V_HEAP]
        scalars[at.V_HEAP] += 1
        while i > 0 and _later(heap[(i - 1) // 2], block, ends):
            heap[i] = heap[(i - 1) // 2]
            i = (i - 1) // 2
        heap[i] = block
    load = (c[at.C_USED] + c[at.C_QUEUED]) << 32 | (c[at.C_RESIDENT] + c[at.C_WAITING]) << 8 | core
    table(address, at.LOADS)[0, core] = load if c[at.C_WAITING] < waiting.shape[1] else at.FULL


@inner
def _pop(address: int) -> int:
    """The block that ends first."""
    scalars, heap = table(address, at.SCALARS)[0], table(address, at.HEAP)[0]
    ends = table(address, at.BLOCKS)[at.B_END]
    first = heap[0]
    size = scalars[at.V_HEAP] - 1
    scalars[at.V_HEAP] = size
    block, i = heap[size], 0
    while 2 * i + 1 < size:
        low = 2 * i + 1
        if low + 1 < size and _later(heap[low], heap[low + 1], ends):
            low += 1
        if not _later(block, heap[low], ends):
            break
        heap[i] = heap[low]
        i = low
    heap[i] = block
    return int(first)


@inner
def _offer_one(address: int, stream: int, cycle: int) -> bool:
    streams, order, kernels = table(address, at.STREAMS), table(address, at.ORDER)[0], table(address, at.KERNELS)
    blocks, cores, waiting = table(address, at.BLOCKS), table(address, at.CORES), table(address, at.WAITING)
    loads, scalars = table(address, at.LOADS)[0], table(address, at.SCALARS)[0]
    if streams[stream, 0] == streams[stream, 1]:
        return False
    number = order[streams[stream, 0]]
    kernel = kernels[number]
    if kernel[at.K_NEXT] >= kernel[at.K_BLOCKS]:
        return False
    least = at.FULL
    for core in range(len(loads)):
        least = min(least, loads[core])
    if least == at.FULL:
        return False
    core = least & 0xFF
    block = scalars[at.V_MINTED]
    scalars[at.V_MINTED] += 1
    blocks[at.B_KERNEL, block], blocks[at.B_NUMBER, block] = number, kernel[at.K_NEXT]
    blocks[at.B_CORE, block], blocks[at.B_ASKED, block] = core, cycle
    kernel[at.K_NEXT] += 1
    c = cores[core]
    c[at.C_QUEUED] += kernel[at.K_SLOTS]
    tail = c[at.C_HEAD] + c[at.C_WAITING]
    waiting[core, tail - waiting.shape[1] if tail >= waiting.shape[1] else tail] = block
    c[at.C_WAITING] += 1
    _step(address, core, cycle)
    return True


@inner
def _offer(address: int, cycle: int) -> None:
    """Streams take turns until none of them can hand over a block; then what is in use is noted."""
    streams, scalars, samples = table(address, at.STREAMS), table(address, at.SCALARS)[0], table(address, at.SAMPLES)
    refused = 0
    while refused < len(streams):
        stream = scalars[at.V_TURN]
        scalars[at.V_TURN] = stream + 1 if stream + 1 < len(streams) else 0
        refused = 0 if _offer_one(address, stream, cycle) else refused + 1
    row = samples[scalars[at.V_SAMPLES]]
    scalars[at.V_SAMPLES] += 1
    row[0], row[1] = cycle, scalars[at.V_USED]


def entry(address: int, one: int, other: int) -> int:
    """Runs all blocks. Answers the cycle of the end."""
    scalars, heap, blocks = table(address, at.SCALARS)[0], table(address, at.HEAP)[0], table(address, at.BLOCKS)
    cores, kernels, streams = table(address, at.CORES), table(address, at.KERNELS), table(address, at.STREAMS)
    free, changed = table(address, at.FREE), table(address, at.CHANGED)[0]
    cycle = 0
    _offer(address, cycle)
    while scalars[at.V_HEAP]:
        cycle = blocks[at.B_END, heap[0]]
        while scalars[at.V_HEAP] and blocks[at.B_END, heap[0]] == cycle:
            block = _pop(address)
            core, kernel = blocks[at.B_CORE, block], kernels[blocks[at.B_KERNEL, block]]
            changed[core] = 1
            kernel[at.K_ENDED] += 1
            if kernel[at.K_ENDED] == kernel[at.K_BLOCKS]:
                streams[kernel[at.K_STREAM], 0] += 1
            c = cores[core]
            c[at.C_RESIDENT] -= 1
            c[at.C_REGISTERS] -= kernel[at.K_REGISTERS]
            c[at.C_THREADS] -= kernel[at.K_THREADS]
            c[at.C_USED] -= kernel[at.K_SLOTS]
            scalars[at.V_USED] -= kernel[at.K_SLOTS]
            start = blocks[at.B_START, block]
            if start >= 0:
                for slot in range(start, start + kernel[at.K_SLOTS]):
                    free[core, slot] = 1
        for core in range(len(cores)):
            if changed[core]:
                changed[core] = 0
                _step(address, core, cycle)
        _offer(address, cycle)
    return int(cycle)
