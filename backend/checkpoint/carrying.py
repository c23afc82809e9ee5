"""Content in messages of a bounded size: small pieces together, large ones in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from farlane.backend.checkpoint.folder import BLOB_BYTES
from farlane.backend.device.saved import Unsaveable
from farlane.v1 import checkpoint_pb2 as pb

MESSAGE_BYTES = 512 << 10


def pieces(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), MESSAGE_BYTES):
        yield data[at : at + MESSAGE_BYTES]


class Sender:
    """Gathers content, and sends it."""

    def __init__(self, send: Callable[[pb.Blobs], None]) -> None:
        self._send = send
        self._blobs = pb.Blobs()
        self._bytes = 0

    def add(self, data: bytes) -> None:
        if len(data) > MESSAGE_BYTES:
            self.flush()
            *parts, last = pieces(data)
            for part in parts:
                self._send(pb.Blobs(data=[part], more=True))
            data = last
        self._blobs.data.append(data)
        self._bytes += len(data)
        if self._bytes >= MESSAGE_BYTES // 2:
            self.flush()

    def flush(self) -> None:
        if self._blobs.data:
            self._send(self._blobs)
        self._blobs, self._bytes = pb.Blobs(), 0


class Receiver:
    """Gives what was sent, whole."""

    def __init__(self) -> None:
        self._begun = bytearray()

    def take(self, blobs: pb.Blobs) -> Iterator[bytes]:
        """Raises Unsaveable: it is larger than content is."""
        for index, data in enumerate(blobs.data):
            self._begun += data
            if len(self._begun) > BLOB_BYTES:
                raise Unsaveable("what was saved is damaged: content of a wrong size")
            if not (blobs.more and index == len(blobs.data) - 1):
                whole = bytes(self._begun)
                self._begun.clear()
                yield whole
