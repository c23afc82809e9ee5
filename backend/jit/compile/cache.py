"""The disk cache of compiled kernels.

One file per kernel and block shape under ~/.cache/farlane/jit (or $FARLANE_CACHE_DIR/jit): a header with a checksum, the kernel's
facts as JSON, its code (an object file or a flat image, backend/system/flat.py). The key covers the module's text, kernel, block, options, this package's sources, LLVM and the CPU, so an
entry is never stale. An upgrade may replace the sources under a running host: entries go by what they were when this module was loaded, and
none is written once they differ from that (`trusted`), nor by a process that has a guest of its own (`close`): that one has a
store in the folder's place. Files are written aside and renamed; an unreadable or damaged one counts as absent. When the directory exceeds its
bound, the least recently used files go. The directory is private (0700): what lies there is executed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import logging
import os
import struct
from pathlib import Path
from typing import Protocol

from farlane.backend.jit.options import KernelInfo, Options
from farlane.backend.jit.runtime.structures import ABI_VERSION
from farlane.backend.system import files, flat

MAX_BYTES = 256 << 20
_MAGIC = b"FARLJIT1"
_HEADER = struct.Struct("<8s32sQQ")

_log = logging.getLogger(__name__)


def directory() -> Path:
    return files.cache_folder() / "jit"


def _digest() -> bytes:
    """Of this package, and of what links its objects: any change of the generator makes new entries."""
    digest = hashlib.sha256()

    def walk(folder: Path) -> None:
        for item in sorted(folder.iterdir()):
            if item.is_dir() and item.name != "__pycache__":
                walk(item)
            elif item.name.endswith((".py", ".ll")):
                digest.update(item.name.encode())
                digest.update(item.read_bytes())

    walk(Path(__file__).parents[1])
    digest.update(Path(flat.__file__).read_bytes())
    return digest.digest()


SOURCES = _digest()


class Store(Protocol):
    """Who keeps entries for a process that writes none itself. From any thread."""

    def find(self, name: str) -> bytes | None: ...
    def keep(self, name: str, entry: bytes) -> None: ...
    def claim(self, name: str) -> bool:
        """Whether this process is to make the entry: no other one does."""


_open = True
_store: Store | None = None


def close(store: Store | None = None) -> None:
    """From now on this process only reads. `store`: keeps what is made from now on; without one nothing is kept."""
    global _open, _store
    _open, _store = False, store


def is_open() -> bool:
    """Whether this process, and those that it starts, write to the disk cache."""
    return _open


def has_store() -> bool:
    return _store is not None


def claim(name: str) -> bool:
    """Whether this process is to make an entry that it has not found; else another one makes it now, and it is there soon."""
    return _store is None or _store.claim(name)


@functools.cache
def unchanged() -> bool:
    """Whether this package's sources are those that this process has loaded."""
    same = _digest() == SOURCES
    if not same:
        _log.warning("Farlane's files have changed since this process started: what it compiles is not kept on disk")
    return same


def trusted() -> bool:
    """Whether what this process translates is to be kept: it is what its sources' digest says. To be asked once the translator has been loaded."""
    return (_open or has_store()) and unchanged()


def key(module: bytes, name: str, block: tuple[int, int, int], options: Options, host: str) -> str:
    relevant = (
        ABI_VERSION,
        name,
        block,
        options.dual,
        options.optimization,
        options.local_stack_bytes,
        options.features,
        options.cpu,
        options.touches,
        options.untranslated,
        options.checks,
        options.tier,
        options.warp_groups,
        options.serial,
        host,
    )
    return hashlib.sha256(SOURCES + module + repr(relevant).encode()).hexdigest()


def fixed_key(text: str, host: str) -> str:
    """The name of code that is not a module's: the object of some IR."""
    return hashlib.sha256(f"{ABI_VERSION} {host}\n{text}".encode()).hexdigest()


def load(name: str) -> tuple[KernelInfo, bytes] | None:
    """The facts and object of a kernel's entry, or None."""
    entry = load_object(name)
    if entry is None:
        return None
    try:
        found = json.loads(entry[0])
        found["block"] = tuple(found["block"])
        found["variables"] = tuple(found["variables"])
        return KernelInfo(**found), entry[1]
    except (ValueError, KeyError, TypeError):
        return None


def load_object(name: str) -> tuple[bytes, bytes] | None:
    """The facts, as they were saved, and the object of an entry, or None."""
    if _store is not None:
        return _read(_store.find(name) or b"")
    path = directory() / name
    try:
        data = path.read_bytes()
    except OSError:
        return None
    entry = _read(data)
    if entry is not None:
        with contextlib.suppress(OSError):
            os.utime(path)
    return entry


def _read(data: bytes) -> tuple[bytes, bytes] | None:
    try:
        magic, checksum, facts_size, object_size = _HEADER.unpack_from(data)
    except struct.error:
        return None
    body = data[_HEADER.size :]
    if magic != _MAGIC or len(body) != facts_size + object_size or hashlib.sha256(body).digest() != checksum:
        return None
    return body[:facts_size], body[facts_size:]


def save(name: str, info: KernelInfo, image: bytes) -> None:
    """Adds an entry; a cache that cannot be written is no error."""
    save_object(name, facts(info), image)


def facts(info: KernelInfo) -> bytes:
    """A kernel's facts as an entry has them."""
    return json.dumps(dataclasses.asdict(info)).encode()


def save_object(name: str, described: bytes, image: bytes) -> None:
    """Adds an entry; a cache that cannot be written is no error."""
    body = described + image
    data = _HEADER.pack(_MAGIC, hashlib.sha256(body).digest(), len(described), len(image)) + body
    if _store is not None:
        _store.keep(name, data)
        return
    folder = directory()
    with contextlib.suppress(OSError):
        files.replace(folder / name, data)
        files.prune(folder, MAX_BYTES)
