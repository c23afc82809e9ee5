"""The sessions that a gateway sends to this host: each shows a ticket that the gateway has signed, and is let in once.

Owns what a ticket says, its signature, and which tickets of this host were used. The gateway has asked the session's
guest who it is, so that a host of a fleet knows no guests of its own. The key is the host's own: a ticket for another host,
or for this one before it was started anew, is none (docs/explanation/fleet/README.md).

Locking: one lock around the list. `taken` and `gone` are called without it.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import math
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from farlane.backend.host.greeting import Reason, Refused
from farlane.backend.security.tokens import PREFIX, Entry

KEY_BYTES = 32
_SIGNATURE_BYTES = 16
_NONE = -1  # in the place of a limit that there is none of
# Version, number, expiry, memory, priority, weight, load, share, payloads, images, guest; the owner's name follows.
_FIELDS = struct.Struct("<BQQQBHddqq32s")
_OPENS, _MOVES = 1, 2  # versions: what the session does
_BYTES = 186  # of the longest: with its prefix a token of 256 characters, which a guest takes
_UNKNOWN = "this host of a fleet takes a session only by the ticket that the fleet's gateway gives for it: set FARLANE_HOST to the gateway"
_LATE = (
    "the ticket that the fleet's gateway gave for this session was not used in time: start the program again "
    "(if that happens each time, the clocks of the gateway and of this host differ)"
)
_OTHER = "the ticket that the fleet's gateway gave is for a session that is opened here, or for one that moves here: not for this one"
_USED = "the ticket that the fleet's gateway gave for this session was used already, and is good once"


@dataclass(frozen=True)
class Ticket:
    """One session, as the gateway admits it."""

    number: int  # which no other session of the fleet has
    owner: str
    expires: int  # seconds since 1970
    memory: int  # bytes that it reserves
    priority: int = 0
    weight: int = 1
    load: float = 0.0  # device seconds in a second that it is expected to use
    share: float | None = None  # as an Entry's, and so are the next two
    payloads: int | None = None
    images: int | None = None
    guest: str = ""  # a name for who comes, by which compiled code is kept: a SHA-256 in hexadecimal
    moves: bool = False  # from another host, which shows the ticket first; else its guest opens it

    @property
    def name(self) -> str:
        """Of the session, in logs and at its host."""
        return f"{self.owner}.{self.number}"

    @property
    def entry(self) -> Entry:
        """The session as a guest of the host."""
        return Entry(
            self.name, "", "token", created=0.0, memory=self.memory, sessions=1, priority=self.priority,
            weight=self.weight, share=self.share, payloads=self.payloads, images=self.images,
        )  # fmt: skip


def seal(ticket: Ticket, key: bytes) -> str:
    """The token that the guest shows."""
    said = _FIELDS.pack(
        _MOVES if ticket.moves else _OPENS, ticket.number, ticket.expires, ticket.memory, ticket.priority, ticket.weight, ticket.load,
        math.nan if ticket.share is None else ticket.share,
        _NONE if ticket.payloads is None else ticket.payloads,
        _NONE if ticket.images is None else ticket.images,
        bytes.fromhex(ticket.guest),
    ) + ticket.owner.encode()  # fmt: skip
    if len(said) + _SIGNATURE_BYTES > _BYTES:
        raise ValueError(f"{ticket.owner} is too long for the name of an owner")
    return _written(_sign(said, key) + said)


def unseal(token: str, key: bytes) -> Ticket | None:
    """The ticket in a token; None: it has none that was signed with this key."""
    text = token.removeprefix(PREFIX)
    try:
        sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    signature, said = sealed[:_SIGNATURE_BYTES], sealed[_SIGNATURE_BYTES:]
    if (
        _written(sealed) != token
        or not hmac.compare_digest(signature, _sign(said, key))
        or len(said) < _FIELDS.size
        or said[0] not in (_OPENS, _MOVES)
    ):
        return None
    _, number, expires, memory, priority, weight, load, share, payloads, images, guest = _FIELDS.unpack_from(said)
    return Ticket(
        number, said[_FIELDS.size :].decode(), expires, memory, priority, weight, load,
        None if math.isnan(share) else share,
        None if payloads == _NONE else payloads,
        None if images == _NONE else images,
        guest.hex() if any(guest) else "",
        said[0] == _MOVES,
    )  # fmt: skip


def _written(sealed: bytes) -> str:
    return PREFIX + base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()


def _sign(said: bytes, key: bytes) -> bytes:
    return hmac.digest(key, said, hashlib.sha256)[:_SIGNATURE_BYTES]


@dataclass
class _Known:
    ticket: Ticket
    used: bool = False
    over: bool = False

    @property
    def is_open(self) -> bool:
        return self.used and not self.over


class Tickets:
    """See the module.

    Args:
        key: what tickets for this host are signed with.
        taken: a session comes by this ticket. Raises Refused: there is no room for it.
        gone: a session that was taken is over. From any thread.
    """

    def __init__(
        self,
        key: bytes,
        taken: Callable[[Ticket], None],
        gone: Callable[[Ticket], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._key = key
        self._taken = taken
        self._gone = gone
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[
            str, _Known
        ] = {}  # that were shown, until they have expired and their sessions are over; by name

    def of_guest(self, guest: str) -> list[str]:
        """The names of its sessions."""
        with self._lock:
            return [name for name, each in self._known.items() if each.is_open and each.ticket.guest == guest]

    def is_over(self, number: int) -> bool:
        """Whether a session has been here, and has ended."""
        with self._lock:
            return any(each.over and each.ticket.number == number for each in self._known.values())

    def of_session(self, number: int) -> Ticket | None:
        """Of an open session."""
        with self._lock:
            return next(
                (each.ticket for each in self._known.values() if each.is_open and each.ticket.number == number), None
            )

    def guests(self) -> set[str]:
        """Who has sessions."""
        with self._lock:
            return {each.ticket.guest for each in self._known.values() if each.is_open and each.ticket.guest}

    def find(self, token: str) -> tuple[Entry, str]:
        """Whose ticket it is, and the name of the guest. A used one finds its session, which may be resumed. Raises Refused."""
        ticket = unseal(token, self._key)
        if ticket is None:
            raise Refused(Reason.UNAUTHORIZED, _UNKNOWN)
        with self._lock:
            self._sweep()
            self._known.setdefault(ticket.name, _Known(ticket))
        return ticket.entry, ticket.guest

    @contextlib.contextmanager
    def session(self, name: str, *, moves: bool = False) -> Iterator[None]:
        """While a session is opened and lasts. Raises Refused: it is not the first one of its ticket, or comes too late.

        Args:
            moves: it comes from another host.
        """
        with self._lock:
            found = self._known.get(name)
            if found is not None and found.ticket.moves != moves:
                raise Refused(Reason.UNAUTHORIZED, _OTHER)
            if found is not None and found.used:
                raise Refused(Reason.UNAUTHORIZED, _USED)
            if found is None or found.ticket.expires <= self._clock():
                raise Refused(Reason.UNAUTHORIZED, _LATE)
            found.used = True
        try:
            self._taken(found.ticket)
            try:
                yield
            finally:
                self._gone(found.ticket)
        finally:
            with self._lock:
                found.over = True

    def _sweep(self) -> None:
        now = self._clock()
        for name in [name for name, each in self._known.items() if each.ticket.expires <= now and not each.is_open]:
            del self._known[name]
