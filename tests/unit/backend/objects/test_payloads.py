"""Kept and compressed payloads, by protos/tape.md, "Payloads"."""

from __future__ import annotations

import random
from typing import Any

import lz4.block
import pytest
import zstandard
from farlane.backend.errors import ProtocolError
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.objects.payloads import CACHE_BYTES, LZ4, ZSTD, expand
from farlane.limits.generated import PAYLOAD_BYTES


def compressed(raw: bytes, flags: int) -> bytes:
    if flags == LZ4:
        packed: bytes = lz4.block.compress(raw, store_size=False)
        return packed
    return zstandard.ZstdCompressor().compress(raw) if flags == ZSTD else raw


def unsized(raw: bytes) -> bytes:
    """A zstd frame that does not say how much it holds."""
    return zstandard.ZstdCompressor(write_content_size=False).compress(raw)


@pytest.fixture
def written(guest: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bytes]]:
    """What reached the device."""
    seen: list[tuple[int, bytes]] = []
    monkeypatch.setattr(
        guest.context, "write", lambda rows, data, stream: seen.append((rows.address - guest.base, bytes(data)))
    )
    return seen


@pytest.mark.parametrize("flags", [0, LZ4, ZSTD])
def test_writes(guest: Any, written: list[tuple[int, bytes]], flags: int) -> None:
    raw = b"abcd" * 1000
    data = compressed(raw, flags)
    write = encode("WRITE", guest.base, 2000, 1000, 4, 1, len(data), tail=data, flags=flags)
    keep = encode("PAYLOAD_KEEP", 7, len(raw), len(data), 0, tail=data, flags=flags)
    kept = encode("WRITE_KEPT", guest.base + 8192, 4000, 4000, 1, 1, 7)
    assert guest.submit(write, keep, kept, kept).error == 0
    assert written == [(0, raw), (8192, raw), (8192, raw)]


def test_what_is_kept_outlives_a_reset_and_can_be_dropped(guest: Any, written: list[tuple[int, bytes]]) -> None:
    keep = encode("PAYLOAD_KEEP", 7, 3, 3, 0, tail=b"abc")
    kept = encode("WRITE_KEPT", guest.base, 3, 3, 1, 1, 7)
    drop = encode("PAYLOAD_DROP", 7, 0)
    guest.submit(keep, encode("DEVICE_RESET", 1, 0), kept, drop, keep, kept)
    assert [data for _, data in written] == [b"abc", b"abc"]
    with pytest.raises(ProtocolError, match="not kept"):
        guest.submit(drop, kept)


def test_sessions_share_nothing(new_guest: Any) -> None:
    first, second = new_guest(), new_guest()
    first.submit(encode("PAYLOAD_KEEP", 7, 3, 3, 0, tail=b"abc"))
    with pytest.raises(ProtocolError, match="not kept"):
        second.submit(encode("WRITE_KEPT", second.base, 3, 3, 1, 1, 7))


def test_the_bound(guest: Any) -> None:
    data = compressed(bytes(PAYLOAD_BYTES), ZSTD)
    count = CACHE_BYTES // PAYLOAD_BYTES
    for number in range(count):
        guest.submit(encode("PAYLOAD_KEEP", number, PAYLOAD_BYTES, len(data), 0, tail=data, flags=ZSTD))
    store = guest.session.resources.payloads
    assert (len(store), store.bytes_kept) == (count, CACHE_BYTES)
    with pytest.raises(ProtocolError, match=f"{CACHE_BYTES}"):
        guest.submit(encode("PAYLOAD_KEEP", count, 1, 1, 0, tail=b"a"))
    guest.session.close()
    assert len(store) == 0


@pytest.mark.parametrize("packed", [unsized(bytes(1 << 20)), compressed(bytes(1 << 20), ZSTD)])
def test_a_frame_expands_to_no_more_than_it_may(packed: bytes) -> None:
    assert len(expand(memoryview(packed), ZSTD, 1 << 20)) == 1 << 20
    with pytest.raises(ProtocolError):
        expand(memoryview(packed), ZSTD, (1 << 20) - 1)


def test_a_frame_with_a_large_window_or_a_dictionary() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=25, write_content_size=False)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = stream.compress(bytes(100)) + stream.flush()
    assert zstandard.get_frame_parameters(packed).window_size == 1 << 25
    with pytest.raises(ProtocolError):
        expand(memoryview(packed), ZSTD, 100)
    dictionary = zstandard.train_dictionary(1024, [random.Random(seed).randbytes(64) * 4 for seed in range(200)])
    packed = zstandard.ZstdCompressor(dict_data=dictionary).compress(bytes(100))
    with pytest.raises(ProtocolError):
        expand(memoryview(packed), ZSTD, 100)


@pytest.mark.parametrize("flags", [LZ4, ZSTD])
def test_mutated_data(flags: int) -> None:
    """Broken data is refused, or expands to as many bytes as announced; nothing else happens."""
    rng = random.Random(flags)
    refused = 0
    for _ in range(3000):
        raw = rng.randbytes(rng.randrange(1, 50)) * rng.randrange(1, 200)
        data = bytearray(compressed(raw, flags))
        for _ in range(rng.choice([1, 1, 3])):
            kind = rng.random()
            at = rng.randrange(len(data))
            if kind < 0.6:
                data[at] ^= 1 << rng.randrange(8)
            elif kind < 0.8:
                del data[at:]
            else:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            if not data:
                break
        size = rng.choice([len(raw), len(raw), len(raw) + 1, 1, PAYLOAD_BYTES])
        try:
            assert len(expand(memoryview(bytes(data)), flags, size)) == size
        except ProtocolError:
            refused += 1
    assert refused > 1000
