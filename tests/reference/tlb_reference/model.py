"""The TLB hierarchy, written to be read: the specification of `fast`, which must give the same counts and the same contents.

Time is in cycles and passes by events. Events of one cycle happen in the order of `Kind`, then of the core, the peer, the page: nothing depends on the
order in which they were scheduled, and so nothing on threads or hashing. docs/explanation/systems.md, S3; what S3 leaves open is decided here and named in docs/explanation/memory/tlb-directory.md.

The course of a request: a core makes its requests in order, one a cycle. A hit takes the private latency. A miss takes an MSHR entry, and later misses of the
page join it; when no entry is free, or too many requests wait, the core stalls at this request. A miss goes to a peer or to the shared TLB, as the scheme
says. The shared TLB takes its requests first come, first served; one that needs a walk while the page-walk buffer is full holds up those behind it.
"""

from __future__ import annotations

import dataclasses
import enum
import heapq
from collections import OrderedDict, deque
from collections.abc import Iterable

from farlane.backend.memory.paging.spec import ADDRESS_MASK, BIG, BIG_SHIFT, LEAF, LEVEL_SHIFTS, VALID
from farlane.backend.memory.paging.table import PageTable
from farlane.backend.memory.tlb import mesh
from farlane.backend.memory.tlb.counts import Counts
from farlane.backend.memory.tlb.spec import Spec
from farlane.backend.memory.tlb.stream import Stream

from tlb_reference.decisions import choose_target, choose_victim, may_fill


class Kind(enum.IntEnum):
    """Events, in their order within a cycle."""

    FILL = 0
    WALK_DONE = 1
    ENQUEUE = 2
    SHARED = 3
    DRAIN = 4
    REMOTE = 5
    UPDATE_SET = 6
    UPDATE_CLEAR = 7
    SHARED_SET = 8
    SHARED_CLEAR = 9
    ISSUE = 10


@dataclasses.dataclass
class Miss:
    """An MSHR entry."""

    wanted: list[int]  # when each waiting request wanted its answer
    awaited: int = 0  # peers that have not looked yet
    last_reply: int = 0  # when the last peer's "no" arrives
    peer_reply: int = 0  # when the first peer's "yes" arrives; 0 for none
    frame: int = -1  # -1: fault


@dataclasses.dataclass
class Known:
    """A directory entry."""

    holders: set[int]
    shared: bool = False
    peer_replies: int = 0


class Core:
    """A private TLB, its directory and its MSHRs. Entries are ordered by use, the least recently used first."""

    def __init__(self, spec: Spec) -> None:
        self.sets: list[OrderedDict[int, int]] = [
            OrderedDict() for _ in range(spec.private.entries // spec.private.ways)
        ]
        directory_sets = spec.directory.entries // spec.directory.ways
        self.directory: list[OrderedDict[int, Known]] = [OrderedDict() for _ in range(directory_sets)]
        self.mshr: dict[int, Miss] = {}
        self.waiting = 0
        self.stalled = False
        self.port_free = 0
        self.queue: deque[tuple[int, int, int]] = deque()  # (page, gap, left out) to come
        self.last_issue = 0
        self.wanted: int | None = None  # when the request at the head was tried first

    def tlb(self, page: int) -> OrderedDict[int, int]:
        return self.sets[page % len(self.sets)]

    def known(self, page: int) -> OrderedDict[int, Known]:
        return self.directory[page % len(self.directory)]


class ReferenceTlb:
    """One hierarchy over one page table. Contents stay from kernel to kernel; time begins anew with each."""

    def __init__(self, spec: Spec, table: PageTable) -> None:
        self.spec = spec
        self._table = table
        self._cores = [Core(spec) for _ in range(spec.cores)]
        self._shared: list[OrderedDict[int, int]] = [
            OrderedDict() for _ in range(spec.shared.entries // spec.shared.ways)
        ]
        self._walk_cache: OrderedDict[tuple[int, int], tuple[int, bool]] = OrderedDict()
        columns = spec.network.columns
        radius = spec.probe_radius if spec.sharing == "probe" else spec.directory.radius
        self._near = [mesh.neighbours(core, spec.cores, columns, radius) for core in range(spec.cores)]
        self._ready()

    def _ready(self) -> None:
        self.counts = Counts()
        self._events: list[tuple[int, int, int, int, int]] = []
        self._links: dict[int, int] = {}
        self._inbox: deque[tuple[int, int, int]] = deque()  # (core, page, arrival) at the shared TLB
        self._drain_at = -1
        self._port_cycle, self._port_used = -1, 0
        self._buffered = 0  # entries of the page-walk buffer taken, by walks on their way to it too
        self._walks: dict[int, tuple[list[int], int]] = {}  # page: cores that wait, frame
        self._walk_queue: deque[tuple[int, int]] = deque()  # (page, since)
        self._idle = self.spec.walk.walkers
        self._started = False
        for core in self._cores:
            core.last_issue, core.port_free, core.wanted = 0, 0, None

    # The interface shared with FastTlb

    def feed(self, stream: Stream) -> None:
        """Takes more requests of the kernel, and goes as far as is certain without those to come."""
        self._take(stream)
        self._run(final=False)

    def finish(self) -> Counts:
        """Ends the kernel: runs to the last answer. The counts of the kernel."""
        self._take(Stream.of(self.spec.cores, [], []))
        self._run(final=True)
        counts = self.counts
        self._ready()
        return counts

    def run(self, stream: Stream) -> Counts:
        """A whole kernel."""
        self.feed(stream)
        return self.finish()

    def invalidate(self, pages: Iterable[int]) -> None:
        """Forgets translations, between kernels: after an unmap, or a change of rights."""
        for page in pages:
            for core in self._cores:
                core.tlb(page).pop(page, None)
                core.known(page).pop(page, None)
            self._shared[page % len(self._shared)].pop(page, None)
        self._walk_cache.clear()

    def contents(self) -> list[list[list[tuple[int, int]]]]:
        """(page, frame) by use, for each set of each core; the last list is the shared TLB's."""
        return [
            [list(entries.items()) for entries in sets] for sets in [*(core.sets for core in self._cores), self._shared]
        ]

    # Events

    def _at(self, time: int, kind: Kind, core: int = 0, peer: int = 0, page: int = 0) -> None:
        heapq.heappush(self._events, (time, kind, core, peer, page))

    def _take(self, stream: Stream) -> None:
        if stream.cores != self.spec.cores:
            raise ValueError(f"a stream of {stream.cores} cores for {self.spec.cores}")
        for number, core in enumerate(self._cores):
            part = slice(stream.offsets[number], stream.offsets[number + 1])
            core.queue.extend(
                zip(stream.page[part].tolist(), stream.gap[part].tolist(), stream.left_out[part].tolist(), strict=True)
            )
        if not self._started:
            self._started = True
            for number in range(self.spec.cores):
                self._at(0, Kind.ISSUE, number)

    def _run(self, final: bool) -> None:
        while self._events:
            event = heapq.heappop(self._events)
            time, kind, core, peer, page = event
            if kind == Kind.ISSUE:
                if not self._cores[core].queue:
                    if final:
                        continue
                    heapq.heappush(self._events, event)  # what it asks next is not known yet
                    return
                self._issue(time, core)
            elif kind == Kind.FILL:
                self._fill(time, core, page)
            elif kind == Kind.WALK_DONE:
                self._walk_done(time, page)
            elif kind == Kind.ENQUEUE:
                self._walk_queue.append((page, time))
                self._start_walks(time)
            elif kind == Kind.SHARED:
                self.counts.shared_accesses += 1
                self._inbox.append((core, page, time))
                self._drain(time)
            elif kind == Kind.DRAIN:
                self._drain_at = -1
                self._drain(time)
            elif kind == Kind.REMOTE:
                self._remote(time, core, peer, page)
            else:
                self._update(Kind(kind), core, page)

    def _issue(self, time: int, number: int) -> None:
        spec, counts, core = self.spec, self.counts, self._cores[number]
        page, gap, left_out = core.queue[0]
        if core.wanted is None:
            want = core.last_issue + gap
            if want > time:
                self._at(want, Kind.ISSUE, number)
                return
            core.wanted = time
        entries = core.tlb(page)
        perfect = spec.sharing == "perfect"
        if perfect or page in entries:
            counts.private_hits += 1
            counts.latency += spec.private.latency + time - core.wanted
            counts.cycles = max(counts.cycles, time + spec.private.latency)
            if not perfect:
                entries.move_to_end(page)
        elif core.waiting == spec.private.waiting or (page not in core.mshr and len(core.mshr) == spec.private.mshr):
            core.stalled = True
            return
        elif page in core.mshr:
            counts.merged += 1
            core.waiting += 1
            core.mshr[page].wanted.append(core.wanted)
        else:
            counts.misses += 1
            core.waiting += 1
            core.mshr[page] = Miss([core.wanted])
            self._miss(time, number, page)
        counts.stall_cycles += time - core.wanted
        counts.requests += 1 + left_out
        counts.private_hits += left_out
        counts.latency += left_out * spec.private.latency
        core.queue.popleft()
        core.last_issue, core.wanted = time, None
        self._at(time + 1, Kind.ISSUE, number)

    def _miss(self, time: int, number: int, page: int) -> None:
        spec, counts, core = self.spec, self.counts, self._cores[number]
        send = time + spec.private.latency
        targets: list[int] = []
        if spec.sharing == "probe":
            targets = self._near[number]
        elif spec.sharing == "directory":
            send += spec.directory.latency
            known = core.known(page).get(page)
            if known is not None:
                core.known(page).move_to_end(page)
                others = sorted(known.holders - {number})
                if others:
                    counts.directory_hits += 1
                    target = choose_target(spec, number, others, known.shared)
                    counts.bypassed += target is None
                    targets = [] if target is None else [target]
        elif spec.sharing == "oracle":
            holders = [other for other in range(spec.cores) if other != number and page in self._cores[other].tlb(page)]
            if holders:
                target = choose_target(spec, number, holders, page in self._shared[page % len(self._shared)])
                counts.bypassed += target is None
                if target is not None:
                    hops = mesh.distance(number, target, spec.network.columns)
                    counts.peer_requests += 1
                    counts.peer_hits += 1
                    counts.messages += 2
                    counts.hops += 2 * hops
                    miss = core.mshr[page]
                    miss.peer_reply, miss.frame = 1, self._cores[target].tlb(page)[page]
                    self._at(
                        send + 2 * hops * spec.network.hop_cycles + spec.private.latency, Kind.FILL, number, page=page
                    )
                    return
        core.mshr[page].awaited = len(targets)
        for target in targets:
            counts.peer_requests += 1
            self._at(self._send(number, target, send), Kind.REMOTE, number, target, page)
        if not targets:
            self._at(send, Kind.SHARED, number, page=page)

    def _send(self, source: int, target: int, time: int) -> int:
        """When a message arrives. It takes its links one after the other, each after those who took it before."""
        counts, network = self.counts, self.spec.network
        counts.messages += 1
        for link in mesh.links(source, target, network.columns):
            start = max(time, self._links.get(link, 0))
            counts.network_wait += start - time
            counts.hops += 1
            self._links[link] = start + network.link_cycles
            time = start + network.hop_cycles
        return time

    def _remote(self, time: int, number: int, target: int, page: int) -> None:
        counts, peer, miss = self.counts, self._cores[target], self._cores[number].mshr[page]
        start = max(time, peer.port_free)
        counts.network_wait += start - time
        peer.port_free = start + 1
        reply = self._send(target, number, start + self.spec.private.latency)
        miss.awaited -= 1
        frame = peer.tlb(page).get(page)
        if frame is None:
            counts.peer_misses += 1
            miss.last_reply = max(miss.last_reply, reply)
        elif not miss.peer_reply:
            counts.peer_hits += 1
            miss.peer_reply, miss.frame = reply, frame
        else:
            miss.peer_reply = min(miss.peer_reply, reply)
        if miss.awaited:
            return
        if miss.peer_reply:
            self._at(max(time, miss.peer_reply), Kind.FILL, number, page=page)
        else:
            self._at(miss.last_reply, Kind.SHARED, number, page=page)

    # The shared TLB and the walkers

    def _drain(self, time: int) -> None:
        spec, counts = self.spec, self.counts
        while self._inbox:
            if self._port_cycle == time and self._port_used == spec.shared.ports:
                if self._drain_at < 0:
                    self._drain_at = time + 1
                    self._at(time + 1, Kind.DRAIN)
                return
            number, page, arrival = self._inbox[0]
            entries = self._shared[page % len(self._shared)]
            if page in entries:
                counts.shared_hits += 1
                entries.move_to_end(page)
                self._cores[number].mshr[page].frame = entries[page]
                self._at(time + spec.shared.latency, Kind.FILL, number, page=page)
            elif page in self._walks:
                counts.shared_merged += 1
                self._walks[page][0].append(number)
            elif self._buffered == spec.walk.queue:
                return  # until a walker takes one
            else:
                self._buffered += 1
                self._walks[page] = ([number], -1)
                self._at(time + spec.shared.latency, Kind.ENQUEUE, page=page)
            if self._port_cycle != time:
                self._port_cycle, self._port_used = time, 0
            self._port_used += 1
            counts.shared_wait += time - arrival
            self._inbox.popleft()

    def _start_walks(self, time: int) -> None:
        spec, counts = self.spec, self.counts
        started = False
        while self._idle and self._walk_queue:
            page, since = self._walk_queue.popleft()
            self._idle -= 1
            self._buffered -= 1
            started = True
            reads, frame = self._walk(page)
            cycles = max(1, spec.walk.fixed_cycles + reads * spec.walk.level_cycles)
            counts.walks += 1
            counts.walk_reads += reads
            counts.walk_wait += time - since
            counts.walk_cycles += cycles
            counts.faults += frame < 0
            self._walks[page] = (self._walks[page][0], frame)
            self._at(time + cycles, Kind.WALK_DONE, page=page)
        if started:
            self._drain(time)

    def _steps(self, page: int) -> Iterable[tuple[int, int, int, bool]]:
        """(level, word, shift of its entry, whether the table is one of big pages) along the whole way to a page."""
        address = page << self.spec.page_shift
        table, big = self._table.root, False
        for level, shift in enumerate(LEVEL_SHIFTS):
            shift = BIG_SHIFT if big else shift
            index = (address >> shift) % (32 if big else 512)
            word = int(self._table.words[(table - self._table.base) // 8 + index])
            yield level, word, shift, big
            if not word & VALID or word & LEAF:
                return
            table, big = word & ADDRESS_MASK, bool(word & BIG)

    def _walk(self, page: int) -> tuple[int, int]:
        """(entries read, frame or -1). Begins at the deepest table that the walk cache knows."""
        address = page << self.spec.page_shift
        begin = 0
        for level in range(len(LEVEL_SHIFTS) - 2, -1, -1):
            key = (level, address >> LEVEL_SHIFTS[level])
            if key in self._walk_cache:
                self._walk_cache.move_to_end(key)
                self.counts.walk_cache_hits += 1
                begin = level + 1
                break
        reads = 0
        for level, word, shift, _ in self._steps(page):
            reads += level >= begin
            if word & VALID and word & LEAF:
                if shift < self.spec.page_shift:
                    return reads, -1  # a page smaller than the TLB's is none of its pages
                return reads, (word & ADDRESS_MASK) + (address & ((1 << shift) - 1))
        return reads, -1

    def _walk_done(self, time: int, page: int) -> None:
        spec = self.spec
        waiting, frame = self._walks.pop(page)
        self._idle += 1
        address = page << spec.page_shift
        for level, word, _, _ in self._steps(page):
            if word & VALID and not word & LEAF and spec.walk.cache_entries:
                key = (level, address >> LEVEL_SHIFTS[level])
                if key not in self._walk_cache and len(self._walk_cache) == spec.walk.cache_entries:
                    self._walk_cache.popitem(last=False)
                self._walk_cache[key] = (word & ADDRESS_MASK, bool(word & BIG))
                self._walk_cache.move_to_end(key)
        if frame >= 0:
            entries = self._shared[page % len(self._shared)]
            if len(entries) == spec.shared.ways:
                old, _ = entries.popitem(last=False)
                self._tell(time, Kind.SHARED_CLEAR, None, old)
            entries[page] = frame
            self._tell(time, Kind.SHARED_SET, None, page)
        for number in waiting:
            self._cores[number].mshr[page].frame = frame
            self._at(time, Kind.FILL, number, page=page)
        self._start_walks(time)

    # Private TLBs and directories

    def _fill(self, time: int, number: int, page: int) -> None:
        spec, counts, core = self.spec, self.counts, self._cores[number]
        miss = core.mshr.pop(page)
        counts.latency += sum(time - wanted for wanted in miss.wanted)
        counts.cycles = max(counts.cycles, time)
        core.waiting -= len(miss.wanted)
        if miss.frame >= 0:
            entries = core.tlb(page)
            directory = spec.sharing == "directory"
            replies = 1
            if directory and miss.peer_reply and (known := core.known(page).get(page)) is not None:
                known.peer_replies = replies = min(7, known.peer_replies + 1)
            degrees = {held: self._degree(number, held) for held in entries}
            total = (
                sum(self._degree(number, held) > 1 for entries_ in core.sets for held in entries_) if directory else 0
            )
            if may_fill(spec, miss.peer_reply > 0, replies, len(entries) < spec.private.ways, total):
                counts.fills += 1
                if len(entries) == spec.private.ways:
                    victim, spared = choose_victim(spec, list(entries), degrees)
                    counts.evictions += 1
                    counts.spared += spared
                    del entries[victim]
                    self._forget(time, number, victim)
                entries[page] = miss.frame
                if directory:
                    self._remember(number, page, number, not miss.peer_reply)
                    core.known(page)[page].peer_replies = 0
                    self._tell(time, Kind.UPDATE_SET, number, page)
            else:
                counts.fills_refused += 1
        if core.stalled:
            core.stalled = False
            self._at(time, Kind.ISSUE, number)

    def _degree(self, number: int, page: int) -> int:
        """How many private TLBs hold a page of this core's, as far as its directory knows."""
        known = self._cores[number].known(page).get(page)
        return len(known.holders) if known is not None else 1

    def _forget(self, time: int, number: int, page: int) -> None:
        if self.spec.sharing != "directory":
            return
        known = self._cores[number].known(page)
        if page in known:
            known[page].holders.discard(number)
            if not known[page].holders:
                del known[page]
        self._tell(time, Kind.UPDATE_CLEAR, number, page)

    def _remember(self, number: int, page: int, holder: int, shared: bool) -> None:
        """Notes in a core's directory that `holder` has a page. Room is made by what others hold and is used least, then by its own pages."""
        known = self._cores[number].known(page)
        if page not in known:
            if len(known) == self.spec.directory.ways:
                foreign = [old for old in known if number not in known[old].holders]
                del known[foreign[0] if foreign else next(iter(known))]
            known[page] = Known(set())
        known[page].holders.add(holder)
        if shared:
            known[page].shared = True
        if holder == number:
            known.move_to_end(page)

    def _tell(self, time: int, kind: Kind, number: int | None, page: int) -> None:
        """Sends a directory update; it takes effect everywhere at once, after a while."""
        if self.spec.sharing == "directory":
            self.counts.update_messages += self.spec.cores if number is None else len(self._near[number])
            self._at(time + self.spec.directory.update_cycles, kind, number or 0, page=page)

    def _update(self, kind: Kind, number: int, page: int) -> None:
        if kind in (Kind.SHARED_SET, Kind.SHARED_CLEAR):
            for core in self._cores:
                if page in core.known(page):
                    core.known(page)[page].shared = kind == Kind.SHARED_SET
            return
        for near in self._near[number]:
            if kind == Kind.UPDATE_SET:
                self._remember(near, page, number, False)
                continue
            known = self._cores[near].known(page)
            if page in known:
                known[page].holders.discard(number)
                if not known[page].holders:
                    del known[page]
