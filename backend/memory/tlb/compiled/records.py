"""Records: what all directories together know of a page, in sets by page. What happens to them: directory.py.

A record is a page as those directories know it that made their entry of it at the same moment, its members: which cores they have heard of since, and for each member a bit where its own TLB holds the page, where
its entry was used later than it was made, and where it knows that the shared TLB has the page. Bits of 64 directories are a word.

A member's bitmap is what the record has heard, of the cores that this member hears (`rings`), and its own bit. An entry's place in the order of use is when its record was made, unless the entry was used since:
then `uses` has it, under the record's name, which is that moment. A member's bitmap always has a bit: an entry of whose page nobody is known to hold it is gone. A record without members is gone too; its place is
empty until the records of its set are moved together, which keeps them in the order in which they were made. How many entries each directory has in a set is counted in `levels`, a bit of the counts to a word.
"""

from __future__ import annotations

from typing import Any

from farlane.backend.memory.compiling import inner, leaf
from farlane.backend.memory.tlb import layout as at
from farlane.backend.memory.tlb.compiled.intrinsics import LANES, ahead, equal, lowest, state
from farlane.backend.memory.tlb.compiled.search import find, set_of
from farlane.backend.memory.tlb.compiled.shared import tick

REPLIES = 3  # bits of `uses` below the moment: replies of peers in a row
KEEP, MORE = -2, -1
_SPARSE = 16  # a set is as long as one and a half times what is there, and this


@leaf
def base_of(word: int) -> int:
    """Where in a record the bits of 64 directories begin."""
    return at.R_WORDS + word * at.R_FIELDS


@leaf
def bits_of(core: int, field: int) -> int:
    """Where in a record a core's bit is."""
    return base_of(core >> 6) + field


@leaf
def end_of(s: Any, number: int) -> int:
    """Behind the last record of a set."""
    return number * s.parameters[at.P_RECORDS] + s.sets[number, at.S_LENGTH]


@leaf
def next_of(s: Any, record: int, end: int, page: int) -> int:
    """The first record of a page from one on, or -1. A record lies at least as many places before its set's last as a vector is long."""
    while record < end:
        found = equal(s.tags, record, page)
        if found:
            record += lowest(found)
            return record if record < end else -1
        record += LANES
    return -1


@inner
def known(address: int, core: int, page: int) -> int:
    """The record that a core's directory has of a page, or -1."""
    s = state(address)
    number = set_of(page, s.parameters[at.P_DIR_SETS])
    members, bit = bits_of(core, at.R_MEMBERS), 1 << (core & 63)
    end, guess = end_of(s, number), page & (at.RECALLED - 1)
    record = s.recalled[guess]
    if record < end and s.tags[record] == page and s.records[record, members] & bit:
        return record
    record = next_of(s, number * s.parameters[at.P_RECORDS], end, page)
    while record >= 0 and not s.records[record, members] & bit:
        record = next_of(s, record + 1, end, page)
    if record >= 0:
        s.recalled[guess] = record
    return record


@leaf
def heard_of_nobody(s: Any, core: int, record: int) -> bool:
    there = 0
    for word in range(s.parameters[at.P_WORDS]):
        there |= s.records[record, base_of(word) + at.R_HEARD] & s.rings[core, word]
    return there == 0


@leaf
def _uses(s: Any, number: int, core: int) -> tuple[int, int]:
    """Where the entries of a core's directory lie that were used later than they were made."""
    ways = s.parameters[at.P_DIR_WAYS]
    first = (number * s.parameters[at.P_CORES] + core) * ways
    return first, first + ways


@leaf
def last_use(s: Any, number: int, core: int, record: int) -> int:
    """The use of an entry that was used since it was made: moment and replies."""
    first, end = _uses(s, number, core)
    return s.uses[at.U_WORD, first + find(s.uses[at.U_RECORD, first:end], s.records[record, at.R_MADE])]


@leaf
def recall(s: Any, core: int, page: int) -> None:
    """Asks for what a look into a core's directory will read soon."""
    p = s.parameters
    if p[at.P_SHARING] == at.DIRECTORY:
        first, end = _uses(s, set_of(page, p[at.P_DIR_SETS]), core)
        for place in range(first, end, LANES):
            ahead(s.uses, place)
            ahead(s.uses, s.uses.shape[1] + place)
        ahead(s.records, s.recalled[page & (at.RECALLED - 1)] * s.records.shape[1])


@inner
def use(address: int, core: int, record: int, moment: int, replies: int) -> int:
    """An entry is used. `moment`, 0: as it was. `replies`, or KEEP, or MORE: one more, up to 7. Answers how many replies."""
    s = state(address)
    number = record // s.parameters[at.P_RECORDS]
    first, end = _uses(s, number, core)
    r, field, bit = s.records[record], bits_of(core, at.R_USED), 1 << (core & 63)
    if r[field] & bit:
        place = first + find(s.uses[at.U_RECORD, first:end], r[at.R_MADE])
        before = s.uses[at.U_WORD, place]
    else:
        r[field] |= bit
        place = first + find(s.uses[at.U_RECORD, first:end], 0)
        s.uses[at.U_RECORD, place] = r[at.R_MADE]
        before = r[at.R_MADE] << REPLIES
    if not moment:
        moment = before >> REPLIES
    if replies < 0:
        replies = before & 7 if replies == KEEP else min(7, (before & 7) + 1)
    s.uses[at.U_WORD, place] = moment << REPLIES | replies
    s.latest[core] = max(s.latest[core], moment)
    return replies


@leaf
def more(s: Any, number: int, word: int, cores: int) -> None:
    """Directories have an entry more in a set."""
    first = word * s.parameters[at.P_LEVELS]
    for level in range(first, first + s.parameters[at.P_LEVELS]):
        carry = s.levels[number, level] & cores
        s.levels[number, level] ^= cores
        cores = carry


@leaf
def less(s: Any, number: int, word: int, cores: int) -> None:
    first = word * s.parameters[at.P_LEVELS]
    for level in range(first, first + s.parameters[at.P_LEVELS]):
        borrow = ~s.levels[number, level] & cores
        s.levels[number, level] ^= cores
        cores = borrow


@leaf
def full_ones(s: Any, number: int, word: int) -> int:
    """The directories that have no room in a set."""
    count, ways, full = s.parameters[at.P_LEVELS], s.parameters[at.P_DIR_WAYS], -1
    for level in range(count):
        bits = s.levels[number, word * count + level]
        full &= bits if ways >> level & 1 else ~bits
    return full


@inner
def leave(address: int, number: int, record: int, word: int, cores: int) -> None:
    """Members lose their entries."""
    s = state(address)
    r, base = s.records[record], base_of(word)
    used = r[base + at.R_USED] & cores
    while used != 0:
        first, end = _uses(s, number, word << 6 | lowest(used))
        used &= used - 1
        s.uses[at.U_RECORD, first + find(s.uses[at.U_RECORD, first:end], r[at.R_MADE])] = 0
    for field in (at.R_MEMBERS, at.R_OWN, at.R_USED, at.R_SHARED):
        r[base + field] &= ~cores
    there = 0
    for other in range(s.parameters[at.P_WORDS]):
        there |= r[base_of(other) + at.R_MEMBERS]
    if there == 0:
        s.tags[record] = -1
        s.sets[number, at.S_THERE] -= 1


@inner
def _longest_unused_own(address: int, number: int, core: int) -> int:
    """The record of the entry used least recently, in a set whose entries are all of the core's own pages."""
    s = state(address)
    least, found = 1 << 62, -1
    own, used, bit = bits_of(core, at.R_OWN), bits_of(core, at.R_USED), 1 << (core & 63)
    for record in range(number * s.parameters[at.P_RECORDS], end_of(s, number)):
        if s.tags[record] >= 0 and s.records[record, own] & bit:
            moment = s.records[record, at.R_MADE]
            if s.records[record, used] & bit:
                moment = last_use(s, number, core, record) >> REPLIES
            if moment < least:
                least, found = moment, record
    return found


@inner
def make_room(address: int, number: int, word: int, cores: int) -> None:
    """Full directories lose an entry of a set: of those whose page the core itself does not hold, or else of all, the one used least recently."""
    s = state(address)
    base = base_of(word)
    waiting = 0  # those with a candidate that was used since it was made
    for record in range(number * s.parameters[at.P_RECORDS], end_of(s, number)):
        if s.tags[record] < 0:
            continue
        r = s.records[record]
        there = r[base + at.R_MEMBERS] & ~r[base + at.R_OWN] & cores
        if there == 0:
            continue
        used = there & r[base + at.R_USED]
        going = there & ~used
        # Nothing that comes later can be older than this record.
        bits = there & waiting
        while bits != 0:
            bit = bits & -bits
            core = lowest(bits)
            bits &= bits - 1
            if s.candidates[at.A_MOMENT, core] < r[at.R_MADE]:
                leave(address, number, s.candidates[at.A_RECORD, core], word, bit)
                cores &= ~bit
                used &= ~bit
                going &= ~bit
        while used != 0:
            core = lowest(used)
            bit = used & -used
            used &= used - 1
            moment = last_use(s, number, word << 6 | core, record) >> REPLIES
            if not waiting & bit or moment < s.candidates[at.A_MOMENT, core]:
                s.candidates[at.A_MOMENT, core], s.candidates[at.A_RECORD, core] = moment, record
            waiting |= bit
        if going != 0:
            leave(address, number, record, word, going)
            cores &= ~going
        if cores == 0:
            return
    while cores != 0:
        core = lowest(cores)
        bit = cores & -cores
        cores &= cores - 1
        record = (
            s.candidates[at.A_RECORD, core] if waiting & bit else _longest_unused_own(address, number, word << 6 | core)
        )
        leave(address, number, record, word, bit)


@leaf
def _copy(s: Any, source: int, target: int) -> None:
    s.tags[target] = s.tags[source]
    for field in range(s.records.shape[1]):
        s.records[target, field] = s.records[source, field]


@leaf
def _clear(s: Any, record: int, page: int) -> None:
    s.tags[record] = page
    for field in range(s.records.shape[1]):
        s.records[record, field] = 0


@inner
def _together(address: int, number: int) -> None:
    """Moves the records of a set together."""
    s = state(address)
    first = number * s.parameters[at.P_RECORDS]
    place = first
    for record in range(first, first + s.sets[number, at.S_LENGTH]):
        if s.tags[record] >= 0:
            _copy(s, record, place)
            place += 1
    s.sets[number, at.S_LENGTH] = place - first


@leaf
def _room_for_one(address: int, s: Any, number: int) -> None:
    """A set has a place for one more record."""
    length = s.sets[number, at.S_LENGTH]
    if length == s.parameters[at.P_RECORDS] - LANES or length >= s.sets[number, at.S_THERE] * 3 // 2 + _SPARSE:
        _together(address, number)
    s.sets[number, at.S_THERE] += 1


@inner
def make(address: int, number: int, page: int) -> int:
    """A record without members."""
    s = state(address)
    _room_for_one(address, s, number)
    record = end_of(s, number)
    s.sets[number, at.S_LENGTH] += 1
    _clear(s, record, page)
    s.records[record, at.R_MADE] = tick(s.scalars)
    return record


@inner
def make_earlier(address: int, number: int, page: int, moment: int) -> int:
    """A record without members that counts as made at an earlier moment, and lies in that order."""
    s = state(address)
    _room_for_one(address, s, number)
    first, end = number * s.parameters[at.P_RECORDS], end_of(s, number)
    place = end
    while place > first and s.records[place - 1, at.R_MADE] > moment:
        place -= 1
    if place > first and s.tags[place - 1] < 0:
        place -= 1
    else:
        empty = place
        while empty < end and s.tags[empty] >= 0:
            empty += 1
        if empty == end:
            s.sets[number, at.S_LENGTH] += 1
        for record in range(empty, place, -1):
            _copy(s, record - 1, record)
    _clear(s, place, page)
    s.records[place, at.R_MADE] = moment
    return place
