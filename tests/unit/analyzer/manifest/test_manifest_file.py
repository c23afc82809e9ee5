"""Manifests as bytes: written and read back, golden, and every damage noticed."""

from __future__ import annotations

import dataclasses
import hashlib
import random
import struct

import fuzzing
import pytest
from farlane.analyzer import postfix as code
from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.manifest import reader, writer
from farlane.analyzer.manifest.model import (
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
from farlane.analyzer.manifest.reader import ManifestError
from farlane.analyzer.permissions.model import Range
from farlane.analyzer.slices import encode
from farlane.analyzer.slices.form import Block, Leave, Slice

MORE = (
    code.instruction(code.REGISTER, 3)
    + code.instruction(code.FRAME, 24, 4)
    + code.instruction(code.BINARY["slt"])
    + b"\0"
)
FIRST = code.instruction(code.REGISTER, 12) + code.instruction(code.ZX, 4) + b"\0"
SAMPLE = Manifest(
    IdentityKind.BUILD_ID,
    bytes(range(20)),
    Flag.THREADS | Flag.SKIPPED,
    (
        Site(0x1200, 1, 0, "cudaMemcpy", permissions=Permission.DEFER_READ, more=MORE, proof="never read",
             arguments=(Argument(2, ArgumentKind.CONSTANT, 8, -4), Argument(3, ArgumentKind.INVARIANT, 4))),
        Site(0x1240, 0, 0, "_Z4stepPf", launch=True, conditional=True, remaining=MORE,
             arguments=(Argument(8, ArgumentKind.AFFINE, 0, 512),)),
        Site(0x1300, 1, 1, "cudaDeviceSynchronize", in_callee=True, permissions=Permission.LOCAL_SYNC, proof="code unused",
             arguments=(Argument(0, ArgumentKind.AFFINE, 4, 3, FIRST), Argument(1, ArgumentKind.INDUCTION, 4))),
    ),
    (
        Loop(0x1100, 0x1000, "main", class_=LoopClass.TWO, described=True, body=1, line=17),
        Loop(0x1180, 0x1000, "main", parent=0, class_=LoopClass.MIXED, body=2),
    ),
)  # fmt: skip


def sealed(data: bytes) -> bytes:
    """The bytes with their length and checksum put right."""
    data = data[:12] + struct.pack("<I", len(data)) + bytes(8) + data[24:]
    return data[:16] + hashlib.blake2b(data, digest_size=32).digest()[:8] + data[24:]


def test_what_is_written_is_read() -> None:
    assert reader.read(writer.write(SAMPLE)) == SAMPLE
    empty = Manifest(IdentityKind.SHA256, bytes(32))
    assert len(writer.write(empty)) == 88
    assert reader.read(writer.write(empty)) == empty


def random_argument(chance: random.Random, index: int, position: int) -> Argument:
    kind, width = ArgumentKind(chance.randrange(6)), chance.choice([0, 1, 2, 4, 8])
    may_be_told = position and width and kind in (ArgumentKind.INVARIANT, ArgumentKind.AFFINE)
    first = chance.choice([None, MORE, FIRST]) if may_be_told else None
    return Argument(index, kind, width, chance.randint(-(2**63), 2**63 - 1), first)


def random_joined(chance: random.Random, address: int) -> JoinedCopy:
    ranges = [
        Range(chance.getrandbits(63), chance.randint(1, 2**32 - 1), chance.random() < 0.5)
        for _ in range(chance.choice([0, 0, 1, 2, 16]))
    ]
    return JoinedCopy(address, chance.choice(["so", "larger"]), chance.random() < 0.5, tuple(ranges))


def random_manifest(chance: random.Random) -> Manifest:
    count = chance.randint(0, 5)
    held: list[list[int]] = [[] for _ in range(count)]
    addresses = sorted(chance.sample(range(1, 10_000), chance.randint(0, 20) if count else 0))
    sites = []
    for address in addresses:
        loop = chance.randrange(count)
        permissions = chance.choice([Permission.NONE, Permission.LOCAL_SYNC, Permission.DEFER_READ])
        sites.append(
            Site(
                address, loop, len(held[loop]), chance.choice(["cudaFree", "größer", "", "x" * 300]),
                conditional=chance.random() < 0.5, launch=chance.random() < 0.5, in_callee=chance.random() < 0.5,
                permissions=permissions, more=MORE, remaining=chance.choice([None, MORE, code.instruction(1, 9) + b"\0"]),
                proof="so" if permissions else None,
                arguments=tuple(
                    random_argument(chance, index, len(held[loop])) for index in sorted(chance.sample(range(256), chance.randint(0, 4)))
                ),
            )
        )  # fmt: skip
        held[loop].append(address)
    loops = [
        Loop(chance.getrandbits(64), chance.getrandbits(64), f"f{index}", chance.choice([None, *range(index)]),
             LoopClass(chance.randrange(5)), chance.random() < 0.5, len(held[index]), chance.getrandbits(32))
        for index in range(count)
    ]  # fmt: skip
    identity = chance.randbytes(chance.randint(1, 32))
    joined = tuple(
        random_joined(chance, address) for address in sorted(chance.sample(range(10_000), chance.randint(0, 4)))
    )
    return Manifest(
        IdentityKind.BUILD_ID, identity, Flag(chance.randrange(8)), tuple(sites), tuple(loops), joined=joined
    )


def test_random_manifests() -> None:
    chance = random.Random(5)
    for _ in range(200):
        manifest = random_manifest(chance)
        data = writer.write(manifest)
        assert reader.read(data) == manifest
        assert writer.write(reader.read(data)) == data
        assert len(data) % 8 == 0


def test_every_changed_byte_is_noticed() -> None:
    data = writer.write(SAMPLE)
    for place in range(len(data)):
        with pytest.raises(ManifestError):
            reader.read(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
    for size in range(len(data)):
        with pytest.raises(ManifestError):
            reader.read(data[:size])


def test_sealed_damage_is_an_error_or_a_manifest() -> None:
    """Whoever writes bad bytes can compute a checksum too."""
    chance = random.Random(9)
    data = writer.write(SAMPLE)
    refused = 0
    rounds = fuzzing.inputs(6000)
    for _ in range(rounds):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(data))] = chance.choice([0, 1, 7, 8, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        if chance.random() < 0.1:
            del damaged[chance.randrange(len(data)) :]
        if len(damaged) < 24:
            continue
        try:
            found = reader.read(sealed(bytes(damaged)))
        except ManifestError:
            refused += 1
            continue
        assert reader.read(writer.write(found)) == found
    assert refused > rounds // 3


FIELDS = [
    (0, b"F4RLANEM", "no magic"),
    (8, struct.pack("<I", 5), "version 5"),
    (8, struct.pack("<I", 0), "version 0"),
    (8, struct.pack("<I", 1), "site 2: a reserved field is not 0"),
    (24, b"\x03", "identity kind"),
    (25, b"\x00", "an identity of 0 bytes"),
    (25, b"\x21", "an identity of 33 bytes"),
    (24, b"\x02", "an identity of 20 bytes"),
    (26, b"\x01", "reserved"),
    (28, b"\x08", "unknown flags"),
    (60, b"\x01", "padding"),
    (84, b"\x01", "reserved"),
    (64, struct.pack("<I", 2**32 - 1), "do not fill"),
    (64, struct.pack("<I", 4), "do not fill"),
    (88, struct.pack("<Q", 0x1240), "not behind"),
    (88 + 8, struct.pack("<I", 2), "no loop 2"),
    (88 + 12, struct.pack("<H", 2), "not in its loop's body"),
    (88 + 12, struct.pack("<H", 1), "taken twice"),
    (88 + 14, b"\x08", "unknown flags"),
    (88 + 15, b"\x08", "unknown permissions"),
    (88 + 16, b"\xff\xff\xff\xff", "DEFER_READ without"),
    (88 + 16, struct.pack("<I", 4000), "code out of bounds"),
    (88 + 16, b"\x01\0\0\0", "site 0: "),
    (88 + 24, struct.pack("<I", 4000), "text out of bounds"),
    (88 + 24, b"\x01\0\0\0", "text"),
    (88 + 32, b"\x01\0\0\0", "arguments are not behind"),
    (88 + 36, b"\xff\0\0\0", "arguments"),
    (88 + 120 + 16, b"\0\0\0\0", "its parent"),
    (88 + 120 + 20, b"\x05", "class 5"),
    (88 + 120 + 21, b"\x02", "unknown flags"),
    (88 + 120 + 22, b"\x02", "a body of 2"),
    (88 + 184 + 1, b"\x06", "argument kind 6"),
    (88 + 184 + 2, b"\x03", "an argument of 3 bytes"),
    (88 + 184 + 3, b"\x01", "reserved"),
    (88 + 184 + 4, b"\x01", "site 0: an argument that is not told at the first call"),
    (88 + 184 + 16 + 4, b"\x01", "site 0: an argument that is not told at the first call"),
    (88 + 184 + 48 + 2, b"\x00", "site 2: an argument that is not told at the first call"),
    (88 + 184 + 64 + 4, b"\x01", "site 2: an argument that is not told at the first call"),
    (88 + 184 + 48 + 4, struct.pack("<I", 4000), "site 2: code out of bounds"),
    (88 + 184 + 48 + 4, struct.pack("<I", 2**32 - 1), "site 2: code out of bounds"),
    (88 + 184 + 48 + 4, struct.pack("<I", 2), "site 2: "),
    (88 + 184 + 16, b"\x02", "out of order"),
]


@pytest.mark.parametrize(("place", "content", "rule"), FIELDS)
def test_each_rule_is_named(place: int, content: bytes, rule: str) -> None:
    data = writer.write(SAMPLE)
    with pytest.raises(ManifestError, match=rule):
        reader.read(sealed(data[:place] + content + data[place + len(content) :]))


JOINED = dataclasses.replace(
    SAMPLE,
    sites=(),
    loops=(),
    joined=(
        JoinedCopy(0x1400, "no code looks", True, (Range(0x4010, 8, False), Range(16, 4, True))),
        JoinedCopy(0x1500, "so"),
    ),
)
_ENTRIES = len(writer.write(JOINED)) - 2 * 16 - 2 * 16


def test_joined_copies_take_a_newer_version() -> None:
    data = writer.write(JOINED)
    assert (data[8], writer.write(SAMPLE)[8]) == (4, 2)
    assert reader.read(data) == JOINED
    ranges = tuple(Range(index, 1, True) for index in range(17))
    for bad in (JoinedCopy(0, ""), JoinedCopy(0, "so", True, ranges)):
        with pytest.raises(AnalysisError):
            writer.write(dataclasses.replace(JOINED, joined=(bad,)))


@pytest.mark.parametrize(
    ("place", "content", "rule"),
    [
        (8, b"\x03", "reserved"),
        (26, b"\x01", "do not fill"),
        (26, b"\xff\xff", "do not fill"),
        (_ENTRIES, struct.pack("<Q", 0x1500), "not behind"),
        (_ENTRIES + 8, b"\x01", "text"),
        (_ENTRIES + 12, b"\x03", "do not fill"),
        (_ENTRIES + 13, b"\x02", "unknown flags"),
        (_ENTRIES + 14, b"\x01", "unknown flags"),
        (_ENTRIES + 32 + 7, b"\x80", "a range that is none"),
        (_ENTRIES + 32 + 8, b"\0", "a range that is none"),
        (_ENTRIES + 48 + 12, b"\x02", "a range that is none"),
    ],
)
def test_each_rule_of_joined_copies_is_named(place: int, content: bytes, rule: str) -> None:
    data = writer.write(JOINED)
    with pytest.raises(ManifestError, match=rule):
        reader.read(sealed(data[:place] + content + data[place + len(content) :]))


def test_small_files_do_not_stand_for_much_memory() -> None:
    """Texts that overlap could each be 64 KiB."""
    data = bytearray(writer.write(dataclasses.replace(SAMPLE, sites=(), loops=())))
    texts = b"\x00\x04" * 700
    loops = b"".join(struct.pack("<QQIBBHII", 0, 0, 0xFFFFFFFF, 0, 0, 0, index * 2, 0) for index in range(150))
    data[68:72] = struct.pack("<I", 150)
    data[80:84] = struct.pack("<I", len(texts))
    with pytest.raises(ManifestError, match="overlap"):
        reader.read(sealed(bytes(data) + loops + texts))


@pytest.mark.parametrize(
    "change",
    [
        {"permissions": Permission.LOCAL_SYNC, "proof": None},
        {"permissions": Permission.DEFER_READ, "more": None},
        {"more": b"\xff"},
        {"return_address": 2**64},
        {"position": 65536},
    ],
)
def test_the_writer_refuses(change: dict[str, object]) -> None:
    site = dataclasses.replace(SAMPLE.sites[0], **change)  # type: ignore[arg-type]
    with pytest.raises(AnalysisError):
        writer.write(dataclasses.replace(SAMPLE, sites=(site, *SAMPLE.sites[1:])))


@pytest.mark.parametrize(
    ("position", "argument"),
    [
        (0, Argument(0, ArgumentKind.INVARIANT, 8, first=MORE)),
        (1, Argument(0, ArgumentKind.CONSTANT, 8, first=MORE)),
        (1, Argument(0, ArgumentKind.ELEMENT, 8, first=MORE)),
        (1, Argument(0, ArgumentKind.AFFINE, 0, first=MORE)),
        (1, Argument(0, ArgumentKind.AFFINE, 8, first=b"\xff")),
    ],
)
def test_the_writer_refuses_what_is_not_told_at_the_first_call(position: int, argument: Argument) -> None:
    site = dataclasses.replace(SAMPLE.sites[2], position=position, arguments=(argument,))
    with pytest.raises(AnalysisError):
        writer.write(dataclasses.replace(SAMPLE, sites=(*SAMPLE.sites[:2], site)))


def test_long_names_are_cut_between_characters() -> None:
    loop = dataclasses.replace(SAMPLE.loops[0], name="ü" * 5000)
    found = reader.read(writer.write(dataclasses.replace(SAMPLE, loops=(loop, SAMPLE.loops[1]))))
    assert found.loops[0].name == "ü" * 2048


def with_slices(*slices: tuple[int, bytes], version: int = 1, more: bytes = b"", count: int | None = None) -> bytes:
    """The sample with a table of slices as it is given."""
    table = struct.pack("<II", version, len(slices) if count is None else count)
    table += (
        b"".join(struct.pack("<II", loop, len(data)) + data + bytes(-len(data) % 8) for loop, data in slices) + more
    )
    data = bytearray(writer.write(SAMPLE) + table)
    data[8:16] = struct.pack("<II", 3, len(data))
    data[84:88] = struct.pack("<I", len(table))
    return sealed(bytes(data))


LEAVES = encode.write(Slice(0x1000, 0, 0, (), (Block((), Leave(0)),), ()))


def test_slices_are_read_and_written() -> None:
    found = reader.read(with_slices((0, LEAVES), (1, LEAVES)))
    assert found == dataclasses.replace(SAMPLE, slices=(LoopSlice(0, LEAVES), LoopSlice(1, LEAVES)))
    assert writer.write(found) == with_slices((0, LEAVES), (1, LEAVES))


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (with_slices((0, LEAVES), version=2), "slices of version 2"),
        (with_slices((0, LEAVES), (0, LEAVES)), "rising loop"),
        (with_slices((1, LEAVES), (0, LEAVES)), "rising loop"),
        (with_slices((99, LEAVES)), "rising loop"),
        (with_slices((0, LEAVES), count=2), "not there"),
        (with_slices((0, LEAVES), more=bytes(8)), "behind the slices"),
        (with_slices((0, LEAVES[:-1])), "the slice of loop 0"),
        (with_slices((0, LEAVES + bytes(8))), "the slice of loop 0"),
        (with_slices(more=struct.pack("<II", 0, 4096), count=1), "not all there"),
        (with_slices((0, LEAVES))[:-1] + b"\1", "checksum"),
        (sealed(with_slices((0, LEAVES))[:-1] + b"\1"), "padding"),
    ],
)
def test_each_rule_of_slices_is_named(data: bytes, rule: str) -> None:
    with pytest.raises(ManifestError, match=rule):
        reader.read(data)
