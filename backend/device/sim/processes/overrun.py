"""Processes that compute without having the device: they are stopped, and go on in their turn.

Owns when the process of a session is stopped (SIGSTOP), and when it goes on (SIGCONT). A process may use the processor as it likes
while its session has the device, while it gives up granules, and while no other session has the device or waits for it.
What it uses beyond that, and beyond what plane's `Process` lets pass, stops it. The listener then asks for the device in its place,
with its priority. When the device is given, the process goes on, and has the device for TURN_SECONDS, until a session of a higher
priority waits, until its session asks itself, or until it computes no more. So what a process computes takes no more of the
device's time than its turns, whatever it says or does not say.

Threads: one looks at all processes while there are two or more; one for each process that is stopped. Locking: one lock for each process,
around what is known of it and its signals, so that no signal is sent behind `release`. The manager's lock may be taken inside of it, and not the other way.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Protocol

from farlane.backend.device.sim.tasks import SLICE, Interrupted, Task, TaskManager

LOOK_SECONDS = 0.02
TURN_SECONDS = SLICE / 2  # with the 50 ms of a processor that it has used before (plane), as long as a slice
_REST_SECONDS = 2 * LOOK_SECONDS  # a process that has used less than a part of this time has come to rest
_COMPUTES = 0.1


class Process(Protocol):
    """The plane's."""

    @property
    def stopped(self) -> bool: ...
    def look(self, granted: bool) -> int: ...
    def stop_overrun(self) -> bool: ...
    def enter(self) -> None: ...


class Watch:
    """The processes of a device's sessions."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._processes: set[Watched] = set()
        self._thread: threading.Thread | None = None

    def add(self, process: Watched) -> None:
        with self._changed:
            self._processes.add(process)
            if len(self._processes) > 1 and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="farlane-overrun", daemon=True)
                self._thread.start()

    def remove(self, process: Watched) -> None:
        with self._changed:
            self._processes.discard(process)
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: len(self._processes) < 2, LOOK_SECONDS)
                if len(self._processes) < 2:
                    self._thread = None
                    return
                processes = list(self._processes)
            for process in processes:
                process.look()


class Watched:
    """The process of one session, and the turns that it has because it was stopped."""

    def __init__(self, manager: TaskManager, task: Task, process: Process) -> None:
        """`task`: of its session."""
        self.stops = 0
        self._manager = manager
        self._task = task
        self._process = process
        self._turn = manager.new_task()
        self._turn.counts = task.counts
        self._turn.priority = task.priority
        self._turn_ends = threading.Event()
        manager.set_stop(self._turn, self._turn_ends.set)
        self._lock = threading.Lock()
        self._worked = 0  # nanoseconds of the processors
        self._spared = self._released = False
        self._thread: threading.Thread | None = None  # of a turn that it waits for or has

    def prioritize(self, priority: int) -> None:
        self._manager.prioritize(self._turn, priority)

    def look(self) -> None:
        """Stops it where it has computed too much without the device."""
        with self._lock:
            if self._released:
                return
            granted = self._spared or not self._manager.contended((self._task, self._turn))
            self._worked += self._process.look(granted)
            if granted:
                self._process.enter()
                return
            self.stops += self._process.stop_overrun()
            if self._process.stopped and self._thread is None:
                self._thread = threading.Thread(target=self._take_turn, name="farlane-overrun-turn", daemon=True)
                self._thread.start()

    def asks(self) -> None:
        """Its session asks for the device: a turn that it has because it was stopped is over."""
        self._turn_ends.set()

    def go_on(self) -> None:
        """The device is its session's, or its own for a turn."""
        with self._lock:
            if not self._released:
                self._process.enter()

    @contextlib.contextmanager
    def spare(self) -> Iterator[None]:
        """It does what the listener asks for meanwhile, and is not stopped."""
        with self._lock:
            self._spared = True
            self._process.enter()
        try:
            yield
        finally:
            with self._lock:
                self._spared = False

    def release(self) -> None:
        """Its session ends: it goes on, so that it can end, and gets no signal from now on. Idempotent."""
        with self._lock:
            if not self._released:
                self._released = True
                self._process.enter()
            thread = self._thread
        self._turn_ends.set()
        self._manager.interrupt(self._turn)
        if thread is not None:
            thread.join()

    def _take_turn(self) -> None:
        self._turn_ends.clear()
        try:
            self._manager.enter(self._turn)
        except Interrupted:
            return  # it is released
        try:
            before = self._worked
            self.go_on()
            if not self._turn_ends.wait(_REST_SECONDS) and self._worked - before > _COMPUTES * _REST_SECONDS * 1e9:
                self._turn_ends.wait(TURN_SECONDS - _REST_SECONDS)
        finally:
            self._manager.rest(self._turn)
            self._manager.leave(self._turn)
            with self._lock:
                self._thread = None
