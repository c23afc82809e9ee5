"""The host's log on stderr: one line per event, for people (each begins with "farlane: ") or as a JSON object.

Owns the set-up of the loggers named "farlane.*"; other packages' loggers are left as they are.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import NamedTuple

LEVELS = ("error", "warning", "info", "debug")
FORMATS = ("text", "json")


class Wanted(NamedTuple):
    """What is logged, and how."""

    level: str = "warning"
    format: str = "text"


DEFAULT = Wanted()


class _Json(logging.Formatter):
    """time (UTC), level, logger, process, message; of an exception its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": os.getpid(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure(wanted: Wanted) -> None:
    """Sends the host's log to stderr. Calling it again changes level and format only."""
    root = logging.getLogger("farlane")
    root.setLevel(wanted.level.upper())
    root.propagate = False
    if not root.handlers:
        root.addHandler(logging.StreamHandler(sys.stderr))
    text = logging.Formatter("farlane: %(asctime)s %(levelname)s %(message)s")
    root.handlers[0].setFormatter(_Json() if wanted.format == "json" else text)
