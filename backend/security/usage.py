"""What the guests of running hosts use, for `farlane token list`: a file of each host in its folder.

Owns the files. A host that has ended without removing its file is known by its process, which is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from farlane.backend.host.allowances import Used
from farlane.backend.security.folder import Folder, SecurityError, write

_PREFIX = "usage-"


class UsageFile:
    """Of this host."""

    def __init__(self, folder: Folder) -> None:
        self._path = folder.path / f"{_PREFIX}{os.getpid()}.json"
        self._written: Mapping[str, Used] | None = None

    def update(self, used: Mapping[str, Used]) -> None:
        """Writes it, where something has changed. Raises SecurityError."""
        if used != self._written:
            guests = {name: asdict(each) for name, each in used.items()}
            write(self._path, json.dumps({"started": _started(os.getpid()), "guests": guests}).encode())
            self._written = dict(used)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def read(folder: Folder) -> dict[str, Used]:
    """What the guests of all running hosts with this folder use, by their names. Raises SecurityError."""
    found: dict[str, Counter[str]] = {}
    for path in folder.path.glob(f"{_PREFIX}*.json"):
        try:
            content = json.loads(path.read_bytes())
            if content["started"] != _started(int(path.stem.removeprefix(_PREFIX))):
                continue
            for name, used in content["guests"].items():
                found.setdefault(name, Counter()).update(used)
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SecurityError(f"cannot read {path}: {error}") from error
    return {name: Used(**used) for name, used in found.items()}


def _started(process: int) -> str:
    """When a process began, as the system counts; empty: it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
