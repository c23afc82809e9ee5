"""What a device has counted for a session, as a file: `farlane serve --session-reports`.

Owns the files' names and their form. Each is there whole or not at all. A session's process writes none, since it may be
confined: it sends its report to the listening process (`send_by`), which believes it no more than anything else that such a
process says (`read`).
"""

from __future__ import annotations

import itertools
import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from farlane.backend.system import files

MOST_BYTES = 64 << 10  # of a report
_MOST = (1 << 64) - 1

_numbers = itertools.count()
_send: Callable[[bytes], None] | None = None

log = logging.getLogger("farlane.reports")


def send_by(send: Callable[[bytes], None]) -> None:
    """From now on this process writes no report: `send` gets each of them."""
    global _send
    _send = send


def write(sections: Mapping[str, Mapping[str, int]], folder: str) -> None:
    """A file of this session's, where there is a folder for it."""
    if not folder or not sections:
        return
    content = json.dumps(sections).encode()
    if _send is not None:
        _send(content)
        return
    file = Path(folder, f"{os.getpid()}-{next(_numbers)}.json")
    try:
        files.replace(file, content)
    except OSError as error:
        log.error("a session's report cannot be written: %s", error)


def read(content: bytes) -> dict[str, dict[str, int]]:
    """A report that a session's process has sent. Raises ValueError: it is none."""
    if len(content) > MOST_BYTES:
        raise ValueError(f"a report of {len(content)} bytes")
    try:
        sections = json.loads(content)
    except RecursionError:
        raise ValueError("a report of too many levels") from None
    if not isinstance(sections, dict):
        raise ValueError("a report without sections")
    for counts in sections.values():
        if not isinstance(counts, dict) or not all(
            type(each) is int and 0 <= each <= _MOST for each in counts.values()
        ):
            raise ValueError("a report with other values than counts")
    return sections
