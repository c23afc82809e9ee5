"""The memory of workers, watched by the host: a session whose processes take more than they may is ended.

What counts is a worker's own memory, in RAM and in swap, with files in memory that it holds without mapping them, and
that of the processes that compile for it. Pages of libraries are shared, and do not count. The worker itself is not asked.
Kernels' memory on the simulated device is the worker's: a session may have what it was granted, and a part beside it.

The host looks a few times a second, so that a worker may be some hundred megabytes beyond for a moment. Where
memory is short earlier than that, the system ends workers before the host.

Owns the counting and the thread that counts. Locking: one lock around the watched ones; they are ended without it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

log = logging.getLogger("farlane.workers")

BESIDE_BYTES = 2 << 30  # what a session's processes may take beside its device memory
WATCH_SECONDS = 0.25
_FILES_EVERY = 4  # turns: looking at descriptors takes longer
_COUNTED = ("RssAnon:", "RssShmem:", "VmSwap:")
_END_FIRST = "500"  # of 1000, for the system's choice when memory is short
_BLOCK = 512


@dataclass
class Watched:
    """A session's processes."""

    processes: Callable[[], Sequence[int]]
    limit: int
    over: Callable[[int], None]
    held: int = field(default=0)  # files in memory that are not mapped, when they were looked at


class MemoryWatch:
    """Looks at the memory of sessions' processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[object, Watched] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="farlane-memory", daemon=True)
        self._thread.start()

    def add(self, key: object, processes: Callable[[], Sequence[int]], limit: int, over: Callable[[int], None]) -> None:
        """From now on `over` is called, once, when the processes take more than `limit`; with how much it is."""
        with self._lock:
            self._watched[key] = Watched(processes, limit, over)

    def remove(self, key: object) -> None:
        with self._lock:
            self._watched.pop(key, None)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        turn = 0
        while not self._closed.wait(WATCH_SECONDS):
            turn += 1
            with self._lock:
                watched = list(self._watched.items())
            for key, each in watched:
                processes = each.processes()
                if turn % _FILES_EVERY == 0:
                    each.held = sum(map(unmapped_bytes, processes))
                taken = sum(map(taken_bytes, processes)) + each.held
                if taken > each.limit:
                    self.remove(key)
                    each.over(taken)


def taken_bytes(process: int) -> int:
    """Memory that only this process has; 0: it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith(_COUNTED))


def unmapped_bytes(process: int) -> int:
    """What the process's files in memory hold beyond what it maps of such. 0 where the host may not look."""
    blocks: dict[int, int] = {}
    try:
        for entry in os.scandir(f"/proc/{process}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(entry.path).startswith("/memfd:"):
                    found = os.stat(entry.path)
                    blocks[found.st_ino] = found.st_blocks
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    mapped = sum(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("RssShmem:"))
    return max(0, sum(blocks.values()) * _BLOCK - mapped)


def end_first(process: int) -> None:
    """Where memory is short the system ends this process before the host."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{process}/oom_score_adj").write_text(_END_FIRST)
