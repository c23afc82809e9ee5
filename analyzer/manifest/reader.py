"""Reading a manifest: every rule of the format is checked, and the first that is broken is named.

For bytes that may be anything: bounded by their own length, never anything but a `Manifest` or a `ManifestError`.
Shares no layout with the writer.

Source: protos/manifest.md, "Layout".
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.manifest.model import (
    SLICES_VERSION,
    Argument,
    ArgumentKind,
    Flag,
    IdentityKind,
    JoinedCopy,
    Loop,
    LoopClass,
    LoopSlice,
    Manifest,
    Permission,
    Site,
)
from farlane.analyzer.permissions.model import Range
from farlane.analyzer.postfix import MAXIMUM_CODE_BYTES, CodeError, parse
from farlane.analyzer.slices import encode
from farlane.analyzer.slices.check import SliceError
from farlane.limits.generated import JOINED_RANGES, MANIFEST_BYTES

HEADER_BYTES, SITE_BYTES, LOOP_BYTES, ARGUMENT_BYTES = 88, 40, 32, 16
JOINED_BYTES, RANGE_BYTES = 16, 16
UNKNOWN = 2**32 - 1


class ManifestError(AnalysisError):
    """The bytes break a rule of the manifest's format; the message names it."""


def _require(kept: bool, rule: str) -> None:
    if not kept:
        raise ManifestError(rule)


class _Tables(NamedTuple):
    sites: int
    loops: int
    arguments: int
    code: int
    code_bytes: int
    texts: int
    text_bytes: int
    joined: int
    ranges: int
    slices: int


def read(data: bytes) -> Manifest:
    """Raises ManifestError."""
    return _Reader(data).manifest()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._texts: dict[int, str] = {}
        self._code: dict[int, bytes] = {}
        # What overlaps would let a small manifest stand for much memory.
        self._held_texts = self._held_code = 0
        self._version = 0

    def _field(self, form: str, offset: int) -> int:
        return int(struct.unpack_from("<" + form, self._data, offset)[0])

    def manifest(self) -> Manifest:
        data = self._data
        _require(len(data) >= HEADER_BYTES, "shorter than a header")
        _require(data[:8] == b"FARLANEM", "no magic")
        self._version = self._field("I", 8)
        _require(self._version in (1, 2, 3, 4), f"version {self._version}")
        _require(len(data) <= MANIFEST_BYTES, "too long")
        _require(self._field("I", 12) == len(data), "the length is another")
        digest = hashlib.blake2b(data[:16] + bytes(8) + data[24:], digest_size=32).digest()
        _require(data[16:24] == digest[:8], "the checksum is wrong")
        kind, size = data[24], data[25]
        _require(kind in (1, 2), f"identity kind {kind}")
        _require(1 <= size <= 32 and (kind == 1 or size == 32), f"an identity of {size} bytes")
        newer = (self._version < 4 and self._field("H", 26)) or (self._version < 3 and self._field("I", 84))
        _require(not newer, "a reserved field is not 0")
        flags = self._field("I", 28)
        _require(flags < 8, "unknown flags")
        _require(not any(data[32 + size : 64]), "the identity's padding is not 0")
        tables = self._tables()
        loops = tuple(self._loop(tables, index) for index in range(self._field("I", 68)))
        sites = self._sites(tables, loops)
        joined = self._joined(tables)
        slices = self._slices(tables, len(loops))
        return Manifest(IdentityKind(kind), data[32 : 32 + size], Flag(flags), sites, loops, slices, joined)

    def _joined(self, tables: _Tables) -> tuple[JoinedCopy, ...]:
        found: list[JoinedCopy] = []
        taken = 0
        for index in range(self._field("H", 26)):
            address, proof, count, shared, reserved = struct.unpack_from(
                "<QIBBH", self._data, tables.joined + JOINED_BYTES * index
            )
            where = f"joined copy {index}"
            _require(not found or found[-1].return_address < address, f"{where}: not behind the one before it")
            _require(count <= JOINED_RANGES, f"{where}: {count} ranges")
            _require(shared <= 1 and not reserved, f"{where}: unknown flags")
            ranges = tuple(self._range(tables, number, where) for number in range(taken, taken + count))
            taken += count
            text = self._text(tables, proof)
            _require(bool(text), f"{where}: a permission without a proof")
            found.append(JoinedCopy(address, text, bool(shared), ranges))
        return tuple(found)

    def _range(self, tables: _Tables, number: int, where: str) -> Range:
        start, size, frame = struct.unpack_from("<qII", self._data, tables.ranges + RANGE_BYTES * number)
        _require(size > 0 and start >= 0 and frame <= 1, f"{where}: a range that is none")
        return Range(start, size, bool(frame))

    def _slices(self, tables: _Tables, loops: int) -> tuple[LoopSlice, ...]:
        """The last table, all of it; each slice is well-formed."""
        at, end = tables.slices, len(self._data)
        if at == end:
            return ()
        _require(end - at >= 8, "a table of slices of less than 8 bytes")
        version, count = struct.unpack_from("<II", self._data, at)
        _require(version == SLICES_VERSION, f"slices of version {version}")
        at += 8
        found: list[LoopSlice] = []
        for _ in range(count):
            _require(end - at >= 8, "slices that are not there")
            loop, size = struct.unpack_from("<II", self._data, at)
            _require(loop < loops and (not found or found[-1].loop < loop), "slices by rising loop")
            at += 8
            _require(end - at >= size + -size % 8, "a slice that is not all there")
            data = self._data[at : at + size]
            try:
                encode.read(data)
            except SliceError as error:
                raise ManifestError(f"the slice of loop {loop}: {error}") from error
            at += size
            _require(not any(self._data[at : at + -size % 8]), "a slice's padding is not 0")
            at += -size % 8
            found.append(LoopSlice(loop, data))
        _require(at == end, "bytes behind the slices")
        return tuple(found)

    def _tables(self) -> _Tables:
        sites, loops, arguments, code_bytes, text_bytes = struct.unpack_from("<5I", self._data, 64)
        first_loop = HEADER_BYTES + SITE_BYTES * sites
        first_argument = first_loop + LOOP_BYTES * loops
        code = first_argument + ARGUMENT_BYTES * arguments
        texts = code + code_bytes + -code_bytes % 8
        joined = texts + text_bytes + -text_bytes % 8
        copies = self._field("H", 26)
        ranges = joined + JOINED_BYTES * copies
        _require(ranges <= len(self._data), "the tables do not fill the manifest")
        slices = ranges + RANGE_BYTES * sum(self._data[joined + 12 : ranges : JOINED_BYTES])
        _require(slices + self._field("I", 84) == len(self._data), "the tables do not fill the manifest")
        _require(not any(self._data[code + code_bytes : texts]), "the code's padding is not 0")
        _require(not any(self._data[texts + text_bytes : joined]), "the texts' padding is not 0")
        return _Tables(
            HEADER_BYTES, first_loop, first_argument, code, code_bytes, texts, text_bytes, joined, ranges, slices
        )

    def _loop(self, tables: _Tables, index: int) -> Loop:
        header, function, parent, class_, flags, body, name, line = struct.unpack_from(
            "<QQIBBHII", self._data, tables.loops + LOOP_BYTES * index
        )
        _require(parent == UNKNOWN or parent < index, f"loop {index}: its parent does not stand before it")
        _require(class_ <= 4, f"loop {index}: class {class_}")
        _require(flags <= 1, f"loop {index}: unknown flags")
        known = None if parent == UNKNOWN else parent
        return Loop(header, function, self._text(tables, name), known, LoopClass(class_), flags == 1, body, line)

    def _sites(self, tables: _Tables, loops: tuple[Loop, ...]) -> tuple[Site, ...]:
        found: list[Site] = []
        positions: list[set[int]] = [set() for _ in loops]
        taken = 0
        for index in range(self._field("I", 64)):
            start = tables.sites + SITE_BYTES * index
            address, loop, position, flags, permissions = struct.unpack_from("<QIHBB", self._data, start)
            more, remaining, name, proof, first, count = struct.unpack_from("<6I", self._data, start + 16)
            where = f"site {index}"
            _require(not found or found[-1].return_address < address, f"{where}: not behind the one before it")
            _require(loop < len(loops), f"{where}: no loop {loop}")
            _require(position < loops[loop].body, f"{where}: position {position} is not in its loop's body")
            _require(position not in positions[loop], f"{where}: position {position} is taken twice")
            positions[loop].add(position)
            _require(flags < 8, f"{where}: unknown flags")
            _require(permissions < 8, f"{where}: unknown permissions")
            _require(first == taken, f"{where}: its arguments are not behind those of the site before it")
            found.append(
                Site(
                    address,
                    loop,
                    position,
                    self._text(tables, name),
                    conditional=bool(flags & 1),
                    launch=bool(flags & 2),
                    in_callee=bool(flags & 4),
                    permissions=Permission(permissions),
                    more=self._known_code(tables, more, where),
                    remaining=self._known_code(tables, remaining, where),
                    proof=None if proof == UNKNOWN else self._text(tables, proof),
                    arguments=self._arguments(tables, first, count, position, where),
                )
            )
            _require(not permissions or bool(found[-1].proof), f"{where}: a permission without a proof")
            completed = more != UNKNOWN or not permissions & Permission.DEFER_READ
            _require(
                completed or bool(permissions & Permission.COMPLETE_AT_CALL), f"{where}: DEFER_READ without `more`"
            )
            taken += count
        _require(taken == self._field("I", 72), "arguments of no site")
        for index, (loop_, held) in enumerate(zip(loops, positions, strict=True)):
            _require(loop_.body == len(held), f"loop {index}: a body of {loop_.body}, with {len(held)} sites")
        return tuple(found)

    def _arguments(self, tables: _Tables, first: int, count: int, position: int, where: str) -> tuple[Argument, ...]:
        _require(first + count <= self._field("I", 72), f"{where}: arguments out of bounds")
        found: list[Argument] = []
        for number in range(first, first + count):
            start = tables.arguments + ARGUMENT_BYTES * number
            index, kind, width = struct.unpack_from("<BBB", self._data, start)
            _require(kind <= 5, f"{where}: argument kind {kind}")
            _require(width in (0, 1, 2, 4, 8), f"{where}: an argument of {width} bytes")
            told = self._field("I", start + 4)
            _require(not self._data[start + 3], f"{where}: a reserved field is not 0")
            _require(not told or self._version > 1, f"{where}: a reserved field is not 0")
            may_be_told = kind in (1, 2) and width > 0 and position > 0
            _require(not told or may_be_told, f"{where}: an argument that is not told at the first call")
            _require(not found or found[-1].index < index, f"{where}: arguments out of order")
            value = self._field("q", start + 8)
            code = self._known_code(tables, told - 1, where) if told else None
            found.append(Argument(index, ArgumentKind(kind), width, value, code))
        return tuple(found)

    def _known_code(self, tables: _Tables, offset: int, where: str) -> bytes | None:
        if offset == UNKNOWN:
            return None
        if offset not in self._code:
            _require(offset < tables.code_bytes, f"{where}: code out of bounds")
            start = tables.code + offset
            piece = self._data[start : min(start + MAXIMUM_CODE_BYTES, tables.code + tables.code_bytes)]
            try:
                _, end = parse(piece)
            except CodeError as error:
                raise ManifestError(f"{where}: {error}") from error
            self._code[offset] = piece[:end]
            self._held_code += end
            _require(self._held_code <= tables.code_bytes, "pieces of code overlap")
        return self._code[offset]

    def _text(self, tables: _Tables, offset: int) -> str:
        if offset not in self._texts:
            _require(offset + 2 <= tables.text_bytes, "a text out of bounds")
            start = tables.texts + offset
            size = self._field("H", start)
            _require(offset + 2 + size <= tables.text_bytes, "a text out of bounds")
            self._held_texts += 2 + size
            _require(self._held_texts <= tables.text_bytes, "texts overlap")
            try:
                self._texts[offset] = self._data[start + 2 : start + 2 + size].decode()
            except UnicodeDecodeError as error:
                raise ManifestError("a text that is not UTF-8") from error
        return self._texts[offset]
