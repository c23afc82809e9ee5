"""Lets guests in that come by TLS: by a token, or by a client certificate, before anything else of them is read.

Owns who may come: what a guest shows is compared with tokens.json, which is read again when it has changed. Guesses are
bounded for each address. Guests of a Unix socket, or of a loopback endpoint without TLS, do not come here. A session
ends when its guest may come no more: a thread looks for that as long as the gate is open.

Locking: one lock around the guests, their open sessions and the failures. Sessions are ended without it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from farlane.backend.host.allowances import Limits, Used
from farlane.backend.host.fairness import Terms
from farlane.backend.host.greeting import Reason, Refused
from farlane.backend.security import tokens
from farlane.backend.security.audit import Audit
from farlane.backend.security.folder import Folder, SecurityError
from farlane.backend.security.tickets import Tickets
from farlane.backend.security.usage import UsageFile

log = logging.getLogger("farlane.security")

FAILURES, FAILURE_SECONDS = 20, 60.0  # of one address, before it has to wait; `farlane run` may be refused twice
ADDRESSES = 4096  # that are remembered
WATCH_SECONDS = 0.25  # between two looks at who may still stay
_BEARER = "Bearer "
_MISSING = "the guest shows no token: set FARLANE_TOKEN to one that `farlane token create` prints on the host"


class Guest(Protocol):
    """What a call shows (`plane.Call`)."""

    @property
    def peer(self) -> str: ...
    @property
    def authorization(self) -> str | None: ...
    @property
    def certificate(self) -> bytes | None: ...


@dataclass(frozen=True)
class Grant:
    """A guest that is let in. `entry` is None: by an endpoint where none has to show anything."""

    entry: tokens.Entry | None
    peer: str
    entered: float = field(default_factory=time.monotonic)
    sent: str | None = None  # by a gateway, which names the guest

    @property
    def owner(self) -> str:
        """The name of what it has shown; empty: nothing."""
        return "" if self.entry is None else self.entry.name

    @property
    def guest(self) -> str:
        """A name for who comes, which no other guest has; empty: that is not known."""
        if self.sent is not None:
            return self.sent
        if self.entry is None:
            return "local" if self.peer.startswith("unix:") else ""  # the socket's file opens for the host's user alone
        return self.entry.digest

    @property
    def memory(self) -> int | None:
        return None if self.entry is None else self.entry.memory

    @property
    def limits(self) -> Limits | None:
        """What all its sessions may have together; None: no token bounds that."""
        if self.entry is None:
            return None
        return Limits(self.entry.name, self.entry.total_memory, self.entry.payloads, self.entry.images)

    @property
    def priority(self) -> int | None:
        """The highest that its sessions may have; None: what the host allows guests without a token."""
        return None if self.entry is None else self.entry.priority

    @property
    def terms(self) -> Terms | None:
        """What its sessions may have of the device's time; None: what the host gives guests without a token."""
        if self.entry is None:
            return None
        owner = f"token {self.entry.name}" if self.sent is None else self.sent and f"guest {self.sent}"
        return Terms(self.entry.weight, self.entry.share, owner)


@dataclass
class _Stay:
    """An open session of a guest that has shown something."""

    entry: tokens.Entry
    end: Callable[[str], None]
    why: str = ""  # it was ended


class Gate:
    """A host's gate.

    Args:
        folder: None: no endpoint is encrypted.
        devices: what the host has, by the names of backends.
        used: what the sessions of each token have, for a file that `farlane token list` reads.
        tickets: of the sessions that a gateway sends; others are not let in, by whatever endpoint they come.

    Raises:
        SecurityError: the folder cannot be used.
    """

    def __init__(
        self,
        folder: Folder | None = None,
        devices: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
        used: Callable[[], Mapping[str, Used]] | None = None,
        tickets: Tickets | None = None,
    ) -> None:
        self._folder = folder
        self._used = used
        self._devices = tuple(devices)
        self._clock = clock
        self._tickets = tickets
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._entries: list[tokens.Entry] = []
        self._open: dict[str, int] = {}
        self._let_in: dict[str, tokens.Entry] = {}  # by digest
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._audit: Audit | None = None
        self._stays: dict[str, _Stay] = {}  # by the session's name
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None
        if folder is not None:
            folder.require_private()
            self._entries = tokens.read(folder)
            try:
                self._audit = Audit(folder.audit)
            except OSError as error:
                raise SecurityError(f"cannot write {folder.audit}: {error.strerror}") from error
            if tickets is None:
                self._watcher = threading.Thread(target=self._watch, name="farlane-gate", daemon=True)
                self._watcher.start()

    def enter(self, guest: Guest) -> Grant:
        """Raises Refused."""
        if not guest.peer.startswith("tls:") and self._tickets is None:
            return Grant(None, guest.peer)
        network = _network(guest.peer)
        with self._lock:
            self._bound(network)
            entry, sent, why = self._judge(guest)
            last = bool(why) and self._fail(network)
        if why:
            # Further ones of the address come to no log until it has waited: it could fill the disk.
            log.warning("a guest of %s is refused%s: %s", guest.peer, ", and has to wait" if last else "", why)
            self._write("refused", entry, guest.peer, why=why, waits=last)
            raise Refused(Reason.UNAUTHORIZED, why)
        if entry is not None and sent is None:
            self._let_in[entry.digest] = entry
        return Grant(entry, guest.peer, sent=sent)

    @property
    def has_tickets(self) -> bool:
        """Whether this is a host of a fleet, whose gateway sends its sessions."""
        return self._tickets is not None

    @contextlib.contextmanager
    def session(self, grant: Grant, *, moves: bool = False) -> Iterator[None]:
        """While a session is opened and lasts. `moves`: it comes from another host. Raises Refused: the guest has as many as
        it may, or not on this host."""
        entry = grant.entry
        if entry is None:
            yield
            return
        if self._tickets is not None:
            with self._tickets.session(entry.name, moves=moves):
                yield
            return
        why = ""
        with self._lock:
            if entry.devices and not set(entry.devices) & set(self._devices):
                why = f"the token {entry.name} is for {' and '.join(entry.devices)}; this host has {self._devices[0]}"
            elif entry.sessions is not None and self._open.get(entry.name, 0) >= entry.sessions:
                why = f"the token {entry.name} allows {entry.sessions} sessions at once, and has them: try again later"
            else:
                self._open[entry.name] = self._open.get(entry.name, 0) + 1
        if why:
            self._write("refused", entry, grant.peer, why=why)
            raise Refused(Reason.UNAUTHORIZED, why)
        try:
            yield
        except Refused as refused:
            self._write("refused", entry, grant.peer, why=refused.message)
            raise
        finally:
            with self._lock:
                self._open[entry.name] -= 1

    def opened(self, grant: Grant, end: Callable[[str], None], *, session: str, **fields: Any) -> None:
        """A session has opened. `end` ends it, from another thread, and gets the reason; `left` follows however it ended."""
        if grant.entry is not None:
            with self._lock:
                self._stays[session] = _Stay(grant.entry, end)
        self._write("granted", grant.entry, grant.peer, session=session, **fields)

    def left(self, session: str) -> str:
        """A session is over. Gives why the gate has ended it; empty: it has not."""
        with self._lock:
            stay = self._stays.pop(session, None)
        return "" if stay is None else stay.why

    def session_of(self, name: str) -> str | None:
        """The open session that was let in by the ticket of this name."""
        with self._lock:
            return next((session for session, stay in self._stays.items() if stay.entry.name == name), None)

    def led(self, grant: Grant, **fields: Any) -> None:
        """A gateway has led the guest to a host: for the audit log."""
        self._write("led", grant.entry, grant.peer, **fields)

    def known(self, digest: str) -> tokens.Entry | None:
        """The guest with this digest, as the list is now."""
        with self._lock:
            return tokens.find(self._entries, digest)

    def past(self, digest: str) -> str:
        """Why a guest that was let in may come no more; empty: it may, or was never here."""
        with self._lock:
            entry = tokens.find(self._entries, digest)
            if entry is None and self._stamp is not None and digest in self._let_in:
                entry = replace(self._let_in[digest], revoked=0.0)  # another one has its name now
            return "" if entry is None else self._past(entry)

    def end(self, name: str, why: str) -> None:
        """Ends the session that a gateway has sent by this name."""
        with self._lock:
            stays = [stay for stay in self._stays.values() if stay.entry.name == name and not stay.why]
            for stay in stays:
                stay.why = why
        for stay in stays:
            stay.end(why)

    def resumed(self, grant: Grant, **fields: Any) -> None:
        self._write("resumed", grant.entry, grant.peer, **fields)

    def ended(self, grant: Grant, **fields: Any) -> None:
        """For the audit log, as `resumed`."""
        seconds = round(time.monotonic() - grant.entered, 3)
        self._write("ended", grant.entry, grant.peer, seconds=seconds, **fields)

    def close(self) -> None:
        self._closed.set()
        if self._watcher is not None:
            self._watcher.join()
        if self._audit is not None:
            self._audit.close()

    def _judge(self, guest: Guest) -> tuple[tokens.Entry | None, str | None, str]:
        """The guest, its name where a gateway has sent it, and why it is not let in."""
        shown = guest.authorization or ""
        if self._tickets is not None:
            try:
                return *self._tickets.find(shown.removeprefix(_BEARER)), ""
            except Refused as refused:
                return None, None, refused.message
        self._reload()
        if shown.startswith(_BEARER):
            kind, what, secret = "token", "token", shown[len(_BEARER) :].encode()
        elif guest.certificate is not None:
            kind, what, secret = "certificate", "client certificate", guest.certificate
        else:
            return None, None, _MISSING
        entry = tokens.find(self._entries, tokens.digest_of(secret))
        if entry is None or entry.kind != kind:
            return None, None, f"the host does not know the guest's {what}"
        return entry, None, self._past(entry)

    def _past(self, entry: tokens.Entry) -> str:
        """Why a guest that the host knows may come no more; empty: it may."""
        what = "token" if entry.kind == "token" else "client certificate"
        if entry.revoked is not None:
            return f"the guest's {what} ({entry.name}) was revoked"
        if entry.expires is not None and entry.expires <= self._clock():
            return f"the guest's {what} ({entry.name}) has expired"
        return ""

    def _watch(self) -> None:
        """Ends the sessions of guests that may come no more, and writes down what guests use."""
        assert self._folder is not None
        seen, usage = self._found(), UsageFile(self._folder)
        while not self._closed.wait(WATCH_SECONDS):
            self._show(usage)
            with self._lock:
                if (found := self._found()) != seen:
                    seen = found
                    self._reload()
                past = [stay for stay in self._stays.values() if not stay.why and self._is_past(stay)]
            for stay in past:
                stay.end(stay.why)

        usage.close()

    def _show(self, usage: UsageFile) -> None:
        try:
            if self._used is not None:
                usage.update(self._used())
        except SecurityError as error:
            log.error("what guests use is not shown: %s", error)
            self._used = None

    def _is_past(self, stay: _Stay) -> bool:
        """Whether it has to end. A list that cannot be read revokes nothing: the guest then stays until it expires."""
        known = tokens.find(self._entries, stay.entry.digest)
        if known is None and self._stamp is not None:
            known = replace(stay.entry, revoked=0.0)  # another one has its name now
        stay.why = self._past(known or stay.entry)
        return bool(stay.why)

    def _found(self) -> tuple[int, int, int] | None:
        """What the list of guests is known by; None: it is not there."""
        assert self._folder is not None
        try:
            found = os.stat(self._folder.tokens)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _reload(self) -> None:
        assert self._folder is not None
        try:
            stamp = self._found()
            if stamp is None or stamp != self._stamp:
                self._entries, self._stamp = tokens.read(self._folder), stamp
        except (SecurityError, OSError) as error:
            self._entries, self._stamp = [], None  # nothing says who may come: no guest may
            log.error("no guest is let in: %s", error)

    def _bound(self, network: str) -> None:
        """Raises Refused: too many guests of it have failed just now."""
        failures = self._failures.get(network)
        now = self._clock()
        while failures and failures[0] <= now - FAILURE_SECONDS:
            failures.popleft()
        if failures and len(failures) >= FAILURES:
            raise Refused(
                Reason.UNAUTHORIZED,
                f"{FAILURES} guests of this address were refused: "
                f"try again in {failures[0] + FAILURE_SECONDS - now:.0f} seconds",
            )

    def _fail(self, network: str) -> bool:
        """Whether it has to wait now."""
        failures = self._failures.setdefault(network, deque(maxlen=FAILURES))
        failures.append(self._clock())
        self._failures.move_to_end(network)
        while len(self._failures) > ADDRESSES:
            self._failures.popitem(last=False)
        return len(failures) == FAILURES

    def _write(self, event: str, entry: tokens.Entry | None, peer: str, **fields: Any) -> None:
        if self._audit is not None and peer.startswith("tls:"):
            self._audit.write(event, None if entry is None else entry.name, peer, **fields)


def _network(peer: str) -> str:
    """The address of a peer; of IPv6 the first 64 bits, in which one machine may choose any."""
    text = peer.removeprefix("tls:").rpartition(":")[0].strip("[]")
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return str(address)
