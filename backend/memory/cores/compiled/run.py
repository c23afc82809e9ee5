"""Requests by core and time, and the fast mode's filter (cores/ordering.py says what, and has the places of the arrays).

`entry` is what Python calls, with the address of a table of (address, rows, columns).
"""

from __future__ import annotations

from farlane.backend.memory.compiling import inner, table
from farlane.backend.memory.cores import places as at


@inner
def _measure(address: int) -> None:
    """The most instructions that a warp of each block has issued."""
    words, longest = table(address, at.WORDS), table(address, at.LONGEST)[0]
    for i in range(len(words)):
        block = words[i, 1] >> 32 & 0xFFFF_FFFF
        longest[block] = max(longest[block], words[i, 1] & 0xFFFF_FFFF)


@inner
def _take(address: int) -> int:
    """Rows of what was touched, those of the window of time: core, key and page of each, behind what has been taken. Answers how many there are then."""
    words, start, where = table(address, at.WORDS), table(address, at.START)[0], table(address, at.WHERE)[0]
    core, keys, asked = table(address, at.CORE)[0], table(address, at.KEY)[0], table(address, at.ASKED)[0]
    span, phase = table(address, at.SPAN)[0], table(address, at.PHASE)[0]
    begin, end, issue, count = span[at.BEGIN], span[at.END], span[at.ISSUE], span[at.TAKEN]
    for i in range(len(words)):
        one, other = words[i, 0], words[i, 1]
        block, warp = other >> 32 & 0xFFFF_FFFF, one >> at.PAGE_BITS & 31
        cycle = start[block] + (other & 0xFFFF_FFFF) * issue + phase[warp]
        if begin <= cycle < end:
            core[count], keys[count] = where[block], (cycle - begin) << at.WARP_BITS | warp
            asked[count] = one & ((1 << at.PAGE_BITS) - 1)
            count += 1
    return count


@inner
def _scatter(address: int, cores: int) -> None:
    """Pages and keys by core, as they came."""
    core, keys, asked = table(address, at.CORE)[0], table(address, at.KEY)[0], table(address, at.ASKED)[0]
    order, counts = table(address, at.ORDER), table(address, at.COUNTS)[0]
    offsets = table(address, at.OFFSETS)[0]
    for number in range(cores + 1):
        offsets[number] = 0
    for i in range(len(core)):
        offsets[core[i] + 1] += 1
    for number in range(cores):
        offsets[number + 1] += offsets[number]
        counts[number] = offsets[number]
    for i in range(len(core)):
        place = counts[core[i]]
        counts[core[i]] = place + 1
        order[0, place], order[1, place] = asked[i], keys[i]


@inner
def _sort(address: int, begin: int, end: int) -> int:
    """A core's by (cycle, warp), equal ones as they came: counting sort, digit by digit, the least first. Answers whether they are in OTHER then."""
    order, other, counts = table(address, at.ORDER), table(address, at.OTHER), table(address, at.COUNTS)[0]
    least, most = 1 << 62, 0
    for i in range(begin, end):
        least, most = min(least, order[1, i]), max(most, order[1, i])
    bits = at.FEW_BITS if end - begin < at.FEW else at.BITS
    digits = 1 << bits
    shift, turn = 0, 0
    while (most - least) >> shift > 0:
        source, target = (other, order) if turn else (order, other)
        for digit in range(digits):
            counts[digit] = 0
        for i in range(begin, end):
            counts[(source[1, i] - least) >> shift & (digits - 1)] += 1
        total = begin
        for digit in range(digits):
            found = counts[digit]
            counts[digit] = total
            total += found
        for i in range(begin, end):
            digit = (source[1, i] - least) >> shift & (digits - 1)
            place = counts[digit]
            counts[digit] = place + 1
            target[0, place], target[1, place] = source[0, i], source[1, i]
        shift += bits
        turn = 1 - turn
    return turn


@inner
def _requests(address: int, cores: int) -> None:
    """One request a cycle: each as soon as its cycle has come and the one before is out."""
    _scatter(address, cores)
    offsets, last, page = table(address, at.OFFSETS)[0], table(address, at.LAST)[0], table(address, at.PAGE)[0]
    gap, window = table(address, at.GAP)[0], table(address, at.SPAN)[0, at.BEGIN]
    for core in range(cores):
        begin, end = offsets[core], offsets[core + 1]
        sorted_ = table(address, at.OTHER if _sort(address, begin, end) else at.ORDER)
        before = last[core]
        for i in range(begin, end):
            made = max(window + (sorted_[1, i] >> at.WARP_BITS), before + 1)
            page[i] = sorted_[0, i]
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


def entry(address: int, what: int, recent: int) -> int:
    """Answers how many requests there are."""
    if what == at.MEASURE:
        _measure(address)
        return 0
    if what == at.TAKE:
        return int(_take(address))
    cores = table(address, at.OFFSETS).shape[1] - 1
    if what == at.SORT:
        _requests(address, cores)
    if recent:
        return int(_filter(address, cores, recent))
    return int(table(address, at.OFFSETS)[0, cores])
