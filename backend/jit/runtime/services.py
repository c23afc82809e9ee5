"""Services: what running kernels ask their device for, because compiled code cannot do it (printing, assertions, the heap, launches).

Owns the request that compiled code hands over (mirrored by services.ll and lowering/families/flow/runtime_calls.py), the way from a thread's
addresses to host memory, and the guard round the device's handler. What a service does is the device's: it gives `callback` a handler
and puts the callback's address into Launch.services. A launch without one ends with an illegal instruction when its kernel asks.

Ordering: a request stops its warp until it is answered; the handler runs on the stack of the CPU thread that runs the block, several at
once when several threads run the launch.

Source: CUDA programming guide, "Formatted Output", "Assertion", "Dynamic Global Memory Allocation and Operations", "CUDA Dynamic Parallelism".
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

from farlane.backend.jit.ptx.model import LANES
from farlane.backend.jit.runtime.structures import (
    LOCAL_WINDOW,
    PAGE_HELD,
    PAGE_READABLE,
    PAGE_WRITABLE,
    PARAMETER_WINDOW,
    SHARED_WINDOW,
    FaultKind,
    Launch,
    WarpState,
    WorkerState,
)

ARGUMENTS = 8
_log = logging.getLogger(__name__)


class ServiceKind(IntEnum):
    """What is asked for; the arguments are those of the device function of that name."""

    PRINT = 1  # vprintf(format, arguments) -> count
    ASSERT = 2  # __assertfail(message, file, line, function, character size)
    ALLOCATE = 3  # malloc(size) -> address
    FREE = 4  # free(address)
    ALLOCATE_ALIGNED = 5  # __nv_aligned_device_malloc(size, alignment) -> address
    PAGE = 6  # not a call: an access to a page whose flags have PAGE_HELD (accesses.ll, farlane_ask)
    # The device runtime (dynamic parallelism), by CUDA's names. A structure is passed as the thread's address of it.
    PARAMETER_BUFFER = 7  # (alignment, size) -> address
    PARAMETER_BUFFER_V2 = 8  # (function, grid, block, shared) -> address
    LAUNCH = 9  # (function, buffer, grid, block, shared, stream) -> error
    LAUNCH_V2 = 10  # (buffer, stream) -> error
    LAST_ERROR = 11  # () -> error, which is forgotten
    PEEK_ERROR = 12  # () -> error
    ERROR_STRING = 13  # (error) -> address
    ERROR_NAME = 14  # (error) -> address
    STREAM_CREATE = 15  # (address, flags) -> error
    STREAM_DESTROY = 16  # (stream) -> error
    STREAM_WAIT = 17  # (stream, event, flags) -> error
    EVENT_CREATE = 18  # (address, flags) -> error
    EVENT_RECORD = 19  # (event, stream) -> error
    EVENT_RECORD_WITH_FLAGS = 20  # (event, stream, flags) -> error
    EVENT_DESTROY = 21  # (event) -> error
    COPY = 22  # (destination, source, size, kind, stream) -> error
    SET = 23  # (destination, value, size, stream) -> error
    DEVICE_COUNT = 24  # (address) -> error
    DEVICE = 25  # (address) -> error
    ATTRIBUTE = 26  # (address, attribute, device) -> error
    LIMIT = 27  # (address, limit) -> error
    DEVICE_MALLOC = 28  # (address, size) -> error
    DEVICE_FREE = 29  # (address) -> error
    COPY_2D = 30  # (destination, its pitch, source, its pitch, width, height, kind, stream) -> error
    SET_2D = 31  # (destination, pitch, value, width, height, stream) -> error
    COPY_3D = 32  # (parameters, stream) -> error
    SET_3D = 33  # (pitched pointer, value, extent, stream) -> error


class PageAnswer(IntEnum):
    """What comes of an access to a page that is held."""

    ILLEGAL = 0
    ALLOWED = 1  # its flags allow it now
    MOVED = 2  # they do, and other pages have lost theirs


#: Which instruction of which warp: block, warp, line. An instruction asks for its pages one after the other.
Where = tuple[tuple[int, int, int], int, int]
#: (address, size, whether it is written, by whom) -> what comes of it. The access lies in one page.
Pages = Callable[[int, int, bool, Where], PageAnswer]


class Request(ctypes.Structure):
    """One request of a warp: the lanes in `lanes` ask, each with its own arguments. The handler may set a fault."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("lanes", ctypes.c_uint32),
        ("line", ctypes.c_uint32),
        ("fault", ctypes.c_uint32),  # FaultKind; 0: none
        ("warp", ctypes.c_void_p),
        ("fault_lane", ctypes.c_uint32),
        ("page_answer", ctypes.c_uint32),  # PAGE: a PageAnswer
        ("fault_address", ctypes.c_uint64),
        (
            "page_address",
            ctypes.c_uint64,
        ),  # PAGE: where, how many bytes, whether they are written; it has no arguments and results
        ("page_size", ctypes.c_uint64),
        ("page_write", ctypes.c_uint64),
        ("arguments", (ctypes.c_uint64 * LANES) * ARGUMENTS),
        ("results", ctypes.c_uint64 * LANES),
    )


class ServiceFault(Exception):
    """The request ends the launch.

    Args:
        kind: why.
        lane: whose request it was.
        address: the address at fault, where there is one.
    """

    def __init__(self, kind: FaultKind, lane: int, address: int = 0) -> None:
        super().__init__(kind, lane, address)
        self.kind, self.lane, self.address = kind, lane, address


class Call:
    """A request as the handler sees it. Valid during the handler's call."""

    def __init__(self, request: Request, pages: Pages | None = None) -> None:
        self.kind = ServiceKind(request.kind)
        self._request = request
        self._pages = pages
        self._warp = WarpState.from_address(request.warp)
        self.launch: Launch = self._warp.launch.contents

    @property
    def block(self) -> tuple[int, int, int]:
        x, y, z = self._warp.block
        return x, y, z

    def thread(self, lane: int) -> tuple[int, int, int]:
        """The thread's place in its block."""
        x, y, _ = self.launch.block
        linear = 32 * self._warp.index + lane
        return linear % x, linear // x % y, linear // x // y

    def lanes(self) -> Iterator[int]:
        """The lanes that ask, in rising order."""
        lanes = self._request.lanes
        return (lane for lane in range(LANES) if lanes >> lane & 1)

    def argument(self, number: int, lane: int) -> int:
        return int(self._request.arguments[number][lane])

    def answer(self, lane: int, value: int) -> None:
        self._request.results[lane] = value & 0xFFFF_FFFF_FFFF_FFFF

    def forget_latches(self) -> None:
        """What may be accessed has become less while the kernel runs."""
        self._request.page_answer = PageAnswer.MOVED

    # Memory as the thread sees it -------------------------------------------------------------------------------
    def read(self, address: int, size: int, lane: int) -> bytes:
        """Raises ServiceFault when the thread may not read all of it."""
        host, room = self._place(address, lane)
        if room < size:
            if room:
                return self.read(address, room, lane) + self.read(address + room, size - room, lane)
            raise ServiceFault(FaultKind.ILLEGAL_ADDRESS, lane, address)
        return ctypes.string_at(host, size)

    def write(self, address: int, data: bytes, lane: int) -> None:
        """Raises ServiceFault when the thread may not write all of it."""
        while data:
            host, room = self._place(address, lane, PAGE_WRITABLE)
            if not room:
                raise ServiceFault(FaultKind.ILLEGAL_ADDRESS, lane, address)
            ctypes.memmove(host, data, min(room, len(data)))
            address, data = address + room, data[room:]

    def text(self, address: int, limit: int, lane: int) -> bytes:
        """The bytes before the next zero, at most `limit`. Raises ServiceFault."""
        found = bytearray()
        while len(found) < limit:
            host, room = self._place(address + len(found), lane)
            if not room:
                raise ServiceFault(FaultKind.ILLEGAL_ADDRESS, lane, address + len(found))
            piece = ctypes.string_at(host, min(room, limit - len(found), 256))
            end = piece.find(0)
            found += piece if end < 0 else piece[:end]
            if end >= 0:
                break
        return bytes(found)

    def _place(self, address: int, lane: int, wanted: int = PAGE_READABLE) -> tuple[int, int]:
        """The host address behind a generic one, and how many bytes from there on may be read, or written (to the page's end)."""
        offset = address & 0xFFFF_FFFF
        space = address - offset
        worker: WorkerState = self._warp.worker.contents
        if space == SHARED_WINDOW:
            return (worker.shared or 0) + offset, max(0, worker.shared_size - offset)
        if space == LOCAL_WINDOW:
            return self._warp.local + lane * worker.local_size + offset, max(0, worker.local_size - offset)
        if space == PARAMETER_WINDOW:
            return 0, 0  # a kernel's parameters are never what these functions are given
        launch = self.launch
        inside = address - launch.window_base
        if not 0 <= inside < launch.window_size and launch.host_mappings:
            end = launch.host_mappings.contents.run(address)[1]
            return (address, end - address) if end else (0, 0)
        if not 0 <= inside < launch.window_size or launch.page_flags is None:
            return 0, 0
        page = inside >> launch.page_shift
        flags = ctypes.c_uint8.from_address(launch.page_flags + page)
        if flags.value & PAGE_HELD and not flags.value & wanted and self._pages is not None:
            # What this moves stays moved: compiled code hears of it when the request is answered.
            self._request.page_answer = max(
                self._request.page_answer, self._pages(address, 1, wanted == PAGE_WRITABLE, _where(self._request))
            )
        if not flags.value & wanted:
            return 0, 0
        return address, ((page + 1) << launch.page_shift) - inside


def _where(request: Request) -> Where:
    warp = WarpState.from_address(request.warp)
    x, y, z = warp.block
    return (x, y, z), warp.index, request.line


Handler = Callable[[Call], None]
Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def callback(handler: Handler, pages: Pages | None = None) -> Any:
    """A C function for Launch.services; keep it as long as launches may run. An exception of the handler ends the launch.

    Args:
        pages: what is asked about pages that are held; without it, they are as if they were not.
    """

    def serve(address: int) -> None:
        request = Request.from_address(address)
        try:
            if request.kind != ServiceKind.PAGE:
                handler(Call(request, pages))
            elif pages is not None:
                request.page_answer = pages(
                    request.page_address, request.page_size, bool(request.page_write), _where(request)
                )
        except ServiceFault as fault:
            request.fault, request.fault_lane, request.fault_address = fault.kind, fault.lane, fault.address
        except BaseException:  # nothing may pass through compiled code
            _log.exception("a kernel's request failed inside the host")
            request.fault = FaultKind.SERVICE

    return Callback(serve)


def address_of(function: Any) -> int:
    """The address of a callback."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0
