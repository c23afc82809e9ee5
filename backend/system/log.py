"""The host's log: one line per event on stderr, each beginning with "farlane: ".

Owns the set-up of the loggers named "farlane.*"; other packages' loggers are left as they are.
"""

from __future__ import annotations

import logging
import sys

LEVELS = ("error", "warning", "info", "debug")


def configure(level: str) -> None:
    """Sends the host's log to stderr. Calling it again changes the level only."""
    root = logging.getLogger("farlane")
    root.setLevel(level.upper())
    root.propagate = False
    if not root.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("farlane: %(asctime)s %(levelname)s %(message)s"))
        root.addHandler(handler)
