"""Directories, all of them together: what they have in common is kept once, in records (records.py).

Directories hear the same news in the same cycle, so most of what they know is the same. News go through the few records of a page, a word of 64 directories at a time, instead of through all directories. What becomes
of each directory's entries, and which one makes room, is as in the reference.
"""

from __future__ import annotations

from typing import Any

from farlane.backend.memory.compiling import inlined, inner
from farlane.backend.memory.tlb import layout as at
from farlane.backend.memory.tlb.compiled.events import SHARED_SET, UPDATE_CLEAR, UPDATE_SET
from farlane.backend.memory.tlb.compiled.intrinsics import lowest, ones, state
from farlane.backend.memory.tlb.compiled.records import (
    KEEP,
    MORE,
    REPLIES,
    base_of,
    before,
    bits_of,
    first_of,
    foreign,
    full_ones,
    heard_of_nobody,
    known,
    last_use,
    leave,
    less,
    make,
    make_earlier,
    make_room,
    more,
    next_of,
    use,
)
from farlane.backend.memory.tlb.compiled.search import set_of
from farlane.backend.memory.tlb.compiled.shared import tick


@inlined
def degree(address: int, core: int, page: int) -> int:
    """How many private TLBs hold a page of this core's, as far as its directory knows: the sharing degree."""
    s = state(address)
    record = known(address, core, page) if s.parameters[at.P_SHARING] == at.DIRECTORY else -1
    if record < 0:
        return 1
    count = s.records[record, bits_of(core, at.R_OWN)] >> (core & 63) & 1
    for word in range(s.parameters[at.P_WORDS]):
        count += ones(s.records[record, base_of(word) + at.R_HEARD] & s.rings[core, 0, word])
    return count


@inlined
def holder(s: Any, core: int, record: int) -> int:
    """Whom a core's entry names to ask, the first or the nearest, or -1. The first ring is everybody, the others are one hop wider each."""
    words = s.parameters[at.P_WORDS]
    begin, end = (0, 1) if s.parameters[at.P_ROUTE] == at.FIRST else (1, s.rings.shape[1])
    for ring in range(begin, end):
        for word in range(words):
            there = s.records[record, base_of(word) + at.R_HEARD] & s.rings[core, ring, word]
            if there:
                return word << 6 | lowest(there)
    return -1


@inlined
def knows_shared(s: Any, core: int, record: int) -> bool:
    return (s.in_shared[record, core >> 6] >> (core & 63) & 1) != 0


@inlined
def renew(address: int, core: int, record: int) -> None:
    """An entry is looked up."""
    use(address, core, record, tick(state(address).scalars), KEEP)


@inlined
def replied(address: int, core: int, page: int) -> int:
    """A peer has answered. The how-many-eth reply in a row this is."""
    record = known(address, core, page)
    return use(address, core, record, 0, MORE) if record >= 0 else 1


@inner
def take(address: int, core: int, page: int, shared: bool) -> None:
    """A core's own TLB takes a page; its directory knows at once."""
    s = state(address)
    word, bit = core >> 6, 1 << (core & 63)
    record = known(address, core, page)
    if record >= 0:
        use(address, core, record, tick(s.scalars), 0)
    else:
        number = set_of(page, s.parameters[at.P_DIR_SETS])
        if full_ones(s, number, word) & bit:
            make_room(address, number, word, bit)
        else:
            more(s, number, word, bit)
        record = s.sets[number, at.S_LAST]
        if record < 0 or not _as_good_as_new(s, core, page, record):
            record = make(address, number, page)
        s.records[record, bits_of(core, at.R_MEMBERS)] |= bit
    s.records[record, bits_of(core, at.R_OWN)] |= bit
    if shared and s.parameters[at.P_ROUTE] == at.CHEAPEST:
        s.in_shared[record, word] |= bit


@inlined
def _as_good_as_new(s: Any, core: int, page: int, record: int) -> bool:
    """Whether a core's entry that is made now may count as made with the last record of its set: of the same page, and nothing was heard or used since."""
    return (
        s.records[record, at.R_PAGE] == page
        and s.latest[core] <= s.records[record, at.R_MADE]
        and heard_of_nobody(s, core, record)
    )


@inner
def give_up(address: int, core: int, page: int) -> None:
    """A core's own TLB gives up a page; its directory knows at once."""
    s = state(address)
    record = known(address, core, page)
    if record < 0:
        return
    word, bit, number = core >> 6, 1 << (core & 63), set_of(page, s.parameters[at.P_DIR_SETS])
    s.records[record, bits_of(core, at.R_OWN)] &= ~bit
    if heard_of_nobody(s, core, record):
        less(s, number, word, bit)
        leave(address, number, record, word, bit)
        return
    foreign(s, number, record)
    if s.records[record, bits_of(core, at.R_USED)] & bit:
        last = last_use(s, number, core, record)
        if last >> REPLIES < s.records[record, at.R_MADE]:
            _leave_joined(address, number, core, page, last)


@inlined
def _leave_joined(address: int, number: int, core: int, page: int, last: int) -> None:
    """An entry that `_join` put into a record made later than its last use goes back to one of that moment: to that of others that left, or to a new one."""
    s = state(address)
    old, moment = known(address, core, page), last >> REPLIES
    fresh = first_of(s, page)
    while fresh >= 0 and (s.records[fresh, at.R_MADE] != moment or not _heard_the_same(s, core, False, fresh, old)):
        fresh = next_of(s, fresh)
    if fresh >= 0:
        foreign(s, number, fresh)
    else:
        fresh = make_earlier(address, number, page, moment)
        for word in range(s.parameters[at.P_WORDS]):
            heard = base_of(word) + at.R_HEARD
            s.records[fresh, heard] = s.records[old, heard]
    _move(address, s, number, core, old, fresh)
    if last & 7:
        use(address, core, fresh, 0, last & 7)


@inlined
def _move(address: int, s: Any, number: int, core: int, old: int, fresh: int) -> None:
    """A directory's entry is of another record now; its use is forgotten."""
    bit = 1 << (core & 63)
    for field in (at.R_MEMBERS, at.R_OWN):
        s.records[fresh, bits_of(core, field)] |= s.records[old, bits_of(core, field)] & bit
    if s.parameters[at.P_ROUTE] == at.CHEAPEST:
        s.in_shared[fresh, core >> 6] |= s.in_shared[old, core >> 6] & bit
    leave(address, number, old, core >> 6, bit)


@inlined
def _hear_taken(address: int, core: int, page: int) -> None:
    s = state(address)
    p = s.parameters
    number = set_of(page, p[at.P_DIR_SETS])
    bit = 1 << (core & 63)
    fresh, own = -1, -1
    for word in range(p[at.P_WORDS]):
        base = base_of(word)
        without = s.rings[core, 0, word]
        record = first_of(s, page)
        while record >= 0:
            if record != fresh:
                s.records[record, bits_of(core, at.R_HEARD)] |= bit
                members = s.records[record, base + at.R_MEMBERS]
                without &= ~members
                if word == core >> 6 and members & bit:
                    own = record
            record = next_of(s, record)
        if without == 0:
            continue
        full = full_ones(s, number, word) & without
        if full != 0:
            make_room(address, number, word, full)
        more(s, number, word, without & ~full)
        if fresh < 0:
            fresh = make(address, number, page)
            s.records[fresh, bits_of(core, at.R_HEARD)] = bit
        s.records[fresh, base + at.R_MEMBERS] = without
    if own >= 0:
        _join(address, number, core, own, fresh)


@inlined
def _join(address: int, number: int, core: int, old: int, other: int) -> None:
    """Directories of cores that took a page made their entries sooner than those that have just heard of it. Where they alone have that record, and another one has heard of the same cores, the other one holds all."""
    s = state(address)
    p, page = s.parameters, s.records[old, at.R_PAGE]
    alone = True
    for word in range(p[at.P_WORDS]):
        members = s.records[old, base_of(word) + at.R_MEMBERS]
        if members != s.records[old, base_of(word) + at.R_OWN]:
            return
        alone = alone and members & ~(1 << (core & 63) if word == core >> 6 else 0) == 0
    if other < 0 or not _heard_the_same(s, core, alone, other, old):
        other = first_of(s, page)
        while other >= 0 and (other == old or not _heard_the_same(s, core, alone, other, old)):
            other = next_of(s, other)
        if other < 0:
            return
    made = s.records[old, at.R_MADE]
    for word in range(p[at.P_WORDS]):
        bits = s.records[old, base_of(word) + at.R_MEMBERS]
        while bits != 0:
            member, bit = word << 6 | lowest(bits), bits & -bits
            bits &= bits - 1
            last = made << REPLIES
            if s.records[old, base_of(word) + at.R_USED] & bit:
                last = last_use(s, number, member, old)
            _move(address, s, number, member, old, other)
            if last & 7 or not _nothing_between(s, member, last >> REPLIES, other):
                use(address, member, other, last >> REPLIES, last & 7)


@inlined
def _heard_the_same(s: Any, core: int, alone: bool, one: int, other: int) -> bool:
    """Of the cores that a core hears; of all, unless it is alone."""
    difference = 0
    for word in range(s.parameters[at.P_WORDS]):
        heard = base_of(word) + at.R_HEARD
        difference |= (s.records[one, heard] ^ s.records[other, heard]) & (s.rings[core, 0, word] if alone else -1)
    return difference == 0


@inlined
def _nothing_between(s: Any, core: int, moment: int, record: int) -> bool:
    """Whether an entry of a core that was used at a moment may count as used when the record was made: nothing of its set was in between."""
    if s.records[record, at.R_MADE] < moment or s.latest[core] > moment:
        return False
    members, bit = bits_of(core, at.R_MEMBERS), 1 << (core & 63)
    earlier = before(s, record)
    while earlier >= 0 and s.records[earlier, at.R_MADE] > moment and not s.records[earlier, members] & bit:
        earlier = before(s, earlier)
    return earlier < 0 or s.records[earlier, at.R_MADE] <= moment


@inlined
def _hear_given_up(address: int, core: int, page: int) -> None:
    s = state(address)
    p = s.parameters
    number = set_of(page, p[at.P_DIR_SETS])
    bit, words = 1 << (core & 63), p[at.P_WORDS]
    following = first_of(s, page)
    while following >= 0:
        record = following
        r = s.records[record]
        following = next_of(s, record)
        if r[bits_of(core, at.R_HEARD)] & bit:
            r[bits_of(core, at.R_HEARD)] &= ~bit
            left = -1
            for word in range(words):
                heard = r[base_of(word) + at.R_HEARD]
                if heard != 0:
                    left = word << 6 | lowest(heard)
                    break
            for word in range(words):
                base = base_of(word)
                going = r[base + at.R_MEMBERS] & ~r[base + at.R_OWN] & s.rings[core, 0, word]
                if left >= 0:
                    bits = going & ~s.rings[left, 0, word]  # the others hear of this holder
                    while bits != 0:
                        if not heard_of_nobody(s, word << 6 | lowest(bits), record):
                            going &= ~(bits & -bits)
                        bits &= bits - 1
                    going &= ~s.rings[left, 0, word]
                if going != 0:
                    less(s, number, word, going)
                    leave(address, number, record, word, going)


@inner
def hear(address: int, kind: int, core: int, page: int) -> None:
    """What a core's TLB, or the shared one, took or gave up reaches directories."""
    if state(address).parameters[at.P_WORDS] == 1:  # as in run.py: here, LLVM leaves out the loops over words
        _hear(address, kind, core, page)
    else:
        _hear(address, kind, core, page)


@inlined
def _hear(address: int, kind: int, core: int, page: int) -> None:
    s = state(address)
    p = s.parameters
    if kind == UPDATE_SET:
        _hear_taken(address, core, page)
        return
    if kind == UPDATE_CLEAR:
        _hear_given_up(address, core, page)
        return
    record = first_of(s, page)
    while record >= 0:
        for word in range(p[at.P_WORDS]):
            s.in_shared[record, word] = s.records[record, base_of(word) + at.R_MEMBERS] if kind == SHARED_SET else 0
        record = next_of(s, record)


@inner
def forget(address: int) -> None:
    """All directories lose their entries of `pages`."""
    s = state(address)
    p = s.parameters
    for page in s.pages:
        number = set_of(page, p[at.P_DIR_SETS])
        following = first_of(s, page)
        while following >= 0:
            record = following
            following = next_of(s, record)
            for word in range(p[at.P_WORDS]):
                members = s.records[record, base_of(word) + at.R_MEMBERS]
                if members != 0:
                    less(s, number, word, members)
                    leave(address, number, record, word, members)
