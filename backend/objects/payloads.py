"""Payloads: bytes that a session's guest names instead of sending them again, and compressed ones.

Owns the bounds of what a session has kept and the opening of compressed data. The guest decides what is kept and dropped; what is
kept is its session's own. Compressed data comes from a guest that is not trusted: what it expands to is known beforehand,
and an opener never writes more.

Locking: none. One session, one thread at a time.
Source: protos/tape.md, "Payloads"; mission.md S1 point 9; the LZ4 block format; RFC 8878 (zstd).
"""

from __future__ import annotations

import lz4.block
import numpy as np
import numpy.typing as npt
import zstandard
from farlane.backend.errors import ProtocolError

CACHE_BYTES = 64 << 20  # of raw bytes kept for one session
CODECS = ("lz4", "zstd")
MAX_NUMBER = 65535
MAX_RAW = 1 << 20
LZ4, ZSTD = 1, 2  # record flags

_WINDOW_LIMIT = 8 << 20
_UNKNOWN_SIZE = (1 << 64) - 1


def expand(data: memoryview, flags: int, raw_bytes: int) -> memoryview:
    """The raw bytes of a record's data.

    Raises:
        ProtocolError: it is not exactly that many.
    """
    if not flags:
        if len(data) != raw_bytes:
            raise ProtocolError(f"{len(data)} bytes of data where {raw_bytes} were announced")
        return data
    if flags == LZ4 | ZSTD:
        raise ProtocolError("data that is compressed twice")
    if not 0 < raw_bytes <= MAX_RAW:
        raise ProtocolError(f"compressed data of {raw_bytes} bytes")
    raw = _lz4(data, raw_bytes) if flags & LZ4 else _zstd(data, raw_bytes)
    if len(raw) != raw_bytes:
        raise ProtocolError(f"compressed data of {len(raw)} bytes where {raw_bytes} were announced")
    return memoryview(raw)


def _lz4(data: memoryview, raw_bytes: int) -> bytes:
    try:
        raw: bytes = lz4.block.decompress(data, uncompressed_size=raw_bytes)
    except lz4.block.LZ4BlockError as error:
        raise ProtocolError(f"a broken LZ4 block: {error}") from None
    return raw


def _zstd(data: memoryview, raw_bytes: int) -> bytes:
    try:
        frame = zstandard.get_frame_parameters(data)
        if frame.content_size not in (raw_bytes, _UNKNOWN_SIZE) or frame.dict_id:
            raise ProtocolError(f"a zstd frame of {frame.content_size} bytes where {raw_bytes} were announced")
        if frame.window_size > _WINDOW_LIMIT:
            raise ProtocolError(f"a zstd frame with a window of {frame.window_size} bytes")
        # A frame that says its size is opened into that many bytes; of another one the bound is given here.
        opener = zstandard.ZstdDecompressor(max_window_size=_WINDOW_LIMIT)
        return opener.decompress(data, max_output_size=raw_bytes, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise ProtocolError(f"a broken zstd frame: {error}") from None


class PayloadStore:
    """What one session has kept."""

    def __init__(self, capacity: int = CACHE_BYTES) -> None:
        self._kept: dict[int, bytes] = {}
        self._capacity = capacity
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def bytes_kept(self) -> int:
        return self._bytes

    def keep(self, number: int, raw_bytes: int, data: memoryview, flags: int) -> None:
        """Raises ProtocolError."""
        if number > MAX_NUMBER or number in self._kept:
            raise ProtocolError(f"payload {number} is taken, or over {MAX_NUMBER}")
        if not 0 < raw_bytes <= MAX_RAW:
            raise ProtocolError(f"payload {number} of {raw_bytes} bytes")
        if self._bytes + raw_bytes > self._capacity:
            raise ProtocolError(f"payload {number}: more than {self._capacity} bytes are kept")
        self._kept[number] = bytes(expand(data, flags, raw_bytes))
        self._bytes += raw_bytes

    def drop(self, number: int) -> None:
        """Raises ProtocolError."""
        self._bytes -= len(self.get(number))
        del self._kept[number]

    def get(self, number: int) -> memoryview:
        """Raises ProtocolError."""
        kept = self._kept.get(number)
        if kept is None:
            raise ProtocolError(f"payload {number} is not kept")
        return memoryview(kept)

    def places(self, numbers: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Where these lie, and how many bytes each has: 0 and 0 where it is not kept. Valid until one is dropped."""
        different, which = np.unique(numbers, return_inverse=True)
        found = np.zeros((2, len(different)), np.uint64)
        for index, number in enumerate(different.tolist()):
            kept = self._kept.get(number)
            if kept is not None:
                found[:, index] = np.frombuffer(kept, np.uint8).__array_interface__["data"][0], len(kept)
        return found[0][which], found[1][which]

    def clear(self) -> None:
        self._kept.clear()
        self._bytes = 0
