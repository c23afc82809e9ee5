"""The fat binary container: real images, hand-made ones, and what is refused."""

from __future__ import annotations

import struct
from pathlib import Path

import lz4.block
import pytest
import zstandard
from farlane.fatbin import FatBinaryError, Kind, container, parse
from farlane.limits.generated import CONTAINER_ENTRIES

IMAGES = Path(__file__).parent / "images"
TEXT = b".version 9.0\n.target sm_75\n.address_size 64\n" * 8


def entry(
    payload: bytes,
    *,
    kind: int = 1,
    header: int = 0x50,
    compressed: int = 0,
    flags: int = 0x11,
    uncompressed: int = 0,
    arch: int = 75,
    padded: int | None = None,
) -> bytes:
    padding = bytes(-len(payload) % 8)
    size = len(payload) + len(padding) if padded is None else padded
    head = struct.pack(
        "<HHIQIIHHIIIQQQ", kind, 0x0101, header, size, compressed, 0x40, 0, 9, arch, 0, 0, flags, 0, uncompressed
    )
    return head + bytes(max(0, header - len(head))) + payload + padding


def wrap(*entries: bytes, version: int = 1, size: int | None = None) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, version, 16, len(body) if size is None else size) + body


def zstd_entry(data: bytes, *, claimed: int | None = None) -> bytes:
    payload = zstandard.ZstdCompressor().compress(data)
    claimed = len(data) if claimed is None else claimed
    return entry(payload, compressed=len(payload), flags=0x8011, uncompressed=claimed)


def lz4_entry(data: bytes, *, claimed: int | None = None) -> bytes:
    payload = lz4.block.compress(data, store_size=False)
    claimed = len(data) if claimed is None else claimed
    return entry(payload, compressed=len(payload), flags=0x2011, uncompressed=claimed)


@pytest.mark.parametrize("name", ["zstd", "lz4", "stored"])
def test_every_compression_that_nvcc_writes_gives_the_same_text(name: str) -> None:
    (found,) = parse((IMAGES / f"{name}.fatbin").read_bytes())
    assert found.kind is Kind.PTX
    assert found.arch == 75
    assert found.ptx_version == (9, 0)
    text = found.text()
    assert text.lstrip().startswith(".version 9.0\n.target sm_75")
    assert ".visible .entry scale(" in text
    assert text == parse((IMAGES / "stored.fatbin").read_bytes())[0].text()


def test_options_are_read() -> None:
    (found,) = parse((IMAGES / "lz4.fatbin").read_bytes())
    assert found.options.strip() == "-maxrregcount=32"


def test_several_architectures_and_kinds() -> None:
    found = parse((IMAGES / "several.fatbin").read_bytes())
    assert {(e.kind, e.arch) for e in found} == {
        (Kind.ELF, 75),
        (Kind.PTX, 75),
        (Kind.PTX, 80),
        (Kind.PTX, 90),
        (Kind.PTX, 100),
    }
    elf = next(e for e in found if e.kind is Kind.ELF)
    assert elf.data().startswith(b"\x7fELF")


@pytest.mark.parametrize("header", [0x40, 0x48, 0x50, 0x70])
def test_header_sizes(header: int) -> None:
    (found,) = parse(wrap(entry(TEXT, header=header)))
    assert found.text().encode() == TEXT


@pytest.mark.parametrize("gap", [0, 8, 40])
def test_several_containers_with_zeros_between_and_behind(gap: int) -> None:
    image = wrap() + bytes(gap) + wrap(entry(TEXT, arch=75)) + bytes(gap) + wrap(entry(TEXT, arch=80)) + bytes(gap)
    assert [e.arch for e in parse(image)] == [75, 80]


def test_unknown_kinds_and_flags_are_tolerated() -> None:
    found = parse(wrap(entry(b"whatever", kind=77, header=0x40), entry(TEXT, flags=0x4000_0000_0011)))
    assert [e.kind for e in found] == [Kind.OTHER, Kind.PTX]


def test_a_name_out_of_bounds_is_left_out() -> None:
    raw = bytearray(entry(TEXT))
    struct.pack_into("<II", raw, 32, 0xFFFFFFF0, 0xFFFFFFF0)
    struct.pack_into("<II", raw, 64, 0x48, 0xFFFFFFFF)
    (found,) = parse(wrap(bytes(raw)))
    assert (found.name, found.options) == ("", "")


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (b"", "empty"),
        (b"\x7fELF" + bytes(80), "no fat binary container"),
        (wrap(entry(TEXT)) + b"garbage", "no fat binary container"),
        (wrap(entry(TEXT), version=2), "version 2"),
        (wrap(entry(TEXT), size=1 << 40), "claims"),
        (wrap(entry(TEXT, padded=1 << 60)), "claims a payload"),
        (wrap(entry(TEXT, header=0x50)[:0x20]), "are no entry"),
        (wrap(struct.pack("<HHIQ", 1, 0x101, 8, 8) + bytes(100)), "entry header of 8 bytes"),
        (wrap(struct.pack("<HHIQ", 1, 0x101, 0xFFFFFFFF, 8) + bytes(100)), "entry header"),
        (wrap(entry(TEXT, compressed=16)), "compression that is not known"),
        (wrap(entry(TEXT, compressed=16, flags=0xA011)), "compression that is not known"),
        (wrap(entry(TEXT, compressed=1 << 30, flags=0x8011)), "compressed bytes in a payload"),
        (wrap(*[entry(b"")] * (CONTAINER_ENTRIES + 1)), "more than"),
    ],
)
def test_malformed_images_are_refused(image: bytes, message: str) -> None:
    with pytest.raises(FatBinaryError, match=message):
        parse(image)


@pytest.mark.parametrize("make", [zstd_entry, lz4_entry])
def test_decompression_is_exact(make: object) -> None:
    assert parse(wrap(make(TEXT)))[0].data() == TEXT  # type: ignore[operator]
    for claimed in (len(TEXT) - 1, len(TEXT) + 1, 0):
        with pytest.raises(FatBinaryError):
            parse(wrap(make(TEXT, claimed=claimed)))[0].data()  # type: ignore[operator]


def test_an_entry_that_claims_too_much_is_refused_before_it_is_expanded() -> None:
    with pytest.raises(FatBinaryError, match="the limit is"):
        parse(wrap(zstd_entry(TEXT, claimed=container.MAX_UNCOMPRESSED + 1)))


def test_a_decompression_bomb_expands_no_further_than_it_claimed() -> None:
    # A frame without a content size, so that only reading it tells how long it is.
    compressor = zstandard.ZstdCompressor(write_content_size=False)
    payload = compressor.compress(bytes(64 << 20))
    image = wrap(entry(payload, compressed=len(payload), flags=0x8011, uncompressed=100))
    with pytest.raises(FatBinaryError, match="expands to 101 bytes or more"):
        parse(image)[0].data()
    with pytest.raises(FatBinaryError, match="cannot expand"):
        parse(wrap(lz4_entry(TEXT, claimed=1 << 27)))[0].data()
