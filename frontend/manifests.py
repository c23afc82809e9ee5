"""Manifests for `farlane run`: made on first use, kept for the next.

Owns the cache `$XDG_CACHE_HOME/farlane/manifests/<revision of the analyzer>/<identity in hex>.manifest`, its bounds, and the running
of the analyzer in a process of its own, with bounded time and memory. A program that has no manifest runs without one; that costs
round trips, never a wrong answer. What was tried in vain is marked (`<identity>.none`), so that it is not tried at every start: again
only with more time, or with another analyzer.

Files appear by rename. One process analyzes an object at a time, under a lock for each; others wait for it.
Source: protos/manifest.md, "Where it is found".
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from farlane.frontend.objects import CudaObject, cuda_objects
from farlane.limits.generated import MANIFEST_BYTES
from farlane.terminal.statuses import OUT_OF_TIME

ANALYZER = "farlane.analyzer"
ANALYZE_MODULE = "farlane.analyzer.commands.analyze"
SECONDS = 10.0
MEMORY_MIB = 2048
CACHE_BYTES = 64 << 20
CACHE_FILES = 4096
OFF = "off"  # FARLANE_MANIFESTS: the shim uses none, wherever it is

_LOCK_POLL_SECONDS = 0.05
_STALE_SECONDS = 3600.0  # temporary files and locks of processes that are gone


@dataclass(frozen=True)
class _Failure:
    why: str
    seconds: float | None = None  # the time that did not suffice; None: more would not help


def prepare(
    program: Path, environment: Mapping[str, str], seconds: float, remark: Callable[[str], None]
) -> Path | None:
    """Sees to it that the program's objects have manifests.

    Args:
        seconds: how long the analysis of all of them may take; 0: only what is there is used.
        remark: takes one line for the user.

    Returns:
        The folder with manifests; None when there is none.
    """
    objects = [each for each in cuda_objects(program, environment) if not each.embedded]
    if not objects:
        return None
    location = importlib.util.find_spec(ANALYZER)
    if location is None or not location.submodule_search_locations:
        remark("the analyzer is not installed: the program runs without a manifest")
        return None
    cache = Cache(cache_root(environment) / revision(Path(location.submodule_search_locations[0])))
    try:
        cache.open()
        deadline = time.monotonic() + seconds
        for each in objects:
            if not cache.holds(each.identity):
                _make(cache, each, deadline, seconds, remark)
    except OSError as error:
        remark(f"manifests cannot be kept in {cache.folder} ({error.strerror}): the program runs without a new one")
        return cache.folder if cache.folder.is_dir() else None
    return cache.folder


def cache_root(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CACHE_HOME")
    # Not Path.home(): it raises where there is none, and nothing can be written to "/.cache" then, which is what we say.
    root = Path(base) if base and Path(base).is_absolute() else Path(environment.get("HOME") or "/") / ".cache"
    return root / "farlane" / "manifests"


def revision(sources: Path) -> str:
    """The analyzer's own digest of its sources (analyzer/manifest/files.py)."""
    digest = hashlib.sha256()
    for path in sorted(sources.rglob("*.py"), key=lambda path: path.relative_to(sources).as_posix()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(sources).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def intact(path: Path, identity: str) -> bool:
    """Whether a file is a whole manifest of that object. What is in it, the shim checks."""
    try:
        if path.stat().st_size > MANIFEST_BYTES:
            return False
        content = path.read_bytes()
    except OSError:
        return False
    if len(content) < 88 or content[:8] != b"FARLANEM" or int.from_bytes(content[12:16], "little") != len(content):
        return False
    digest = hashlib.blake2b(content[:16] + bytes(8) + content[24:], digest_size=32).digest()
    return content[16:24] == digest[:8] and content[32 : 32 + content[25]].hex() == identity


class Cache:
    """The manifests of one revision of the analyzer. Every method may raise OSError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, identity: str) -> Path:
        return self.folder / f"{identity}.manifest"

    def holds(self, identity: str) -> bool:
        """Whether there is a manifest; a damaged one is removed."""
        path = self.path(identity)
        if intact(path, identity):
            with contextlib.suppress(OSError):  # only for the order of removal
                os.utime(path)
            return True
        path.unlink(missing_ok=True)
        return False

    def failure(self, identity: str) -> _Failure | None:
        """What an earlier attempt said."""
        try:
            content = json.loads((self.folder / f"{identity}.none").read_text())
            seconds = content["seconds"]
            return _Failure(str(content["why"]), None if seconds is None else float(seconds))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def mark(self, identity: str, failure: _Failure) -> None:
        temporary = self.temporary(identity)
        temporary.write_text(json.dumps({"why": failure.why, "seconds": failure.seconds}))
        temporary.replace(self.folder / f"{identity}.none")

    def keep(self, identity: str, made: Path) -> None:
        made.replace(self.path(identity))
        (self.folder / f"{identity}.none").unlink(missing_ok=True)
        self.shrink()

    def temporary(self, identity: str) -> Path:
        return self.folder / f".{identity}.{os.getpid()}.new"

    @contextlib.contextmanager
    def locked(self, identity: str, deadline: float) -> Iterator[bool]:
        """Holds the object's lock; False when another process held it until the deadline."""
        with (self.folder / f".{identity}.lock").open("w") as stream:
            while True:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        yield False
                        return
                    time.sleep(_LOCK_POLL_SECONDS)
            yield True

    def shrink(self) -> None:
        """Removes what was used longest ago until the cache, other revisions included, is within its bounds."""
        entries = []
        for path in self.folder.parent.glob("*/*"):
            with contextlib.suppress(OSError):  # another process may be removing it
                status = path.stat()
                entries.append((status.st_mtime, status.st_size, path))
        stale = time.time() - _STALE_SECONDS
        total, count = sum(size for _, size, _ in entries), len(entries)
        for used, size, path in sorted(entries):
            hidden = path.name.startswith(".")
            if (hidden and used < stale) or (not hidden and (total > CACHE_BYTES or count > CACHE_FILES)):
                with contextlib.suppress(OSError):
                    path.unlink()
                total, count = total - size, count - 1


def _make(cache: Cache, wanted: CudaObject, deadline: float, seconds: float, remark: Callable[[str], None]) -> None:
    known = cache.failure(wanted.identity)
    if seconds <= 0 or (known is not None and (known.seconds is None or known.seconds >= seconds)):
        return
    with cache.locked(wanted.identity, deadline) as held:
        if cache.holds(wanted.identity):
            return
        if not held:
            remark(f"another process still analyzes {wanted.path}: it runs without a manifest")
            return
        made = cache.temporary(wanted.identity)
        try:
            failure = _analyze(wanted, made, deadline)
            if failure is None:
                cache.keep(wanted.identity, made)
                return
        finally:
            made.unlink(missing_ok=True)
        remark(f"no manifest for {wanted.path}: {failure.why}")
        cache.mark(wanted.identity, _Failure(failure.why, seconds if failure.seconds is not None else None))


def _analyze(wanted: CudaObject, output: Path, deadline: float) -> _Failure | None:
    """Runs the analyzer; what went wrong, None when the manifest is there."""
    left = deadline - time.monotonic()
    late = _Failure("the time for its analysis is used up (`farlane analyze --manifest` takes its time)", left)
    if left <= 0:
        return late
    command = [sys.executable, "-m", ANALYZE_MODULE, "--manifest", str(output), "--seconds", f"{left:.3f}"]
    command += ["--memory", str(MEMORY_MIB), str(wanted.path)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=left
        )
    except subprocess.TimeoutExpired:
        return late
    if done.returncode == OUT_OF_TIME:
        return late
    if done.returncode:
        lines = done.stderr[-4096:].decode("utf-8", "replace").strip().splitlines()
        why = lines[-1].removeprefix("farlane: ")[:300] if lines else ""
        return _Failure(why or f"the analyzer ended with status {done.returncode}")
    return None if intact(output, wanted.identity) else _Failure("the analyzer wrote no manifest of this object")
