"""Requests by core and time, and the fast mode's filter (cores/ordering.py says what, and has the places of the arrays).

`entry` is what Python calls, with the address of a table of (address, rows, columns).
"""

from __future__ import annotations

from typing import Any

from farlane.backend.memory.compiling import OPTIONS, inner, table
from farlane.backend.memory.cores import places as at
from numba import int64, njit


@inner
def _sort(address: int, cores: int) -> None:
    """By core, then by (cycle, warp), equal ones as they came: counting sort, digit by digit, the least first."""
    core, keys = table(address, at.CORE)[0], table(address, at.KEY)[0]
    order, other, counts = table(address, at.ORDER), table(address, at.OTHER), table(address, at.COUNTS)[0]
    offsets = table(address, at.OFFSETS)[0]
    size, most = len(core), 0
    for i in range(size):
        most = max(most, keys[i])
        order[0, i], order[1, i] = i, keys[i]
    shift, turn = 0, 0
    while most >> shift:
        source, target = (other, order) if turn else (order, other)
        for digit in range(at.DIGITS):
            counts[digit] = 0
        for i in range(size):
            counts[source[1, i] >> shift & (at.DIGITS - 1)] += 1
        total = 0
        for digit in range(at.DIGITS):
            found = counts[digit]
            counts[digit] = total
            total += found
        for i in range(size):
            digit = source[1, i] >> shift & (at.DIGITS - 1)
            place = counts[digit]
            counts[digit] = place + 1
            target[0, place], target[1, place] = source[0, i], source[1, i]
        shift += at.BITS
        turn = 1 - turn
    for number in range(cores + 1):
        offsets[number] = 0
    for i in range(size):
        offsets[core[i] + 1] += 1
    for number in range(cores):
        offsets[number + 1] += offsets[number]
        counts[number] = offsets[number]
    source, target = (other, order) if turn else (order, other)
    for i in range(size):
        index = source[0, i]
        place = counts[core[index]]
        counts[core[index]] = place + 1
        target[0, place] = index
    if not turn:
        for i in range(size):
            order[0, i] = other[0, i]


@inner
def _requests(address: int, cores: int) -> None:
    """One request a cycle: each as soon as its cycle has come and the one before is out."""
    order, offsets, last = table(address, at.ORDER)[0], table(address, at.OFFSETS)[0], table(address, at.LAST)[0]
    keys, asked, page = table(address, at.KEY)[0], table(address, at.ASKED)[0], table(address, at.PAGE)[0]
    gap, begin = table(address, at.GAP)[0], table(address, at.BEGIN)[0, 0]
    for core in range(cores):
        before = last[core]
        for i in range(offsets[core], offsets[core + 1]):
            index = order[i]
            made = max(begin + (keys[index] >> at.WARP_BITS), before + 1)
            page[i] = asked[index]
            gap[i] = min(made - before, at.MAX_GAP)
            before = made
        last[core] = before


@inner
def _filter(address: int, cores: int, recent: int) -> int:
    """Leaves out, in place, requests for a page that is among the last `recent` requests kept of its core. A core's last request stays."""
    offsets, page, gap = table(address, at.OFFSETS)[0], table(address, at.PAGE)[0], table(address, at.GAP)[0]
    left, seen = table(address, at.LEFT)[0], table(address, at.SEEN)
    kept, begin = 0, 0
    for core in range(cores):
        for place in range(at.RECENT):
            seen[0, place], seen[1, place] = -1, 0
        end, number, waited, out = offsets[core + 1], 0, 0, 0
        for i in range(begin, end):
            wanted = page[i]
            place = (wanted ^ wanted >> 6) & (at.RECENT - 1)
            waited += gap[i]
            if seen[0, place] == wanted and number - seen[1, place] <= recent and i + 1 < end:
                out += 1 + left[i]
                continue
            seen[0, place], seen[1, place] = wanted, number
            number += 1
            page[kept], gap[kept], left[kept] = wanted, min(waited, at.MAX_GAP), left[i] + out
            kept += 1
            waited, out = 0, 0
        begin = end
        offsets[core + 1] = kept
    return kept


def entry(address: int, sort: int, recent: int) -> int:
    """Answers how many requests there are."""
    cores = table(address, at.OFFSETS).shape[1] - 1
    if sort:
        _sort(address, cores)
        _requests(address, cores)
    if recent:
        return int(_filter(address, cores, recent))
    return int(table(address, at.OFFSETS)[0, cores])


def text() -> tuple[str, str]:
    """The optimised LLVM IR of everything, and the name of its entry: i32 (ptr result, ptr, i64, i64, i64)."""
    signature = int64(int64, int64, int64)
    compiled: Any = njit(signature, **OPTIONS)(entry)
    result = compiled.overloads[signature.args]
    return str(compiled.inspect_llvm(signature.args)), str(result.fndesc.mangled_name)
