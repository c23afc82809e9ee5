"""A gateway: to its guests a host, that leads each of them to one of a fleet's hosts.

Owns the admission of a guest: what its session asks for, where it goes, and the ticket by which it is let in there, once.
The gateway signs the ticket with the host's key, so that no word about a session goes from here to its host.
The guest opens its session at that host itself, so that nothing of it goes through here. A gateway keeps no session: it
can be started anew at any time, and there may be several (docs/explanation/fleet/README.md).

Locking: one lock around the guests that wait; the fleet is not asked while it is held.
Source: protos/tape.md, "Gateways".
"""

from __future__ import annotations

import logging
import math
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from farlane import hosturl
from farlane.backend.device.base import Description
from farlane.backend.host.applicant import ANY, Applicant
from farlane.backend.host.fairness import Terms
from farlane.backend.host.greeting import Elsewhere, Greeting, Reason, Refused, check, common_version
from farlane.backend.host.host import Admission, Host
from farlane.backend.host.queue import Patience
from farlane.backend.host.queue import Place as Shown
from farlane.backend.host.session import priority_of
from farlane.backend.host.turns import Turns
from farlane.backend.security.gate import Gate
from farlane.backend.security.tickets import Ticket, seal
from farlane.backend.security.tokens import DIGEST_LENGTH, digest_of
from farlane.fleet.gateway.roster import RECENT, InQueue, NotYet, Place, percentiles
from farlane.fleet.placement import book
from farlane.fleet.placement.hosts import Request

log = logging.getLogger("farlane.gateway")

COMING_SECONDS = 30.0  # for a guest to come to its host
REACH_SECONDS = 3.0  # for a host to take a connection; one that is lost is tried again after a second
FRESH_SECONDS = 0.05  # for a host that has taken a connection: guests that come together are led to it by one look
LOOK_SECONDS = 0.2  # between two looks at the queue, while guests wait
JUDGE_SECONDS = 0.5  # between two looks at who may still stay
SETTLED_SECONDS = 30.0  # for a roster that was started anew to hear of its hosts
PAUSE_SECONDS = 0.2  # before such a roster is asked again
AT_ONCE = 2  # guests that are worked for, the question to the roster included; those that wait for room do not count
ATTEMPTS = 3  # to find a host that is there
TIMES = {
    "placing": "the recent placements of this gateway took, from the guest's turn on, without waiting for room",
    "question": "this gateway's recent questions to the roster took, which are part of a placement",
    "connection": "this gateway's recent connections to hosts took, which are part of a placement",
}
GUESTS = "guests"  # the owner of sessions of guests without a token
_OLD = (
    "this is the gateway of a fleet, which leads guests to its hosts, and this guest cannot follow: its Farlane is too old for "
    "that (upgrade it), or it was led here by another gateway"
)


class Unavailable(Exception):
    """The fleet cannot be asked now; the message is for the user."""


class Fleet(Protocol):
    """What a gateway asks."""

    def ask(self, request: Request, limits: book.Limits) -> Place | InQueue:
        """Raises book.Refused, NotYet, Unavailable. The caller holds its turn meanwhile."""

    def news(self, numbers: Sequence[int]) -> dict[int, Place | InQueue | None]: ...
    def leave(self, number: int) -> None: ...
    def host_gone(self, place: Place) -> None:
        """The host that the fleet has named takes no connection."""

    def guests(self) -> Mapping[str, Sequence[str]]:
        """Who has sessions, by their digests, and on which hosts."""

    def end_guest(self, host: str, guest: str, why: str) -> None:
        """Ends its sessions there, sooner or later."""


class _Nothing:
    """In the place of a device (`remote.Processes`): a gateway opens no session."""

    def __init__(self, descriptions: Sequence[Description]) -> None:
        self.descriptions = descriptions

    def open(self, *arguments: Any, **named: Any) -> NoReturn:
        raise AssertionError("a gateway opens no session")

    def reopen(self, *arguments: Any, **named: Any) -> NoReturn:
        raise AssertionError("a gateway opens no session")

    def close(self) -> None:
        pass


@dataclass
class _Guest:
    """One that waits."""

    wake: Callable[[], None]
    news: Place | InQueue | None


class Gateway(Host):
    """See the module.

    Args:
        descriptions: of the devices that the fleet's hosts have.
        quota: device memory that a session reserves, where its token says nothing.
        load: device seconds in a second that a session is expected to use.
        calls: guests that are there at once: admitted, waiting for their turn or for room.
        at_once: guests that are admitted at once; the others wait for their turn.
    """

    def __init__(
        self,
        fleet: Fleet,
        descriptions: Sequence[Description],
        *,
        quota: int,
        load: float = 0.1,
        calls: int = 256,
        guest_priority: int = 0,
        at_once: float = AT_ONCE,
    ) -> None:
        super().__init__(_Nothing(descriptions), quota=quota, session_limit=calls, guest_priority=guest_priority)
        self.gate: Gate | None = None  # of the endpoint, where that is encrypted
        self._times: dict[str, deque[float]] = {name: deque(maxlen=RECENT) for name in TIMES}  # seconds
        self.turns = Turns(at_once)
        self._fleet = fleet
        self._load = load
        self._guests: dict[int, _Guest] = {}
        self._reached: dict[str, float] = {}  # when a host has last taken a connection, by its URL
        self._waiting_lock = threading.Lock()
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="farlane-gateway", daemon=True)
        self._watcher.start()

    @property
    def has_processes(self) -> bool:
        return False

    @property
    def times(self) -> dict[str, dict[str, float]]:
        """Seconds that the parts of recent placements took (TIMES), and that guests waited for their `turn`, by percentile."""
        return {name: percentiles(list(each)) for name, each in (self._times | {"turn": self.turns.waits}).items()}

    @property
    def waiting(self) -> int:
        with self._waiting_lock:
            return len(self._guests)

    def admit(self, greeting: Greeting, applicant: Applicant = ANY) -> Admission:
        """Never gives an admission.

        Raises:
            Elsewhere: the session is opened there.
            Refused, CallGone: as a host's.
        """
        common_version(greeting)
        check(greeting)
        if not greeting.follows:
            raise Refused(Reason.VERSION, _OLD)
        entry = self.gate.known(applicant.guest) if self.gate is not None else None
        terms, limits = applicant.terms or self.guest_terms, applicant.limits
        request = Request(
            owner=entry.name if entry else GUESTS,
            device=self.description.backend,
            memory=self.quota if applicant.quota is None else applicant.quota,
            load=self._load,
            priority=priority_of(greeting.priority, applicant.priority, self.guest_priority),
            images=tuple(digest.hex() for digest in greeting.module_digests),
        )
        together = book.Limits(
            sessions=entry.sessions if entry else None,
            memory=limits.memory if limits else None,
            weight=terms.weight,
        )
        for _ in range(ATTEMPTS):
            began = time.perf_counter()
            place, waited = self._place(request, together, applicant.patience)
            try:
                self._reach(place.target.url)
            except OSError as error:
                log.warning("the host %s takes no connection: %s", place.host, error.strerror or error)
                self._reached.pop(place.target.url, None)
                self._fleet.host_gone(place)
                continue
            ticket = self._ticket(place, request, terms, applicant)
            if not waited:
                self._times["placing"].append(time.perf_counter() - began)
            log.info("session %d of %s goes to %s", place.number, request.owner, place.host)
            raise Elsewhere(ticket.name, place.target.url, seal(ticket, place.target.key), place.target.certificate)
        raise Refused(Reason.BUSY, f"{ATTEMPTS} hosts of the fleet took no session: try again")

    def close(self) -> None:
        self._closed.set()
        self._watcher.join()
        super().close()

    def _reach(self, url: str) -> None:
        """The host's machine is there, and its process listens. Raises OSError."""
        if time.monotonic() - self._reached.get(url, -math.inf) < FRESH_SECONDS:
            return
        found = hosturl.parse(url)
        assert isinstance(found, hosturl.TcpUrl)
        began = time.perf_counter()
        socket.create_connection((found.host, found.port), REACH_SECONDS).close()
        self._times["connection"].append(time.perf_counter() - began)
        self._reached[url] = time.monotonic()

    def _ticket(self, place: Place, request: Request, terms: Terms, applicant: Applicant) -> Ticket:
        guest, limits = applicant.guest, applicant.limits
        return Ticket(
            number=place.number,
            owner=request.owner,
            expires=math.ceil(time.time() + COMING_SECONDS),
            memory=request.memory,
            priority=request.priority,
            weight=terms.weight,
            load=request.load,
            share=terms.share,
            payloads=limits.payloads if limits else None,
            images=limits.images if limits else None,
            guest=guest if len(guest) in (0, DIGEST_LENGTH) else digest_of(guest.encode()),
        )

    def _place(self, request: Request, limits: book.Limits, patience: Patience | None) -> tuple[Place, bool]:
        """Where the session goes, and whether it has waited for that. Raises Refused, CallGone."""
        waited, deadline = False, time.monotonic() + SETTLED_SECONDS
        while True:
            began = time.perf_counter()
            try:
                found: Place | InQueue | None = self._fleet.ask(request, limits)
            except NotYet:
                if time.monotonic() >= deadline:
                    raise Refused(Reason.BUSY, "the fleet's roster has no hosts yet: try again") from None
                waited = True
                with self.turns.given_away():
                    time.sleep(PAUSE_SECONDS)
                continue
            except (book.Refused, Unavailable) as refused:
                raise Refused(Reason.BUSY, str(refused)) from None
            self._times["question"].append(time.perf_counter() - began)
            if isinstance(found, InQueue):
                if patience is None:
                    self._fleet.leave(found.number)
                    why = f"no host of the fleet has room now, and {found.of} sessions wait: try again later"
                    raise Refused(Reason.BUSY, why)
                found, waited = self._wait(found, patience), True
            if found is not None:
                return found, waited

    def _wait(self, queued: InQueue, patience: Patience) -> Place | None:
        """None: the roster does not know of it any more, for it was started anew. Raises Refused, CallGone."""
        guest = _Guest(patience.wake, queued)
        with self._waiting_lock:
            self._guests[queued.number] = guest
        placed = False
        try:
            while not isinstance(news := guest.news, Place):
                if news is None:
                    return None
                with self.turns.given_away():
                    patience.wait(Shown(news.place, news.of))
            placed = True
            return news
        finally:
            with self._waiting_lock:
                del self._guests[queued.number]
            if not placed:
                self._fleet.leave(queued.number)

    def _watch(self) -> None:
        """Looks after the guests that wait, and those that may come no more."""
        judged = time.monotonic()
        while not self._closed.wait(LOOK_SECONDS):
            try:
                self._look()
                if self.gate is not None and time.monotonic() - judged >= JUDGE_SECONDS:
                    self._judge(self.gate)
                    judged = time.monotonic()
            except Unavailable as error:
                log.warning("%s", error)
            except Exception:
                log.exception("the fleet could not be asked")

    def _judge(self, gate: Gate) -> None:
        """Ends the sessions of guests whose token was revoked, or has expired."""
        for guest, hosts in self._fleet.guests().items():
            if why := gate.past(guest):
                for host in hosts:
                    self._fleet.end_guest(host, guest, why)

    def _look(self) -> None:
        with self._waiting_lock:
            numbers = list(self._guests)
        if numbers:
            news = self._fleet.news(numbers)
            with self._waiting_lock:
                for number, said in news.items():
                    guest = self._guests.get(number)
                    if guest is not None and guest.news != said:
                        guest.news = said
                        guest.wake()
