"""What a process's memory counts as, and that the watch finds who takes too much, once."""

from __future__ import annotations

import mmap
import os
import queue
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from farlane.backend.workers import memory
from farlane.backend.workers.memory import MemoryWatch, taken_bytes, unmapped_bytes

MIB = 1 << 20


@pytest.fixture
def watch() -> Iterator[MemoryWatch]:
    made = MemoryWatch()
    yield made
    made.close()


def test_memory_that_is_touched_counts() -> None:
    before = taken_bytes(os.getpid())
    with mmap.mmap(-1, 64 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as mapped:
        assert taken_bytes(os.getpid()) - before < 8 * MIB, "reserved alone"
        for page in range(0, 64 * MIB, mmap.PAGESIZE):
            mapped[page] = 1
        assert taken_bytes(os.getpid()) - before >= 64 * MIB


def test_a_file_in_memory_counts_once() -> None:
    before = taken_bytes(os.getpid()) + unmapped_bytes(os.getpid())
    file = os.memfd_create("test")
    other = os.dup(file)
    try:
        os.write(file, bytes(32 * MIB))
        assert 24 * MIB <= taken_bytes(os.getpid()) + unmapped_bytes(os.getpid()) - before < 56 * MIB  # others change
        with mmap.mmap(file, 32 * MIB) as mapped:
            assert sum(mapped[page] for page in range(0, 32 * MIB, mmap.PAGESIZE)) == 0
            assert (
                24 * MIB <= taken_bytes(os.getpid()) + unmapped_bytes(os.getpid()) - before < 56 * MIB
            )  # others change
    finally:
        os.close(file)
        os.close(other)


def test_a_process_that_has_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert (taken_bytes(process.pid), unmapped_bytes(process.pid)) == (0, 0)


def test_who_takes_too_much_is_found_once(watch: MemoryWatch) -> None:
    over: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
    script = "import sys; a = bytearray(b'x' * (100 << 20)); print(); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        watch.add("small", lambda: [os.getpid()], 1 << 40, lambda taken: over.put(("small", taken)))
        watch.add("removed", lambda: [process.pid], MIB, lambda taken: over.put(("removed", taken)))
        watch.remove("removed")
        watch.add("large", lambda: [process.pid], 80 * MIB, lambda taken: over.put(("large", taken)))
        name, taken = over.get(timeout=10)
        assert name == "large"
        assert taken >= 100 * MIB
        time.sleep(3 * memory.WATCH_SECONDS)
        assert over.empty()
        process.communicate(b"")
