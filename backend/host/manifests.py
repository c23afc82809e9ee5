"""Manifests for guests that cannot analyze their programs themselves: uploaded once, analyzed here, handed out from then on.

Owns the store (files below one folder), what is asked for at admission, the parts of files that arrive, and the one
process at a time in which the analyzer runs: it is no part of the host, because what it reads is a stranger's. An upload that is
broken, or that is not what its identity says, costs only itself: it is dropped, and the session goes on.

A build-id proves nothing: a guest that uploads can put any into a file. So a manifest is handed only to guests of the address that
uploaded the file (the part of the peer's name in front of the port; all guests of Unix sockets are one user's).

Locking: one lock for the bookkeeping; no file is read or written and no process waited for while it is held.
Source: protos/farlane/v1/session.proto (Object, ObjectPart, Welcome); protos/manifest.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import logging
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from farlane.limits.generated import MANIFEST_BYTES

log = logging.getLogger("farlane.manifests")

ANALYZER = "farlane.analyzer"
ANALYZE_MODULE = "farlane.analyzer.commands.analyze"
ANALYSIS_SECONDS = 60.0
ANALYSIS_MIB = 2048
OBJECT_BYTES = 64 << 20  # a larger file is not asked for
OBJECTS_WANTED = 8  # of one session
ARRIVING_BYTES = 256 << 20  # of all sessions, waiting ones included
WELCOME_BYTES = 2 << 20  # of manifests in one Welcome
STORE_BYTES = 64 << 20
STORE_FILES = 4096
FAILURES_KEPT = 4096
_LOWEST_PRIORITY = 19
_STALE_SECONDS = 3600.0


class GuestObject(NamedTuple):
    """What a guest says of an object of its program (session.proto, Object)."""

    identity: bytes
    size: int
    has_manifest: bool


def default_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base and Path(base).is_absolute() else Path(os.environ.get("HOME") or "/") / ".cache"
    return root / "farlane" / "host-manifests"


def analyzer_revision() -> str | None:
    """A digest of the analyzer's sources; None when it cannot be run here."""
    with contextlib.suppress(ImportError, ValueError):
        location = importlib.util.find_spec(ANALYZER)
        if location is not None and location.submodule_search_locations and importlib.util.find_spec("capstone"):
            return _digest(Path(location.submodule_search_locations[0]))
    return None


def _digest(sources: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(sources.rglob("*.py"), key=lambda path: path.relative_to(sources).as_posix()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(sources).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def identity_of(content: bytes) -> bytes | None:
    """The identity in a manifest; None when it is not whole."""
    if len(content) < 88 or content[:8] != b"FARLANEM" or int.from_bytes(content[12:16], "little") != len(content):
        return None
    digest = hashlib.blake2b(content[:16] + bytes(8) + content[24:], digest_size=32).digest()
    return content[32 : 32 + content[25]] if content[16:24] == digest[:8] and content[25] <= 32 else None


def scope_of(peer: str) -> str:
    """Whose uploads a peer may see."""
    return peer.rpartition(":")[0] if peer.startswith(("tcp:", "vsock:")) else "local"


@dataclass(frozen=True)
class _Key:
    scope: str
    identity: bytes

    @property
    def name(self) -> str:
        """Not the peer's own words: they would become a path."""
        return f"{hashlib.sha256(self.scope.encode()).hexdigest()[:16]}-{self.identity.hex()}"


class _Job(NamedTuple):
    key: _Key
    file: Path
    size: int


class ManifestStore:
    """The host's manifests. With `close`, what still arrives is dropped and a running analysis ended.

    Args:
        folder: where they are kept; made when needed.
        revision: of the analyzer; None: it cannot be run, so that nothing is asked for.
        seconds: how long the analysis of one object may take.
    """

    def __init__(self, folder: Path, revision: str | None, seconds: float = ANALYSIS_SECONDS) -> None:
        self._folder = folder / (revision or "none")
        self._able = revision is not None
        self._seconds = seconds
        self._lock = threading.Lock()
        self._pending: set[_Key] = set()  # arriving, waiting or being analyzed
        self._failed: OrderedDict[_Key, None] = OrderedDict()  # not asked for again while this host runs
        self._arriving = 0
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def open(self, peer: str, objects: Sequence[GuestObject]) -> SessionManifests:
        """What a new session is given and asked for."""
        scope = scope_of(peer)
        found: list[tuple[bytes, bytes]] = []
        wanted: dict[bytes, int] = {}
        room = WELCOME_BYTES
        for each in objects:
            key = _Key(scope, each.identity)
            if each.has_manifest or each.identity in wanted:
                continue
            content = self._read(key)
            if content is not None:
                if len(content) <= room:
                    room -= len(content)
                    found.append((each.identity, content))
            elif 0 < each.size <= OBJECT_BYTES and len(wanted) < OBJECTS_WANTED and self._asks_for(key):
                wanted[each.identity] = each.size
        return SessionManifests(self, scope, found, wanted)

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            self._closed = True
            worker, process = self._worker, self._process
        if process is not None:
            process.kill()
        if worker is not None:
            self._jobs.put(None)
            worker.join()

    @property
    def idle(self) -> bool:
        """Whether nothing arrives and nothing is analyzed."""
        with self._lock:
            return not self._pending

    def _path(self, key: _Key, suffix: str) -> Path:
        return self._folder / f"{key.name}.{suffix}"

    def _read(self, key: _Key) -> bytes | None:
        path = self._path(key, "manifest")
        try:
            if path.stat().st_size > MANIFEST_BYTES:
                return None
            content = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        return content if identity_of(content) == key.identity else None

    def _asks_for(self, key: _Key) -> bool:
        with self._lock:
            return self._able and not self._closed and key not in self._pending and key not in self._failed

    # What SessionManifests calls ---------------------------------------------------------------------------------
    def begin(self, key: _Key, size: int) -> tuple[Path, IO[bytes]] | None:
        """A file for an object that arrives; None when there is no room, or another session sends it already."""
        with self._lock:
            if self._closed or key in self._pending or self._arriving + size > ARRIVING_BYTES:
                return None
            self._pending.add(key)
            self._arriving += size
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor, name = tempfile.mkstemp(prefix=".object-", dir=self._folder)
            return Path(name), os.fdopen(descriptor, "wb")
        except OSError as error:
            self.forget(key, size)
            log.warning("no object can be kept in %s: %s", self._folder, error.strerror)
            return None

    def forget(self, key: _Key, size: int, file: Path | None = None) -> None:
        """The object is no longer arriving."""
        if file is not None:
            with contextlib.suppress(OSError):
                file.unlink()
        with self._lock:
            self._pending.discard(key)
            self._arriving -= size

    def analyze(self, job: _Job) -> None:
        """Queues an object that has arrived; the file becomes the store's."""
        with self._lock:
            if not self._closed and self._has_worker():
                self._jobs.put(job)
                return
        self.forget(job.key, job.size, job.file)

    def _has_worker(self) -> bool:
        """Starts the worker unless it runs; False when the system's limit of threads or memory forbids it."""
        if self._worker is None:
            worker = threading.Thread(target=self._work, name="farlane-analysis", daemon=True)
            try:
                worker.start()
            except RuntimeError as error:
                log.warning("no objects are analyzed for now: %s", error)
                return False
            self._worker = worker
        return True

    # The worker -------------------------------------------------------------------------------------------------
    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            why = ""
            try:
                why = self._run(job)
                if why and not self._closed:
                    log.warning("object %s of %s: no manifest: %s", job.key.identity.hex(), job.key.scope, why)
            except Exception:
                why = "it could not be run"
                log.exception("object %s: the analysis could not be run", job.key.identity.hex())
            finally:
                if why:
                    self._give_up(job.key)
                self.forget(job.key, job.size, job.file)

    def _give_up(self, key: _Key) -> None:
        with self._lock:
            self._failed[key] = None
            if len(self._failed) > FAILURES_KEPT:
                self._failed.popitem(last=False)

    def _run(self, job: _Job) -> str:
        """Analyzes one object; what went wrong, "" when its manifest is there."""
        output = job.file.with_suffix(".new")
        command = [sys.executable, "-m", ANALYZE_MODULE, "--manifest", str(output)]
        command += ["--seconds", str(self._seconds), "--memory", str(ANALYSIS_MIB), str(job.file)]
        with tempfile.TemporaryFile() as words:
            with self._lock:
                if self._closed:
                    return "the host is stopping"
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=words, process_group=0
                )
                self._process = process
            try:
                with contextlib.suppress(OSError):  # it has ended already
                    os.setpriority(os.PRIO_PROCESS, process.pid, _LOWEST_PRIORITY)
                status = process.wait(self._seconds)
            except subprocess.TimeoutExpired:
                return f"not analyzed within {self._seconds:g} s"
            finally:
                process.kill()
                process.wait()
                with self._lock:
                    self._process = None
                content = _take(output)
            words.seek(0)
            said = words.read(4096).decode("utf-8", "replace").strip().splitlines()
        if status:
            return said[-1][:300] if said else f"the analyzer ended with status {status}"
        if content is None or identity_of(content) != job.key.identity:
            return "the file is not the object that was announced"
        output.write_bytes(content)
        output.replace(self._path(job.key, "manifest"))
        self._shrink()
        return ""

    def _shrink(self) -> None:
        """Removes what was used longest ago until the store is within its bounds."""
        entries = []
        for path in self._folder.parent.glob("*/*"):
            status = path.stat()
            if not path.name.startswith("."):
                entries.append((status.st_mtime, status.st_size, path))
            elif status.st_mtime < time.time() - _STALE_SECONDS:
                path.unlink(missing_ok=True)  # of a host that was killed
        total, count = sum(size for _, size, _ in entries), len(entries)
        for _, size, path in sorted(entries):
            if total <= STORE_BYTES and count <= STORE_FILES:
                break
            path.unlink(missing_ok=True)
            total, count = total - size, count - 1


def _take(path: Path) -> bytes | None:
    try:
        content = path.read_bytes() if path.stat().st_size <= MANIFEST_BYTES else None
        path.unlink()
        return content
    except OSError:
        return None


class Objects(Protocol):
    """What a session's Welcome says of its guest's objects, and where those go that the guest sends."""

    @property
    def found(self) -> Sequence[tuple[bytes, bytes]]: ...
    @property
    def wanted(self) -> Sequence[bytes]: ...
    def part(self, identity: bytes, data: bytes, last: bool) -> None: ...
    def close(self) -> None: ...


class SessionManifests:
    """One session's part: what its Welcome says, and the objects that it sends. Used by one thread.

    Attributes:
        found: (identity, manifest) for the Welcome.
        wanted: identities that are asked for.
    """

    def __init__(
        self, store: ManifestStore, scope: str, found: list[tuple[bytes, bytes]], wanted: dict[bytes, int]
    ) -> None:
        self._store, self._scope = store, scope
        self._sizes = wanted
        self._arriving: dict[bytes, tuple[Path, IO[bytes]]] = {}
        self.found = found
        self.wanted = tuple(wanted)

    def part(self, identity: bytes, data: bytes, last: bool) -> None:
        """Takes part of an object. What was not asked for, or is longer than announced, is dropped; never raises."""
        size = self._sizes.get(identity)
        if size is None:
            return
        if identity not in self._arriving:
            begun = self._store.begin(_Key(self._scope, identity), size)
            if begun is None:
                del self._sizes[identity]
                return
            self._arriving[identity] = begun
        file, stream = self._arriving[identity]
        try:
            stream.write(data)
            there = stream.tell()
            if last:
                stream.close()
        except OSError as error:
            log.warning("object %s: %s", identity.hex(), error.strerror)
            there = size + 1
        if there > size or (last and there != size):
            log.warning("object %s of %s: not the announced %d bytes", identity.hex(), self._scope, size)
            self._drop(identity)
        elif last:
            del self._arriving[identity], self._sizes[identity]
            self._store.analyze(_Job(_Key(self._scope, identity), file, size))

    def _drop(self, identity: bytes) -> None:
        file, stream = self._arriving.pop(identity)
        size = self._sizes.pop(identity)
        with contextlib.suppress(OSError):
            stream.close()
        self._store.forget(_Key(self._scope, identity), size, file)

    def close(self) -> None:
        """Drops what has not arrived whole. Idempotent; never raises."""
        for identity in list(self._arriving):
            self._drop(identity)
