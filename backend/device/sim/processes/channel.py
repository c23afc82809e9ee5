"""What a session's process and the listening process say to each other about the device and its memory.

Owns the format. A process has three descriptors:

    turns    a socket: the session asks for the device and for memory, and waits for the answer
    memory   a socket: the listener asks for the device and for memory, at any time
    file     the device memory that the session has: its window maps this file (memory/window.py)

One packet is one message: its kind, a number, a value, and the frames of 2 MiB that it is about. The listener makes the file, which nothing can make larger or
smaller, and sees how much it holds. So a session that has been given so many granules and holds more is found out, whatever it says.

Neither side trusts that a packet is a message: `read` raises Broken.
"""

from __future__ import annotations

import enum
import errno
import os
import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple

from farlane.backend.memory.paging import PAGE_2M

MOST_FRAMES = 8192  # of a message: 16 GiB
_HEAD = struct.Struct("<IIQ")
_COUNTS = struct.Struct("<10Q")
PACKET_BYTES = _HEAD.size + 4 * MOST_FRAMES


class Broken(Exception):
    """The other side says what is no message, or what it may not say now."""


class Kind(enum.IntEnum):
    """What a message is. Number and value are 0 where nothing is said of them."""

    # turns: of the session. The value of all of them is the bytes that have come back to it so far.
    ENTER = 1  # answered when it has the device
    STEP_ASIDE = 2  # the same
    TAKE = 3  # the number of granules that it needs; answered with their frames
    GIVE = 4  # frames
    LEAVE = 5  # the number 1: it has no more work
    REST = 6  # it has no more work
    COUNTS = 7  # a question
    END = 8  # its memory has ended; answered
    # turns: of the listener
    GRANTED = 16  # the number of free granules; the value says which grant of the device this is
    INTERRUPTED = 17  # the session is to end
    REFUSED = 18  # there is not so much memory
    COUNTED = 19
    # memory: of the listener
    RECALL = 32  # leave the device when the operation has ended; the value says which grant is meant
    STOP = 33  # stop the launch that runs at its next block boundary
    GIVE_UP = 34  # the number of granules that are to leave
    # memory: of the session
    GAVE_UP = 48  # their frames; the value is the bytes that were copied
    INTERRUPT = 49  # the session ends: it waits for the device no longer


class Message(NamedTuple):
    kind: Kind
    number: int
    value: int
    frames: list[int]  # physical addresses


class Ends(NamedTuple):
    """Descriptors of the session's process."""

    turns: int
    memory: int
    file: int


def packet(kind: Kind, number: int = 0, value: int = 0, frames: Sequence[int] = ()) -> bytes:
    return _HEAD.pack(kind, number, value) + struct.pack(f"<{len(frames)}I", *(frame // PAGE_2M for frame in frames))


def read(data: bytes) -> Message:
    """Raises Broken."""
    rest = len(data) - _HEAD.size
    if rest < 0 or rest % 4:
        raise Broken(f"a message of {len(data)} bytes")
    kind, number, value = _HEAD.unpack_from(data)
    try:
        found = Kind(kind)
    except ValueError:
        raise Broken(f"a message of kind {kind}") from None
    frames = [each * PAGE_2M for each in struct.unpack_from(f"<{rest // 4}I", data, _HEAD.size)]
    return Message(found, number, value, frames)


def receive(end: socket.socket) -> bytes:
    """A packet; empty: the other side has gone."""
    try:
        return end.recv(PACKET_BYTES)
    except OSError:
        return b""


def pack_counts(numbers: Sequence[int]) -> bytes:
    return _COUNTS.pack(*numbers)


def read_counts(data: bytes) -> Sequence[int]:
    """Raises Broken."""
    if len(data) != _COUNTS.size:
        raise Broken(f"counts of {len(data)} bytes")
    return _COUNTS.unpack(data)


def held_bytes(file: int) -> int:
    """How much memory a file in memory has."""
    return os.fstat(file).st_blocks * 512


def send_now(end: socket.socket, data: bytes) -> None:
    """A message that is a hint: where the other side reads none, or has gone, it is lost."""
    try:
        end.send(data, socket.MSG_DONTWAIT)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EPIPE, errno.ECONNRESET, errno.EBADF, errno.ENOBUFS, errno.ENOTCONN):
            raise
