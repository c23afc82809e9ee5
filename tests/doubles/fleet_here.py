"""A fleet in this process, without Ray: some hosts, the roster, and a gateway that listens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from farlane.backend.device import registry
from farlane.backend.host.host import Host
from farlane.backend.security import certificates, tokens
from farlane.backend.security.folder import Folder
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import TcpEndpoint
from farlane.backend.workers.pool import WorkerPool
from farlane.backend.workers.processes import SessionProcesses
from farlane.fleet.gateway.gateway import Gateway
from farlane.fleet.gateway.member import Member
from farlane.fleet.gateway.roster import InQueue, Place, Roster
from farlane.fleet.placement import spread
from farlane.fleet.placement.book import Limits
from farlane.fleet.placement.hosts import Request

QUOTA = 1 << 30


class FleetHere:
    """Args:
    folder: where the gateway's certificate and tokens are made; None: nothing is encrypted.
    sessions: of each host at once.
    processes: each session has one of its own, as on a host of several machines.
    """

    def __init__(
        self,
        hosts: int = 2,
        device: str = "null",
        folder: Path | None = None,
        sessions: int = 4,
        grace: float = 0.0,
        processes: bool = False,
    ) -> None:
        self.roster = Roster(spread.choose)
        self.members: dict[str, Member] = {}
        self.places: list[Place] = []  # where sessions were led, in their order
        for number in range(hosts):
            opened = SessionProcesses(WorkerPool(device, confined=True)) if processes else registry.open_device(device)
            host = Host(opened, session_limit=sessions)
            name = f"h{number}"
            member = Member(name, host, "127.0.0.1", encrypted=folder is not None, grace=grace, gone=self.roster.leave)
            self.members[name] = member
            self.roster.add_host(name, member.incarnation, member.capacity, member.target)
        self.folder = None if folder is None else Folder(folder)
        if self.folder is not None:
            self.folder.create()
            certificates.create_authority(self.folder)
            certificates.create_host(self.folder, ["localhost", "127.0.0.1"], 1)
            tokens.initialize(self.folder)
        self.start_gateway()

    def start_gateway(self) -> None:
        descriptions = next(iter(self.members.values())).host.descriptions
        self.gateway = Gateway(self, descriptions, quota=QUOTA, guest_priority=9)
        self.edge = Edge(self.gateway, self.folder)
        (endpoint,) = self.edge.listen([TcpEndpoint("127.0.0.1", 0, self.folder is not None)])
        self.gateway.gate = self.edge.gate
        self.url = str(endpoint)

    def stop_gateway(self) -> None:
        self.edge.stop(0.2)
        self.gateway.close()

    def token(self, name: str, **limits: object) -> str:
        assert self.folder is not None
        token = tokens.new_token()
        digest = tokens.digest_of(token.encode())
        tokens.create(self.folder, tokens.Entry(name, digest, "token", 0.0, **limits))  # type: ignore[arg-type]
        return token

    def access(self, token: str) -> dict[str, str]:
        assert self.folder is not None
        return {"FARLANE_CA": str(self.folder.authority), "FARLANE_TOKEN": token}

    def drain(self, name: str) -> list[str]:
        """Sends the sessions of a host to others; where they are now."""
        self.roster.set_open(name, False)
        places = [(number, self.roster.move(number)) for number in self.roster.numbers_on(name)]
        for number, place in places:
            assert place is not None, "there is room"
            self.members[name].move(number, place, 10.0)
        return [place.host for _, place in places if place is not None]

    def close(self) -> None:
        self.stop_gateway()
        for member in self.members.values():
            member.close()

    # What the gateway asks.

    def ask(self, request: Request, limits: Limits) -> Place | InQueue:
        found = self.roster.ask(request, limits)
        self.places += [found] if isinstance(found, Place) else []
        return found

    def news(self, numbers: Sequence[int]) -> dict[int, Place | InQueue | None]:
        return self.roster.news(numbers)

    def leave(self, number: int) -> None:
        self.roster.leave(number)

    def host_gone(self, place: Place) -> None:
        self.roster.fail_host(place.host)

    def guests(self) -> dict[str, list[str]]:
        for name, member in self.members.items():
            self.roster.report(name, member.incarnation, member.report())
        return self.roster.guests()

    def end_guest(self, host: str, guest: str, why: str) -> None:
        self.members[host].end_guest(guest, why)
