"""Everything that one session holds: its context, its handles, its images.

Owns the tables that handlers look things up in, the rule for addresses on the tape, and their release. Does not own what
happens to them: that is the handlers' and the device's. The whole state of a session is reachable from here.

Locking: none. One session, one thread at a time.
Source: protos/tape.md, "Handles" and "Addresses".
"""

from __future__ import annotations

import bisect
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from farlane.backend.device.base import LEGACY_STREAM, PER_THREAD_STREAM, Context, CudaError, Rows
from farlane.backend.errors import ProtocolError
from farlane.backend.generated_errors import INVALID_PITCH_VALUE, INVALID_VALUE
from farlane.backend.objects.handles import HandleTable
from farlane.backend.objects.images import SessionImages
from farlane.backend.objects.payloads import CACHE_BYTES
from farlane.backend.objects.physical import PhysicalMemory
from farlane.backend.plane import LIVE_LIMIT, Payloads, Standing

log = logging.getLogger("farlane.session")

RELATIVE = 1 << 63  # set in an address operand that is relative to a variable
OFFSET_BITS = 32
OFFSET_MASK = (1 << OFFSET_BITS) - 1


@dataclass
class Module:
    """A loaded module, with the handles that end with it."""

    loaded: Any
    digest: bytes = b""  # of its image
    functions: set[int] = field(default_factory=set)
    variables: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Variable:
    address: int
    size: int


class PoisonedRanges:
    """Allocations that the device refused: what touches one fails with the error that refused it."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self._starts: list[int] = []
        # The end, and the error's code and message: the exception would keep its frames alive.
        self._ranges: dict[int, tuple[int, int, str]] = {}

    def __bool__(self) -> bool:
        return bool(self._starts)

    def add(self, address: int, size: int, error: CudaError) -> None:
        if len(self._starts) >= LIVE_LIMIT:
            raise ProtocolError(f"{LIVE_LIMIT} refused allocations, none of them freed")
        if address not in self._ranges:
            bisect.insort(self._starts, address)
        self._ranges[address] = (address + size, error.code, error.message)
        self._standing.set_poisoned(True)

    def all(self) -> list[tuple[int, int, int, str]]:
        """Address, size, and the error's code and message, of each."""
        found = ((start, *self._ranges[start]) for start in self._starts)
        return [(start, end - start, code, message) for start, end, code, message in found]

    def remove(self, address: int) -> bool:
        if self._ranges.pop(address, None) is None:
            return False
        self._starts.remove(address)
        self._standing.set_poisoned(bool(self))
        return True

    def check(self, address: int, extent: int) -> None:
        index = bisect.bisect_left(self._starts, address + max(extent, 1)) - 1
        if index < 0:
            return
        start = self._starts[index]
        end, code, message = self._ranges[start]
        if address < end:
            raise CudaError(code, f"the allocation at {start:#x} could not be made: {message}")

    def clear(self) -> None:
        self._starts.clear()
        self._ranges.clear()
        self._standing.set_poisoned(False)


class Resources:
    """What the handlers work on."""

    def __init__(self, context: Context, images: SessionImages, payload_bytes: int = CACHE_BYTES) -> None:
        """`payload_bytes`: of payloads that are kept."""
        self.context = context
        self.images = images
        self.standing = Standing()  # shared with the plane's replay, which remembers launches by their handles
        self.streams: HandleTable[Any] = HandleTable("stream", self._default_streams())
        self.events: HandleTable[Any] = HandleTable("event")
        self.modules: HandleTable[Module] = HandleTable("module")
        self.functions: HandleTable[Any] = HandleTable("function")
        self.variables: HandleTable[Variable] = HandleTable("variable")
        self.physical = PhysicalMemory()
        self.poisoned = PoisonedRanges(self.standing)
        self.payload_bytes = payload_bytes
        self.payloads = Payloads(payload_bytes)  # shared with the plane's replay
        self.lines: Callable[[int, int], bytes] | None = None  # when the session did what, where it is to know that

    def _default_streams(self) -> dict[int, Any]:
        return {number: self.context.default_stream(number) for number in (LEGACY_STREAM, PER_THREAD_STREAM)}

    def address(self, operand: int, extent: int) -> int:
        """The device address of an operand of which `extent` bytes will be touched.

        Raises:
            CudaError: the variable is unknown or poisoned, the range leaves it, or the allocation was refused.
        """
        if operand & RELATIVE:
            handle = (operand ^ RELATIVE) >> OFFSET_BITS
            offset = operand & OFFSET_MASK
            variable = self.variables.get(handle)
            if offset + extent > variable.size:
                raise CudaError(
                    INVALID_VALUE, f"bytes {offset} to {offset + extent} of a variable of {variable.size} bytes"
                )
            return variable.address + offset
        if self.poisoned:
            self.poisoned.check(operand, extent)
        return operand

    def rows(self, address: int, pitch: int, width: int, height: int) -> Rows:
        """The rows that a record names. Raises CudaError, as `address` does, or 12."""
        if height > 1 and pitch < width:
            raise CudaError(INVALID_PITCH_VALUE, f"rows of {width} bytes with a pitch of {pitch}")
        extent = (height - 1) * pitch + width if width and height else 0
        return Rows(self.address(address, extent), pitch, width, height)

    def reset(self) -> None:
        """cudaDeviceReset: as after opening, the images, templates and payloads excepted."""
        self.context.reset()
        self.streams.clear(self._default_streams())
        for table in (self.events, self.modules, self.functions, self.variables):
            table.clear()
        self.physical.clear()
        self.poisoned.clear()
        self.standing.object_ended()

    def release(self) -> None:
        """Gives everything back. Idempotent, and never raises: a device that fails here must not keep the rest alive."""
        for table in (self.streams, self.events, self.modules, self.functions, self.variables):
            table.clear({})
        self.physical.clear()
        self.poisoned.clear()
        self.standing.object_ended()
        self.payloads.clear()
        try:
            self.context.close()
        except Exception:
            log.exception("the device failed to close a context")
        self.images.close()
