"""How much this machine's caches hold: what a launch writes beyond that is not found there afterwards."""

from __future__ import annotations

import functools
from pathlib import Path

USUAL_BYTES = 32 << 20  # where the system does not say
_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 10, "M": 20, "G": 30}


@functools.cache
def last_cache_bytes(folder: Path = _FOLDER) -> int:
    """The largest cache of a processor."""
    found = [_size(path) for path in folder.glob("index*/size")]
    return max(found, default=0) or USUAL_BYTES


def least_bytes(threads: int) -> int:
    """What each of so many threads has to write for them to write as much as the last cache holds. For Launch.streamed."""
    return min(-(-last_cache_bytes() // max(threads, 1)), (1 << 32) - 1)


def _size(path: Path) -> int:
    try:
        text = path.read_text().strip()
    except OSError:
        return 0
    number, unit = (text[:-1], text[-1:]) if text[-1:] in _UNITS else (text, "")
    return int(number) << _UNITS.get(unit, 0) if number.isdecimal() else 0
