"""What binding/src/lib.rs offers."""

from collections.abc import Callable, Sequence
from typing import Literal

Kind = Literal["tcp", "unix", "rings"]

class CallGone(Exception):
    """The call was cancelled, or its connection broke."""

class MessageRefused(Exception):
    """What came is no message that the host takes. Its arguments: gRPC's status code, and why."""

    args: tuple[int, str]

class Tape:
    """A Tape message."""

    @property
    def group(self) -> int: ...
    @property
    def records(self) -> bytes: ...
    @property
    def last(self) -> bool: ...

def read_tape(message: bytes) -> Tape | None:
    """A Tape, if the message is one in the form in which every protobuf library writes it."""

class Call:
    """One call of a guest. It belongs to the thread that serves it."""

    @property
    def number(self) -> int:
        """No other call of the process has it."""

    @property
    def method(self) -> str: ...
    @property
    def peer(self) -> str: ...
    def ticket(self) -> bytes | None:
        """What the guest is to say at the rings' socket, once; None where it cannot come there."""

    def passage(self) -> bytes | None:
        """What the guest is to say, once, on another connection, which is handed on (`hand`)."""

    def wake(self) -> None:
        """From any thread: the call's own thread gets a TimeoutError from `receive`, now or the next time."""

    def receive(self, timeout: float | None = None) -> Tape | bytes | None:
        """The next message: a Tape, the bytes of another one, or None when the guest will send no more.

        Raises:
            CallGone: the call was cancelled or the connection broke.
            MessageRefused: what came is too large, or no message.
            TimeoutError: nothing came in time.
        """

    def send(self, message: bytes, *, flush: bool = True) -> None:
        """Sends a message once the one before is on its way, so that a slow guest holds up its own session.

        Args:
            flush: now; else with what the thread does next, which must be `receive`, `send` or `finish`.

        Raises:
            CallGone: the call was cancelled or the connection broke.
        """

    def finish(self, status: int, details: str = "") -> None:
        """Ends the call with a gRPC status, whatever has become of it. The last thing done with it."""

class Server:
    """A server that listens.

    Args:
        listeners: (file descriptor of a listening socket, what it is for); they are the server's from now on.
        serve: is given each call, on a thread of the call's own, and finishes it.
        cancelled: is given a call that was cancelled while its thread is busy elsewhere.
        warn: is given a text for the log.
        hand: is given each connection that shows the ticket of a call: the call, a descriptor to be closed, and what it
            is for. The call's session is in another process.
        calls: at once; the next one is turned away.
        connections: at once.
        message_bytes: the largest message.
        keepalive: seconds that a guest may be silent before it is asked whether it is there.
        keepalive_timeout: seconds that it may take to answer.

    Raises:
        OSError: there is no thread for it.
    """

    def __init__(
        self,
        listeners: Sequence[tuple[int, Kind]],
        serve: Callable[[Call], None],
        cancelled: Callable[[Call], None],
        warn: Callable[[str], None],
        *,
        calls: int,
        connections: int,
        message_bytes: int,
        keepalive: float,
        keepalive_timeout: float,
        hand: Callable[[Call, int, Kind], None] | None = None,
    ) -> None: ...
    @property
    def calls(self) -> int:
        """Calls that are open."""

    def adopt(self, descriptor: int, kind: Kind) -> None:
        """Serves a connection that another process has handed on; the descriptor is the server's from now on."""

    def stop(self, grace: float) -> None:
        """Takes no new connections, gives the open calls `grace` seconds, then cancels them and waits until they are gone."""
