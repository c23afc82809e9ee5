"""What kernels print, until the guest gets it.

Owns the bounded buffer of a launch (cudaLimitPrintfFifoSize: when it is full the oldest text goes) and what earlier launches have left
in it. A text is dropped whole or not at all. What the guest has not fetched is bounded as well, by `UNFETCHED`: the oldest goes.

Source: CUDA programming guide, "Formatted Output", "Limitations" and "Associated Host-Side API".
"""

from __future__ import annotations

from collections import deque

DEFAULT_LIMIT = 1 << 20
MAX_LIMIT = 256 << 20
UNFETCHED = 64 << 20


class Fifo:
    """Texts, oldest first, of at most `limit` bytes together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.texts: deque[bytes] = deque()

    def add(self, text: bytes) -> None:
        if len(text) > self.limit:
            return
        self.texts.append(text)
        self.size += len(text)
        while self.size > self.limit:
            self.size -= len(self.texts.popleft())

    def take(self) -> bytes:
        """Everything; the buffer is empty afterwards."""
        content = b"".join(self.texts)
        self.texts.clear()
        self.size = 0
        return content


class Output:
    """One stream (printed text, or the messages of assertions) of one session."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._launch: object = None
        self._current = Fifo(limit)
        self._earlier = Fifo(UNFETCHED)

    def set_limit(self, limit: int) -> None:
        """From the next launch on."""
        self._end_launch()
        self._current.limit = min(limit, MAX_LIMIT)

    def add(self, launch: object, text: bytes) -> None:
        """`launch` tells launches apart: each has the buffer to itself."""
        if launch != self._launch:
            self._end_launch()
            self._launch = launch
        self._current.add(text)

    def take(self) -> bytes:
        if not (self._current.size or self._earlier.size):
            return b""
        self._end_launch()
        return self._earlier.take()

    def _end_launch(self) -> None:
        self._earlier.limit = max(UNFETCHED, self._current.limit)
        for text in self._current.texts:
            self._earlier.add(text)
        self._current.texts.clear()
        self._current.size = 0
