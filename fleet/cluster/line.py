"""A gateway's own line to the roster, for what each guest waits for: a call of Ray's costs ten times as much.

Owns both ends. Who knows the key, which Ray's actor gives away, may ask; nothing is read of others but their answer to a
challenge. A line has one question under way at a time; a gateway has a line for each of its threads that ask at the same
time, and the roster a thread for each line.

Locking: none; the list of idle lines is changed by single operations.
Source: docs.python.org, multiprocessing.connection, "Authentication keys".
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any, Generic, NamedTuple, TypeVar

log = logging.getLogger("farlane.fleet")

KEY_BYTES = 32
CALL_SECONDS = 10.0
_SECONDS = struct.Struct("@ll")  # struct timeval

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Way(NamedTuple):
    """To the roster."""

    address: str
    port: int
    key: bytes


class Lost(Exception):
    """The roster does not answer (any more): it may have been started anew, and then has another way."""


class Exchange(Generic[Asked, Answer]):
    """The roster's end.

    Args:
        address: of this machine, by which gateways reach it.
        answer: of one question.
    """

    def __init__(self, address: str, answer: Callable[[Asked], Answer]) -> None:
        self._answer = answer
        self._listener = socket.create_server((address, 0), backlog=64)
        self.way = Way(address, self._listener.getsockname()[1], secrets.token_bytes(KEY_BYTES))
        threading.Thread(target=self._accept, name="farlane-lines", daemon=True).start()

    def close(self) -> None:
        """Of new lines; those that are open go on."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(
                target=self._serve, args=(_connection(accepted),), name="farlane-line", daemon=True
            ).start()

    def _serve(self, line: Connection) -> None:
        with line, contextlib.suppress(OSError, EOFError, AuthenticationError):
            deliver_challenge(line, self.way.key)
            answer_challenge(line, self.way.key)
            while True:
                asked: Asked = _receive(line)
                try:
                    answer = self._answer(asked)
                except Exception:
                    log.exception("the roster has failed")
                    return
                _send(line, answer)


class Line(Generic[Asked, Answer]):
    """A gateway's end.

    Args:
        find: the way, as it is now. What it raises is raised to who asks.
    """

    def __init__(self, find: Callable[[], Way]) -> None:
        self._find = find
        self._line: Connection | None = None

    def ask(self, asked: Asked) -> Answer:
        """Raises Lost: what was asked may have been done."""
        try:
            if self._line is None:
                self._line = _open(self._find())
            _send(self._line, asked)
            answer: Answer = _receive(self._line)
            return answer
        except BlockingIOError:
            self.close()
            raise Lost(f"no answer for {CALL_SECONDS:.0f} s") from None
        except (OSError, EOFError, AuthenticationError) as error:
            self.close()
            raise Lost(str(error)) from None

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


class Lines(Generic[Asked, Answer]):
    """A gateway's lines: as many as its threads have ever asked at the same time. Arguments: as a Line's."""

    def __init__(self, find: Callable[[], Way]) -> None:
        self._find = find
        self._idle: list[Line[Asked, Answer]] = []

    def ask(self, asked: Asked) -> Answer:
        """Raises Lost: what was asked may have been done."""
        try:
            line = self._idle.pop()
        except IndexError:
            line = Line(self._find)
        try:
            return line.ask(asked)
        finally:
            self._idle.append(line)


def _open(way: Way) -> Connection:
    opened = socket.create_connection((way.address, way.port), CALL_SECONDS)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _SECONDS.pack(int(CALL_SECONDS), 0))
    line = _connection(opened)
    try:
        answer_challenge(line, way.key)
        deliver_challenge(line, way.key)
    except BaseException:
        line.close()
        raise
    return line


def _send(line: Connection, said: object) -> None:
    """Pickled here: Connection's own pickling takes several times as long."""
    line.send_bytes(pickle.dumps(said, pickle.HIGHEST_PROTOCOL))


def _receive(line: Connection) -> Any:
    return pickle.loads(line.recv_bytes())


def _connection(opened: socket.socket) -> Connection:
    opened.settimeout(None)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(opened.detach())
