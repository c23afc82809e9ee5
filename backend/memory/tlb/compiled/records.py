"""Records: what all directories together know of a page, in sets by page. What happens to them: directory.py.

A record is a page as those directories know it whose entries of it count as made at the same moment, its members: which cores they have heard of since, and for each member a bit where its own TLB holds the page, where
its entry was used later than it was made, and where it knows that the shared TLB has the page. Bits of 64 directories are a word.

A member's bitmap is what the record has heard, of the cores that this member hears (`rings`), and its own bit. An entry's place in the order of use is when its record was made, unless the entry was used since:
then `uses` has it, under the record's name, which is that moment. A member's bitmap always has a bit: an entry of whose page no holder is known is gone. A record without members is gone too. The records of
a set are linked in the order in which they were made, those of a page in a chain. How many entries each directory has in a set is counted in `levels`, a bit of the counts to a word.
"""

from __future__ import annotations

from typing import Any

from farlane.backend.memory.compiling import inlined, inner
from farlane.backend.memory.tlb import layout as at
from farlane.backend.memory.tlb.compiled.intrinsics import LANES, ahead, lowest, state
from farlane.backend.memory.tlb.compiled.search import find, set_of
from farlane.backend.memory.tlb.compiled.shared import tick

REPLIES = 3  # bits of `uses` below the moment: replies of peers in a row
KEEP, MORE = -2, -1


@inlined
def base_of(word: int) -> int:
    """Where in a record the bits of 64 directories begin."""
    return at.R_WORDS + word * at.R_FIELDS


@inlined
def bits_of(core: int, field: int) -> int:
    """Where in a record a core's bit is."""
    return base_of(core >> 6) + field


@inlined
def _place(page: int) -> int:
    """The chain of a page."""
    return (page ^ page >> 11) & (at.NAMED - 1)


@inlined
def first_of(s: Any, page: int) -> int:
    """A record of a page, or -1."""
    record = s.named[_place(page), at.A_FIRST]
    while record >= 0 and s.records[record, at.R_PAGE] != page:
        record = s.records[record, at.R_CHAIN]
    return record


@inlined
def next_of(s: Any, record: int) -> int:
    """The next one of the same page, or -1. Asked before the record may go."""
    page = s.records[record, at.R_PAGE]
    record = s.records[record, at.R_CHAIN]
    while record >= 0 and s.records[record, at.R_PAGE] != page:
        record = s.records[record, at.R_CHAIN]
    return record


@inlined
def after(s: Any, record: int) -> int:
    """The record of a set that was made next, or -1. Asked before the record may go."""
    return (s.records[record, at.R_LINKS] & at.AFTER) - 1


@inlined
def before(s: Any, record: int) -> int:
    """The record of a set that was made before, or -1."""
    return (s.records[record, at.R_LINKS] >> at.BEFORE) - 1


@inlined
def known(address: int, core: int, page: int) -> int:
    """The record that a core's directory has of a page, or -1."""
    s = state(address)
    members, bit = bits_of(core, at.R_MEMBERS), 1 << (core & 63)
    record = s.named[_place(page), at.A_FIRST]
    while record >= 0 and (s.records[record, at.R_PAGE] != page or not s.records[record, members] & bit):
        record = s.records[record, at.R_CHAIN]
    return record


@inlined
def heard_of_nobody(s: Any, core: int, record: int) -> bool:
    there = 0
    for word in range(s.parameters[at.P_WORDS]):
        there |= s.records[record, base_of(word) + at.R_HEARD] & s.rings[core, 0, word]
    return there == 0


@inlined
def _uses(s: Any, number: int, core: int) -> tuple[int, int]:
    """Where the entries of a core's directory lie that were used later than they were made."""
    ways = s.parameters[at.P_DIR_WAYS]
    first = (number * s.parameters[at.P_CORES] + core) * ways
    return first, first + ways


@inlined
def last_use(s: Any, number: int, core: int, record: int) -> int:
    """The use of an entry that was used since it was made: moment and replies."""
    first, end = _uses(s, number, core)
    return s.uses[at.U_WORD, find(s.uses[at.U_RECORD], first, end, s.records[record, at.R_MADE])]


@inlined
def recall(s: Any, core: int, page: int) -> None:
    """Asks for what a look into a core's directory will read soon."""
    p = s.parameters
    if p[at.P_SHARING] == at.DIRECTORY:
        first, end = _uses(s, set_of(page, p[at.P_DIR_SETS]), core)
        for place in range(first, end, LANES):
            ahead(s.uses, place)
            ahead(s.uses, s.uses.shape[1] + place)
        ahead(s.records, s.named[_place(page), at.A_FIRST] * s.records.shape[1])


@inlined
def use(address: int, core: int, record: int, moment: int, replies: int) -> int:
    """An entry is used. `moment`, 0: as it was. `replies`, or KEEP, or MORE: one more, up to 7. Answers how many replies."""
    s = state(address)
    r, field, bit = s.records[record], bits_of(core, at.R_USED), 1 << (core & 63)
    first, end = _uses(s, set_of(r[at.R_PAGE], s.parameters[at.P_DIR_SETS]), core)
    if r[field] & bit:
        place = find(s.uses[at.U_RECORD], first, end, r[at.R_MADE])
        was = s.uses[at.U_WORD, place]
    else:
        r[field] |= bit
        place = find(s.uses[at.U_RECORD], first, end, 0)
        s.uses[at.U_RECORD, place] = r[at.R_MADE]
        was = r[at.R_MADE] << REPLIES
    if not moment:
        moment = was >> REPLIES
    if replies < 0:
        replies = was & 7 if replies == KEEP else min(7, (was & 7) + 1)
    s.uses[at.U_WORD, place] = moment << REPLIES | replies
    s.latest[core] = max(s.latest[core], moment)
    return replies


@inlined
def more(s: Any, number: int, word: int, cores: int) -> None:
    """Directories have an entry more in a set."""
    levels, first = s.levels[number], word * s.parameters[at.P_LEVELS]
    for level in range(first, first + s.parameters[at.P_LEVELS]):
        carry = levels[level] & cores
        levels[level] ^= cores
        cores = carry


@inlined
def less(s: Any, number: int, word: int, cores: int) -> None:
    levels, first = s.levels[number], word * s.parameters[at.P_LEVELS]
    for level in range(first, first + s.parameters[at.P_LEVELS]):
        borrow = ~levels[level] & cores
        levels[level] ^= cores
        cores = borrow


@inlined
def full_ones(s: Any, number: int, word: int) -> int:
    """The directories that have no room in a set."""
    levels, first = s.levels[number], word * s.parameters[at.P_LEVELS]
    ways, full = s.parameters[at.P_DIR_WAYS], -1
    for level in range(s.parameters[at.P_LEVELS]):
        bits = levels[first + level]
        full &= bits if ways >> level & 1 else ~bits
        if full == 0:  # which also keeps LLVM from making vectors of so few levels
            break
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
        s.uses[at.U_RECORD, find(s.uses[at.U_RECORD], first, end, r[at.R_MADE])] = 0
    for field in (at.R_MEMBERS, at.R_OWN, at.R_USED):
        r[base + field] &= ~cores
    if s.parameters[at.P_ROUTE] == at.CHEAPEST:
        s.in_shared[record, word] &= ~cores
    there = 0
    for other in range(s.parameters[at.P_WORDS]):
        there |= r[base_of(other) + at.R_MEMBERS]
    if there == 0:
        _gone(address, number, record)


@inlined
def _gone(address: int, number: int, record: int) -> None:
    """A record leaves its set and its chain."""
    s = state(address)
    earlier, later = before(s, record), after(s, record)
    _follow(s, number, earlier, later)
    _precede(s, number, later, earlier)
    if s.sets[number, at.S_FOREIGN] == record:
        s.sets[number, at.S_FOREIGN] = later
    place, behind = _place(s.records[record, at.R_PAGE]), s.records[record, at.R_CHAIN]
    sooner, other = -1, s.named[place, at.A_FIRST]
    while other != record:
        sooner, other = other, s.records[other, at.R_CHAIN]
    _chain(s, place, sooner, behind)
    s.records[record, at.R_CHAIN] = s.named[at.NAMED, at.A_FREE]
    s.named[at.NAMED, at.A_FREE] = record


@inlined
def _chain(s: Any, place: int, sooner: int, later: int) -> None:
    """One record of a chain follows another; -1 for an end."""
    if sooner >= 0:
        s.records[sooner, at.R_CHAIN] = later
    else:
        s.named[place, at.A_FIRST] = later
    if later < 0:
        s.named[place, at.A_LAST] = sooner


@inlined
def _longest_unused_own(address: int, number: int, core: int) -> int:
    """The record of the entry used least recently, in a set whose entries are all of the core's own pages."""
    s = state(address)
    least, found = 1 << 62, -1
    own, used, bit = bits_of(core, at.R_OWN), bits_of(core, at.R_USED), 1 << (core & 63)
    record = s.sets[number, at.S_FIRST]
    while record >= 0:
        if s.records[record, own] & bit:
            moment = s.records[record, at.R_MADE]
            if s.records[record, used] & bit:
                moment = last_use(s, number, core, record) >> REPLIES
            if moment < least:
                least, found = moment, record
        record = after(s, record)
    return found


@inlined
def make_room(address: int, number: int, word: int, cores: int) -> None:
    """Full directories lose an entry of a set: of those whose page the core itself does not hold, or else of all, the one used least recently."""
    s = state(address)
    base = base_of(word)
    waiting = 0  # those with a candidate that was used since it was made
    later, none = s.sets[number, at.S_FOREIGN], True  # none so far
    while later >= 0:
        record = later
        r = s.records[record]
        later = after(s, record)
        if none:
            s.sets[number, at.S_FOREIGN] = record
            others = 0
            for other in range(s.parameters[at.P_WORDS]):
                others |= r[base_of(other) + at.R_MEMBERS] & ~r[base_of(other) + at.R_OWN]
            if others == 0:
                continue
            none = False
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


@inlined
def _new(s: Any, page: int, moment: int) -> int:
    """A record without members, in no set and in no chain."""
    record = s.named[at.NAMED, at.A_FREE]
    if record >= 0:
        s.named[at.NAMED, at.A_FREE] = s.records[record, at.R_CHAIN]
    else:
        record = s.named[at.NAMED, at.A_EVER]
        s.named[at.NAMED, at.A_EVER] = record + 1
    for word in range(s.parameters[at.P_WORDS]):
        for field in range(at.R_FIELDS):
            s.records[record, base_of(word) + field] = 0
    s.records[record, at.R_MADE], s.records[record, at.R_PAGE] = moment, page
    return record


@inlined
def make(address: int, number: int, page: int) -> int:
    """A record without members."""
    s = state(address)
    record, place = _new(s, page, tick(s.scalars)), _place(page)
    if s.sets[number, at.S_FOREIGN] < 0:
        s.sets[number, at.S_FOREIGN] = record
    _link(s, number, record, s.sets[number, at.S_LAST], -1)
    _chain(s, place, s.named[place, at.A_LAST], record)
    _chain(s, place, record, -1)
    return record


@inlined
def _follow(s: Any, number: int, record: int, later: int) -> None:
    """What comes behind a record of a set, or, for -1, first in it; -1: nothing."""
    if record >= 0:
        s.records[record, at.R_LINKS] = (s.records[record, at.R_LINKS] & ~at.AFTER) | (later + 1)
    else:
        s.sets[number, at.S_FIRST] = later


@inlined
def _precede(s: Any, number: int, record: int, earlier: int) -> None:
    """What comes before a record of a set, or, for -1, last in it; -1: nothing."""
    if record >= 0:
        s.records[record, at.R_LINKS] = (s.records[record, at.R_LINKS] & at.AFTER) | (earlier + 1) << at.BEFORE
    else:
        s.sets[number, at.S_LAST] = earlier


@inlined
def _link(s: Any, number: int, record: int, earlier: int, later: int) -> None:
    """Puts a record between two of its set."""
    s.records[record, at.R_LINKS] = (earlier + 1) << at.BEFORE | (later + 1)
    _follow(s, number, earlier, record)
    _precede(s, number, later, record)


@inlined
def foreign(s: Any, number: int, record: int) -> None:
    """A record may have a member now that does not hold its page."""
    first = s.sets[number, at.S_FOREIGN]
    if first < 0 or s.records[record, at.R_MADE] < s.records[first, at.R_MADE]:
        s.sets[number, at.S_FOREIGN] = record


@inlined
def make_earlier(address: int, number: int, page: int, moment: int) -> int:
    """A record without members that counts as made at an earlier moment, and lies in that order."""
    s = state(address)
    earlier, later = s.sets[number, at.S_LAST], -1
    while earlier >= 0 and s.records[earlier, at.R_MADE] > moment:
        earlier, later = before(s, earlier), earlier
    record, place = _new(s, page, moment), _place(page)
    _link(s, number, record, earlier, later)
    foreign(s, number, record)
    sooner, later = -1, s.named[place, at.A_FIRST]
    while later >= 0 and s.records[later, at.R_MADE] <= moment:
        sooner, later = later, s.records[later, at.R_CHAIN]
    _chain(s, place, sooner, record)
    _chain(s, place, record, later)
    return record
