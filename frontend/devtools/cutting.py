"""A TCP proxy that cuts connections at random bytes, for tests and benchmarks of sessions that outlive theirs.

A connection may pass a random number of bytes, both directions together. At that byte it is cut: both sides get a reset, or an end, or
nothing more for a moment and then a reset. What was on its way is lost.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from typing import Literal

BUFFER_BYTES = 64 << 10
Cut = Literal["reset", "end", "stall"]
CUTS: tuple[Cut, ...] = ("reset", "end", "stall")
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing discards what was not sent


class CuttingProxy:
    """Passes connections on to a port of this machine.

    Args:
        port: the host's.
        seed: of the random numbers.
        spare: bytes that the first connections pass in any case, so that the session opens.
        openings: how many these are.
        most: the largest number of bytes that a connection may pass; numbers are spread evenly over their logarithms.
        cuts: how many connections are cut; None: all.
    """

    def __init__(
        self,
        port: int,
        seed: int,
        spare: int = 32 << 10,
        openings: int = 1,
        most: int = 4 << 20,
        cuts: int | None = None,
    ) -> None:
        self.cuts = 0  # done so far
        self.refusing = False  # connections are closed at once
        self._openings = openings
        self._port, self._spare, self._most, self._left = port, spare, most, cuts
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._open: set[_Link] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.refusing = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self, how: Cut = "reset") -> None:
        """Cuts all that are open."""
        with self._lock:
            links = list(self._open)
        for link in links:
            link.cut(how)

    def passing(self, size: int, up: bool) -> None:
        """So many bytes are about to be passed on, to the host (`up`) or to the guest, by the calling thread. Here: at once."""

    def ended(self, link: _Link, was_cut: bool) -> None:
        with self._lock:
            self._open.discard(link)
            self.cuts += was_cut

    def _accept(self) -> None:
        connections = 0
        while True:
            try:
                guest, _ = self._listener.accept()
            except OSError:
                return
            try:
                host = None if self.refusing else socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                host = None
            if host is None:
                guest.close()
                continue
            with self._lock:
                budget = None if self._left == 0 else round(self._most ** self._random.random())
                self._left = self._left - 1 if self._left else self._left
                how = self._random.choice(CUTS)
                link = _Link(
                    self, guest, host, budget and budget + (self._spare if connections < self._openings else 0), how
                )
                self._open.add(link)
            connections += 1
            link.start()


class _Link:
    """One connection. `budget`: bytes until it is cut; None: it is not."""

    def __init__(
        self, proxy: CuttingProxy, guest: socket.socket, host: socket.socket, budget: int | None, how: Cut
    ) -> None:
        self._proxy, self._guest, self._host, self._budget, self._how = proxy, guest, host, budget, how
        self._lock = threading.Lock()
        self._over = False
        for each in (guest, host):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        for source, target, up in ((self._guest, self._host, True), (self._host, self._guest, False)):
            threading.Thread(target=self._pass, args=(source, target, up), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, up: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(BUFFER_BYTES):
                self._proxy.passing(len(data), up)
                with self._lock:
                    passed = len(data) if self._budget is None else min(self._budget, len(data))
                    if self._budget is not None:
                        self._budget -= passed
                target.sendall(data[:passed])
                if self._budget == 0:
                    self.cut(self._how)
                    return
        self._end("end", was_cut=False)

    def cut(self, how: Cut) -> None:
        if how == "stall":
            time.sleep(0.05)
            how = "reset"
        self._end(how, was_cut=True)

    def _end(self, how: Cut, was_cut: bool) -> None:
        with self._lock:
            if self._over:
                return
            self._over = True
        self._proxy.ended(self, was_cut)
        for each in (self._guest, self._host):
            with contextlib.suppress(OSError):
                if how == "reset":
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                # Wakes the thread that reads it, without which closing closes nothing.
                each.shutdown(socket.SHUT_RD if how == "reset" else socket.SHUT_RDWR)
            each.close()
