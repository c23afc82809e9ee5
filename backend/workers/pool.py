"""Workers: started ahead of need, placed on GPUs, reaped.

Owns the processes. A few of each GPU wait with their device open, so that a session starts without waiting for Python, CuPy and a driver. A session takes one,
of the GPU that has the fewest, and the pool starts the next. A worker serves one session and ends; one that does not end by itself is killed.

Locking: one condition around the lists; processes are started and waited for outside of it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from farlane.backend.device.base import Description
from farlane.backend.device.options import DEFAULT, DeviceOptions
from farlane.backend.device.registry import DeviceUnavailable
from farlane.backend.host.greeting import Reason, Refused
from farlane.backend.plane import Page
from farlane.backend.system import log as logs
from farlane.backend.workers import compiling, confinement
from farlane.backend.workers.control import Control, Gone, Kind, pair
from farlane.backend.workers.sharing import NoService, Sharing, environment

START_SECONDS = 120.0
END_SECONDS = 10.0
_NOTICE_SECONDS = 2.0

_ENFORCED = {"partly": "but not signals and sockets, which are left to seccomp", "not": "not at all"}

log = logging.getLogger("farlane.workers")


class Worker:
    """One process, from its start to its end."""

    def __init__(
        self,
        device: str,
        options: DeviceOptions,
        variables: dict[str, str],
        logged: logs.Wanted,
        *,
        confined: bool = False,
        bell: int | None = None,
    ) -> None:
        """`bell`: of the scheduler that shares the device's time; its page goes with it."""
        self._variables = variables
        self._confined = confined
        self._compilers: list[subprocess.Popen[bytes]] = []
        module = "start" if confined else "process"
        ours, theirs = pair()
        end, self._lifeline = os.pipe()  # neither is inherited by other workers
        self.page = None if bell is None else Page()
        shared = () if self.page is None or bell is None else (self.page.descriptor, bell)
        place = ["--place", *map(str, shared)] if shared else []
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-P", "-m", f"farlane.backend.workers.{module}", "--device", device, "--options",
                    options.to_json(), "--control", str(theirs.fileno()), "--lifeline", str(end),
                    "--log-level", logged.level, "--log-format", logged.format, *place,
                ],
                pass_fds=(theirs.fileno(), end, *shared), env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        except BaseException:
            ours.close()
            os.close(self._lifeline)
            raise
        finally:
            theirs.close()
            os.close(end)
        self.control = Control(ours)
        self.description: Description | None = None
        self.files: str | None = None  # how much of its files' confinement the kernel enforces

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_ready(self) -> Description:
        """Raises DeviceUnavailable."""
        self.control.timeout(START_SECONDS)
        try:
            with self.control.receive() as message:
                kind, fields = message.kind, message.fields
        except (Gone, TimeoutError) as error:
            raise DeviceUnavailable(f"a worker process did not start: {self.kill() or error}") from None
        self.control.timeout(None)
        if kind is not Kind.READY:
            raise DeviceUnavailable(fields["text"])
        self.files = fields.get("confined")
        self.description = _described(fields)
        return self.description

    def start_compiler(self) -> int | None:
        """A descriptor, the caller's, that leads to a process which compiles kernels; None where it has as many as it gets.

        Raises:
            OSError: none can be started.
        """
        self._compilers = [each for each in self._compilers if each.poll() is None]
        if not self._confined or len(self._compilers) >= compiling.MOST:
            return None
        process, descriptor = compiling.start(self._variables)
        self._compilers.append(process)
        return descriptor

    def stop(self) -> None:
        """Ends it now. From any thread."""
        self._process.kill()

    def kill(self) -> str:
        """Ends it now; how it ended, if it had done so by itself."""
        try:
            status = self._process.wait(_NOTICE_SECONDS)  # its socket ends a moment before it does
        except subprocess.TimeoutExpired:
            self._process.kill()
            return ""
        if status < 0:
            return f"signal {signal.Signals(-status).name}"
        return f"status {status}"

    def end(self) -> None:
        """Lets it end, and sees to it that it does."""
        with contextlib.suppress(Gone):
            self.control.send(Kind.CLOSE)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            log.warning("worker %d does not end, and is killed", self.pid)
            self._process.kill()
            self._process.wait()
        for compiler in self._compilers:
            compiler.kill()
            compiler.wait()
        self.control.close()
        os.close(self._lifeline)


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
        limit: sessions on one GPU at once.
        confined: they give up what a session does not need (confinement.py).
        bell: of the scheduler that shares the device's time, for sessions that wait for it.
    """

    def __init__(
        self,
        device: str,
        *,
        gpus: Sequence[int] = (),
        warm: int = 1,
        limit: int = 64,
        sharing: Sharing = Sharing.TIME,
        options: DeviceOptions = DEFAULT,
        logged: logs.Wanted = logs.DEFAULT,
        confined: bool = False,
        bell: int | None = None,
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
        self._bell = bell
        self._places = [_Place(gpu) for gpu in gpus] or [_Place(None)]
        self._changed = threading.Condition()
        self._ending: queue.SimpleQueue[tuple[_Place, Worker] | None] = queue.SimpleQueue()
        self._of: dict[Worker, _Place] = {}
        self._closed = False
        self._failure = ""
        self.descriptions: list[Description] = []
        self._threads: list[threading.Thread] = []
        try:
            for place in self._places:
                worker = self._start(place)
                place.warm.append(worker)
                assert worker.description is not None
                self.descriptions.append(worker.description)
            if worker.files in ("partly", "not"):
                log.warning(
                    "this kernel's Landlock confines sessions' files %s (docs/security.md)", _ENFORCED[worker.files]
                )
        except BaseException:
            self._end_warm()
            raise
        for target in (self._keep_warm, self._reap):
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
        worker = Worker(self.device, self._options, variables, self._logged, confined=self.confined, bell=self._bell)
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
            if place.busy >= self._limit:
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

    def description_of(self, worker: Worker) -> Description:
        assert worker.description is not None
        return worker.description

    def release(self, worker: Worker) -> None:
        """The worker's session has ended. Does not wait for the process."""
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
            if len(place.warm) < min(self._warm, self._limit - place.busy):
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
        self._ending.put(None)
        for thread in self._threads:
            thread.join()
        self._end_warm()

    def _end_warm(self) -> None:
        for place in self._places:
            while place.warm:
                place.warm.pop().end()


def _described(value: dict[str, Any]) -> Description:
    major, minor = value["compute_capability"]
    return Description(
        backend=value["backend"],
        name=value["name"],
        uuid=bytes.fromhex(value["uuid"]),
        compute_capability=(major, minor),
        total_memory=value["total_memory"],
        takes_ptx=value["takes_ptx"],
        takes_machine_code=value["takes_machine_code"],
        makes_objects=value["makes_objects"],
        has_host_mappings=value["has_host_mappings"],
        has_conditions=value["has_conditions"],
        has_mappings=value["has_mappings"],
        takes_any_ptx=value["takes_any_ptx"],
        pci_bus_id=value["pci_bus_id"],
        attributes={int(key): number for key, number in value["attributes"].items()},
    )
