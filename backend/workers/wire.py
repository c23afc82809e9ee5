"""Frames between the host's process and a worker, over a socket pair.

Owns the format: a header with kind and length, then the bytes. Both ends are this installation, so there are no versions; but a worker runs what a guest
wants, so the host trusts neither lengths nor contents beyond what it checks.

One thread at a time on each end.
"""

from __future__ import annotations

import enum
import json
import select
import socket
import struct
from typing import Any

_AHEAD = 64 << 10
FRAME_LIMIT = 300 << 20  # an image is the largest thing sent
_HEADER = struct.Struct("<IB3x")
_TAPE = struct.Struct("<QB7x")


class Kind(enum.IntEnum):
    """What a frame is."""

    # to the worker
    OPEN = 1  # JSON: name, tape_version, quota, checks
    TAPE = 2  # group, last, the records
    CLOSE = 3
    # to the host
    READY = 16  # JSON: what the device is
    UNAVAILABLE = 17  # text: why there is no device
    OPENED = 18  # JSON: window, quota
    REFUSED = 19  # text
    REPLY = 20  # a HostMessage
    DONE = 21  # the message is replayed; with the HostMessage that ends its group, if it does
    BROKEN = 22  # text: the rule that the guest broke
    FAILED = 23  # text: a bug of ours
    # both ways
    IMAGE = 32  # an image, its digest (32 bytes) first


class Gone(Exception):
    """The other end is no longer there."""


class Wire:
    """One end."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._buffer = memoryview(bytearray(_AHEAD))  # one system call takes a whole small frame
        self._start = self._end = 0  # of what is in it

    def send(self, kind: Kind, *parts: bytes | memoryview) -> None:
        """Raises Gone."""
        left = [memoryview(_HEADER.pack(sum(map(len, parts)), kind)), *(memoryview(part) for part in parts)]
        try:
            while left:
                sent = self._socket.sendmsg(left)
                while left and sent >= len(left[0]):
                    sent -= len(left.pop(0))
                if left:
                    left[0] = left[0][sent:]
        except OSError as error:
            raise Gone(str(error)) from None

    def send_json(self, kind: Kind, value: Any) -> None:
        self.send(kind, json.dumps(value).encode())

    def send_tape(self, group: int, last: bool, records: memoryview) -> None:
        self.send(Kind.TAPE, _TAPE.pack(group, last), records)

    def receive(self) -> tuple[Kind, bytes]:
        """Raises Gone, also when what comes is no frame; TimeoutError where the socket has a timeout."""
        while self._end - self._start < _HEADER.size:
            if self._start:
                left = bytes(self._buffer[self._start : self._end])
                self._buffer[: len(left)] = left
                self._start, self._end = 0, len(left)
            self._end += self._take(self._buffer[self._end :])
        length, number = _HEADER.unpack_from(self._buffer, self._start)
        self._start += _HEADER.size
        if length > FRAME_LIMIT:
            raise Gone(f"a frame of {length} bytes")
        here = min(length, self._end - self._start)
        data = bytes(self._buffer[self._start : self._start + here])
        self._start += here
        if here < length:
            whole = bytearray(length)
            whole[:here] = data
            rest = memoryview(whole)[here:]
            while rest:
                rest = rest[self._take(rest) :]
            data = bytes(whole)
        try:
            return Kind(number), data
        except ValueError:
            raise Gone(f"a frame of kind {number}") from None

    def _take(self, view: memoryview) -> int:
        try:
            count = self._socket.recv_into(view)
        except TimeoutError:
            raise
        except OSError as error:
            raise Gone(str(error)) from None
        if not count:
            raise Gone("the connection has ended")
        return count

    def waits(self, seconds: float = 0.0) -> bool:
        """Whether nothing is there to be received, and nothing comes within so many seconds."""
        if self._start < self._end:
            return False
        if seconds:
            select.select((self._socket,), (), (), seconds)
        try:
            return not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False

    def timeout(self, seconds: float | None) -> None:
        self._socket.settimeout(seconds)

    def close(self) -> None:
        self._socket.close()


def tape(data: bytes) -> tuple[int, bool, int]:
    """(group, last, where the records begin)."""
    group, last = _TAPE.unpack_from(data)
    return group, bool(last), _TAPE.size
