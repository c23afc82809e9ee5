"""The users that workers run as, where the host runs as root: each worker one of its own, of a range.

A worker has its user before it reads anything of a guest: it is started as that user. So another session's process, and
the host's, are out of its reach even where seccomp and Landlock fail. It must be able to run the interpreter and to
read Farlane: where these lie in root's home folder it is not.

Owns the range, and which of it are taken. Locking: one lock around those.
"""

from __future__ import annotations

import argparse
import os
import pwd
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

OFF = "off"
_RANGE = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?", re.ASCII)
_LAST = (1 << 32) - 2  # the number behind it means "unchanged"
_PROBE_SECONDS = 60.0


class User(NamedTuple):
    uid: int
    gid: int

    def arguments(self) -> dict[str, Any]:
        """Of `subprocess.Popen`."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


class NoUser(Exception):
    """Every user of the range has a worker; the message is for the host's user."""


class Users:
    """Those of a range, or one that all workers share."""

    def __init__(self, users: Sequence[User]) -> None:
        self._users = list(users)
        self._taken: set[User] = set()
        self._lock = threading.Lock()

    def __str__(self) -> str:
        first, last = self._users[0].uid, self._users[-1].uid
        return f"user {first}" if first == last else f"users {first} to {last}"

    @property
    def first(self) -> User:
        return self._users[0]

    def take(self) -> User:
        """Raises NoUser."""
        if len(self._users) == 1:
            return self._users[0]
        with self._lock:
            found = next((user for user in self._users if user not in self._taken), None)
            if found is None:
                raise NoUser(f"each of {self} has a process already: start the host with a larger --worker-user")
            self._taken.add(found)
            return found

    def give(self, user: User) -> None:
        """Its processes have ended."""
        with self._lock:
            self._taken.discard(user)


# No distribution gives these to anyone: they lie above what systemd and containers take.
DEFAULT = Users([User(uid, uid) for uid in range(0x70000000, 0x70000400)])


def parse(text: str) -> Users | str:
    """A name, a number, a range of numbers, or `off`."""
    if text == OFF:
        return OFF
    if found := _RANGE.fullmatch(text):
        first, last = int(found[1]), int(found[2] or found[1])
        if not 0 < first <= last <= _LAST or last - first >= 1 << 16:
            raise argparse.ArgumentTypeError(f"{text!r} is no range of users: at most 65536, none of them 0")
        return Users([User(uid, uid) for uid in range(first, last + 1)])
    try:
        known = pwd.getpwnam(text)
    except KeyError:
        raise argparse.ArgumentTypeError(f"this system has no user {text!r}") from None
    if not known.pw_uid:
        raise argparse.ArgumentTypeError(f"{text!r} is root: say off if workers are to run as the host's user")
    return Users([User(known.pw_uid, known.pw_gid)])


def may_change() -> bool:
    """Whether this process may start others as other users."""
    return os.geteuid() == 0


def hindrance(user: User, environment: Mapping[str, str]) -> str:
    """Why no worker can run as this user; empty: one can."""
    command = [sys.executable, "-P", "-c", "import farlane.backend.workers.start"]
    try:
        outcome = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, timeout=_PROBE_SECONDS, **user.arguments()
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return outcome.stderr.strip().rpartition("\n")[2] if outcome.returncode else ""
