"""Messages of checkpoint.proto both ways, whatever carries them: a call of the host, a pipe to a session's process, a folder.

Owns the interface, and the folder that is read as a caller would send it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from farlane.backend.checkpoint import form
from farlane.backend.checkpoint.blobs import DIGEST_BYTES
from farlane.backend.checkpoint.carrying import Sender, pieces
from farlane.backend.checkpoint.folder import Folder
from farlane.v1 import checkpoint_pb2 as pb
from google.protobuf.message import DecodeError

SILENCE_SECONDS = 60.0  # of a caller
ROUND_SECONDS = 600.0  # for a round of memory to arrive at another host


class Malformed(Exception):
    """The other side says what has no place here."""


class Talk(Protocol):
    def send(self, data: bytes) -> None:
        """Raises what its kind raises when the other side has gone."""

    def receive(self, seconds: float) -> bytes:
        """Raises Malformed, TimeoutError, and as `send`."""


class Reading:
    """A folder, read as a caller would send it. Raises Unsaveable."""

    def __init__(self, path: Path) -> None:
        self._messages = _messages(Folder(path))

    def send(self, data: bytes) -> None:
        raise AssertionError("a folder asks nothing")

    def receive(self, seconds: float) -> bytes:
        return next(self._messages)


def _messages(folder: Folder) -> Iterator[bytes]:
    saved = folder.session()
    found: list[bytes] = []
    sender = Sender(lambda blobs: found.append(pb.RestorePart(blobs=blobs).SerializeToString()))
    for data in folder.content(form.needed(saved)):
        sender.add(data)
        yield from found
        found.clear()
    sender.flush()
    yield from found
    for piece in pieces(saved.SerializeToString()):
        yield pb.RestorePart(session=piece).SerializeToString()
    yield pb.RestorePart(end=True).SerializeToString()


def request(talk: Talk, *kinds: str, seconds: float = SILENCE_SECONDS) -> pb.SaveRequest:
    """The next message of who saves. Raises Malformed, TimeoutError."""
    try:
        found = pb.SaveRequest.FromString(talk.receive(seconds))
    except DecodeError as error:
        raise Malformed(str(error)) from None
    if found.WhichOneof("kind") not in kinds:
        raise Malformed(f"{found.WhichOneof('kind')} where {' or '.join(kinds)} was due")
    return found


def restored_part(data: bytes) -> pb.RestorePart:
    """Raises Malformed."""
    try:
        return pb.RestorePart.FromString(data)
    except DecodeError as error:
        raise Malformed(str(error)) from None


def digests(data: bytes) -> list[bytes]:
    """Raises Malformed."""
    if len(data) % DIGEST_BYTES:
        raise Malformed("digests of another length")
    return [data[at : at + DIGEST_BYTES] for at in range(0, len(data), DIGEST_BYTES)]
