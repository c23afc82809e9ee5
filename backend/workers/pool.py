"""Workers: started ahead of need, placed on GPUs, reaped.

Owns the processes. A few of each GPU wait with their device open, so that a session starts without waiting for Python, CuPy and a driver. A session takes one,
of the GPU that has the fewest, and the pool starts the next. A worker serves one session and ends; one that does not end by itself is killed.

Locking: one condition around the lists; processes are started and waited for outside of it.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from farlane.backend.device.base import Description
from farlane.backend.device.options import DEFAULT, DeviceOptions
from farlane.backend.device.registry import DeviceUnavailable
from farlane.backend.host.greeting import Reason, Refused
from farlane.backend.system import log as logs
from farlane.backend.workers import code, confinement, memory
from farlane.backend.workers.sharing import NoService, Sharing, environment
from farlane.backend.workers.users import NoUser, Users
from farlane.backend.workers.worker import Worker

if TYPE_CHECKING:
    from farlane.backend.device.sim.processes.listener import SharedDevice

_REAPERS = 4  # a process that does not end, or cannot while the machine is busy, keeps one of them for seconds
_ENFORCED = {"partly": "but not signals and sockets, which are left to seccomp", "not": "not at all"}

log = logging.getLogger("farlane.workers")


@dataclass
class _Place:
    """A GPU, or the one device where there is none to choose."""

    gpu: int | None
    warm: list[Worker] = field(default_factory=list)
    starting: int = 0  # for sessions that wait
    busy: int = 0  # sessions, those that are ending too


class WorkerPool:
    """The workers of one device.

    Args:
        options: what each worker opens the device with.
        gpus: the GPUs to place sessions on; empty for a device that is no GPU.
        warm: workers of each GPU that wait for a session.
        limit: sessions on one GPU at once; None: as many as come.
        confined: they give up what a session does not need (confinement.py).
        beside: memory that each may take beside its session's device memory (memory.py); None: they are not watched.
        users: whom they run as; None: the host's user.
        bell: of the scheduler that shares the device's time, for sessions that wait for it.
        switching: the device whose memory the sessions share.
    """

    def __init__(
        self,
        device: str,
        *,
        gpus: Sequence[int] = (),
        warm: int = 1,
        limit: int | None = None,
        sharing: Sharing = Sharing.TIME,
        options: DeviceOptions = DEFAULT,
        logged: logs.Wanted = logs.DEFAULT,
        confined: bool = False,
        beside: int | None = None,
        users: Users | None = None,
        bell: int | None = None,
        switching: SharedDevice | None = None,
    ) -> None:
        """Starts the first worker of each GPU, and waits for them.

        Raises:
            DeviceUnavailable: the device cannot be opened.
        """
        self.device = device
        self.sharing = sharing
        self._options = options
        self._warm = warm
        self._limit = limit
        self._logged = logged
        self.confined = confined
        self._beside = beside
        self.users = users
        self._memory = None if beside is None else memory.MemoryWatch()
        self._bell = bell
        self.switching = switching
        self._places = [_Place(gpu) for gpu in gpus] or [_Place(None)]
        self._changed = threading.Condition()
        self._ending: queue.SimpleQueue[tuple[_Place, Worker] | None] = queue.SimpleQueue()
        self._of: dict[Worker, _Place] = {}
        self._closed = False
        self._failure = ""
        self.descriptions: list[Description] = []
        self._threads: list[threading.Thread] = []
        if confined:
            code.forget_old()
        try:
            for place in self._places:
                worker = self._start(place)
                place.warm.append(worker)
                assert worker.description is not None
                self.descriptions.append(worker.description)
            if worker.files in ("partly", "not"):
                log.warning(
                    "this kernel's Landlock confines sessions' files %s (docs/explanation/security.md)",
                    _ENFORCED[worker.files],
                )
        except BaseException:
            if self._memory is not None:
                self._memory.close()
            self._end_warm()
            raise
        for target in (self._keep_warm, *[self._reap] * _REAPERS):
            thread = threading.Thread(target=target, name="farlane-workers", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _start(self, place: _Place) -> Worker:
        try:
            variables = environment(self.sharing, place.gpu)
        except NoService as error:
            raise DeviceUnavailable(str(error)) from None
        if self.confined:
            variables = confinement.variables(variables)
        member = None
        try:
            member = None if self.switching is None else self.switching.new_member()
            worker = Worker(
                self.device,
                self._options,
                variables,
                self._logged,
                confined=self.confined,
                users=self.users,
                bell=self._bell,
                member=member,
            )
        except (NoUser, OSError) as error:
            if member is not None:
                member.close()
            raise DeviceUnavailable(f"no worker process can be started: {error}") from None
        try:
            worker.wait_ready()
        except BaseException:
            worker.stop()
            worker.end()
            raise
        return worker

    # Sessions ---------------------------------------------------------------------------------------------------
    def take(self) -> Worker:
        """A worker for a new session.

        Raises:
            Refused: every GPU has its number of sessions, or no worker can be started.
        """
        with self._changed:
            place = min(self._places, key=lambda each: each.busy)
            if self._limit is not None and place.busy >= self._limit:
                raise Refused(
                    Reason.BUSY,
                    f"every GPU serves {self._limit} sessions already: try again later, or start the host with a higher "
                    "--workers-per-gpu",
                )
            place.busy += 1
            dead = [each for each in place.warm if not each.alive]
            place.warm = [each for each in place.warm if each not in dead]
            worker = place.warm.pop() if place.warm else None
            place.starting += worker is None
            self._changed.notify_all()
        for each in dead:
            log.error("worker %d has ended before it had a session: %s", each.pid, each.kill())
            each.end()
        if worker is None:
            try:
                worker = self._start(place)
            except DeviceUnavailable as error:
                with self._changed:
                    place.busy -= 1
                raise Refused(Reason.DEVICE, str(error)) from error
            finally:
                with self._changed:
                    place.starting -= 1
                    self._changed.notify_all()
        with self._changed:
            self._of[worker] = place
        return worker

    @property
    def reports(self) -> str:
        """The folder for what sessions have counted; empty: there is none."""
        return self._options.reports

    def description_of(self, worker: Worker) -> Description:
        assert worker.description is not None
        return worker.description

    def watch(self, worker: Worker, granted: int, over: Callable[[int, int], None]) -> None:
        """Its session has so much device memory. `over`: it takes more than it may; how much of each."""
        if self._memory is not None and self._beside is not None:
            limit = (
                granted + (self._options.shared or 0) + self._beside
            )  # its pages on the device have a copy beside it
            self._memory.add(worker, worker.processes, limit, lambda taken: over(taken, limit))

    def release(self, worker: Worker) -> None:
        """The worker's session has ended. Does not wait for the process."""
        if self._memory is not None:
            self._memory.remove(worker)
        with self._changed:
            place = self._of.pop(worker)
        self._ending.put((place, worker))

    @property
    def busy(self) -> int:
        """Sessions whose processes are there."""
        with self._changed:
            return sum(place.busy for place in self._places)

    @property
    def waiting(self) -> int:
        """Workers that wait for a session."""
        with self._changed:
            return sum(len(place.warm) for place in self._places)

    # Threads ----------------------------------------------------------------------------------------------------
    def _keep_warm(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._wanting() is not None)
                if self._closed:
                    return
                place = self._wanting()
                assert place is not None
            try:
                worker = self._start(place)
            except DeviceUnavailable as error:
                log.error("no worker can be started ahead: %s", error)
                with self._changed:
                    self._changed.wait(5.0)
                continue
            with self._changed:
                if not self._closed:
                    place.warm.append(worker)
                    continue
            worker.stop()
            worker.end()

    def _wanting(self) -> _Place | None:
        if any(place.starting for place in self._places):
            return None  # a session waits for one: it comes first
        for place in self._places:
            if len(place.warm) < (self._warm if self._limit is None else min(self._warm, self._limit - place.busy)):
                return place
        return None

    def _reap(self) -> None:
        while (item := self._ending.get()) is not None:
            place, worker = item
            worker.end()
            with self._changed:
                place.busy -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Ends all workers and waits for them. The sessions have ended before."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for _ in range(_REAPERS):
            self._ending.put(None)
        for thread in self._threads:
            thread.join()
        if self._memory is not None:
            self._memory.close()
        self._end_warm()

    def _end_warm(self) -> None:
        for place in self._places:
            while place.warm:
                place.warm.pop().end()
