"""Client-minted handles: what the guest's numbers stand for.

The plane owns the tables (backend/plane/src/replay/handles.rs), for it uses streams and events by itself. Here is how a handler
makes an object for a handle: a record that mints a handle reserves it; the reservation is filled with the object that
the device returned, or poisoned with the error that making it raised.

Locking: none. A table belongs to one session, which replays on one thread at a time.
Source: protos/tape.md, "Handles".
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar

from farlane.backend.device.base import CudaError
from farlane.backend.errors import ProtocolError, to_cuda
from farlane.backend.plane import Handles

T = TypeVar("T")


class Reservation(Generic[T]):
    """A promised handle. Used as a context manager: leaving it unfilled, by whatever exception, poisons the handle."""

    __slots__ = ("_handle", "_table")

    def __init__(self, table: HandleTable[T], handle: int) -> None:
        self._table = table
        self._handle = handle

    def fill(self, value: T) -> None:
        self._table.fill(self._handle, value)

    def __enter__(self) -> Reservation[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, ProtocolError):
            if isinstance(error, CudaError):
                self._table.poison(self._handle, error.code, error.message)
            else:
                mapped = to_cuda(error, f"making {self._table.kind} {self._handle}")
                self._table.poison(self._handle, mapped.code, mapped.message)
                raise mapped from error


class HandleTable(Handles, Generic[T]):
    """The handles of one kind."""

    if TYPE_CHECKING:

        def get(self, handle: int) -> T: ...

        def release(self, handle: int) -> T | None: ...

    def reserve(self, handle: int) -> Reservation[T]:
        """Raises ProtocolError, or CudaError 2: the handle may not be minted now."""
        self.claim(handle)
        return Reservation(self, handle)
