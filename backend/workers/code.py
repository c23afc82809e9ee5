"""Compiled code that the host keeps for guests whose workers may write nothing.

A confined worker asks for code by its cache key, and gives what it has compiled (jit/compile/cache.py, `Store`). A worker
may have been taken over. What it gives is machine code, which the host never runs and cannot judge. So the host keeps it
for the workers of the same guest alone, in a folder of the guest's own: who poisons it, poisons himself. Guests with one
token are one guest. Guests of a Unix socket are the host's own user, and share a folder. Other guests that show no token
cannot be told apart, so nothing is kept for them.

The host's processes that compile for a worker (compiling.py) read a guest's PTX as well, and serve a whole session: one
text could have them say something wrong about the next. So what they make is kept in the same way.

What several sessions of a guest would compile at once, one does: it has claimed it, until it has given it, has ended, or CLAIM_SECONDS
have passed.

Owns the folders, their bounds, the claims and both ends of the questions. Locking: one lock around the claims; else none on the host, where
one thread serves a session.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shutil
import threading
import time
from pathlib import Path

from farlane.backend.system import files
from farlane.backend.workers.control import Control, Gone, Kind, Message

GUEST_BYTES = 64 << 20  # that are kept of a guest
SESSION_BYTES = 64 << 20  # that a session may give
ENTRY_BYTES = 16 << 20
CLAIM_SECONDS = 60.0
MOST_CLAIMS = 64  # of a session
FORGOTTEN_SECONDS = 30 * 86400.0  # for which a guest has not come
_NAME = re.compile(r"[0-9a-f]{64}", re.ASCII)
_ANSWER_SECONDS = 30.0
_claims: dict[Path, tuple[GuestCode, float]] = {}  # whose, and until when
_claiming = threading.Lock()


class GuestCode:
    """What the host keeps of one guest, for one session."""

    def __init__(self, guest: str) -> None:
        """`guest`: the name of its folder, which the host chooses."""
        self._folder = root() / guest
        self._left = SESSION_BYTES
        self._claimed: set[Path] = set()
        self._ended = False
        with contextlib.suppress(OSError):
            os.utime(self._folder)

    def find(self, name: str) -> bytes | None:
        """Raises ValueError: it is no name."""
        path = self._path(name)
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        return data

    def keep(self, name: str, data: bytes) -> None:
        """As far as there is room; a disk that is full is no error. Raises ValueError: it is no name, or far too large."""
        path = self._path(name)
        if len(data) > ENTRY_BYTES:
            raise ValueError(f"code of {len(data)} bytes")
        if len(data) > self._left:
            return
        self._left -= len(data)
        with contextlib.suppress(OSError):
            files.replace(path, data)
            files.prune(self._folder, GUEST_BYTES)
        with _claiming:
            if path in self._claimed:
                self._claimed.discard(path)
                del _claims[path]

    def claim(self, name: str) -> bool:
        """Whether the session is to compile it: no other one of the guest does. Raises ValueError: it is no name."""
        path, now = self._path(name), time.monotonic()
        with _claiming:
            whose, until = _claims.get(path, (self, now))
            if whose is not self and until > now:
                return False
            whose._claimed.discard(path)
            if len(self._claimed) < MOST_CLAIMS and not self._ended:
                _claims[path] = self, now + CLAIM_SECONDS
                self._claimed.add(path)
            else:
                _claims.pop(path, None)
            return True

    def close(self) -> None:
        """The session has ended."""
        with _claiming:
            self._ended = True
            while self._claimed:
                del _claims[self._claimed.pop()]

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of compiled code")
        return self._folder / name


class HostsCode:
    """The host's code, as a worker finds and gives it (`jit.compile.cache.Store`)."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._asking = threading.Lock()
        self._answers: queue.SimpleQueue[tuple[str, bytes | None, bool]] = queue.SimpleQueue()

    def find(self, name: str) -> bytes | None:
        """None as well where the host has gone."""
        found = self._ask(Kind.CODE, name)
        return None if found is None else found[0]

    def claim(self, name: str) -> bool:
        found = self._ask(Kind.CLAIM, name)
        return found is None or found[1]  # without a host there are no other sessions

    def _ask(self, kind: Kind, name: str) -> tuple[bytes | None, bool] | None:
        """None: the host has gone, or does not answer."""
        with self._asking, contextlib.suppress(Gone, queue.Empty):
            self._control.send(kind, name=name)
            while True:
                answered, data, granted = self._answers.get(timeout=_ANSWER_SECONDS)
                if answered == name:  # else it is the answer to an earlier question, and late
                    return data, granted
        return None

    def keep(self, name: str, entry: bytes) -> None:
        if len(entry) <= ENTRY_BYTES:
            with contextlib.suppress(Gone):
                self._control.send(Kind.KEEP, bulk=entry, name=name)

    def answered(self, message: Message) -> None:
        """By the thread that listens to the host."""
        fields = message.fields
        if message.kind is Kind.CLAIM:
            self._answers.put((fields["name"], None, fields["granted"]))
        else:
            self._answers.put((fields["name"], message.bulk() if fields["found"] else None, False))


def root() -> Path:
    return files.cache_folder() / "guests"


def forget_old() -> None:
    """Removes what guests have left that have not come for a long time."""
    with contextlib.suppress(FileNotFoundError):
        for folder in os.scandir(root()):
            if folder.stat().st_mtime < time.time() - FORGOTTEN_SECONDS:
                shutil.rmtree(folder.path, ignore_errors=True)
