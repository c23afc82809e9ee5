"""A pipe for whole messages, both ways, between a host and the process of a session.

Owns its end, and what the other side's end means. One thread at a time at each end.
"""

from __future__ import annotations

from multiprocessing.connection import Connection

_MESSAGE_BYTES = 4 << 20


class Ended(Exception):
    """The other side has gone, or says more than a message is."""


class Pipe:
    """One end. Its methods raise Ended."""

    def __init__(self, descriptor: int) -> None:
        """The descriptor, of a stream socket, is the pipe's from now on."""
        self._connection = Connection(descriptor)

    def __enter__(self) -> Pipe:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def send(self, data: bytes) -> None:
        try:
            self._connection.send_bytes(data)
        except OSError as error:
            raise Ended(str(error)) from None

    def receive(self, seconds: float) -> bytes:
        """Raises TimeoutError."""
        try:
            if not self._connection.poll(seconds):
                raise TimeoutError
            return self._connection.recv_bytes(_MESSAGE_BYTES)
        except TimeoutError:
            raise
        except (OSError, EOFError) as error:
            raise Ended(str(error)) from None
