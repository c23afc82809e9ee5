"""A confined worker's end of the processes that compile for it: the host starts them (compiling.py), for the worker may not.

Owns the question, and such a process as the compiler knows one.
"""

from __future__ import annotations

import queue
import socket

from farlane.backend.workers.control import Control, Gone, Kind, Message

_COMPILER_SECONDS = 30.0  # for the host to start a process


class _Compiler:
    """A process that compiles kernels, which the host has started; at the other end of a socket."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self.stdin = self._socket.makefile("wb")
        self.stdout = self._socket.makefile("rb")
        self._ended = False

    def poll(self) -> int | None:
        return 1 if self._ended else None

    def wait(self) -> int:
        """It is not this process's child: how it ended is not known."""
        self.kill()
        return 1

    def kill(self) -> None:
        """It ends when this end is closed."""
        if not self._ended:
            self._ended = True
            self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()


class Compilers:
    """Asks the host for processes that compile. Its answers come in the order of the questions."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._answers: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def start(self) -> _Compiler:
        """Raises OSError: the session has as many as it gets, or the host has gone."""
        try:
            self._control.send(Kind.COMPILER)
            descriptor = self._answers.get(timeout=_COMPILER_SECONDS)
        except (Gone, queue.Empty) as error:
            raise OSError(f"the host starts no process: {error!r}") from None
        if descriptor is None:
            raise OSError("the session has as many processes that compile as it gets")
        return _Compiler(descriptor)

    def answered(self, message: Message) -> None:
        try:
            descriptor = message.take_descriptor()
        except Gone:
            self._answers.put(None)
        else:
            self._answers.put(descriptor)
