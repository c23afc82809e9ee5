"""What the host's process and a worker say to each other about a session; its messages take another way.

Owns the format: one packet for each message, which is JSON with its kind, and at most one descriptor beside it. That is a
guest's connection, or a file in memory with bytes that are many (an image, a piece of an object). Both ends are this
installation, so there are no versions. A worker runs what a guest wants: the host checks sizes and contents.

Locking: any thread may send; one thread receives.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import socket
from types import TracebackType
from typing import Any

from farlane.backend.device.base import MEMORY_PARTS, MemoryMap

PACKET_BYTES = 64 << 10
BULK_LIMIT = 300 << 20  # an image is the largest thing sent
TEXT_CHARACTERS = 4096  # of what is said for people
MAP_BYTES = 1 << 20


class Kind(enum.IntEnum):
    """What a message is."""

    # to the worker
    # name, tape_version, quota, checks; for a guest that comes by TLS certificate, key, token; where the session
    # outlives its connection secret, grace
    OPEN = 1
    CONNECTION = 2  # a descriptor, and what it is for
    USAGE = 3  # a question
    INTERRUPT = 4  # the guest has gone
    CLOSE = 5
    MAP = 6  # a question
    GIVE = 7  # a descriptor: a pipe by which the session is given away (checkpoint/giving.py)
    # name, quota, grace, keeps_code; a descriptor: a pipe by which a saved session comes (checkpoint/taking.py), in the place of OPEN
    TAKE = 8
    # to the host
    READY = 16  # what the device is
    UNAVAILABLE = 17  # text: why there is no device
    OPENED = 18  # window, quota
    REFUSED = 19  # text
    USED = 20  # memory, counts
    OBJECT = 21  # bytes of a guest's object: identity, last
    ENDED = 22  # the session is over: status, details, why, how, counts
    MAPPED = 23  # a memory map, as bytes beside it
    SPANS = 25  # when the session did what; its bytes
    KEEP = 24  # compiled code: its name; its bytes
    REPORT = 26  # what the session has counted, at its end: its bytes (device/reports.py)
    # both ways
    IMAGE = 32  # its digest; its bytes, or why the session may not use what it has given
    COMPILER = 33  # wanted; a descriptor of one, or none where it has all that it gets
    CODE = 34  # compiled code by its name; its name, found, its bytes
    CLAIM = 35  # who compiles it: its name; its name, granted


class Gone(Exception):
    """The other end is no longer there, or says nothing that can be understood."""


class Message:
    """A message that has come. To be used with `with`, which closes the descriptor unless it was taken."""

    def __init__(self, kind: Kind, fields: dict[str, Any], descriptor: int | None) -> None:
        self.kind = kind
        self.fields = fields
        self._descriptor = descriptor

    def __enter__(self) -> Message:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def take_descriptor(self) -> int:
        """The caller's from now on. Raises Gone where there is none."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            raise Gone(f"a message {self.kind.name} without a descriptor")
        return descriptor

    def bulk(self, most: int = BULK_LIMIT) -> bytes:
        """The bytes beside it. Raises Gone: there are none, or too many."""
        if self._descriptor is None:
            raise Gone(f"a message {self.kind.name} without its bytes")
        try:
            size = os.fstat(self._descriptor).st_size
            if size > most:
                raise Gone(f"a message {self.kind.name} of {size} bytes")
            data = bytearray(size)
            at = 0
            while at < size and (
                part := os.pread(self._descriptor, size - at, at)
            ):  # preadv is none that a confined one may use
                data[at : at + len(part)] = part
                at += len(part)
        except OSError as error:
            raise Gone(str(error)) from None
        return bytes(data[:at])


class Control:
    """One end."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def send(self, kind: Kind, /, *, descriptor: int | None = None, bulk: bytes | None = None, **fields: Any) -> None:
        """Raises Gone."""
        packet = json.dumps({"kind": int(kind), **fields}).encode()
        if bulk is None:
            self._send(packet, descriptor)
            return
        file = os.memfd_create("farlane-bulk")
        try:
            rest = memoryview(bulk)
            while rest:
                rest = rest[os.write(file, rest) :]
            self._send(packet, file)
        except OSError as error:
            raise Gone(str(error)) from None
        finally:
            os.close(file)

    def _send(self, packet: bytes, descriptor: int | None) -> None:
        try:
            if descriptor is None:
                self._socket.send(packet)
            else:
                socket.send_fds(self._socket, [packet], [descriptor])
        except OSError as error:
            raise Gone(str(error)) from None

    def receive(self) -> Message:
        """Raises Gone; TimeoutError where a timeout is set."""
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._socket, PACKET_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        except TimeoutError:
            raise
        except OSError as error:
            raise Gone(str(error)) from None
        descriptor = descriptors[0] if descriptors else None
        try:
            fields = json.loads(packet)
            return Message(Kind(fields.pop("kind")), fields, descriptor)
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            if descriptor is not None:
                os.close(descriptor)
            raise Gone("a message that is none" if packet else "the connection has ended") from None

    def timeout(self, seconds: float | None) -> None:
        self._socket.settimeout(seconds)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # a thread that waits for a message finds the end
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def write_map(found: MemoryMap | None) -> bytes:
    """A memory map as MAPPED has it."""
    found = found or MemoryMap()
    return json.dumps([list(found.allocations), list(found.groups)]).encode()


def read_map(data: bytes) -> MemoryMap:
    """Raises ValueError, TypeError or RecursionError: it is none."""
    if len(data) > MAP_BYTES:
        raise ValueError(f"a memory map of {len(data)} bytes")
    allocations, groups = json.loads(data)
    return MemoryMap(
        [(int(start), int(size), str(label)) for start, size, label in allocations[:MEMORY_PARTS]],
        [(int(start), int(physical), int(length)) for start, physical, length in groups[:MEMORY_PARTS]],
    )
