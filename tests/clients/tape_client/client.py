"""A guest in Python: speaks the session protocol and writes the tape, for tests and tools.

Owns the same things as the shim's session engine (crate `client`), more simply: groups, messages, credit, awaited results,
deferred and sticky errors, exact counts. Not thread-safe, and no thread of its own: replies are read when an answer or credit is
awaited. The records come from `generated_operations`, the stream is `connection`'s.

Source: protos/tape.md.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType

from farlane.frontend.hosts import parse_url
from farlane.hosturl import HostUrl
from farlane.v1 import session_pb2 as pb

from tape_client import generated_operations as operations
from tape_client.connection import Connection
from tape_client.results import Kind, Result, ResultError, parse_results

MODES = ("none", "calls", "loops")
LEGACY_STREAM = 1
MAX_DATA_BYTES = 1 << 20  # bulk data of one record
GROUP_BYTES = 256 << 10
FIRST_HANDLE = 16
ALLOCATION_ALIGNMENT = 256
LAUNCH_FAILURE = 719


class CudaFailure(Exception):
    """The host answered with a CUDA error.

    Args:
        code: the cudaError_t.
        sticky: the session's context is lost with it.
    """

    def __init__(self, code: int, sticky: bool = False) -> None:
        super().__init__(f"CUDA error {code}" + (" (the context is lost)" if sticky else ""))
        self.code = code
        self.sticky = sticky


@dataclass(frozen=True)
class Answer:
    """The result of one awaited operation: its cudaError_t, and the VALUE (0 for a STATUS)."""

    error: int
    value: int = 0


@dataclass
class Counters:
    """As the shim counts them."""

    round_trips: int = 0
    groups: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    flow_waits: int = 0
    device_nanoseconds: int = 0


class Client:
    """One open session; a context manager.

    Args:
        url: where the host is, as text or parsed.
        mode: "none" waits for every call; the others defer.
        module_digests: BLAKE2b-256 of images that may be used; `welcome.known_modules` says which the host holds.
        timeout: seconds that opening may take.
        group_bytes: a tape of this many bytes is sent.

    Raises:
        Refused: the host declined.
        ConnectionLost: there is no host, or it is none of ours.
    """

    def __init__(
        self,
        url: str | HostUrl,
        *,
        mode: str = "calls",
        program: str = "python",
        module_digests: Sequence[bytes] = (),
        timeout: float = 10.0,
        group_bytes: int = GROUP_BYTES,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"mode {mode!r} is none of {', '.join(MODES)}")
        self.mode = mode
        self.sticky = 0
        self._deferred = 0
        self._group_bytes = group_bytes
        self._tape: list[bytes] = []
        self._tape_bytes = 0
        self._group = 0
        self._slot = 0
        self._handle = FIRST_HANDLE - 1
        self._in_flight: deque[tuple[int, int]] = deque()  # (group, bytes)
        self._in_flight_bytes = 0
        self._awaited: dict[int, list[Result]] = {}
        self._counters = Counters(round_trips=1)
        hello = pb.Hello(
            client_version="python", program=program, pid=os.getpid(), mode=mode, module_digests=module_digests
        )
        parsed = parse_url(url) if isinstance(url, str) else url
        self._connection = Connection(parsed, hello, timeout)
        self._next_address = self.welcome.window_base

    @property
    def welcome(self) -> pb.Welcome:
        """What the host said about itself, the window, the quota and the devices."""
        return self._connection.welcome

    @property
    def counters(self) -> Counters:
        """The counts so far."""
        connection = self._connection
        return replace(self._counters, bytes_up=connection.bytes_up, bytes_down=connection.bytes_down)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(wait=kind is None)

    def close(self, wait: bool = True) -> None:
        """Sends what is recorded, waits until it was replayed (unless told not to) and says goodbye. Idempotent."""
        if self._connection.closed:
            return
        try:
            if wait:
                self.flush()
                while self._in_flight:
                    self._receive()
                self._connection.goodbye()
        finally:
            self._connection.close()

    # Work -------------------------------------------------------------------------------------------------------
    def defer(self, *records: bytes) -> None:
        """Appends records. In mode none: waits until they were replayed, and raises their error."""
        for record in records:
            self._append(record)
        if self.mode == "none":
            answer = self.request(operations.fence)
            code = answer.error or self.take_deferred_error()
            if code:
                raise CudaFailure(code, sticky=code == self.sticky)
        elif self._tape_bytes >= self._group_bytes:
            self.flush()

    def request(self, record: Callable[[int], bytes]) -> Answer:
        """Appends the record that `record` makes for a fresh slot, sends everything and waits: one round trip."""
        result = self._ask(record)[-1]
        if result.kind is Kind.DATA:
            raise self._connection.violation(f"data for slot {result.slot}, which awaited none")
        return Answer(result.error, result.value)

    def read(self, address: int, width: int, height: int = 1, pitch: int = 0, stream: int = LEGACY_STREAM) -> bytes:
        """The packed rows: one round trip. Raises CudaFailure."""
        total = width * height
        if total == 0:
            return b""
        results = self._ask(lambda slot: operations.read(address, pitch or width, width, height, stream, slot))
        pieces, received = [], 0
        for result in results:
            if result.kind is not Kind.DATA:
                raise self._connection.violation(f"no data for slot {result.slot}")
            if result.error:
                raise CudaFailure(result.error, sticky=result.error == self.sticky)
            if result.offset != received:
                raise self._connection.violation(f"data for slot {result.slot} out of order")
            pieces.append(result.data)
            received += len(result.data)
        if received != total:
            raise self._connection.violation(f"{received} bytes of data instead of {total}")
        return b"".join(pieces)

    def repeat(self, slots: int, record: Callable[[int], bytes]) -> list[list[Result]]:
        """Appends the REPEAT that `record` makes for the first of so many fresh slots, sends everything and waits: one round trip.

        Returns:
            The results for each slot, as many as the loop yields; a failed one has its error in it.
        """
        first = self._slot + 1
        self._slot += slots
        self._append(record(first))
        waiting: dict[int, list[Result]] = {slot: [] for slot in range(first, first + slots)}
        self._awaited.update(waiting)
        self.flush()
        self._counters.round_trips += 1
        while self._in_flight:
            self._receive()
        for slot in waiting:
            del self._awaited[slot]
        return list(waiting.values())

    def flush(self) -> None:
        """Sends what is recorded as one group; waits for credit where the host's bound asks for it."""
        if not self._tape:
            return
        records, size = self._tape, self._tape_bytes
        self._tape, self._tape_bytes = [], 0
        if self._in_flight and self._in_flight_bytes + size > self.welcome.credit_bytes:
            self._counters.flow_waits += 1
            while self._in_flight and self._in_flight_bytes + size > self.welcome.credit_bytes:
                self._receive()
        self._group += 1
        self._in_flight.append((self._group, size))
        self._in_flight_bytes += size
        self._counters.groups += 1
        messages = list(self._messages(records))
        for number, part in enumerate(messages):
            tape = pb.Tape(group=self._group, records=part, last=number == len(messages) - 1)
            self._connection.send(pb.GuestMessage(tape=tape))

    def take_deferred_error(self) -> int:
        """The first error of a deferred call that nobody was told yet; 0: none. Known as far as replies have been read."""
        code, self._deferred = self._deferred, 0
        return code

    # Conveniences -----------------------------------------------------------------------------------------------
    def mint_handle(self) -> int:
        """A handle that this session has not used yet, for any kind of object."""
        self._handle += 1
        return self._handle

    def allocate(self, size: int) -> int:
        """Mints the next addresses of the window and has them backed. Freed addresses are not used again."""
        address = self._next_address
        self._next_address += (size + ALLOCATION_ALIGNMENT - 1) // ALLOCATION_ALIGNMENT * ALLOCATION_ALIGNMENT
        if self._next_address > self.welcome.window_base + self.welcome.window_size:
            raise CudaFailure(2)
        self.defer(operations.allocate(address, size))
        return address

    def write(self, address: int, data: bytes | bytearray | memoryview, stream: int = LEGACY_STREAM) -> None:
        """Copies to the device, in as many records as it takes."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), MAX_DATA_BYTES):
            piece = view[start : start + MAX_DATA_BYTES]
            self.defer(operations.write(address + start, len(piece), len(piece), 1, stream, piece))

    def keep(self, payload: int, raw_bytes: int, data: bytes, *, lz4: bool = False, zstd: bool = False) -> None:
        """Has the host keep these bytes. What is kept, and under which free number, is the caller's to know."""
        self.defer(operations.payload_keep(payload, raw_bytes, data, lz4=lz4, zstd=zstd))

    def open_module(self, image: bytes) -> int:
        """Uploads the image unless the host held it when the session opened; gives the module's handle."""
        digest = hashlib.blake2b(image, digest_size=32).digest()
        if digest not in self.welcome.known_modules:
            self.defer(operations.module_begin(len(image), digest))
            for start in range(0, len(image), MAX_DATA_BYTES):
                self.defer(operations.module_chunk(image[start : start + MAX_DATA_BYTES]))
            self.defer(operations.module_end(digest))
        module = self.mint_handle()
        self.defer(operations.module_open(module, digest))
        return module

    def open_function(self, module: int, name: str) -> int:
        """The handle of a module's kernel."""
        function = self.mint_handle()
        self.defer(operations.function_open(function, module, name.encode()))
        return function

    def reset(self) -> None:
        """cudaDeviceReset: everything of the session is gone, errors are forgotten."""
        answer = self.request(operations.device_reset)
        if answer.error:
            raise CudaFailure(answer.error)
        self.sticky = self._deferred = 0

    def synchronize(self) -> None:
        """Waits for the device: one round trip. Raises CudaFailure with its error, or the first deferred one."""
        answer = self.request(operations.device_synchronize)
        code = answer.error or self.take_deferred_error()
        if code:
            raise CudaFailure(code, sticky=code == self.sticky)

    # Tape and replies -------------------------------------------------------------------------------------------
    def _append(self, record: bytes) -> None:
        if self._tape_bytes + len(record) > self.welcome.credit_bytes:
            self.flush()
        self._tape.append(record)
        self._tape_bytes += len(record)

    def _messages(self, records: Sequence[bytes]) -> Iterator[bytes]:
        part: list[bytes] = []
        size = 0
        for record in records:
            if size + len(record) > self.welcome.message_bytes:
                yield b"".join(part)
                part, size = [], 0
            part.append(record)
            size += len(record)
        yield b"".join(part)

    def _ask(self, record: Callable[[int], bytes]) -> list[Result]:
        self._slot += 1
        slot = self._slot
        self._append(record(slot))
        results = self._awaited[slot] = []
        self.flush()
        self._counters.round_trips += 1
        while self._in_flight:
            self._receive()
        del self._awaited[slot]
        if not results:
            raise self._connection.violation(f"the group of slot {slot} was acknowledged without its result")
        if len(results) > 1 and any(result.kind is not Kind.DATA for result in results):
            raise self._connection.violation(f"several answers for slot {slot}")
        return results

    def _receive(self) -> None:
        """One reply: results, errors, credit."""
        message = self._connection.receive()
        if message.WhichOneof("kind") != "reply":
            raise self._connection.violation("the host sent something else than a reply")
        reply = message.reply
        if not self._in_flight or reply.group != self._in_flight[0][0]:
            raise self._connection.violation(f"a reply to group {reply.group}")
        delivered = 0
        try:
            for result in parse_results(reply.results):
                if result.slot not in self._awaited:
                    raise self._connection.violation(f"a result for slot {result.slot}, which no call awaits")
                self._awaited[result.slot].append(result)
                delivered = result.error or delivered
        except ResultError as error:
            raise self._connection.violation(str(error)) from error
        if reply.sticky:
            self.sticky = self.sticky or reply.error or delivered or LAUNCH_FAILURE
        elif reply.error:
            self._deferred = self._deferred or reply.error
        if reply.last:
            self._counters.device_nanoseconds = reply.device_nanoseconds
            self._in_flight_bytes -= self._in_flight.popleft()[1]
