"""The fat binary container: bytes in, entries out.

Owns the format and its bounds; never executes or interprets a payload beyond decompressing it. Everything here is
untrusted: the only exception that leaves this module is `FatBinaryError`, the work is linear in the image's size, and
what a payload expands to is bounded before a byte of it is expanded.

The format (little endian), as nvcc 13.0 writes it; found by decoding what it wrote, not from a published document:

    image      one or more containers, zero bytes between and behind them allowed
    container  u32 0xBA55ED50, u16 version 1, u16 header size 16, u64 bytes of entries that follow
    entry      +0 u16 kind (1 PTX, 2 ELF)       +4 u32 header size (0x40 ELF, 0x50 PTX, more with strings)
               +8 u64 payload bytes, padded     +16 u32 compressed bytes, 0 when stored
               +24 u16 minor, +26 u16 major PTX version     +28 u32 architecture, e.g. 75 (75a too)
               +32 u32 name offset, +36 u32 name length      +40 u64 flags (0x2000 LZ4 block, 0x8000 zstd frame,
                                                             0x100000 architecture-, 0x200000 family-specific)
               +56 u64 uncompressed bytes       +64 u32 option offset, +68 u32 option length (PTX)
               payload behind the header

Fields not named here, kinds and flags not known, and longer headers are tolerated; a container version or a
compression that is not known is refused, for its payload cannot be read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum

import lz4.block
import zstandard
from farlane.limits.generated import CONTAINER_ENTRIES, ZSTD_WINDOW_LOG

MAGIC = 0xBA55ED50
ELF_MAGIC = b"\x7fELF"

MAX_HEADER = 1 << 16
MAX_UNCOMPRESSED = 1 << 28  # the largest PTX text of 456 public programs is 22 MB

_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")  # the 64 bytes that every entry has
_OPTIONS = struct.Struct("<II")

_FLAG_LZ4 = 0x2000
_FLAG_ZSTD = 0x8000
_FLAG_ARCHITECTURE_SPECIFIC = 0x10_0000
_FLAG_FAMILY_SPECIFIC = 0x20_0000
_LZ4_MAX_RATIO = 255


class FatBinaryError(ValueError):
    """The image is not what it claims to be."""


class Kind(IntEnum):
    """What an entry holds."""

    OTHER = 0
    PTX = 1
    ELF = 2


@dataclass(frozen=True)
class Entry:
    """One piece of device code. `data` decompresses; nothing before it does."""

    kind: Kind
    arch: int
    ptx_version: tuple[int, int]
    flags: int
    name: str
    options: str
    payload: memoryview = field(repr=False)
    uncompressed_bytes: int

    @property
    def suffix(self) -> str:
        """Of the architecture: "a" and "f" restrict the devices that run it (`compute_90a`, `compute_100f`)."""
        if self.flags & _FLAG_ARCHITECTURE_SPECIFIC:
            return "a"
        return "f" if self.flags & _FLAG_FAMILY_SPECIFIC else ""

    def data(self) -> bytes:
        """The payload, decompressed."""
        if self.flags & _FLAG_ZSTD:
            return _zstd(self.payload, self.uncompressed_bytes)
        if self.flags & _FLAG_LZ4:
            return _lz4(self.payload, self.uncompressed_bytes)
        return bytes(self.payload)

    def text(self) -> str:
        """The payload as PTX text, without the zero bytes that pad it."""
        return self.data().rstrip(b"\0").decode("utf-8", errors="replace")


def parse(image: bytes | memoryview, most: int = CONTAINER_ENTRIES) -> list[Entry]:
    """Every entry of every container of a fat binary, in order.

    Raises:
        FatBinaryError: the bytes are not a well-formed fat binary, or have more than `most` entries.
    """
    view = memoryview(image).cast("B")
    entries: list[Entry] = []
    position = 0
    containers = 0
    while position < len(view):
        if len(view) - position < _CONTAINER.size or int.from_bytes(view[position : position + 4], "little") != MAGIC:
            if containers and not any(view[position : position + 8]):
                position = _skip_zeros(view, position)
                continue
            raise FatBinaryError(f"no fat binary container at byte {position} of {len(view)}")
        _, version, header, size = _CONTAINER.unpack_from(view, position)
        if version != 1 or header < _CONTAINER.size:
            raise FatBinaryError(f"fat binary container version {version} with a header of {header} bytes is not known")
        start = position + header
        if start + size > len(view):
            raise FatBinaryError(f"container claims {size} bytes of entries; {max(0, len(view) - start)} are there")
        _entries(view[start : start + size], entries, most)
        containers += 1
        position = start + size
    if not containers:
        raise FatBinaryError("the image is empty")
    return entries


def _skip_zeros(view: memoryview, position: int) -> int:
    rest = bytes(view[position:])
    return position + len(rest) - len(rest.lstrip(b"\0"))


def _entries(view: memoryview, entries: list[Entry], most: int) -> None:
    """Appends the entries of one container's body."""
    position = 0
    while position < len(view):
        if len(view) - position < _ENTRY.size:
            if any(view[position:]):
                raise FatBinaryError(f"{len(view) - position} bytes are no entry")
            return
        if len(entries) >= most:
            raise FatBinaryError(f"more than {most} entries")
        entry, position = _entry(view, position)
        entries.append(entry)


def _entry(view: memoryview, position: int) -> tuple[Entry, int]:
    """The entry at position and the position behind it."""
    (kind, _, header, padded, compressed, _, minor, major, arch, name_offset, name_length, flags, _, uncompressed) = (
        _ENTRY.unpack_from(view, position)
    )
    left = len(view) - position
    if not _ENTRY.size <= header <= min(left, MAX_HEADER):
        raise FatBinaryError(f"entry header of {header} bytes where {left} are left")
    if padded > left - header:
        raise FatBinaryError(f"entry claims a payload of {padded} bytes where {left - header} are left")
    head = view[position : position + header]
    is_compressed = compressed != 0 or bool(flags & (_FLAG_LZ4 | _FLAG_ZSTD))
    if is_compressed:
        if bool(flags & _FLAG_LZ4) == bool(flags & _FLAG_ZSTD):
            raise FatBinaryError(f"entry flags {flags:#x} name a compression that is not known")
        if not 0 < compressed <= padded:
            raise FatBinaryError(f"entry claims {compressed} compressed bytes in a payload of {padded}")
        if uncompressed > MAX_UNCOMPRESSED:
            raise FatBinaryError(f"entry expands to {uncompressed} bytes; the limit is {MAX_UNCOMPRESSED}")
    start = position + header
    options = ""
    if kind == Kind.PTX and header >= _ENTRY.size + _OPTIONS.size:
        options = _string(head, *_OPTIONS.unpack_from(head, _ENTRY.size))
    entry = Entry(
        kind=Kind(kind) if kind in (Kind.PTX, Kind.ELF) else Kind.OTHER,
        arch=arch,
        ptx_version=(major, minor),
        flags=flags,
        name=_string(head, name_offset, name_length),
        options=options,
        payload=view[start : start + (compressed if is_compressed else padded)],
        uncompressed_bytes=uncompressed if is_compressed else padded,
    )
    return entry, start + padded


def _string(head: memoryview, offset: int, length: int) -> str:
    """A string that the header refers to. It only serves messages, so one out of bounds is left out, not refused."""
    if not length or offset < _ENTRY.size or offset + length > len(head):
        return ""
    return bytes(head[offset : offset + length]).rstrip(b"\0").decode("utf-8", errors="replace")


def _zstd(payload: memoryview, expected: int) -> bytes:
    try:
        claimed = zstandard.get_frame_parameters(payload).content_size
        if claimed not in (zstandard.CONTENTSIZE_UNKNOWN, expected):
            raise FatBinaryError(f"the zstd frame holds {claimed} bytes, the entry claims {expected}")
        # A stream reader expands no more than it is asked for, whatever the frame goes on to produce.
        reader = zstandard.ZstdDecompressor(max_window_size=1 << ZSTD_WINDOW_LOG).stream_reader(payload)
        data = reader.read(expected + 1)
    except zstandard.ZstdError as error:
        raise FatBinaryError(f"zstd payload: {error}") from None
    if len(data) != expected:
        raise FatBinaryError(f"zstd payload expands to {len(data)} bytes or more, the entry claims {expected}")
    return data


def _lz4(payload: memoryview, expected: int) -> bytes:
    if expected > _LZ4_MAX_RATIO * len(payload):
        raise FatBinaryError(f"{len(payload)} bytes of LZ4 cannot expand to {expected}")
    try:
        data: bytes = lz4.block.decompress(payload, uncompressed_size=expected)
    except (lz4.block.LZ4BlockError, ValueError, OverflowError) as error:
        raise FatBinaryError(f"LZ4 payload: {error}") from None
    if len(data) != expected:
        raise FatBinaryError(f"LZ4 payload expands to {len(data)} bytes, the entry claims {expected}")
    return data
