"""Client-minted handles: what the guest's numbers stand for.

Owns one table per kind of handle. A record that mints a handle reserves it here; the reservation is filled with the object that
the device returned, or poisoned with the error that making it raised, and then everything that uses the handle fails with
that error. Does not own the objects: their life is the context's.

An unknown handle is a CUDA result (a program that uses a destroyed stream gets it from CUDA too); a handle outside the client's range, or
minted again while it lives, is a broken guest.

Locking: none. A table belongs to one session, which replays on one thread at a time.
Source: protos/tape.md, "Handles".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Generic, TypeVar

from farlane.backend.device.base import CudaError
from farlane.backend.errors import ProtocolError, to_cuda
from farlane.backend.generated_errors import INVALID_RESOURCE_HANDLE, MEMORY_ALLOCATION

FIRST_MINTED = 16
LAST_MINTED = 2**31 - 1
LIVE_LIMIT = 1 << 20  # handles of one kind alive at once: bounds what a guest can make the host remember

T = TypeVar("T")


class Poison:
    """What a handle holds when making its object failed: not the exception, which would keep its frames and the message that
    they were replaying alive for as long as the handle."""

    __slots__ = ("code", "message")

    def __init__(self, error: CudaError) -> None:
        self.code = error.code
        self.message = error.message

    def exception(self, what: str) -> CudaError:
        return CudaError(self.code, f"{what} could not be made: {self.message}")


class Reservation(Generic[T]):
    """A promised handle. Used as a context manager: leaving it unfilled, by whatever exception, poisons the handle."""

    __slots__ = ("_handle", "_table")

    def __init__(self, table: HandleTable[T], handle: int) -> None:
        self._table = table
        self._handle = handle

    def fill(self, value: T) -> None:
        self._table.entries[self._handle] = value

    def __enter__(self) -> Reservation[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, ProtocolError):
            if isinstance(error, CudaError):
                self._table.entries[self._handle] = Poison(error)
            else:
                mapped = to_cuda(error, f"making {self._table.kind} {self._handle}")
                self._table.entries[self._handle] = Poison(mapped)
                raise mapped from error


class HandleTable(Generic[T]):
    """The handles of one kind. `permanent` ones are always there and cannot be released."""

    __slots__ = ("entries", "kind", "permanent")

    def __init__(self, kind: str, permanent: Mapping[int, T] | None = None) -> None:
        self.kind = kind
        self.permanent: dict[int, T] = dict(permanent or {})
        self.entries: dict[int, T | Poison] = dict(self.permanent)

    def reserve(self, handle: int) -> Reservation[T]:
        if not FIRST_MINTED <= handle <= LAST_MINTED:
            raise ProtocolError(f"{self.kind} {handle} is outside the range that a guest may mint")
        if handle in self.entries:
            raise ProtocolError(f"{self.kind} {handle} is minted a second time")
        reservation = Reservation(self, handle)
        if len(self.entries) >= LIVE_LIMIT:
            raise CudaError(MEMORY_ALLOCATION, f"the session holds {LIVE_LIMIT} handles of kind {self.kind}")
        return reservation

    def get(self, handle: int) -> T:
        """The object behind a handle.

        Raises:
            CudaError: the handle is unknown (400), or poisoned (the error that poisoned it).
        """
        try:
            value = self.entries[handle]
        except KeyError:
            raise self._unknown(handle) from None
        if isinstance(value, Poison):
            raise value.exception(f"{self.kind} {handle}")
        return value

    def release(self, handle: int) -> T | None:
        """Takes the handle out. None when it was poisoned: its error has been reported where it was made."""
        if handle in self.permanent:
            raise CudaError(INVALID_RESOURCE_HANDLE, f"{self.kind} {handle} cannot be destroyed")
        if handle not in self.entries:
            raise self._unknown(handle)
        value = self.entries.pop(handle)
        return None if isinstance(value, Poison) else value

    def _unknown(self, handle: int) -> CudaError:
        return CudaError(INVALID_RESOURCE_HANDLE, f"there is no {self.kind} {handle}")

    def forget(self, handle: int) -> None:
        """Takes the handle out, whether it is there or not."""
        self.entries.pop(handle, None)

    def live(self) -> Iterator[tuple[int, T]]:
        for handle, value in self.entries.items():
            if not isinstance(value, Poison) and handle not in self.permanent:
                yield handle, value

    def clear(self, permanent: Mapping[int, T] | None = None) -> None:
        """Back to the permanent handles; new objects for them when given."""
        if permanent is not None:
            self.permanent = dict(permanent)
        self.entries = dict(self.permanent)
