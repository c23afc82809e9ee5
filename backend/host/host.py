"""The host: one device, the sessions on it, the images they share.

Owns the admission of sessions (versions, limits, the quota) and the list of those that are open. Knows no transport and no protobuf:
the edge turns a Hello into a `Greeting` and an `Admission` into a Welcome.

Locking: one lock around the list of sessions; the device is never called while it is held.
Source: protos/farlane/v1/session.proto; docs/explanation/architecture/sessions.md, "Session and host".
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from farlane.backend.device.base import CudaError, Description, Device, MemoryMap, Window
from farlane.backend.host import fairness as shares
from farlane.backend.host.accounts import Accounts, Guest, How, Totals, Usage
from farlane.backend.host.allowances import Allowance, Allowances, Used
from farlane.backend.host.applicant import ANY, Applicant
from farlane.backend.host.fairness import Fairness, Served, Terms
from farlane.backend.host.greeting import Greeting, Reason, Refused, check, common_version
from farlane.backend.host.manifests import ManifestStore, Objects
from farlane.backend.host.queue import Patience, Queue
from farlane.backend.host.remote import Processes, RemoteSession
from farlane.backend.host.session import HIGHEST_PRIORITY, Session, priority_of
from farlane.backend.host.spans import Arrival, Sink
from farlane.backend.host.turns import Turns
from farlane.backend.objects.images import ImageStore, SessionImages
from farlane.backend.objects.payloads import CACHE_BYTES
from farlane.backend.objects.resources import Resources

log = logging.getLogger("farlane.session")

DEFAULT_SESSIONS = 64


HostedSession = Session | RemoteSession


@dataclass(frozen=True)
class Admission:
    """An open session and what its guest learns of it (session.proto, Welcome)."""

    session: HostedSession
    tape_version: int
    window: Window
    quota: int
    device: Description
    known_modules: Sequence[bytes]
    manifests: Objects | None = None
    checks: Sequence[str] = ()
    payload_bytes: int = CACHE_BYTES
    timeline: bool = False


class Host:
    """Sessions on one device, or each in a process that has one."""

    def __init__(
        self,
        device: Device | Processes,
        *,
        quota: int | None = None,
        session_limit: int = DEFAULT_SESSIONS,
        images: ImageStore | None = None,
        manifests: ManifestStore | None = None,
        guest_priority: int = HIGHEST_PRIORITY,
        spans: Sink | None = None,
        fairness: Fairness | None = None,
        guest_terms: Terms = shares.DEFAULT,
        queue: int = 0,
    ) -> None:
        """Args:
        queue: guests that may wait for a session while the host is full.
        fairness: shares the device's time; None: sessions take what they get.
        guest_terms: of guests without a token.
        """
        self.turns = Turns()  # of guests that come, until each knows where its session is: here all at once
        self.device = device
        self.descriptions = [device.describe()] if isinstance(device, Device) else list(device.descriptions)
        self.description = self.descriptions[0]
        self.quota = self.description.total_memory if quota is None else quota
        self.session_limit = session_limit
        self.images = images or ImageStore()
        self.manifests = manifests
        self.guest_priority = guest_priority  # the highest that a guest without a token may ask for
        self._spans = spans
        self.fairness = fairness
        self.guest_terms = guest_terms
        self._started = time.monotonic()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._queue = Queue(queue)
        self._open: dict[str, HostedSession | None] = {}  # None: being opened
        self._accounts = Accounts()
        self._allowances = Allowances()

    @property
    def has_processes(self) -> bool:
        """Whether each session has a process of its own."""
        return not isinstance(self.device, Device)

    @property
    def sessions(self) -> int:
        """Sessions open now."""
        with self._lock:
            return len(self._open)

    @property
    def waiting(self) -> int:
        """Guests in the queue."""
        with self._lock:
            return len(self._queue)

    @property
    def queue_limit(self) -> int:
        return self._queue.limit

    @property
    def used_by_tokens(self) -> Mapping[str, Used]:
        """What the open sessions of each token have."""
        return self._allowances.used()

    @property
    def uptime(self) -> float:
        return time.monotonic() - self._started

    @property
    def usage(self) -> list[Usage]:
        """The sessions that are open now, in the order in which they opened."""
        found = []
        served: Mapping[str, Served] = {} if self.fairness is None else self.fairness.served()
        for session in self._sessions():
            if (guest := self._accounts.guest(session.name)) is not None:
                found.append(
                    Usage.of(
                        session.name,
                        guest,
                        session.used_bytes,
                        session.quota,
                        session.counts(),
                        served.get(session.name),
                    )
                )
        return found

    def totals(self, usage: list[Usage]) -> Totals:
        """Of all sessions since the start; `usage` is that of the open ones. A kernel counts when it ends."""
        opening = max(0, self.sessions - len(self._sessions()))
        return self._accounts.totals(opening + self.waiting, usage)

    def memory_map(self, name: str) -> MemoryMap | None:
        """Of an open session; None: there is none, or it does not say so now."""
        return next((session.memory_map() for session in self._sessions() if session.name == name), None)

    def refused(self, refused: Refused) -> None:
        """No session came of a guest: for the sums."""
        self._accounts.refused(refused.reason.name.lower())

    def _sessions(self) -> list[HostedSession]:
        with self._lock:
            return [session for session in self._open.values() if session is not None]

    def admit(self, greeting: Greeting, applicant: Applicant = ANY) -> Admission:
        """Opens a session.

        Raises:
            CallGone: the guest has waited, and given up.
            Refused: with the reason, and nothing left behind.
        """
        came = time.monotonic_ns()
        tape_version = common_version(greeting)
        check(greeting)
        level = priority_of(greeting.priority, applicant.priority, self.guest_priority)
        name = self._reserve(level, applicant.patience)
        arrival = Arrival(came, time.monotonic_ns()) if greeting.timeline else None
        try:
            most = self.quota if applicant.quota is None else min(applicant.quota, self.quota)
            allowance = self._allowances.join(name, applicant.limits, most, CACHE_BYTES)
            session, description = self._open_session(name, tape_version, greeting, allowance, applicant, arrival)
        except BaseException:
            self._forget(name)
            raise
        terms = dataclasses.replace(applicant.terms or self.guest_terms, priority=level)
        self._opened(session, terms, greeting.program, greeting.pid)
        images = session.images
        known = [digest for digest in greeting.module_digests if images.find(digest) is not None]
        log.info(
            "session %s opened: %s (pid %d), client %s, mode %s, %d of %d images known",
            name, greeting.program or "?", greeting.pid, greeting.client_version or "?", greeting.mode,
            len(known), len(greeting.module_digests),
        )  # fmt: skip
        manifests = None
        if self.manifests is not None and greeting.mode == "loops":
            manifests = self.manifests.open(applicant.peer, greeting.objects)
        return Admission(
            session,
            tape_version,
            session.window,
            session.quota,
            description,
            known,
            manifests,
            greeting.checks,
            allowance.payloads,
            greeting.timeline,
        )

    def guest(self, name: str) -> Guest | None:
        """Who has an open session."""
        return self._accounts.guest(name)

    def restore(self, make: Callable[[str], tuple[HostedSession, str, int]], terms: Terms) -> None:
        """A session that was saved.

        Args:
            make: is given its name here; gives it, its program and that one's number.

        Raises:
            Refused: the host is full; and what `make` raises.
        """
        name = self._reserve(terms.priority, None)
        try:
            session, program, pid = make(name)
        except BaseException:
            self._forget(name)
            raise
        self._opened(session, terms, program, pid)
        log.info("session %s restored: %s (pid %d)", name, program or "?", pid)

    def _opened(self, session: HostedSession, terms: Terms, program: str, pid: int) -> None:
        self._share(session, terms)
        self._accounts.opened(session.name, program, pid)
        with self._lock:
            self._open[session.name] = session

    def end(self, session: HostedSession, why: str, how: How = How.STOPPED) -> None:
        """Closes a session, however it ended. Idempotent; never raises."""
        if self.fairness is not None:
            self.fairness.leave(session.name)
        if not session.closed:
            session.close()
            log.info("session %s ended: %s", session.name, why)
        self._accounts.ended(session.name, how, session.counts())
        self._forget(session.name)

    def close(self) -> None:
        """Ends what is left and closes the device. The transports have stopped before."""
        for session in self._sessions():
            self.end(session, "the host is stopping")
        if self.manifests is not None:
            self.manifests.close()
        self.device.close()
        if self.fairness is not None:
            self.fairness.close()

    def _share(self, session: HostedSession, terms: Terms) -> None:
        """Raises Refused: the session's process has ended."""
        session.prioritize(terms.priority)
        if self.fairness is None:
            return
        try:
            self.fairness.join(
                session.name, session.resources.context if isinstance(session, Session) else session, terms
            )
        except OSError as error:
            session.close()
            self._forget(session.name)
            raise Refused(Reason.DEVICE, f"the session's process ended at its start: {error}") from None

    def _reserve(self, priority: int, patience: Patience | None) -> str:
        """A name among the sessions that may be open. Raises Refused; CallGone: the guest has given up."""
        name = f"s{next(self._numbers)}"
        with self._lock:
            if len(self._open) < self.session_limit and not len(self._queue):
                self._open[name] = None
                return name
            if patience is None or self._queue.is_full:
                raise Refused(Reason.BUSY, self._full())
            waiting = self._queue.join(priority, patience.wake)
        log.info("a guest waits for a session, with priority %d", priority)
        try:
            while True:
                with self._lock:
                    place = self._queue.place(waiting)
                    if place.number == 1 and len(self._open) < self.session_limit:
                        self._open[name] = None
                        return name
                patience.wait(place)
        finally:
            with self._lock:
                self._queue.leave(waiting)

    def _full(self) -> str:
        queued = f", and {len(self._queue)} guests wait" if self._queue.limit else ""
        more = "--sessions or --queue" if self._queue.limit else "--sessions"
        return (
            f"the host serves {self.session_limit} sessions already, which is its limit{queued}: "
            f"try again later, or start it with a higher {more}"
        )

    def _forget(self, name: str) -> None:
        with self._lock:
            self._open.pop(name, None)
            self._queue.wake()
        self._allowances.leave(name)

    def _open_session(
        self,
        name: str,
        tape_version: int,
        greeting: Greeting,
        allowance: Allowance,
        applicant: Applicant,
        arrival: Arrival | None,
    ) -> tuple[HostedSession, Description]:
        images, checks = SessionImages(self.images, allowance.images), greeting.checks
        most, payloads = allowance.memory, allowance.payloads
        if isinstance(self.device, Device):
            said = None if self._spans is None else functools.partial(self._spans, name)
            session = open_session(self.device, most, images, name, tape_version, checks, said, payloads, arrival)
            return session, self.description
        try:
            digests, entrance, resumption = greeting.module_digests, applicant.entrance, applicant.resumption
            return self.device.open(
                name,
                tape_version,
                most,
                checks,
                images,
                digests,
                entrance,
                resumption,
                applicant.guest,
                payloads,
                arrival,
            )
        except BaseException:
            images.close()
            raise


def open_session(
    device: Device,
    quota: int,
    images: SessionImages,
    name: str,
    tape_version: int,
    checks: Sequence[str] = (),
    said: Callable[[bytes], None] | None = None,
    payload_bytes: int = CACHE_BYTES,
    arrival: Arrival | None = None,
) -> Session:
    """A session on a device of this process. `said`, `arrival`: see `Session`.

    Raises:
        Refused: the device has no room for it, or failed.
    """
    kind = device.name
    try:
        context = device.open_context(quota)
    except CudaError as error:
        raise Refused(Reason.DEVICE, f"the device {kind!r} has no room: {error.message} ({error.code})") from error
    except Exception as error:
        log.exception("the device failed to open a context")
        raise Refused(Reason.DEVICE, f"the device {kind!r} failed: {error!r}") from error
    try:
        if checks:
            context.check(checks)
    except CudaError as error:
        context.close()
        raise Refused(Reason.DEVICE, error.message) from error
    try:
        return Session(name, Resources(context, images, payload_bytes), tape_version, said, arrival)
    except Exception as error:
        context.close()
        log.exception("a session could not be made")
        raise Refused(Reason.DEVICE, f"the device {kind!r} failed: {error!r}") from error
