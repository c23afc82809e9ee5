"""Files that others may be reading: written aside, then renamed, so that a reader sees the old bytes or the new ones.

Owns nothing of what is in them, and no locking: the last writer wins.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Writes a file, and its folder (its user's alone) if there is none. Raises OSError; nothing is left behind then."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
