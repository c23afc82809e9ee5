"""The way between a guest and a host, on which things go wrong: connections are cut, stand still, or pass little.

Owns a forwarder from a port of this machine to another one, and what it does to the connections that are open.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from typing import Literal

Direction = Literal["up", "down"]
_PIECE = 16 << 10
_RESET = struct.pack("ii", 1, 0)


class Way:
    """Forwards connections to `port`. Closing it resets them."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: set[tuple[socket.socket, socket.socket]] = set()
        self._free = {"up": threading.Event(), "down": threading.Event()}
        for each in self._free.values():
            each.set()
        self._rate: float | None = None  # bytes a second
        self._delay = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, how: Literal["reset", "end"]) -> None:
        """All connections that are open. New ones are forwarded."""
        with self._lock:
            pairs = list(self._open)
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    if how == "reset":
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    end.shutdown(socket.SHUT_RDWR)

    def hold(self, *directions: Direction) -> None:
        """Nothing passes in these directions until `release`, and nobody is told."""
        for direction in directions:
            self._free[direction].clear()

    def release(self) -> None:
        for each in self._free.values():
            each.set()

    def throttle(self, rate: float | None, delay: float = 0.0) -> None:
        """So many bytes a second, and each piece so many seconds later."""
        self._rate, self._delay = rate, delay

    def close(self) -> None:
        self._listener.close()
        self.release()
        self.throttle(None)
        self.cut("reset")

    def _accept(self) -> None:
        while True:
            try:
                guest, _ = self._listener.accept()
            except OSError:
                return
            try:
                host = socket.create_connection(("127.0.0.1", self._target), 5)
                host.settimeout(None)
            except OSError:
                guest.close()
                continue
            with self._lock:
                self._open.add((guest, host))
            for source, target, direction in ((guest, host, "up"), (host, guest, "down")):
                threading.Thread(
                    target=self._pass, args=(source, target, direction, (guest, host)), daemon=True
                ).start()

    def _pass(
        self,
        source: socket.socket,
        target: socket.socket,
        direction: Direction,
        pair: tuple[socket.socket, socket.socket],
    ) -> None:
        with contextlib.suppress(OSError):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data := source.recv(_PIECE):
                self._free[direction].wait()
                if self._delay:
                    time.sleep(self._delay)
                target.sendall(data)
                if self._rate is not None:
                    time.sleep(len(data) / self._rate)
        for end in pair:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            if pair in self._open:
                self._open.discard(pair)
                return
        for end in pair:  # both directions are over
            end.close()
