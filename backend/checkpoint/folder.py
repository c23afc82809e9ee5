"""A saved session in a folder: what it is in one file, its content in packs beside it.

    session          a header, and a SavedFolder: what the session is, and which content lies in which pack
    content-N.pack   content, piece by piece; each piece is in one pack, once

A save into a folder that has one writes a new pack with what the others lack, then the file `session` in the place of
the former one: a save that is cut off leaves the former session whole. Packs of which nothing is used any more are
removed then. Each piece is compared with its digest when it is read.

Not for two writers at once: the folder is locked.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from farlane.backend.checkpoint import form
from farlane.backend.checkpoint.blobs import DIGEST_BYTES, digest_of
from farlane.backend.device.saved import Unsaveable
from farlane.v1 import checkpoint_pb2 as pb
from google.protobuf.message import DecodeError

MAGIC = b"FARLSESS"
_HEADER = struct.Struct("<8sQ32s")  # the bytes behind it, and their digest
_PACKS = 10_000
BLOB_BYTES = 256 << 20  # the largest piece: an image


class Folder:
    """A folder of `farlane session save`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._packs: list[pb.SavedFolder.Pack] = []
        self._writing: BinaryIO | None = None
        self._new: pb.SavedFolder.Pack | None = None
        self._lock: int | None = None

    # Writing ----------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def written(self) -> Iterator[set[bytes]]:
        """While a session is saved here; gives the digests of what is there already. Raises Unsaveable."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Unsaveable(f"another command saves a session to {self.path}") from None
        except OSError as error:
            raise Unsaveable(f"cannot write to {self.path}: {error.strerror}") from None
        try:
            if (self.path / "session").exists():
                self._packs = list(self._read().packs)
            yield {digest for pack in self._packs for digest, _, _ in _pieces(pack)}
        finally:
            if self._writing is not None:
                self._writing.close()
                self._pack_path(self._new).unlink(missing_ok=True) if self._new is not None else None
            os.close(self._lock)

    def add(self, data: bytes) -> None:
        """Content that is not there."""
        if self._writing is None:
            taken = {pack.number for pack in self._packs}
            self._new = pb.SavedFolder.Pack(number=next(number for number in range(1, _PACKS) if number not in taken))
            self._writing = open(self._pack_path(self._new), "wb")  # noqa: SIM115  (closed by `finish` or `written`)
        assert self._new is not None
        self._writing.write(data)
        self._new.digests += digest_of(data)
        self._new.sizes.append(len(data))

    def finish(self, session: pb.SavedSession) -> None:
        """The session is whole: it takes the place of the one that was saved before. Raises OSError."""
        packs = list(self._packs)
        if self._writing is not None and self._new is not None:
            self._writing.flush()
            os.fsync(self._writing.fileno())
            self._writing.close()
            self._writing = None
            packs.append(self._new)
        needed = form.needed(session)
        used = [pack for pack in packs if any(digest in needed for digest, _, _ in _pieces(pack))]
        body = pb.SavedFolder(session=session, packs=used).SerializeToString()
        partial = self.path / "session.partial"
        with partial.open("wb") as file:
            os.fchmod(file.fileno(), 0o600)  # it has the session's secret
            file.write(_HEADER.pack(MAGIC, len(body), hashlib.sha256(body).digest()))
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.path / "session")
        for pack in packs:
            if pack not in used:
                self._pack_path(pack).unlink(missing_ok=True)

    # Reading ----------------------------------------------------------------------------------------------------
    def session(self) -> pb.SavedSession:
        """What was saved last. Raises Unsaveable."""
        folder = self._read()
        form.check(folder.session)
        self._packs = list(folder.packs)
        return folder.session

    def content(self, needed: set[bytes]) -> Iterator[bytes]:
        """Each piece that is needed, once. After `session`. Raises Unsaveable: one is missing, or damaged."""
        left = set(needed)
        for pack in self._packs:
            wanted = [(digest, at, size) for digest, at, size in _pieces(pack) if digest in left]
            if not wanted:
                continue
            try:
                with self._pack_path(pack).open("rb") as file:
                    for digest, at, size in wanted:
                        file.seek(at)
                        data = file.read(size)
                        if digest_of(data) != digest:
                            raise Unsaveable(f"what was saved in {self.path} is damaged: content of {file.name}")
                        left.discard(digest)
                        yield data
            except OSError as error:
                raise Unsaveable(f"cannot read {error.filename}: {error.strerror}") from None
        if left:
            raise Unsaveable(f"what was saved in {self.path} is not whole: {len(left)} pieces of content are missing")

    def _read(self) -> pb.SavedFolder:
        path = self.path / "session"
        try:
            with path.open("rb") as file:
                header = file.read(_HEADER.size)
                if len(header) < _HEADER.size or not header.startswith(MAGIC):
                    raise Unsaveable(f"{path} is no saved session")
                _, size, digest = _HEADER.unpack(header)
                if size > form.SESSION_BYTES:
                    raise Unsaveable(f"{path} is damaged: {size} bytes of a session")
                body = file.read(size + 1)
        except OSError as error:
            raise Unsaveable(f"cannot read {path}: {error.strerror}: name a folder of `farlane session save`") from None
        if len(body) != size or hashlib.sha256(body).digest() != digest:
            raise Unsaveable(f"{path} is damaged: its bytes are not those that were written")
        return read_folder(body)

    def _pack_path(self, pack: pb.SavedFolder.Pack) -> Path:
        return self.path / f"content-{pack.number}.pack"


def read_folder(body: bytes) -> pb.SavedFolder:
    """Raises Unsaveable."""
    try:
        folder = pb.SavedFolder.FromString(body)
    except DecodeError:
        raise Unsaveable("what was saved is damaged: it is no saved session") from None
    for pack in folder.packs:
        if len(pack.digests) != DIGEST_BYTES * len(pack.sizes) or not 0 < pack.number < _PACKS:
            raise Unsaveable("what was saved is damaged: a pack without its digests")
        if any(not 0 < size <= BLOB_BYTES for size in pack.sizes):
            raise Unsaveable("what was saved is damaged: content of a wrong size")
    return folder


def _pieces(pack: pb.SavedFolder.Pack) -> Iterator[tuple[bytes, int, int]]:
    """Digest, place and size of each."""
    at = 0
    for index, size in enumerate(pack.sizes):
        yield pack.digests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES], at, size
        at += size
