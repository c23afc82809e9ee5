"""The actors of a fleet: its roster, and its hosts.

Owns what each says to the other. Ray starts an actor that has failed anew: a host then begins without sessions, and the
roster learns from the hosts which sessions they have. Ray's health checks tell of a host that has failed: a call to it,
which lasts as long as it, then fails.

Source: docs.ray.io, "Fault tolerance" of actors.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray
from farlane.backend.commands.serve import SWITCH_SECONDS
from farlane.backend.device.base import Description
from farlane.fleet.cluster.line import Exchange, Way
from farlane.fleet.cluster.starting import open_member
from farlane.fleet.gateway.member import NotMoved
from farlane.fleet.gateway.roster import Held, Place, Report, Roster, Target, UnknownHost
from farlane.fleet.placement.book import Refused
from farlane.fleet.placement.hosts import Capacity
from farlane.fleet.placement.policies import POLICIES
from ray.exceptions import RayActorError, RayError, RayTaskError

log = logging.getLogger("farlane.fleet")

NAMESPACE = "farlane"
ROSTER = "roster"
HOST_PREFIX = "host-"
REPORT_SECONDS = 1.0
LOOK_SECONDS = 0.2  # between two looks: at hosts' ends, for room


@dataclass(frozen=True)
class Settings:
    """Of a roster; hosts keep them for one that is started anew."""

    policy: str  # of POLICIES
    queue: int
    since: float = 0.0  # seconds since 1970; 0: as it was made


@dataclass(frozen=True)
class Moved:
    """What has become of a session that was to move."""

    number: int
    host: str | None  # where it is now; None: it stays, or has ended
    why: str = ""
    seconds: float = 0.0  # for which it was held


class RosterActor(Roster):
    """The roster, which takes note of hosts that fail."""

    def __init__(self, policy: str, queue: int) -> None:
        sys.setswitchinterval(SWITCH_SECONDS)
        super().__init__(POLICIES[policy], queue)
        self._settings = Settings(policy, queue)
        self._descriptions: dict[str, list[Description]] = {}
        self._lives: dict[Any, tuple[str, str]] = {}  # a call that lasts as long as the host -> who
        self._lives_lock = threading.Lock()
        self._exchange = Exchange(ray.util.get_node_ip_address(), self.answer)
        threading.Thread(target=self._watch, name="farlane-lives", daemon=True).start()

    def way(self) -> Way:
        """By which gateways ask for places."""
        return self._exchange.way

    def change(self, policy: str | None, queue: int | None) -> None:
        """None: as it was."""
        now = self._settings
        self._set(Settings(policy or now.policy, now.queue if queue is None else queue, time.time()))

    def _set(self, settings: Settings) -> None:
        self._settings = settings
        self.configure(POLICIES[settings.policy], settings.queue)

    def begin(
        self,
        actor: Any,
        name: str,
        incarnation: str,
        capacity: Capacity,
        target: Target,
        node: str,
        held: Sequence[Held],
        descriptions: list[Description],
        settings: Settings | None,
    ) -> Settings:
        """A host begins, or tells a new roster what it has, and the settings that it knows."""
        if settings is not None and settings.since > self._settings.since:
            self._set(settings)
        self.add_host(name, incarnation, capacity, target, node, held)
        with self._lives_lock:
            self._descriptions[name] = descriptions
            self._lives[actor.last.remote(incarnation)] = name, incarnation
        return self._settings

    def tell(self, name: str, incarnation: str, report: Report) -> Settings:
        """A host's report. Raises UnknownHost."""
        self.report(name, incarnation, report)
        return self._settings

    def descriptions(self) -> list[Description]:
        """Of the devices of a host; empty: there is no host yet."""
        with self._lives_lock:
            return next(iter(self._descriptions.values()), [])

    def _watch(self) -> None:
        while True:
            with self._lives_lock:
                lives = list(self._lives)
            if not lives:
                threading.Event().wait(LOOK_SECONDS)
                continue
            over, _ = ray.wait(lives, timeout=LOOK_SECONDS)
            for life in over:
                with self._lives_lock:
                    name, incarnation = self._lives.pop(life)
                try:
                    ray.get(life)
                    why = "it has stopped"
                except RayError as error:
                    why = str(error).splitlines()[0]
                # One that only could not be reached comes again with its next report, and its sessions with it.
                lost = self.fail_host(name, incarnation)
                log.warning("the host %s is gone, and %d sessions with it: %s", name, lost, why)


class HostActor:
    """A host.

    Args:
        arguments: of `farlane serve`.
        encrypted: else guests of this machine alone can come.
    """

    def __init__(self, name: str, arguments: list[str], encrypted: bool) -> None:
        sys.setswitchinterval(SWITCH_SECONDS)
        self._over: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._member = open_member(name, arguments, ray.util.get_node_ip_address(), encrypted, self._over.put)
        self._node = ray.get_runtime_context().get_node_id()
        self._roster = ray.get_actor(ROSTER, NAMESPACE)
        self._actor = ray.get_runtime_context().current_actor
        self._stopped = threading.Event()
        self._settings: Settings | None = None
        self._begin()
        threading.Thread(target=self._report, name="farlane-report", daemon=True).start()

    def end_guest(self, guest: str, why: str) -> None:
        """Ends its sessions."""
        self._member.end_guest(guest, why)

    def move(self, number: int, wait: float) -> Moved:
        """Sends one of its sessions to the host that the roster chooses, once that has room for it."""
        deadline = time.monotonic() + wait
        try:
            while (place := self._room(number)) is None:
                if time.monotonic() >= deadline:
                    self._roster.stop_moving.remote(number)
                    return Moved(number, None, f"no other host had room for it in {wait:g} s")
                time.sleep(LOOK_SECONDS)
        except Refused as refused:
            return Moved(number, None, str(refused))
        try:
            return Moved(number, place.host, "", self._member.move(number, place, wait))
        except NotMoved as error:
            self._roster.leave.remote(place.number)
            return Moved(number, None, str(error))

    def _room(self, number: int) -> Place | None:
        """Raises Refused."""
        try:
            place: Place | None = ray.get(self._roster.move.remote(number))
            return place
        except RayTaskError as error:
            raise error.cause from None

    def awaited(self) -> int:
        """Sessions that have moved, and whose guests have not been led on yet."""
        return self._member.awaited

    def last(self, incarnation: str) -> None:
        """Returns once the host has stopped. Raises ValueError: it is another one by now."""
        if incarnation != self._member.incarnation:
            raise ValueError(f"this is not {incarnation}")
        self._stopped.wait()

    def report(self) -> Report:
        return self._member.report()

    def pid(self) -> int:
        return os.getpid()

    def stop(self) -> None:
        """Ends its sessions."""
        self._stopped.set()
        self._over.put(None)
        self._member.close()

    def _begin(self) -> None:
        member = self._member
        self._settings = ray.get(
            self._roster.begin.remote(
                self._actor, member.name, member.incarnation, member.capacity, member.target, self._node,
                member.held(), list(member.host.descriptions), self._settings,
            )
        )  # fmt: skip

    def _report(self) -> None:
        """Says at once which sessions are over, and now and then all."""
        due = time.monotonic() + REPORT_SECONDS
        while not self._stopped.is_set():
            try:
                over = [self._over.get(timeout=max(0.0, due - time.monotonic()))]
                while not self._over.empty():
                    over.append(self._over.get())
                self._roster.leave_all.remote([number for number in over if number is not None])
                continue
            except queue.Empty:
                due = time.monotonic() + REPORT_SECONDS
            try:
                said = self._roster.tell.remote(self._member.name, self._member.incarnation, self._member.report())
                self._settings = ray.get(said)
            except RayTaskError as error:
                if not isinstance(error.cause, UnknownHost):
                    log.exception("the roster took no report")
                    continue
                log.warning("the roster does not know this host (any more): it registers")
                self._try_to_begin()
            except RayActorError as error:
                log.warning("the roster cannot be reached: %s", error)

    def _try_to_begin(self) -> None:
        try:
            self._begin()
        except RayError as error:
            log.warning("the roster does not take this host: %s", error)
