"""A host of a fleet: an ordinary host that takes only the sessions that a gateway sends, and reports them.

Sends its sessions to other hosts of the fleet: the host that a session goes to takes it by a ticket, as it takes a guest,
over the same endpoint. Owns its endpoint, its certificate and the list of its sessions. The certificate is made at its start, and its key stays
in a temporary folder of its own, which goes with it: guests know it from the gateway, byte for byte, so that nothing has to sign it.

Locking: one lock around the sessions' requests.
"""

from __future__ import annotations

import dataclasses
import math
import secrets
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from farlane.backend.commands import session as sessions
from farlane.backend.device.saved import Unsaveable
from farlane.backend.host.greeting import Reason, Refused
from farlane.backend.host.host import Host
from farlane.backend.host.metrics import DEVICE_TIME
from farlane.backend.security import certificates, tokens
from farlane.backend.security.folder import Folder
from farlane.backend.security.tickets import KEY_BYTES, Ticket, Tickets, seal
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import TcpEndpoint, UnixEndpoint
from farlane.fleet.gateway.roster import Held, Place, Report, Target
from farlane.fleet.placement.hosts import Capacity, Request

STOP_SECONDS = 5.0
LOOK_SECONDS = 0.02  # between two looks whether a guest has come
MOVE_SECONDS = 600.0  # for a session's memory to go to its new host, and for its guest to go there


class NotMoved(Exception):
    """The session goes on where it is; the message is for the user."""


class Member:
    """See the module.

    Args:
        address: by which guests reach this machine; a port of its own is chosen there.
        encrypted: without it the address must be loopback's.
        gone: gets the number of each session that is over. From any thread.
    """

    def __init__(
        self, name: str, host: Host, address: str, *, encrypted: bool, grace: float, gone: Callable[[int], None]
    ) -> None:
        self.name = name
        self.incarnation = uuid.uuid4().hex
        self.host = host
        self._gone = gone
        self._lock = threading.Lock()
        self._held: dict[int, Request] = {}
        self._most_reserved = 0
        key = secrets.token_bytes(KEY_BYTES)
        self._tickets = Tickets(key, self._take, self._ended)
        self._folder = Path(tempfile.mkdtemp(prefix="farlane-member-"))
        try:
            folder = self._secure(address) if encrypted else None
            self._edge = Edge(host, folder, grace, tickets=self._tickets)
            self._socket = UnixEndpoint(str(self._folder / "sessions.sock"))  # by which it gives its sessions away
            endpoint, _ = self._edge.listen([TcpEndpoint(address, 0, encrypted), self._socket])
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        shown = b"" if folder is None else _der(folder.certificate)
        authority = b"" if folder is None else folder.authority.read_bytes()
        self.target = Target(str(endpoint), shown, key, authority)

    @property
    def capacity(self) -> Capacity:
        description = self.host.description
        return Capacity(description.backend, description.total_memory, self.host.session_limit)

    def end_guest(self, guest: str, why: str) -> None:
        """Ends its sessions."""
        assert self._edge.gate is not None
        for name in self._tickets.of_guest(guest):
            self._edge.gate.end(name, why)

    def move(self, number: int, place: Place, wait: float) -> float:
        """Sends a session to another host; gives for how many seconds it was held. Its guest follows by itself.

        Args:
            wait: for so many seconds its work may take to come to the end of a group.

        Raises:
            NotMoved: the session goes on here.
        """
        ticket, name = self._open(number, time.monotonic() + wait)
        expires = math.ceil(time.time() + MOVE_SECONDS)
        moving = dataclasses.replace(ticket, number=place.number, expires=expires, moves=True)
        target = place.target
        with tempfile.NamedTemporaryFile(dir=self._folder) as authority:
            authority.write(target.authority)
            authority.flush()
            signed = Path(authority.name) if target.authority else None
            shown = sessions.Ticket(seal(moving, target.key), target.certificate, signed)
            try:
                _, figures, _ = sessions.move(
                    str(self._socket), name, target.url, wait=wait, guests=target.url, ticket=shown
                )
            except (sessions.Failed, Unsaveable) as error:
                raise NotMoved(str(error)) from None
        return figures.paused

    @property
    def awaited(self) -> int:
        """Sessions that have moved, and whose guests have not been led on yet: the host must stay for them."""
        return self._edge.awaited

    def held(self) -> list[Held]:
        with self._lock:
            return [Held(number, request) for number, request in self._held.items()]

    def report(self) -> Report:
        usage = self.host.usage
        totals = self.host.totals(usage)
        with self._lock:
            numbers, most = list(self._held), self._most_reserved
        return Report(
            numbers=numbers,
            sessions=self.host.sessions,
            memory_used=sum(each.memory or 0 for each in usage),
            most_reserved=most,
            busy_nanoseconds=totals.counts.get(DEVICE_TIME, 0),
            opened=totals.opened,
            ended={str(how): count for how, count in totals.ended.items()},
            counts=dict(totals.counts),
            guests=sorted(self._tickets.guests()),
        )

    def close(self) -> None:
        self._edge.stop(STOP_SECONDS)
        self.host.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _open(self, number: int, deadline: float) -> tuple[Ticket, str]:
        """An open session's ticket, and its name here. Raises NotMoved."""
        gate = self._edge.gate
        assert gate is not None
        while True:
            ticket = self._tickets.of_session(number)
            if ticket is None and self._tickets.is_over(number):
                raise NotMoved("it has ended")
            if ticket is not None and (name := gate.session_of(ticket.name)) is not None:
                return ticket, name
            if time.monotonic() >= deadline:
                raise NotMoved("its guest has not come yet")
            time.sleep(LOOK_SECONDS)

    def _take(self, ticket: Ticket) -> None:
        """Raises Refused: what the host has is reserved. The fleet's account may be wrong for a moment; this one is not."""
        request = Request(ticket.owner, self.host.description.backend, ticket.memory, ticket.load, ticket.priority)
        with self._lock:
            reserved = sum(each.memory for each in self._held.values())
            if reserved + request.memory > self.capacity.memory:
                why = f"the host {self.name} has reserved {reserved} bytes already, and this session asks for {request.memory}"
                raise Refused(Reason.BUSY, f"{why}: start the program again")
            self._held[ticket.number] = request
            self._most_reserved = max(self._most_reserved, reserved + request.memory)

    def _ended(self, ticket: Ticket) -> None:
        with self._lock:
            self._held.pop(ticket.number, None)
        self._gone(ticket.number)

    def _secure(self, address: str) -> Folder:
        folder = Folder(self._folder / "host")
        folder.create()
        certificates.create_authority(folder)
        certificates.create_host(folder, [address], certificates.HOST_DAYS)
        folder.authority_key.unlink()  # it has signed all that it will
        tokens.initialize(folder)
        return folder


def _der(path: Path) -> bytes:
    return x509.load_pem_x509_certificate(path.read_bytes()).public_bytes(Encoding.DER)
