"""Writing a manifest: the same data, the same bytes.

Owns the layout's numbers on the writing side; the reader has its own, so that a mistake in one shows. Equal texts and
equal pieces of code are stored once, in the order of their first use.

Source: protos/manifest.md, "Layout".
"""

from __future__ import annotations

import hashlib
import struct

from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.manifest.model import (
    SLICES_VERSION,
    TOLD_AT_FIRST,
    Argument,
    Loop,
    Manifest,
    Permission,
    Site,
)
from farlane.analyzer.postfix import check
from farlane.limits.generated import IDENTITY_BYTES, JOINED_RANGES, MANIFEST_BYTES

_MAGIC = b"FARLANEM"
_VERSION, _WITH_SLICES, _WITH_JOINED_COPIES = 2, 3, 4
_NONE = 0xFFFFFFFF
_TEXT_BYTES = 4096  # kernels' symbols are long; no reader needs more


def write(manifest: Manifest) -> bytes:
    """The manifest's bytes.

    Raises:
        AnalysisError: it does not fit the format's bounds.
    """
    if not 1 <= len(manifest.identity) <= IDENTITY_BYTES:
        raise AnalysisError(f"an identity of {len(manifest.identity)} bytes")
    try:
        return _write(manifest)
    except struct.error as error:
        raise AnalysisError(f"a number that the manifest cannot hold: {error}") from error


def _write(manifest: Manifest) -> bytes:
    code, texts = _Pool(), _Pool()
    arguments: list[bytes] = []
    sites = []
    for site in manifest.sites:
        sites.append(_site(site, len(arguments), code, texts))
        arguments += [_argument(argument, site, code) for argument in site.arguments]
    loops = [_loop(loop, texts) for loop in manifest.loops]
    joined = _joined(manifest, texts)
    slices = _slices(manifest)
    tables = [*sites, *loops, *arguments, code.padded(), texts.padded(), joined, slices]
    length = 88 + sum(map(len, tables))
    if length > MANIFEST_BYTES:
        raise AnalysisError(f"a manifest of {length} bytes; at most {MANIFEST_BYTES} are allowed")
    head = struct.pack(
        "<8sII8xBBHI32sIIIIII",
        _MAGIC,
        _WITH_JOINED_COPIES if joined else _WITH_SLICES if slices else _VERSION,
        length,
        manifest.identity_kind,
        len(manifest.identity),
        len(manifest.joined),
        manifest.flags,
        manifest.identity,
        len(sites),
        len(loops),
        len(arguments),
        len(code.content),
        len(texts.content),
        len(slices),
    )
    content = bytearray(head)
    for table in tables:
        content += table
    content[16:24] = hashlib.blake2b(content, digest_size=32).digest()[:8]
    return bytes(content)


def _joined(manifest: Manifest, texts: _Pool) -> bytes:
    """The joined copies, and behind them what they are compared with."""
    copies, ranges = bytearray(), bytearray()
    for copy in manifest.joined:
        if not copy.proof or len(copy.ranges) > JOINED_RANGES:
            raise AnalysisError(f"a joined copy without a proof, or with much to compare, at {copy.return_address:#x}")
        proof = texts.add(_text(copy.proof))
        copies += struct.pack("<QIBBH", copy.return_address, proof, len(copy.ranges), copy.shared, 0)
        for each in copy.ranges:
            ranges += struct.pack("<qII", each.start, each.size, each.frame)
    return bytes(copies + ranges)


def _slices(manifest: Manifest) -> bytes:
    """The table of slices; nothing where there are none."""
    if not manifest.slices:
        return b""
    out = bytearray(struct.pack("<II", SLICES_VERSION, len(manifest.slices)))
    for loop, data in manifest.slices:
        if loop >= len(manifest.loops):
            raise AnalysisError(f"a slice of loop {loop}, which is not there")
        out += struct.pack("<II", loop, len(data)) + data + bytes(-len(data) % 8)
    return bytes(out)


class _Pool:
    """Pieces of bytes one behind the other, each only once."""

    def __init__(self) -> None:
        self._offsets: dict[bytes, int] = {}
        self.content = bytearray()

    def add(self, piece: bytes) -> int:
        if piece not in self._offsets:
            self._offsets[piece] = len(self.content)
            self.content += piece
        return self._offsets[piece]

    def padded(self) -> bytes:
        return bytes(self.content) + bytes(-len(self.content) % 8)


def _site(site: Site, first_argument: int, code: _Pool, texts: _Pool) -> bytes:
    if site.permissions and not site.proof:
        raise AnalysisError(f"a permission without a proof at {site.return_address:#x}")
    completed = site.more is not None or site.permissions & Permission.COMPLETE_AT_CALL
    if site.permissions & Permission.DEFER_READ and not completed:
        raise AnalysisError(f"a deferred read that is never completed at {site.return_address:#x}")
    return struct.pack(
        "<QIHBBIIIIII",
        site.return_address,
        site.loop,
        site.position,
        site.conditional | site.launch << 1 | site.in_callee << 2,
        site.permissions,
        _code(site.more, code),
        _code(site.remaining, code),
        texts.add(_text(site.name)),
        _NONE if site.proof is None else texts.add(_text(site.proof)),
        first_argument,
        len(site.arguments),
    )


def _code(code: bytes | None, pool: _Pool) -> int:
    if code is None:
        return _NONE
    check(code)
    return pool.add(code)


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "replace")
    if len(data) > _TEXT_BYTES:
        data = data[:_TEXT_BYTES].decode("utf-8", "ignore").encode()
    return struct.pack("<H", len(data)) + data


def _loop(loop: Loop, texts: _Pool) -> bytes:
    return struct.pack(
        "<QQIBBHII",
        loop.header,
        loop.function,
        _NONE if loop.parent is None else loop.parent,
        loop.class_,
        loop.described,
        loop.body,
        texts.add(_text(loop.name)),
        loop.line,
    )


def _argument(argument: Argument, site: Site, code: _Pool) -> bytes:
    first = 0
    if argument.first is not None:
        if argument.kind not in TOLD_AT_FIRST or not argument.width or not site.position:
            raise AnalysisError(f"an argument that is not told at the first call, at {site.return_address:#x}")
        first = 1 + _code(argument.first, code)
    return struct.pack("<BBBxIq", argument.index, argument.kind, argument.width, first, argument.value)
