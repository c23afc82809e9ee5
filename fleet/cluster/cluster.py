"""A fleet on a Ray cluster, as its commands and its gateways know it.

Owns the connection to Ray, and what becomes of its errors. Actors have names, so that every process of the cluster finds
them, and outlive the command that has started them.

Locking: one lock around the hosts' handles.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ray
from farlane.backend.device.base import Description
from farlane.fleet.cluster.actors import HOST_PREFIX, NAMESPACE, ROSTER, HostActor, Moved, RosterActor
from farlane.fleet.cluster.line import Lines, Lost
from farlane.fleet.gateway.gateway import Unavailable
from farlane.fleet.gateway.roster import InQueue, NotYet, Place, State
from farlane.fleet.placement.book import Limits, Refused
from farlane.fleet.placement.hosts import Request
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

DEFAULT_POLICY, QUEUE = "locality", 1024  # of a new fleet
CALL_SECONDS = 10.0
ROSTER_SECONDS = 30.0  # for a roster that is started anew
PAUSE_SECONDS = 0.2  # before it is asked again
STOP_SECONDS = 20.0
_HEAD = "node:__internal_head__"  # Ray's name for its head node: where that ends, the cluster does
_CALLS_AT_ONCE = 64  # of an actor; each roster's call that lasts is one


class FleetError(Unavailable):
    """The message is for the user."""


def connect(address: str | None) -> None:
    """Raises FleetError: there is no Ray cluster."""
    try:
        ray.init(
            address=address or "auto", namespace=NAMESPACE, log_to_driver=False, logging_level="warning",
            configure_logging=True,
        )  # fmt: skip
    except (ConnectionError, RayError, ValueError, RuntimeError) as error:
        where = address or "on this machine"
        raise FleetError(
            f"there is no Ray cluster {where}: start one with `ray start --head` ({str(error).splitlines()[0]})"
        ) from None


def disconnect() -> None:
    """The actors stay."""
    ray.shutdown()


def addresses() -> set[str]:
    """Of the cluster's machines."""
    return {str(node["NodeManagerAddress"]) for node in ray.nodes() if node["Alive"]}


class Cluster:
    """The fleet of the cluster that this process is connected to (`gateway.Fleet`).

    Raises:
        FleetError: it has none.
    """

    def __init__(self) -> None:
        try:
            self._roster = ray.get_actor(ROSTER, NAMESPACE)
        except ValueError:
            raise FleetError("this Ray cluster has no fleet: `farlane fleet up` starts one") from None
        self._lock = threading.Lock()
        self._hosts: dict[str, Any] = {}
        self._lines: Lines[tuple[Request, Limits], Place | InQueue | Refused | NotYet] = Lines(lambda: self._ask("way"))
        self._starting: dict[Any, str] = {}  # a call that each host answers once it has begun

    @classmethod
    def start(cls, policy: str | None, queue: int | None) -> Cluster:
        """The fleet, which is made where there is none yet. None: as it is, or the default."""
        actor = ray.remote(RosterActor).options(
            name=ROSTER, namespace=NAMESPACE, lifetime="detached", get_if_exists=True, max_restarts=-1, num_cpus=0,
            max_concurrency=8, resources={_HEAD: 0.001},
        )  # fmt: skip
        actor.remote(policy or DEFAULT_POLICY, QUEUE if queue is None else queue)
        fleet = cls()
        fleet._ask("change", policy, queue)
        return fleet

    def add_hosts(
        self, count: int, arguments: Sequence[str], encrypted: bool, resources: Mapping[str, float]
    ) -> list[str]:
        """Starts so many hosts besides; gives their names. Ray places them as soon as it has room, or makes it."""
        taken = set(self.hosts())
        names = [
            name for name in (f"{HOST_PREFIX}{number}" for number in range(len(taken) + count)) if name not in taken
        ]
        rest = {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU")}
        for name in names[:count]:
            actor = ray.remote(HostActor).options(
                name=name, namespace=NAMESPACE, lifetime="detached", max_restarts=-1, scheduling_strategy="SPREAD",
                num_cpus=resources.get("CPU", 0), num_gpus=resources.get("GPU", 0), resources=rest or None,
                max_concurrency=_CALLS_AT_ONCE,
            ).remote(name, list(arguments), encrypted)  # fmt: skip
            self._starting[actor.pid.remote()] = name
        return names[:count]

    def hosts(self) -> list[str]:
        """The names of all hosts, those that have not begun yet among them."""
        found = ray.util.list_named_actors(all_namespaces=True)
        names = [each["name"] for each in found if each["namespace"] == NAMESPACE]
        return sorted(
            (name for name in names if name.startswith(HOST_PREFIX)), key=lambda name: int(name[len(HOST_PREFIX) :])
        )

    def descriptions(self, seconds: float) -> list[Description]:
        """Of what the hosts have. Raises FleetError: none has begun in time, or one of those that were added cannot."""
        deadline = time.monotonic() + seconds
        while not (found := self._ask("descriptions")):
            self._check_starting()
            if time.monotonic() >= deadline:
                raise FleetError(
                    f"no host of the fleet has begun within {seconds:.0f} s: `ray status` shows whether the cluster has "
                    f"what they need, and `ray logs actor` why one has failed"
                )
            time.sleep(0.1)
        return list(found)

    def _check_starting(self) -> None:
        over, _ = ray.wait(list(self._starting), timeout=0) if self._starting else ([], [])
        for each in over:
            name = self._starting.pop(each)
            try:
                ray.get(each)
            except RayActorError as error:
                raise FleetError(
                    f"the host {name} cannot start: {str(error).strip().splitlines()[-1].strip()}"
                ) from None

    def ask(self, request: Request, limits: Limits) -> Place | InQueue:
        """Raises book.Refused, NotYet, FleetError."""
        deadline = time.monotonic() + ROSTER_SECONDS
        while True:
            try:
                found = self._lines.ask((request, limits))
            except Lost as error:
                if time.monotonic() >= deadline:
                    raise FleetError(f"the fleet's roster does not answer: {error}") from None
                time.sleep(PAUSE_SECONDS)
                continue
            if isinstance(found, Refused | NotYet):
                raise found
            return found

    def news(self, numbers: Sequence[int]) -> dict[int, Place | InQueue | None]:
        found: dict[int, Place | InQueue | None] = self._ask("news", numbers)
        return found

    def leave(self, number: int) -> None:
        self._roster.leave.remote(number)

    def state(self) -> State:
        found: State = self._ask("state")
        return found

    def set_open(self, name: str, is_open: bool) -> None:
        """Raises UnknownHost."""
        self._ask("set_open", name, is_open)

    def move_sessions(self, name: str, wait: float) -> Iterator[Moved]:
        """Sends the sessions of a host to others, one after the other. Raises FleetError: it does not answer."""
        for number in self._ask("numbers_on", name):
            yield self._ask_host(name, "move", number, wait, seconds=None)

    def awaited(self, name: str, wait: float) -> int:
        """Sessions that have moved from there, and whose guests have not been led on in so many seconds. Raises FleetError."""
        deadline = time.monotonic() + wait
        while (left := int(self._ask_host(name, "awaited"))) and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS)
        return left

    def _ask_host(self, name: str, method: str, *arguments: Any, seconds: float | None = CALL_SECONDS) -> Any:
        try:
            return ray.get(getattr(self._host(name), method).remote(*arguments), timeout=seconds)
        except (RayActorError, GetTimeoutError, ValueError) as error:
            raise FleetError(f"the host {name} does not answer: {str(error).splitlines()[0]}") from None

    def host_gone(self, place: Place) -> None:
        with self._lock:
            self._hosts.pop(place.host, None)
        # Should it be there all the same, it comes again with its next report.
        self._roster.fail_host.remote(place.host)

    def guests(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = self._ask("guests")
        return found

    def end_guest(self, host: str, guest: str, why: str) -> None:
        with contextlib.suppress(ValueError):  # it has ended meanwhile
            self._host(host).end_guest.remote(guest, why)

    def stop(self) -> int:
        """Ends all hosts and the roster; how many hosts."""
        names = self.hosts()
        actors = [ray.get_actor(name, NAMESPACE) for name in names]
        ray.wait([actor.stop.remote() for actor in actors], num_returns=len(actors), timeout=STOP_SECONDS)
        for actor in [*actors, self._roster]:
            ray.kill(actor, no_restart=True)
        return len(names)

    def _host(self, name: str) -> Any:
        with self._lock:
            if name not in self._hosts:
                self._hosts[name] = ray.get_actor(name, NAMESPACE)
            return self._hosts[name]

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Raises what the roster raises, and FleetError: it is not there."""
        deadline = time.monotonic() + ROSTER_SECONDS
        while True:
            try:
                return ray.get(getattr(self._roster, method).remote(*arguments), timeout=CALL_SECONDS)
            except RayTaskError as error:
                raise error.cause from None
            except (RayActorError, GetTimeoutError) as error:
                if time.monotonic() >= deadline:
                    raise FleetError(f"the fleet's roster does not answer: {str(error).splitlines()[0]}") from None
                time.sleep(PAUSE_SECONDS)
