"""The private folder of a host: where its keys, certificates and tokens are.

Owns the names of the files and how they are written: whole, by renaming, readable by this user alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

FOLDER_VARIABLE = "FARLANE_HOST_FOLDER"


class SecurityError(Exception):
    """Something of the folder cannot be used; the message is for the user."""


class Folder:
    """The files. Nothing is read or made before it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.authority = path / "ca.pem"
        self.authority_key = path / "ca.key"
        self.certificate = path / "host.pem"
        self.key = path / "host.key"
        self.tokens = path / "tokens.json"
        self.audit = path / "audit.jsonl"

    @property
    def is_complete(self) -> bool:
        """Whether a host can be started with it."""
        return all(file.exists() for file in (self.authority, self.certificate, self.key, self.tokens))

    def create(self) -> None:
        """Makes the folder. Raises SecurityError: it is there, and not empty or not this user's alone."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.require_private()
            left = [file.name for file in self.path.iterdir()]
        except OSError as error:
            raise SecurityError(f"cannot make {self.path}: {error.strerror}") from error
        if left:
            raise SecurityError(f"{self.path} is not empty: name another folder with --folder, or remove it first")

    def require_private(self) -> None:
        """Raises SecurityError: others can look into the folder, or it is not there."""
        try:
            found = self.path.stat()
        except OSError as error:
            raise SecurityError(
                f"there is no folder {self.path} ({error.strerror}): `farlane host init` makes it"
            ) from error
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise SecurityError(f"others may look into {self.path}: `chmod 700 {self.path}` makes it private")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """While another command changes the folder, this one waits. Raises SecurityError."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise SecurityError(
                f"there is no folder {self.path} ({error.strerror}): `farlane host init` makes it"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def default_folder(environment: Mapping[str, str]) -> Folder:
    """FARLANE_HOST_FOLDER, else below the user's configuration."""
    if named := environment.get(FOLDER_VARIABLE):
        return Folder(Path(named))
    base = environment.get("XDG_CONFIG_HOME") or ""
    return Folder((Path(base) if os.path.isabs(base) else Path.home() / ".config") / "farlane" / "host")


def write(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Raises SecurityError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        partial.replace(path)
    except OSError as error:
        raise SecurityError(f"cannot write {path}: {error.strerror}") from error
