"""Files that others may be reading: written aside, then renamed, so that a reader sees the old bytes or the new ones.

What a name leads to that is no ordinary file (a device, a FIFO) is written to and stays; of a symbolic link, its target is replaced.
Owns nothing of what is in them, and no locking: the last writer wins.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from farlane.hosturl import variables


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where compiled code is kept from run to run: FARLANE_CACHE_DIR, or the user's cache. What lies there is executed."""
    base = environment.get(variables.CACHE) or os.path.join(
        environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "farlane"
    )
    return Path(base)


def replace(path: Path, data: bytes) -> None:
    """Writes a file, and its folder (its user's alone) if there is none. Raises OSError; nothing is left behind then."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    path = Path(os.path.realpath(path))
    temporary = path.with_name(f".new-{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def prune(folder: Path, limit: int) -> None:
    """Deletes the least recently used files of a folder beyond `limit` bytes."""
    entries = []
    for item in os.scandir(folder):
        with contextlib.suppress(OSError):
            status = item.stat()
            entries.append((status.st_mtime, status.st_size, item.path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
