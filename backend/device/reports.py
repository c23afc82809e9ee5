"""What a device has counted for a session, as a file: `farlane serve --session-reports`.

Owns the files' names. Each is there whole or not at all.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from farlane.backend.system import files

_numbers = itertools.count()

log = logging.getLogger("farlane.reports")


def write(sections: Mapping[str, Mapping[str, int]], folder: str) -> None:
    """A file of this session's, where there is a folder for it."""
    if not folder or not sections:
        return
    file = Path(folder, f"{os.getpid()}-{next(_numbers)}.json")
    try:
        files.replace(file, json.dumps(sections).encode())
    except OSError as error:
        log.error("a session's report cannot be written: %s", error)
