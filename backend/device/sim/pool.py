"""The CPU threads that run blocks, shared by all sessions of a device.

Owns the threads and which of them take part in a launch. The thread that launches always takes part itself, so a launch
goes on even when every helper is busy with other sessions; helpers join when they are free and only until the launcher
has run out of blocks. Blocks themselves are dealt out by the compiled kernel, from a counter that all threads of a launch
share, in increasing order, so that a block may wait for one with a lower number.

Threads are daemons: a kernel that never ends does not keep the host from exiting. Where the system lets no more of them start,
those that are there do the work.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

from farlane.backend.jit import Worker

THREADS_VARIABLE = "FARLANE_SIM_THREADS"
ORDER_VARIABLE = "FARLANE_SIM_ORDER"

log = logging.getLogger("farlane.sim")

#: What a thread does for a launch, with the worker that is its own.
Share = Callable[[Worker], None]


def thread_count() -> int:
    """How many CPU threads a device uses: FARLANE_SIM_THREADS, else as many as this process may run on.

    Raises:
        ValueError: the variable is set to something else than a positive number.
    """
    text = os.environ.get(THREADS_VARIABLE)
    if text is None:
        return len(os.sched_getaffinity(0))
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise ValueError(f"{THREADS_VARIABLE} is {text!r}; it must be a number from 1 to 1024")
    return int(text)


def any_order() -> bool:
    """Whether floating-point atomics may come in any order, and so on several threads: FARLANE_SIM_ORDER=fast.

    Raises:
        ValueError: the variable is set to something else than `fast` or `same`, the default.
    """
    text = os.environ.get(ORDER_VARIABLE, "same")
    if text not in ("same", "fast"):
        raise ValueError(f"{ORDER_VARIABLE} is {text!r}; it must be same or fast")
    return text == "fast"


class _Job:
    """One launch's invitation to helpers."""

    def __init__(self, share: Share) -> None:
        self.share = share
        self.lock = threading.Lock()
        self.open = True
        self.busy = 0
        self.idle: threading.Lock | None = (
            None  # held until the last helper has ended, once the launcher waits for that
        )
        self.failure: BaseException | None = None

    def take_part(self, worker: Worker) -> None:
        with self.lock:
            if not self.open:
                return
            self.busy += 1
        try:
            self.share(worker)
        except BaseException as error:
            self.failure = error  # raised in the thread that launched
        finally:
            with self.lock:
                self.busy -= 1
                if not self.busy and self.idle is not None:
                    self.idle.release()

    def finish(self) -> None:
        """Turns away helpers that have not begun and waits for those that have."""
        with self.lock:
            self.open = False
            if self.busy:
                self.idle = threading.Lock()
                self.idle.acquire()
        if self.idle is not None:
            self.idle.acquire()
        if self.failure is not None:
            raise self.failure


class Pool:
    """Helper threads, `threads - 1` of them: the thread that launches is the other one."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.any_order = any_order()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._helpers: list[threading.Thread] = []
        self._starting = threading.Lock()
        self._short = False  # of helpers, and said so

    def run(self, share: Share, worker: Worker, helpers: int) -> None:
        """Runs share on this thread with `worker`, and on up to `helpers` others, until all of them have returned."""
        helpers = min(helpers, self.threads - 1)
        if helpers <= 0:
            share(worker)
            return
        self._start()
        job = _Job(share)
        for _ in range(helpers):
            self._jobs.put(job)
        try:
            share(worker)
        finally:
            job.finish()

    def close(self) -> None:
        """Ends the helpers, each when its launch is over."""
        with self._starting:
            for _ in self._helpers:
                self._jobs.put(None)
            self._helpers.clear()

    def _start(self) -> None:
        if len(self._helpers) == self.threads - 1:
            return
        with self._starting:
            for number in range(len(self._helpers) + 1, self.threads):
                helper = threading.Thread(target=self._help, name=f"farlane-sim-{number}", daemon=True)
                try:
                    helper.start()
                except RuntimeError as error:  # the system's limit of threads or memory: fewer do the work
                    if not self._short:
                        log.warning("launches run on %d of %d threads: %s", number, self.threads, error)
                    self._short = True
                    return
                self._helpers.append(helper)

    def _help(self) -> None:
        worker = Worker()
        while (job := self._jobs.get()) is not None:
            job.take_part(worker)
