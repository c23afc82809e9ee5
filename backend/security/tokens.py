"""The guests that a host knows: each has a token or a client certificate, and limits.

Owns the file tokens.json. It holds no token, only the SHA-256 of each: a token has 256 random bits, so that a slow hash
would add nothing. Of a client certificate it holds the same.

Locking: commands change the file under the folder's lock and replace it whole; a host only reads it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from farlane.backend.security.folder import Folder, SecurityError, write

PREFIX = "farlane-"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
FILE_BYTES = 16 << 20
DIGEST_LENGTH = 64  # of a SHA-256 in hexadecimal
_VERSION = 1


@dataclass(frozen=True)
class Entry:
    """One guest. Times are seconds since 1970."""

    name: str
    digest: str  # hexadecimal: of the token, or of the certificate
    kind: str  # "token" or "certificate"
    created: float
    expires: float | None = None
    memory: int | None = None  # bytes of device memory of each session
    sessions: int | None = None  # at once
    priority: int = 0
    devices: tuple[str, ...] = ()  # none: all
    revoked: float | None = None
    weight: int = 1  # of each session, beside others of its priority
    share: float | None = None  # of the device's time, of all its sessions together, at most
    # Bytes of all its sessions together: device memory, payloads that are kept, images.
    total_memory: int | None = None
    payloads: int | None = None
    images: int | None = None


def digest_of(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()


def create(folder: Folder, entry: Entry) -> None:
    """Adds a guest. Raises SecurityError: there is one of that name."""
    if not NAME.fullmatch(entry.name):
        raise SecurityError(f"{entry.name!r} is no name of a token: letters, digits and . _ @ -, at most 64")
    with folder.locked():
        entries = read(folder)
        if any(each.name == entry.name and each.revoked is None for each in entries):
            raise SecurityError(f"there is a token named {entry.name} already: revoke it first, or take another name")
        _write(folder, [*(each for each in entries if each.name != entry.name), entry])


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def revoke(folder: Folder, name: str) -> None:
    """Raises SecurityError: there is none of that name."""
    with folder.locked():
        entries = read(folder)
        if not any(each.name == name and each.revoked is None for each in entries):
            raise SecurityError(f"there is no token named {name}: `farlane token list` shows them")
        now = time.time()
        _write(folder, [replace(each, revoked=now) if each.name == name else each for each in entries])


def initialize(folder: Folder) -> None:
    """Raises SecurityError."""
    _write(folder, [])


def read(folder: Folder) -> list[Entry]:
    """Raises SecurityError."""
    try:
        with folder.tokens.open("rb") as file:
            data = file.read(FILE_BYTES + 1)
        if len(data) > FILE_BYTES:
            raise ValueError(f"it is larger than {FILE_BYTES} bytes")
        content = json.loads(data)
        if content["version"] != _VERSION:
            raise ValueError(f"it has version {content['version']}, not {_VERSION}")
        return [Entry(**{**each, "devices": tuple(each["devices"])}) for each in content["guests"]]
    except FileNotFoundError:
        raise SecurityError(f"there are no tokens in {folder.path}: `farlane host init` makes the first") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SecurityError(f"cannot read {folder.tokens}: {error}") from error


def find(entries: Sequence[Entry], digest: str) -> Entry | None:
    """The guest with this digest. Takes as long for one that is none."""
    found = None
    for entry in entries:
        if hmac.compare_digest(entry.digest, digest):
            found = entry
    return found


def _write(folder: Folder, entries: Sequence[Entry]) -> None:
    content = {"version": _VERSION, "guests": [asdict(each) for each in entries]}
    write(folder.tokens, json.dumps(content, indent=1).encode())
