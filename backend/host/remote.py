"""A session in a process of its own, as its host knows it.

Owns the interface alone: the implementation is workers/, which the host does not import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from farlane.backend.device.base import Description, MemoryMap, Window
from farlane.backend.host.accounts import How
from farlane.backend.host.entrance import Entrance, Resumption
from farlane.backend.host.manifests import Objects
from farlane.backend.host.spans import Arrival
from farlane.backend.objects.images import SessionImages
from farlane.backend.system.pipe import Pipe

if TYPE_CHECKING:
    from farlane.backend.plane import Kind, Page


class Ended(NamedTuple):
    """How a session has ended."""

    status: int  # gRPC's, for the guest
    details: str
    why: str  # for the log
    how: How


class RemoteSession(Protocol):
    """A session in a process of its own (workers/). The host admits it; its messages go to the process alone."""

    name: str

    @property
    def pid(self) -> int: ...
    @property
    def page(self) -> Page | None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def window(self) -> Window: ...
    @property
    def quota(self) -> int: ...
    @property
    def used_bytes(self) -> int | None: ...
    def counts(self) -> Mapping[str, int]: ...
    def memory_map(self) -> MemoryMap | None: ...
    def prioritize(self, priority: int) -> None:
        """Its priority, where sessions give way to each other."""

    @property
    def images(self) -> SessionImages: ...
    @property
    def ended(self) -> Ended | None:
        """Set once it has ended by itself."""

    def attend(self, wake: Callable[[], None], objects: Objects | None) -> None:
        """`wake` is called when it has ended by itself; `objects` takes what the guest sends of its program."""

    def wait(self, seconds: float) -> None:
        """Until it has ended by itself, at most for so long."""

    def hand(self, connection: int, kind: Kind) -> None:
        """Takes a connection of its guest. The descriptor stays the caller's."""

    def give(self, copies: bool) -> AbstractContextManager[Pipe]:
        """By which the session is given away (`checkpoint.giving`). `copies`: it keeps one of its memory meanwhile. Raises Ended."""

    def interrupt(self) -> None: ...
    def stop(self) -> None:
        """Its process ends at once. From any thread."""

    def close(self) -> None: ...


class Processes(Protocol):
    """What gives each session a process of its own, in the place of a device."""

    descriptions: Sequence[Description]

    def open(
        self,
        name: str,
        tape_version: int,
        quota: int,
        checks: Sequence[str],
        images: SessionImages,
        known: Sequence[bytes],
        entrance: Entrance | None,
        resumption: Resumption | None,
        guest: str,
        payload_bytes: int,
        arrival: Arrival | None,
    ) -> tuple[RemoteSession, Description]:
        """`known`: digests of images that the guest has. `entrance`: for a guest that comes by TLS. `guest`: whose compiled code it
        finds; empty: none. `arrival`: the guest reads when the session did what. Raises Refused."""

    def reopen(
        self, name: str, quota: int, images: SessionImages, grace: float, guest: str, fill: Callable[[Pipe], None]
    ) -> RemoteSession:
        """A session that was saved. `fill` gives its process what comes of it (`checkpoint.taking`). Raises Refused, and what
        `fill` raises."""

    def close(self) -> None: ...
