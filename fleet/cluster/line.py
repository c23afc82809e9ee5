"""A gateway's own line to the roster, for what each guest waits for: a call of Ray's costs ten times as much.

Owns both ends. Who knows the key, which Ray's actor gives away, may ask; nothing is read of others but their answer to a
challenge. One call at a time at the gateway's end (batching.py); the roster has a thread for each line.

Source: docs.python.org, multiprocessing.connection, "Authentication keys".
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Generic, NamedTuple, TypeVar

log = logging.getLogger("farlane.fleet")

KEY_BYTES = 32
CALL_SECONDS = 10.0

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
        answer: gives as many answers as it was asked.
    """

    def __init__(self, address: str, answer: Callable[[Sequence[Asked]], Sequence[Answer]]) -> None:
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
                asked: Sequence[Asked] = line.recv()
                try:
                    answers = self._answer(asked)
                except Exception:
                    log.exception("the roster has failed")
                    return
                line.send(answers)


class Line(Generic[Asked, Answer]):
    """A gateway's end.

    Args:
        find: the way, as it is now. What it raises is raised to who asks.
    """

    def __init__(self, find: Callable[[], Way]) -> None:
        self._find = find
        self._line: Connection | None = None

    def ask(self, asked: Sequence[Asked]) -> Sequence[Answer]:
        """Raises Lost: what was asked may have been done."""
        try:
            if self._line is None:
                self._line = _open(self._find())
            self._line.send(list(asked))
            if not self._line.poll(CALL_SECONDS):
                raise TimeoutError(f"no answer for {CALL_SECONDS:.0f} s")
            answers: Sequence[Answer] = self._line.recv()
            return answers
        except (OSError, EOFError, AuthenticationError) as error:
            self.close()
            raise Lost(str(error)) from None

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


def _open(way: Way) -> Connection:
    line = _connection(socket.create_connection((way.address, way.port), CALL_SECONDS))
    try:
        answer_challenge(line, way.key)
        deliver_challenge(line, way.key)
    except BaseException:
        line.close()
        raise
    return line


def _connection(opened: socket.socket) -> Connection:
    opened.settimeout(None)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(opened.detach())
