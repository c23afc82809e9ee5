"""Compressed payloads, opened.

Does not own what a session has kept (`Payloads` of the plane). Compressed data comes from a guest that is not trusted: what it expands to is known beforehand,
and an opener never writes more.

Source: protos/tape.md, "Payloads"; docs/explanation/systems.md, S1 point 9; the LZ4 block format; RFC 8878 (zstd).
"""

from __future__ import annotations

import lz4.block
import zstandard
from farlane.backend.errors import ProtocolError
from farlane.limits.generated import PAYLOAD_BYTES

CACHE_BYTES = 64 << 20  # of raw bytes kept for one session
CODECS = ("lz4", "zstd")
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
    if not 0 < raw_bytes <= PAYLOAD_BYTES:
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
