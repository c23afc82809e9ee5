"""The book of a fleet: which session is on which host, who waits, and who goes next.

Owns admission (owners' limits, the length of the queue), reservations, and the order of the queue. It asks a placement
policy (pack, spread, locality) where a session goes and `shares.order` who goes next, and knows no clock: callers say
what time it is. The sum of what is reserved on a host never exceeds what the host has.

A large session could wait for ever while small ones fill each gap. One that has waited `patience` seconds has a host earmarked:
new sessions no longer go there, until it has room for it. So has one that is to move to another host, at once.

Locking: none. One caller at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from farlane.fleet.placement.hosts import Capacity, Hosts, Mask, Request
from farlane.fleet.placement.shares import Used, Waiting, order

Policy = Callable[[Request, Hosts, Mask], int]

PATIENCE_SECONDS = 60.0


class Refused(Exception):
    """The session is not admitted, and does not wait either; the message is for its user."""


@dataclass(frozen=True)
class Limits:
    """Of one owner's sessions together."""

    sessions: int | None = None
    memory: int | None = None
    weight: float = 1.0


@dataclass(frozen=True)
class Placed:
    number: int
    request: Request
    host: str
    missing: tuple[str, ...]  # of its images, what the host did not hold


@dataclass(frozen=True)
class Queued:
    number: int


@dataclass
class _Account:
    """What an owner has reserved, and who of it waits: one queue for each priority."""

    limits: Limits
    sessions: int = 0
    memory: int = 0
    load: float = 0.0
    waiting: dict[int, deque[Waiting]] = field(default_factory=dict)

    def admits(self, request: Request) -> bool:
        limits = self.limits
        return (limits.sessions is None or self.sessions < limits.sessions) and (
            limits.memory is None or self.memory + request.memory <= limits.memory
        )

    def count(self, request: Request, sign: int) -> None:
        self.sessions += sign
        self.memory += sign * request.memory
        self.load += sign * request.load


@dataclass(frozen=True)
class _Earmark:
    number: int
    row: int


class Book:
    """See the module.

    Args:
        limits: of owners by name; others have none.
        queue: how many may wait; one more is refused.
        first: the number of the first session.
    """

    def __init__(
        self,
        policy: Policy,
        limits: Mapping[str, Limits] | None = None,
        queue: int = 1_000_000,
        patience: float = PATIENCE_SECONDS,
        first: int = 1,
    ) -> None:
        self.hosts = Hosts()
        self.policy = policy
        self._limits = dict(limits or {})
        self.queue = queue
        self._patience = patience
        self._accounts: dict[str, _Account] = {}
        self._numbers = first - 1
        self._placed: dict[int, Placed] = {}
        self._on: dict[str, dict[int, Placed]] = {}  # the same, by host
        self._waiting: dict[int, tuple[Waiting, float]] = {}  # with the time of its arrival
        self._earmarks: dict[str, _Earmark] = {}  # by owner: one at a time
        self._moving: dict[int, _Earmark] = {}  # of sessions that are to move, by the numbers that they have

    @property
    def sessions(self) -> int:
        return len(self._placed)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def limit(self, owner: str, limits: Limits) -> None:
        """An owner's limits from now on."""
        self._limits[owner] = self._account(owner).limits = limits

    def placed_on(self, name: str) -> list[Placed]:
        return list(self._on.get(name, {}).values())

    def placed(self, number: int) -> Placed | None:
        """Where a session is; None: it waits, or there is none."""
        return self._placed.get(number)

    def adopt(self, number: int, request: Request, host: str) -> None:
        """A session of an earlier book, which its host has told of. Raises KeyError, and ValueError: it has no room there."""
        row = self.hosts.row(host)
        if self.hosts.free_memory[row] < request.memory or self.hosts.free_slots[row] < 1 or number in self._placed:
            raise ValueError(f"the host {host} has no room for the session {number}, or there is one")
        self._numbers = max(self._numbers, number)
        self.hosts.reserve(row, request)
        self._account(request.owner).count(request, 1)
        self._note(Placed(number, request, host, ()))

    def add_host(self, name: str, capacity: Capacity, now: float) -> list[Placed]:
        """Gives those of the queue that go there at once. Raises ValueError."""
        self.hosts.add(name, capacity)
        return self._advance(now)

    def set_open(self, name: str, is_open: bool, now: float) -> list[Placed]:
        """Drains a host, or opens it again. Raises KeyError."""
        self.hosts.set_open(name, is_open)
        self._drop_earmarks(self.hosts.row(name))
        return self._advance(now)

    def remove_host(self, name: str) -> list[Placed]:
        """The host is gone: gives the sessions that are lost with it. Raises KeyError."""
        row = self.hosts.row(name)
        lost = self.placed_on(name)
        self._on.pop(name, None)
        for placed in lost:
            del self._placed[placed.number]
            self._moving.pop(placed.number, None)
            self._account(placed.request.owner).count(placed.request, -1)
        self.hosts.remove(name)
        self._drop_earmarks(row)
        return lost

    def ask(self, request: Request, now: float) -> Placed | Queued:
        """A session comes.

        Raises:
            Refused: no host is large enough, its owner's limits forbid it for good, or the queue is full.
        """
        limits = self._account(request.owner).limits
        fits = self.hosts.fits(request)
        if not fits.any() and not self.hosts.able(request).any():
            raise Refused(
                f"no open host of this fleet has the device {request.device} with {request.memory} bytes of memory"
            )
        if limits.memory is not None and request.memory > limits.memory:
            raise Refused(
                f"{request.owner} may reserve {limits.memory} bytes at once, and the session asks for {request.memory}"
            )
        self._numbers += 1
        each = Waiting(self._numbers, request)
        if not self._is_behind(request) and (placed := self._place(each, fits)) is not None:
            return placed
        if len(self._waiting) >= self.queue:
            raise Refused(f"the fleet is full, and {len(self._waiting)} sessions wait already: try again later")
        self._waiting[each.number] = each, now
        self._account(request.owner).waiting.setdefault(request.priority, deque()).append(each)
        return Queued(each.number)

    def move(self, number: int) -> Placed | Queued:
        """Room for a placed session at another host, besides the room that it has, and beyond its owner's limits.

        Where no host has room, one is earmarked for it: it asks again until that has, or stops.

        Raises:
            Refused: no other host is large enough, or there is no such session.
        """
        placed = self._placed.get(number)
        if placed is None:
            raise Refused("the session has ended")
        own, earmark = self.hosts.row(placed.host), self._moving.get(number)
        if earmark is None:
            self._numbers += 1
        each = Waiting(self._numbers if earmark is None else earmark.number, placed.request)
        fits = self.hosts.fits(placed.request)
        fits[own] = False
        if (found := self._choose(each, fits)) is not None:
            self._moving.pop(number, None)
            return found
        if earmark is None:
            row = self._row_to_keep(placed.request, {own})
            if row is None:
                raise Refused("no other open host of the fleet is large enough, or they are kept for others that wait")
            self._moving[number] = _Earmark(each.number, row)
        return Queued(each.number)

    def stop_moving(self, number: int, now: float) -> list[Placed]:
        """A session asks for no room at another host any more: gives those of the queue that go on. Nothing happens where it
        has not."""
        return [] if self._moving.pop(number, None) is None else self._advance(now)

    def place_of(self, number: int) -> int:
        """The place in the queue, as things are now: 1 is the next. Raises KeyError."""
        return self.places()[number]

    def places(self) -> dict[int, int]:
        """Of all that wait, as `place_of`."""
        everyone = order((each for each, _ in self._waiting.values()), self._used())
        return {each.number: place for place, each in enumerate(everyone, 1)}

    def leave(self, number: int, now: float) -> list[Placed]:
        """A session has ended, or does not wait any more: gives those that go on in its place. Raises KeyError."""
        if number in self._waiting:
            self._dequeue(self._waiting[number][0])
        else:
            placed = self._placed.pop(number)
            self._moving.pop(number, None)
            del self._on[placed.host][number]
            self.hosts.release(self.hosts.row(placed.host), placed.request)
            self._account(placed.request.owner).count(placed.request, -1)
        return self._advance(now)

    def _advance(self, now: float) -> list[Placed]:
        """Places whom it can, in order."""
        found: list[Placed] = []
        while self._waiting:
            heads = order(
                (queue[0] for account in self._accounts.values() for queue in account.waiting.values()), self._used()
            )
            room = {device: self.hosts.largest_room(device) for device in {each.request.device for each in heads}}
            placed = next((placed for each in heads if (placed := self._try(each, room, now)) is not None), None)
            if placed is None:
                return found
            found.append(placed)
        return found

    def _try(self, each: Waiting, room: Mapping[str, float], now: float) -> Placed | None:
        """Places one that waits, or earmarks a host for it once it has waited long enough. `room`: an upper bound."""
        fits = each.request.memory <= room[each.request.device]
        placed = self._place(each, self.hosts.fits(each.request)) if fits else None
        if placed is None and self._account(each.request.owner).admits(each.request):
            self._earmark(each, now)
        return placed

    def _place(self, each: Waiting, fits: Mask) -> Placed | None:
        if not self._account(each.request.owner).admits(each.request):
            return None
        placed = self._choose(each, fits)
        if placed is not None and each.number in self._waiting:
            self._dequeue(each)
        return placed

    def _choose(self, each: Waiting, fits: Mask) -> Placed | None:
        """Reserves room at one of these hosts; None: all that have it are earmarked for others."""
        request = each.request
        for earmark in (*self._earmarks.values(), *self._moving.values()):
            if earmark.number != each.number:
                fits[earmark.row] = False
        if not fits.any():
            return None
        row = self.policy(request, self.hosts, fits)
        missing = tuple(image for image in request.images if not self.hosts.holds(row, image))
        self.hosts.reserve(row, request)
        self._account(request.owner).count(request, 1)
        placed = Placed(each.number, request, self.hosts.name(row), missing)
        self._note(placed)
        return placed

    def _note(self, placed: Placed) -> None:
        self._placed[placed.number] = placed
        self._on.setdefault(placed.host, {})[placed.number] = placed

    def _earmark(self, each: Waiting, now: float) -> None:
        owner = each.request.owner
        if owner in self._earmarks or now - self._waiting[each.number][1] < self._patience:
            return
        if (row := self._row_to_keep(each.request, set())) is not None:
            self._earmarks[owner] = _Earmark(each.number, row)

    def _row_to_keep(self, request: Request, others: set[int]) -> int | None:
        """The host with the most free memory of those that are able, and kept for nothing else; none of `others`."""
        taken = others | {earmark.row for earmark in (*self._earmarks.values(), *self._moving.values())}
        rows = np.flatnonzero(self.hosts.able(request))
        rows = rows[[int(row) not in taken for row in rows]]
        return int(rows[np.argmax(self.hosts.free_memory[rows])]) if rows.size else None

    def _is_behind(self, request: Request) -> bool:
        """Whether others of its owner wait, which it must not overtake."""
        return any(priority >= request.priority for priority in self._account(request.owner).waiting)

    def _dequeue(self, each: Waiting) -> None:
        del self._waiting[each.number]
        owner, priority = each.request.owner, each.request.priority
        queue = self._accounts[owner].waiting[priority]
        queue.remove(each)
        if not queue:
            del self._accounts[owner].waiting[priority]
        if owner in self._earmarks and self._earmarks[owner].number == each.number:
            del self._earmarks[owner]

    def _drop_earmarks(self, row: int) -> None:
        self._earmarks = {owner: earmark for owner, earmark in self._earmarks.items() if earmark.row != row}
        self._moving = {number: earmark for number, earmark in self._moving.items() if earmark.row != row}

    def _account(self, owner: str) -> _Account:
        return self._accounts.setdefault(owner, _Account(self._limits.get(owner, Limits())))

    def _used(self) -> dict[str, Used]:
        """Shares of the whole fleet, of the owners that wait."""
        hosts = self.hosts
        memory, slots = max(1.0, float(hosts.memory.sum())), max(1.0, float(hosts.slots.sum()))
        throughput = max(1e-9, float(hosts.throughput.sum()))
        return {
            owner: Used(
                account.memory / memory, account.load / throughput, account.sessions / slots, account.limits.weight
            )
            for owner, account in self._accounts.items()
            if account.waiting
        }
