"""The CPU threads that run blocks, shared by all sessions of a device.

Owns the threads and which of them take part in a launch. The thread that launches always takes part itself, so a launch
goes on even when every helper is busy with other sessions; helpers join when they are free and only until the launcher
has run out of blocks. Blocks themselves are dealt out by the compiled kernel, from a counter that all threads of a launch
share, in increasing order, so that a block may wait for one with a lower number.

A helper brings its thread only: the arenas that it works in, shared and local memory among them, are the session's, so that no kernel reads what another session's has left there.

What a helper does while it is no launch's, and how it is woken up, is compiled code (backend/jit/compile/routines/helpers.py). Which one helps whom is decided here, under one lock.

Knows, too, how much this machine's caches hold: what a launch writes beyond that is not found there afterwards.

Threads are daemons: a kernel that never ends does not keep the host from exiting. Where the system lets no more of them start,
those that are there do the work.
"""

from __future__ import annotations

import functools
import logging
import threading
from pathlib import Path

from farlane.backend.jit import CompiledKernel, Launch, Worker
from farlane.backend.jit.compile.routines import helpers

USUAL_BYTES = 32 << 20  # where the system does not say
_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 10, "M": 20, "G": 30}

log = logging.getLogger("farlane.sim")


class _Job:
    """One launch's invitation to helpers."""

    def __init__(self, kernel: CompiledKernel, launch: Launch, workers: list[Worker], wanted: int) -> None:
        self.kernel, self.launch, self.workers, self.wanted = kernel, launch, workers, wanted
        self.run = kernel.address  # other code may take its place
        self.first: list[helpers.Helper] = []  # woken up, and waited for, by the thread that launches
        self.late: list[helpers.Helper] = []  # that were busy when it began

    def prepare(self, helper: helpers.Helper) -> None:
        number = 1 + len(self.first) + len(self.late)
        if number == len(self.workers):
            self.workers.append(Worker())
        worker = self.workers[number]
        worker.reserve(self.kernel, self.launch)
        helper.prepare(self.run, self.launch, worker)


class Pool:
    """Helper threads, `threads - 1` of them: the thread that launches is the other one."""

    def __init__(self, threads: int, any_order: bool = False) -> None:
        self.threads = threads
        self.any_order = any_order  # floating-point atomics may come in any order, and so on several threads
        self._lock = threading.Lock()
        self._all: set[helpers.Helper] = set()
        self._free: list[helpers.Helper] = []
        self._waiting: list[_Job] = []  # launches with fewer helpers than they want, the oldest first
        self._short = False  # of helpers, and said so

    def run(self, kernel: CompiledKernel, launch: Launch, workers: list[Worker], wanted: int) -> list[int]:
        """Runs a launch on this thread with the first of `workers`, and on up to `wanted` others, until all are through. Returns each one's STATUS_*.

        Args:
            workers: the session's, one or more; those that others need are added.
        """
        worker = workers[0]
        worker.reserve(kernel, launch)
        wanted = min(wanted, self.threads - 1)
        if wanted <= 0:
            return [kernel.run(launch, worker)]
        job = _Job(kernel, launch, workers, wanted)
        try:
            with self._lock:
                self._start()
                while self._free and len(job.first) < wanted:
                    job.prepare(self._free[-1])
                    job.first.append(self._free.pop())
                if len(job.first) < wanted:
                    self._waiting.append(job)
            own = helpers.lead(job.run, launch, worker, job.first)
        finally:
            with self._lock:
                if job in self._waiting:
                    self._waiting.remove(job)
            if job.late:
                helpers.wait(job.late)
            statuses = [helper.status for helper in (*job.first, *job.late)]
            with self._lock:
                for helper in (*job.first, *job.late):
                    self._give_back(helper)
        return [own, *statuses]

    def close(self) -> None:
        """Ends the helpers, each when its launch is over."""
        with self._lock:
            for helper in self._free:
                helper.dismiss()
            self._free.clear()
            self._all.clear()

    def _give_back(self, helper: helpers.Helper) -> None:
        """A launch has ended: its helper joins one that waits for some, or is free."""
        if helper not in self._all:
            helper.dismiss()
            return
        if self._waiting:
            job = self._waiting[0]
            try:
                job.prepare(helper)
            except OSError:  # no memory for what it would run: without it, then
                log.exception("a helper stays away from a launch")
                del self._waiting[0]
            else:
                job.late.append(helper)
                helpers.join(helper)
                if len(job.first) + len(job.late) == job.wanted:
                    del self._waiting[0]
                return
        self._free.append(helper)

    def _start(self) -> None:
        if len(self._all) == self.threads - 1:
            return
        helpers.load()
        for number in range(len(self._all) + 1, self.threads):
            helper = helpers.Helper()
            thread = threading.Thread(target=helper.serve, name=f"farlane-sim-{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the system's limit of threads or memory: fewer do the work
                if not self._short:
                    log.warning("launches run on %d of %d threads: %s", number, self.threads, error)
                self._short = True
                return
            self._all.add(helper)
            self._free.append(helper)


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
