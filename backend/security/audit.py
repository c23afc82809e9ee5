"""The audit log: who came to the host from another machine, from where, and what became of it. JSON lines.

Owns the file's format (docs/explanation/security.md). A line is written whole, by one call; no token is ever in it.

Locking: one lock around the file.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import threading
from pathlib import Path
from typing import Any

log = logging.getLogger("farlane.security")


class Audit:
    """An open log. Raises OSError: the file cannot be made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, event: str, who: str | None, peer: str, **fields: Any) -> None:
        """One line. Never raises: the host's log says it where the file cannot be written."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, "who": who, "from": peer, **fields}) + "\n"
        try:
            with self._lock:
                os.write(self._file, line.encode())
        except OSError as error:
            log.error("the audit log %s cannot be written: %s", self._path, error)

    def close(self) -> None:
        with self._lock:
            os.close(self._file)
