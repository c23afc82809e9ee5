"""The images (fat binaries, PTX, machine code) that the host holds, by content.

Owns a bounded store shared by all sessions: an image that one guest uploaded need not be sent by the next. The digest is always
computed here, never taken from a guest. What the host has said to a session that it holds (`known_modules`, a query's answer, its own upload)
is pinned until that session ends; what no session has pinned leaves in least-recently-used order when room is needed.

Locking: one lock around every method; nothing is called while it is held.
Source: protos/tape.md (MODULE_*); docs/explanation/systems.md, S1 point 9 (no data is transferred twice).
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from farlane.backend.device.base import CudaError
from farlane.backend.errors import ProtocolError
from farlane.backend.generated_errors import INVALID_KERNEL_IMAGE, MEMORY_ALLOCATION

DIGEST_BYTES = 32
DEFAULT_CAPACITY = 1 << 30
IMAGE_LIMIT = 256 << 20  # one image; the largest known fat binaries of one translation unit are a tenth of it


def digest_of(image: bytes | bytearray | memoryview) -> bytes:
    return hashlib.blake2b(image, digest_size=DIGEST_BYTES).digest()


@dataclass
class _Entry:
    image: bytes
    pins: int = 0


class ImageStore:
    """Images by BLAKE2b-256, at most `capacity` bytes."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self.capacity = capacity
        self._lock = threading.Lock()
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._bytes = 0

    @property
    def bytes_held(self) -> int:
        with self._lock:
            return self._bytes

    def pin(self, digest: bytes) -> bytes | None:
        """The image, kept until `unpin`; None when it is not held."""
        with self._lock:
            entry = self._entries.get(digest)
            if entry is None:
                return None
            entry.pins += 1
            self._entries.move_to_end(digest)
            return entry.image

    def add(self, digest: bytes, image: bytes) -> bytes:
        """Holds the image, pinned once; gives the held copy. The caller has computed the digest from the image.

        Raises:
            CudaError: everything that could make room is pinned.
        """
        with self._lock:
            entry = self._entries.get(digest)
            if entry is None:
                self._make_room(len(image))
                entry = self._entries[digest] = _Entry(image)
                self._bytes += len(image)
            entry.pins += 1
            self._entries.move_to_end(digest)
            return entry.image

    def unpin(self, digest: bytes) -> None:
        with self._lock:
            self._entries[digest].pins -= 1

    def _make_room(self, size: int) -> None:
        if self._bytes + size <= self.capacity:
            return
        needed = self._bytes + size - self.capacity
        victims = []
        for digest, entry in self._entries.items():
            if needed <= 0:
                break
            if entry.pins == 0:
                victims.append(digest)
                needed -= len(entry.image)
        if needed > 0:
            raise CudaError(MEMORY_ALLOCATION, f"the host's image store ({self.capacity} bytes) is full")
        for digest in victims:
            self._bytes -= len(self._entries.pop(digest).image)


class OverQuota(CudaError):
    """A token's sessions use as many images as they may."""


class ImageQuota:
    """The images that the sessions of one token use, each of which counts once.

    Locking: one lock.

    Args:
        owner: the token's name.
        limit: bytes; None: no limit.
    """

    def __init__(self, owner: str, limit: int | None = None) -> None:
        self.limit = limit
        self._owner = owner
        self._lock = threading.Lock()
        self._uses: Counter[bytes] = Counter()
        self._sizes: dict[bytes, int] = {}

    @property
    def used(self) -> int:
        with self._lock:
            return sum(self._sizes.values())

    def check(self, digest: bytes, size: int) -> None:
        """Raises OverQuota: there is no room for it."""
        with self._lock:
            self._check(digest, size)

    def take(self, digest: bytes, size: int) -> None:
        """A session uses it from now on. Raises OverQuota."""
        with self._lock:
            self._check(digest, size)
            self._uses[digest] += 1
            self._sizes[digest] = size

    def give(self, digest: bytes) -> None:
        """A session uses it no longer."""
        with self._lock:
            self._uses[digest] -= 1
            if not self._uses[digest]:
                del self._uses[digest], self._sizes[digest]

    def _check(self, digest: bytes, size: int) -> None:
        used = sum(self._sizes.values())
        if self.limit is not None and digest not in self._uses and used + size > self.limit:
            raise OverQuota(
                MEMORY_ALLOCATION,
                f"an image of {size} bytes: the sessions of the token {self._owner} use images of {used} bytes, and may use {self.limit}",
            )


@dataclass
class _Upload:
    """An image on its way. `failure` is set when it will not be kept; its chunks are then dropped."""

    size: int
    digest: bytes
    data: bytearray = field(default_factory=bytearray)
    failure: CudaError | None = None
    received: int = 0


class SessionImages:
    """One session's view of the store: its pins and its upload in progress."""

    def __init__(self, store: ImageStore, quota: ImageQuota | None = None) -> None:
        """`quota`: of the session's token."""
        self._store = store
        self._quota = quota or ImageQuota("")
        self._pinned: dict[bytes, bytes] = {}
        self._upload: _Upload | None = None

    def find(self, digest: bytes) -> bytes | None:
        """The image, from now on there for as long as the session; None when the host does not hold it, or the session may not use it."""
        image = self._pinned.get(digest)
        if image is None:
            image = self._store.pin(digest)
            if image is not None:
                try:
                    self._quota.take(digest, len(image))
                except OverQuota:
                    self._store.unpin(digest)
                    return None
                self._pinned[digest] = image
        return image

    def begin(self, size: int, digest: bytes) -> None:
        if self._upload is not None:
            raise ProtocolError("an image begins before the one before it has ended")
        self._upload = _Upload(size, digest)
        if not 0 < size <= min(IMAGE_LIMIT, self._store.capacity):
            self._upload.failure = CudaError(MEMORY_ALLOCATION, f"an image of {size} bytes is not accepted")
            raise self._upload.failure
        try:
            self._quota.check(digest, size)
        except OverQuota as error:
            self._upload.failure = error
            raise

    def chunk(self, data: memoryview) -> None:
        upload = self._upload
        if upload is None:
            raise ProtocolError("a chunk of an image that was not begun")
        upload.received += len(data)
        if upload.received > upload.size:
            raise ProtocolError(f"an image announced with {upload.size} bytes has more")
        if upload.failure is None:
            upload.data += data

    def end(self, digest: bytes) -> None:
        """Keeps the upload when it is what it claimed to be.

        Raises:
            CudaError: it is not (200), or there is no room for it.
        """
        upload, self._upload = self._upload, None
        if upload is None:
            raise ProtocolError("the end of an image that was not begun")
        if digest != upload.digest:
            raise ProtocolError("an image ends with another digest than it began with")
        if upload.failure is not None:
            return  # reported where it began
        if upload.received != upload.size:
            raise ProtocolError(f"an image announced with {upload.size} bytes has {upload.received}")
        image = bytes(upload.data)
        if digest_of(image) != digest:
            raise CudaError(INVALID_KERNEL_IMAGE, "an uploaded image does not have the digest it was announced with")
        if digest not in self._pinned:
            self._quota.take(digest, len(image))
            try:
                self._pinned[digest] = self._store.add(digest, image)
            except BaseException:
                self._quota.give(digest)
                raise

    @property
    def uploading(self) -> bool:
        """Whether one is on its way."""
        return self._upload is not None

    def all(self) -> dict[bytes, bytes]:
        """Those that are there for the session."""
        return dict(self._pinned)

    def give(self, digest: bytes, image: bytes) -> None:
        """An image of a restored session. Raises CudaError: it is not what its digest says, or there is no room."""
        self.begin(len(image), digest)
        self.chunk(memoryview(image))
        self.end(digest)

    def close(self) -> None:
        """Releases the pins. Idempotent."""
        self._upload = None
        while self._pinned:
            digest, _ = self._pinned.popitem()
            self._store.unpin(digest)
            self._quota.give(digest)
