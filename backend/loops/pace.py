"""How fast a loop is handed to a device: in pieces, so that results leave, and an interrupt is seen, while it runs.

Owns the size of the pieces alone; plans.py hands them over.
"""

from __future__ import annotations

import time

FIRST = 16  # iterations; a kernel may take long, and results are waited for
FIRST_SILENT = 64  # without results: a piece more costs as much as ten launches
GROWTH = 8
SHORT_SECONDS, LONG_SECONDS = 0.005, 0.04
MATRIX_BYTES = 1 << 20  # columns and results of one piece
POOR_ITERATIONS, POOR_PIECES = 16, 8  # a device that stops this early, so often, is not asked again


class Pace:
    """The number of iterations to hand over next.

    Args:
        row_bytes: columns and results of one iteration.
        answers: whether it has results.
    """

    def __init__(self, row_bytes: int, answers: bool) -> None:
        self._limit = max(1, min(MATRIX_BYTES // max(1, row_bytes), 1 << 16))
        self._size = min(FIRST if answers else FIRST_SILENT, self._limit)
        self._poor = 0
        self._started = 0.0

    def begin(self) -> None:
        """A new REPEAT of the same body: what is known of its speed still holds."""
        self._poor = 0

    def start(self, left: int) -> int:
        self._started = time.monotonic()
        return min(self._size, left)

    def done(self, iterations: int, asked: int) -> bool:
        """Takes a piece into account; False when the device is not worth asking again."""
        seconds = time.monotonic() - self._started
        if iterations == asked and seconds < SHORT_SECONDS:
            self._size = min(self._size * GROWTH, self._limit)
        elif seconds > LONG_SECONDS:
            self._size = max(1, self._size // GROWTH)
        self._poor = self._poor + 1 if iterations < min(asked, POOR_ITERATIONS) else 0
        return self._poor < POOR_PIECES
