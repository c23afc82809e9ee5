"""The image store, and a session's uploads and pins."""

from __future__ import annotations

import hashlib
import threading

import pytest
from farlane.backend.device.base import CudaError
from farlane.backend.errors import ProtocolError
from farlane.backend.objects.images import IMAGE_LIMIT, ImageQuota, ImageStore, OverQuota, SessionImages, digest_of


def image(number: int, size: int = 100) -> bytes:
    return number.to_bytes(4, "little") * (size // 4)


def upload(images: SessionImages, data: bytes, chunk: int = 33) -> bytes:
    digest = digest_of(data)
    images.begin(len(data), digest)
    for at in range(0, len(data), chunk):
        images.chunk(memoryview(data)[at : at + chunk])
    images.end(digest)
    return digest


def test_digest_is_blake2b_256() -> None:
    assert digest_of(b"abc") == hashlib.blake2b(b"abc", digest_size=32).digest()


def test_what_one_session_uploads_the_next_one_finds() -> None:
    store = ImageStore()
    first, second = SessionImages(store), SessionImages(store)
    assert second.find(digest_of(image(1))) is None
    digest = upload(first, image(1))
    assert first.find(digest) == image(1)
    assert second.find(digest) == image(1)
    first.close()
    second.close()
    assert SessionImages(store).find(digest) == image(1)


def test_least_recently_used_leaves_first() -> None:
    store = ImageStore(capacity=300)
    session = SessionImages(store)
    digests = [upload(session, image(number)) for number in range(3)]
    session.close()
    again = SessionImages(store)
    assert again.find(digests[0])
    again.close()
    upload(again, image(3))
    held = [store.pin(digest) is not None for digest in digests]
    assert held == [True, False, True]
    assert store.bytes_held == 300


def test_pinned_images_stay() -> None:
    store = ImageStore(capacity=300)
    session = SessionImages(store)
    digests = [upload(session, image(number)) for number in range(3)]
    other = SessionImages(store)
    with pytest.raises(CudaError) as caught:
        upload(other, image(9))
    assert caught.value.code == 2
    assert all(session.find(digest) for digest in digests)
    session.close()
    upload(other, image(9))
    assert store.bytes_held <= 300


def test_making_room_is_all_or_nothing() -> None:
    store = ImageStore(capacity=300)
    session, other = SessionImages(store), SessionImages(store)
    kept = upload(session, image(1))
    free = upload(other, image(2))
    other.close()
    with pytest.raises(CudaError):
        upload(other, image(3, 300))
    assert store.pin(free) is not None, "not evicted for an image that could not be held anyway"
    assert session.find(kept)


def test_the_same_image_twice_is_held_once() -> None:
    store = ImageStore()
    session, other = SessionImages(store), SessionImages(store)
    for images in (session, other, session):
        upload(images, image(1))
    assert store.bytes_held == 100
    session.close()
    session.close()
    assert other.find(digest_of(image(1)))
    other.close()


def test_a_digest_is_not_believed() -> None:
    images = SessionImages(ImageStore())
    digest = digest_of(b"good")
    images.begin(4, digest)
    images.chunk(memoryview(b"evil"))
    with pytest.raises(CudaError) as caught:
        images.end(digest)
    assert caught.value.code == 200
    assert images.find(digest) is None
    assert images.find(digest_of(b"evil")) is None
    upload(images, image(1))


@pytest.mark.parametrize("size", [0, IMAGE_LIMIT + 1, 2**64 - 1])
def test_sizes_that_are_not_accepted(size: int) -> None:
    images = SessionImages(ImageStore())
    with pytest.raises(CudaError) as caught:
        images.begin(size, bytes(32))
    assert caught.value.code == 2
    if size:
        images.chunk(memoryview(b"dropped"))
    images.end(bytes(32))
    upload(images, image(1))


def test_out_of_order() -> None:
    images = SessionImages(ImageStore())
    with pytest.raises(ProtocolError):
        images.chunk(memoryview(b"x"))
    with pytest.raises(ProtocolError):
        images.end(bytes(32))
    images.begin(4, bytes(32))
    with pytest.raises(ProtocolError):
        images.begin(4, bytes(32))
    with pytest.raises(ProtocolError):
        images.end(bytes([1]) * 32)


def test_more_or_less_than_announced() -> None:
    images = SessionImages(ImageStore())
    images.begin(4, bytes(32))
    with pytest.raises(ProtocolError):
        images.chunk(memoryview(b"12345"))
    images = SessionImages(ImageStore())
    images.begin(4, bytes(32))
    images.chunk(memoryview(b"123"))
    with pytest.raises(ProtocolError):
        images.end(bytes(32))


def test_many_threads() -> None:
    store = ImageStore(capacity=1200)  # room for all, and for none more
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for round_ in range(200):
                images = SessionImages(store)
                digest = upload(images, image((seed + round_) % 12))
                assert images.find(digest) == image((seed + round_) % 12)
                images.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert store.bytes_held <= 1200


def test_each_image_counts_once_for_the_sessions_of_a_token() -> None:
    store, quota = ImageStore(), ImageQuota("bob", 250)
    first, second = SessionImages(store, quota), SessionImages(store, quota)
    one = upload(first, image(1))
    assert second.find(one)
    upload(second, image(2))
    assert quota.used == 200
    with pytest.raises(OverQuota, match="the sessions of the token bob use images of 200 bytes, and may use 250"):
        first.begin(100, digest_of(image(3)))
    first.close()
    assert quota.used == 200, "the second one uses both"
    second.close()
    assert quota.used == 0


def test_an_image_of_others_counts_as_well() -> None:
    store, quota = ImageStore(capacity=300), ImageQuota("bob", 150)
    digests = [upload(other := SessionImages(store), image(number)) for number in range(2)]
    other.close()
    session = SessionImages(store, quota)
    assert session.find(digests[0])
    assert session.find(digests[1]) is None
    assert quota.used == 100
