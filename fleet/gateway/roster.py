"""The roster of a fleet: the book of placements, and what its hosts report.

Owns hosts' addresses and reports, and the leases: a session that its host does not know of after LEASE_SECONDS is taken
out of the book. So is one that has waited, where its gateway has not asked for it for WAITING_SECONDS, though it may have got
a place since then. So neither a guest that never comes nor a gateway that dies keeps room. A roster that is started anew learns from the hosts which sessions they have.

Locking: one lock around each method.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from farlane.fleet.placement.book import Book, Limits, Placed, Policy, Queued, Refused
from farlane.fleet.placement.hosts import Capacity, Request

LEASE_SECONDS = 40.0  # longer than a ticket is good (gateway.COMING_SECONDS)
WAITING_SECONDS = 15.0
SETTLING_SECONDS = 5.0
RECENT = 1000  # times that are kept


@dataclass(frozen=True)
class Target:
    """Where guests reach a host."""

    url: str
    certificate: bytes = b""  # DER: what it shows, where its URL is encrypted
    key: bytes = field(default=b"", repr=False)  # what tickets for it are signed with
    authority: bytes = b""  # PEM: which has signed the certificate, for hosts that send it sessions


@dataclass(frozen=True)
class Place:
    """Where a session goes."""

    number: int
    host: str
    target: Target


@dataclass(frozen=True)
class InQueue:
    number: int
    place: int  # 1: the next one
    of: int


@dataclass(frozen=True)
class Held:
    """A session that a host has."""

    number: int
    request: Request


@dataclass(frozen=True)
class Report:
    """What a host says of itself now."""

    numbers: Sequence[int]  # of the sessions that it has
    sessions: int = 0
    memory_used: int = 0  # bytes that sessions have allocated
    most_reserved: int = 0  # the most that open sessions' quotas were together
    busy_nanoseconds: int = 0
    opened: int = 0
    ended: Mapping[str, int] = field(default_factory=dict)  # by how
    counts: Mapping[str, int] = field(default_factory=dict)
    guests: Sequence[str] = ()  # who has sessions there, by their digests


@dataclass(frozen=True)
class HostState:
    """A host as the roster knows it."""

    name: str
    url: str
    node: str
    is_open: bool
    capacity: Capacity
    free_memory: int
    sessions: int  # placed there
    load: float
    report: Report
    age: float  # seconds since the report


@dataclass(frozen=True)
class State:
    hosts: Sequence[HostState]
    waiting: int
    placed: int  # since the start
    lost: int  # with hosts that failed
    lapsed: int  # placed, and never known to their hosts
    decision_microseconds: Mapping[str, float]  # of recent decisions, by percentile


@dataclass
class _Known:
    incarnation: str
    target: Target
    node: str
    capacity: Capacity
    report: Report
    reported: float


def percentiles(times: Sequence[float]) -> dict[str, float]:
    """The 50th and the 99th; none of nothing."""
    found = sorted(times)
    parts = {"50": 0.5, "99": 0.99} if found else {}
    return {name: found[min(len(found) - 1, int(part * len(found)))] for name, part in parts.items()}


class NotYet(Exception):
    """The roster has just begun, and hosts may not have told it yet that they are there: ask again in a moment."""


class UnknownHost(Exception):
    """The roster has no such host: it registers (again)."""


class Roster:
    """See the module.

    Args:
        queue: sessions that may wait for room.
    """

    def __init__(self, policy: Policy, queue: int = 1024, clock: Callable[[], float] = time.monotonic) -> None:
        # An earlier roster's sessions may still be open: their numbers are smaller.
        self._book = Book(policy, queue=queue, first=int(time.time()) * 1000 % (1 << 52))
        self._clock = clock
        self._began = clock()
        self._lock = threading.RLock()
        self._hosts: dict[str, _Known] = {}
        self._since: dict[int, float] = {}  # when a placed session was last known of, by its number
        self._looked: dict[int, float] = {}  # when one whose place its gateway does not know was last asked for
        self._moving: dict[int, float] = {}  # when one that is to move has last asked for room
        self._placed = self._lost = self._lapsed = 0
        self._decisions: deque[float] = deque(maxlen=RECENT)

    def configure(self, policy: Policy, queue: int) -> None:
        """From now on."""
        with self._lock:
            self._book.policy, self._book.queue = policy, queue

    # What gateways ask.

    def ask(self, request: Request, limits: Limits) -> Place | InQueue:
        """Raises book.Refused, NotYet."""
        with self._lock:
            began = time.perf_counter()
            self._book.limit(request.owner, limits)
            now = self._clock()
            try:
                found = self._book.ask(request, now)
            except Refused:
                if now - self._began < SETTLING_SECONDS:
                    raise NotYet from None
                raise
            self._decisions.append(time.perf_counter() - began)
            if isinstance(found, Queued):
                self._looked[found.number] = now
                return self._in_queue(found.number)
            return self._place(found)

    def answer(self, asked: tuple[Request, Limits]) -> Place | InQueue | Refused | NotYet:
        """`ask`, by a line: what that raises is an answer, too."""
        try:
            return self.ask(*asked)
        except (Refused, NotYet) as answer:
            return answer

    def leave_all(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.leave(number)

    def news(self, numbers: Sequence[int]) -> dict[int, Place | InQueue | None]:
        """Of sessions that have waited; None: there is no such session any more."""
        with self._lock:
            now = self._clock()
            self._sweep(now)
            found: dict[int, Place | InQueue | None] = {}
            places = self._book.places()
            for number in numbers:
                if number in places:
                    self._looked[number] = now
                    found[number] = InQueue(number, places[number], len(places))
                else:
                    placed = self._book.placed(number)
                    if self._looked.pop(number, None) is not None and placed is not None:
                        self._since[number] = now  # its guest learns it now
                    found[number] = None if placed is None else self._place(placed, count=False)
            return found

    def guests(self) -> dict[str, list[str]]:
        """Who has sessions, and on which hosts."""
        with self._lock:
            found: dict[str, list[str]] = {}
            for name, known in self._hosts.items():
                for guest in known.report.guests:
                    found.setdefault(guest, []).append(name)
            return found

    def leave(self, number: int) -> None:
        """A session does not wait any more, is not opened, or has ended. Nothing happens where there is none."""
        with self._lock:
            self._looked.pop(number, None)
            self._since.pop(number, None)
            try:
                advanced = self._book.leave(number, self._clock())
            except KeyError:
                return
            self._advanced(advanced)

    def numbers_on(self, name: str) -> list[int]:
        """Of the sessions that are placed on a host, those among them whose guests are on their way. Raises UnknownHost."""
        with self._lock:
            if name not in self._hosts:
                raise UnknownHost(name)
            return [each.number for each in self._book.placed_on(name)]

    def move(self, number: int) -> Place | None:
        """Room at another host for a session that is placed, besides what it has; by another number, and not for long: it
        lapses as any that its host does not know of. None: there is none yet; room is kept for it while it asks again.
        Raises book.Refused."""
        with self._lock:
            found = self._book.move(number)
            if isinstance(found, Placed):
                self._moving.pop(number, None)
                return self._place(found, count=False)
            self._moving[number] = self._clock()
            return None

    def stop_moving(self, number: int) -> None:
        """It does not ask any more."""
        with self._lock:
            self._moving.pop(number, None)
            self._advanced(self._book.stop_moving(number, self._clock()))

    # What hosts say.

    def add_host(
        self, name: str, incarnation: str, capacity: Capacity, target: Target, node: str = "", held: Sequence[Held] = ()
    ) -> None:
        """A host begins, or tells a new roster what it has. One that was started anew takes the place of the earlier one."""
        with self._lock:
            if (known := self._hosts.get(name)) is not None:
                if known.incarnation == incarnation:
                    return
                self._remove(name)
            now = self._clock()
            self._hosts[name] = _Known(incarnation, target, node, capacity, Report([each.number for each in held]), now)
            advanced = self._book.add_host(name, capacity, now) if not held else []
            if held:
                self._book.hosts.add(name, capacity)
                for each in held:
                    self._book.adopt(each.number, each.request, name)
                    self._since[each.number] = now
                advanced = self._book.set_open(name, True, now)
            self._advanced(advanced)

    def report(self, name: str, incarnation: str, report: Report) -> None:
        """Raises UnknownHost."""
        with self._lock:
            known = self._hosts.get(name)
            if known is None or known.incarnation != incarnation:
                raise UnknownHost(name)
            now = known.reported = self._clock()
            known.report = report
            has = set(report.numbers)
            for placed in self._book.placed_on(name):
                if placed.number in has:
                    self._since[placed.number] = now
                elif now - self._since.get(placed.number, now) > LEASE_SECONDS:
                    self._lapsed += 1
                    self.leave(placed.number)
            self._sweep(now)

    def fail_host(self, name: str, incarnation: str | None = None) -> int:
        """The host is gone, and its sessions with it; how many. Another incarnation's end is not this one's."""
        with self._lock:
            known = self._hosts.get(name)
            if known is None or incarnation not in (None, known.incarnation):
                return 0
            return self._remove(name)

    def set_open(self, name: str, is_open: bool) -> None:
        """Drains a host, or opens it again. Raises UnknownHost."""
        with self._lock:
            if name not in self._hosts:
                raise UnknownHost(name)
            self._advanced(self._book.set_open(name, is_open, self._clock()))

    def state(self) -> State:
        with self._lock:
            now, rows = self._clock(), self._book.hosts
            found = []
            for name, known in sorted(self._hosts.items()):
                row = rows.row(name)
                found.append(
                    HostState(
                        name, known.target.url, known.node, rows.is_open(name), known.capacity,
                        int(rows.free_memory[row]), known.capacity.sessions - int(rows.free_slots[row]),
                        float(rows.load[row]), known.report, now - known.reported,
                    )
                )  # fmt: skip
            times = {name: 1e6 * seconds for name, seconds in percentiles(self._decisions).items()}
            return State(found, self._book.waiting, self._placed, self._lost, self._lapsed, times)

    def _place(self, placed: Placed, count: bool = True) -> Place:
        self._since.setdefault(placed.number, self._clock())
        self._placed += count
        return Place(placed.number, placed.host, self._hosts[placed.host].target)

    def _in_queue(self, number: int) -> InQueue:
        return InQueue(number, self._book.place_of(number), self._book.waiting)

    def _advanced(self, placed: Sequence[Placed]) -> None:
        for each in placed:
            self._place(each)

    def _remove(self, name: str) -> int:
        del self._hosts[name]
        lost = self._book.remove_host(name)
        for each in lost:
            self._since.pop(each.number, None)
            self._looked.pop(each.number, None)
        self._lost += len(lost)
        return len(lost)

    def _sweep(self, now: float) -> None:
        for number in [number for number, at in self._looked.items() if now - at > WAITING_SECONDS]:
            self._lapsed += self._book.placed(number) is not None
            self.leave(number)
        for number in [number for number, at in self._moving.items() if now - at > WAITING_SECONDS]:
            self.stop_moving(number)
