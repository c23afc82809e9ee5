"""What a saved session keeps of its device: plain data, without the content of its memory.

Owns the form in which a context says what it has (`Context.save`), and is made again (`Device.reopen_context`). What a
file holds of that is checkpoint/form.py's. A context that has something that cannot be saved raises `Unsaveable`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from farlane.backend.device.base import Context, Window
    from farlane.backend.plane import Event

#: Gives memory's content; of memory that has ended meanwhile less, or none.
Fetch = Callable[[int, int], bytes]


class Unsaveable(Exception):
    """The session cannot be saved, or what was saved cannot be restored here. The message says why, in one sentence."""


class Piece(NamedTuple):
    """A part of the host's area of the window: a variable, the device heap."""

    address: int
    size: int
    label: str
    writable: bool


class Blocks(NamedTuple):
    """The device heap: ranges that are handed out, and free ones in the order in which they are looked at."""

    base: int
    size: int
    used: Sequence[tuple[int, int]]
    free: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class SavedContext:
    """A session's share of a device."""

    window: Window
    allocations: Sequence[tuple[int, int]]  # the guest's: address, size
    areas: Mapping[int, Sequence[Piece]]  # the host's, by their bases
    limits: Mapping[int, int]  # by cudaLimit
    heap: Blocks | None
    workspace: int  # in which the blocks of cooperative launches meet; 0: there is none
    launches: int
    nanoseconds: int  # for which the device has worked


class Saveable:
    """What a context does so that its session can be saved; as it stands here, it cannot."""

    #: Whether memory may be read while the session runs.
    reads_ahead = False

    def save(self) -> SavedContext:
        """What it has, between two groups. Raises Unsaveable."""
        raise Unsaveable("the sessions of this device cannot be saved")

    def restore(self, saved: SavedContext) -> None:
        """Of a context that `Device.reopen_context` makes. Raises Unsaveable."""
        raise NotImplementedError

    def recorded_at(self, event: Event) -> int | None:
        """When it was, on the monotonic clock; None: never. After `save`."""
        return event.nanoseconds

    def mapped(self) -> list[tuple[int, int]]:
        """Start and end of the runs of pages that hold content, of a context that can be saved."""
        raise NotImplementedError

    def reading(self) -> contextlib.AbstractContextManager[Fetch]:
        """What reads the content of these pages."""
        raise NotImplementedError

    def write_pages(self, address: int, data: bytes) -> None:
        """Content of whole pages of a restored context. Raises Unsaveable: it has no such pages."""
        raise NotImplementedError

    def restore_module(self, image: bytes, base: int) -> Any:
        """A module whose variables are there already, from `base` on; 0: it has none."""
        raise NotImplementedError


def filled(opened: Callable[[], Context], saved: SavedContext) -> Context:
    """A context with what was saved of another one. Raises Unsaveable: nothing is left of it.

    Args:
        opened: an empty one, at the same addresses. Raises CudaError.
    """
    from farlane.backend.device.base import CudaError

    try:
        context = opened()
    except CudaError as error:
        raise Unsaveable(error.message) from None
    try:
        for limit, value in saved.limits.items():
            context.set_limit(limit, value)
        context.restore(saved)
    except CudaError as error:
        context.close()
        raise Unsaveable(error.message) from None
    except BaseException:
        context.close()
        raise
    return context
