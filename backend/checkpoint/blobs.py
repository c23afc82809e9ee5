"""Content by digest: what of a session is large, and is stored and sent once.

Owns the digest, the division of device memory into pages, and which pages are not stored (those that are zero). How
memory is read is the device's (`Saveable.reading`). What is read while a session runs may end meanwhile, and then reads
as nothing: it is only sent ahead, and read again when the session pauses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from farlane.backend.device.saved import Fetch, Saveable

PAGE = 4096
DIGEST_BYTES = 32
_PIECE = 1 << 20
_ZERO_PAGE, _ZERO_PIECE = bytes(PAGE), bytes(_PIECE)

#: Takes what has not been taken before.
Sink = Callable[[bytes], None]


def digest_of(data: bytes | memoryview) -> bytes:
    return hashlib.sha256(data).digest()


class Run(NamedTuple):
    """Pages that follow each other, none of them zero: their digests, one behind the other."""

    address: int
    digests: bytes


class Offers:
    """What the other side has, or has been given. `sink` gets the rest."""

    def __init__(self, sink: Sink, have: Iterable[bytes] = ()) -> None:
        self._sink = sink
        self._have = set(have)
        self.pages = 0  # given to the sink

    def offer(self, data: bytes) -> bytes:
        """The data's digest. The sink gets the data, if the other side has not got them."""
        digest = digest_of(data)
        if digest not in self._have:
            self._sink(data)
            self._have.add(digest)
        return digest

    def page(self, data: bytes) -> bytes:
        before = len(self._have)
        digest = self.offer(data)
        self.pages += len(self._have) - before
        return digest


class Reader:
    """Reads the pages of a session, again and again: what has not changed since it was read last is not hashed again.

    That is found by comparing with a copy, which is faster; `keeps` says whether copies are kept.
    """

    def __init__(self, offers: Offers, *, keeps: bool) -> None:
        self._offers = offers
        self._keeps = keeps
        self._seen: dict[int, tuple[bytes, list[Run]]] = {}

    def read(self, context: Saveable) -> list[Run]:
        """The pages of its memory that are not zero."""
        runs: list[Run] = []
        with context.reading() as fetch:
            for start, end in context.mapped():
                for place in range(start, end, _PIECE):
                    for run in self._piece(fetch, place, min(_PIECE, end - place)):
                        _add(runs, run)
        return runs

    def _piece(self, fetch: Fetch, place: int, size: int) -> list[Run]:
        piece = fetch(place, size)
        if piece == _ZERO_PIECE:
            return []
        before, runs = self._seen.get(place, (b"", []))
        if piece == before:
            return runs
        runs = []
        for at in range(0, len(piece) - PAGE + 1, PAGE):
            page = piece[at : at + PAGE]
            if page != _ZERO_PAGE:
                _add(runs, Run(place + at, self._offers.page(page)))
        if self._keeps:
            self._seen[place] = piece, runs
        return runs


def _add(runs: list[Run], run: Run) -> None:
    """Behind the others; one that follows the last is a part of it."""
    if runs and runs[-1].address + len(runs[-1].digests) // DIGEST_BYTES * PAGE == run.address:
        runs[-1] = Run(runs[-1].address, runs[-1].digests + run.digests)
    else:
        runs.append(run)


def count_of(runs: Iterable[Run]) -> int:
    """Their pages."""
    return sum(len(run.digests) // DIGEST_BYTES for run in runs)
