"""A worker's session as the host sees it. The host admits, attends and ends it; its messages never come by.

Owns the host's side of what is said about a session (control.py), and what the host keeps of it: the images that the
guest knows of or uploaded, what its device uses, how it ended. The guest's end interrupts the session's work, and ends
the process where that does not help: nothing gentler stops a GPU's kernel.

Locking: one condition around what the worker has said. A thread of the session's own receives; any other may ask.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from farlane.backend.device import reports
from farlane.backend.device.base import CudaError, MemoryMap, Window
from farlane.backend.errors import ProtocolError
from farlane.backend.host.accounts import How
from farlane.backend.host.greeting import Reason, Refused
from farlane.backend.host.manifests import Objects
from farlane.backend.host.remote import Ended
from farlane.backend.host.spans import Sink
from farlane.backend.objects.images import OverQuota, SessionImages
from farlane.backend.plane import Process
from farlane.backend.system.pipe import Ended as PipeEnded
from farlane.backend.system.pipe import Pipe
from farlane.backend.workers import code, control
from farlane.backend.workers.control import Gone, Kind, Message
from farlane.backend.workers.pool import WorkerPool
from farlane.backend.workers.worker import Worker

if TYPE_CHECKING:
    from farlane.backend.plane import Kind as Way
    from farlane.backend.plane import Page

log = logging.getLogger("farlane.workers")

_EXHAUSTED, _INTERNAL = 8, 13  # gRPC's
_USAGE_SECONDS = 0.25  # for a worker to say what it uses; else what it said last holds
_FRESH_SECONDS = 0.05
_MOST_COUNTS = 64
_MOST = (1 << 64) - 1  # what admin.proto has room for


class WorkerSession:
    """A session in a process of its own (`host.RemoteSession`)."""

    def __init__(
        self,
        name: str,
        worker: Worker,
        images: SessionImages,
        begin: Callable[[Worker, code.GuestCode | None], None],
        pool: WorkerPool,
        kept: code.GuestCode | None = None,
        spans: Sink | None = None,
    ) -> None:
        """Opens the session in its worker.

        Args:
            begin: tells the worker to.
            pool: takes the worker when the session has ended.
            kept: compiled code that it may find, and add to.
            spans: takes when it did what.

        Raises:
            Refused: the device has no room for it, or the worker has ended; and what `begin` raises.
        """
        self.name = name
        self.images = images
        self.worker = worker
        self._control = worker.control
        self._pool = pool
        self._code = kept
        self._spans = spans
        self._changed = threading.Condition()
        self._closed = False
        self._stopped = False
        self._ended: Ended | None = None
        self._wake: Callable[[], None] | None = None
        self._objects: Objects | None = None
        self._memory: int | None = 0
        self._counts: dict[str, int] = {}
        self._map: MemoryMap | None = None
        self._reported = False
        self._answers, self._answered = 0, float("-inf")
        try:
            begin(worker, kept)
            with self._control.receive() as message:
                kind, fields = message.kind, message.fields
        except Gone as error:
            raise Refused(Reason.DEVICE, f"the session's process ended at its start: {self._fate(error)}") from None
        if kind is not Kind.OPENED:
            text = fields["text"] if kind is Kind.REFUSED else f"it answered with {kind.name}"
            raise Refused(Reason.DEVICE, text)
        self.window = Window(fields["base"], fields["size"])
        self.quota: int = fields["quota"]
        if worker.member is not None:
            try:
                worker.member.begin(Process(worker.pid), self._breaks_rules)
            except OSError as error:
                raise Refused(Reason.DEVICE, f"the session's process ended at its start: {error}") from None
        worker.listener = threading.Thread(target=self._listen, name=f"farlane-worker-{name}", daemon=True)
        worker.listener.start()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def ended(self) -> Ended | None:
        return self._ended

    @property
    def pid(self) -> int:
        return self.worker.pid

    @property
    def page(self) -> Page | None:
        """Its part of the scheduler that shares the device's time."""
        return self.worker.page

    @property
    def used_bytes(self) -> int | None:
        """Device memory that it has allocated, where that is known."""
        self._ask()
        return 0 if self._closed else self._memory

    def counts(self) -> dict[str, int]:
        """What it has done and sent so far."""
        self._ask()
        member = self.worker.member
        return self._counts if member is None else self._counts | member.counts.brief()

    def prioritize(self, priority: int) -> None:
        """See `host.RemoteSession`."""
        if self.worker.member is not None:
            self.worker.member.prioritize(priority)

    def memory_map(self) -> MemoryMap | None:
        """See `host.RemoteSession`."""
        with self._changed:
            self._map = None
            if not self._closed and not self._ended:
                with contextlib.suppress(Gone):
                    self._control.send(Kind.MAP)
                    self._changed.wait_for(lambda: self._map is not None or self._ended, _USAGE_SECONDS)
            return self._map

    def _ask(self) -> None:
        with self._changed:
            if self._closed or self._ended or time.monotonic() - self._answered < _FRESH_SECONDS:
                return
            before = self._answers
            with contextlib.suppress(Gone):
                self._control.send(Kind.USAGE)
                self._changed.wait_for(lambda: self._answers != before or self._ended, _USAGE_SECONDS)

    def attend(self, wake: Callable[[], None], objects: Objects | None) -> None:
        """See `host.RemoteSession`."""
        with self._changed:
            self._wake, self._objects = wake, objects
            ended = self._ended
        if ended is not None:
            wake()

    def wait(self, seconds: float) -> None:
        """Until it has ended by itself, at most for so long."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended, seconds)

    def watch(self, *, copies: bool) -> None:
        """From now on its processes may take so much memory. `copies`: of its device memory one copy beside it."""
        self._pool.watch(self.worker, self.quota * (2 if copies else 1), self.takes_too_much)

    @contextlib.contextmanager
    def give(self, copies: bool) -> Iterator[Pipe]:
        """See `host.RemoteSession`."""
        ours, theirs = socket.socketpair()
        with theirs, Pipe(ours.detach()) as pipe:
            try:
                self._control.send(Kind.GIVE, descriptor=theirs.fileno())
            except Gone as error:
                raise PipeEnded(str(error)) from None
            theirs.close()
            if copies:
                self.watch(copies=True)
            yield pipe
        if copies and not self._closed:
            self.watch(copies=False)

    def hand(self, connection: int, kind: Way) -> None:
        """The guest's connection goes to the worker. The descriptor stays the caller's."""
        with contextlib.suppress(Gone):  # `_listen` finds that, too
            self._control.send(Kind.CONNECTION, descriptor=connection, way=kind)

    def _listen(self) -> None:
        while True:
            try:
                with self._control.receive() as message:
                    self._take(message)
            except Gone as error:
                self._lost(error)
                return
            except (KeyError, TypeError, ValueError, RecursionError) as error:
                log.error("session %s: its process says what is no message, and is ended: %r", self.name, error)
                self.worker.stop()

    def _take(self, message: Message) -> None:
        fields = message.fields
        if message.kind is Kind.USED:
            with self._changed:
                self._memory, self._counts = fields["memory"], _counts(fields["counts"])
                self._answers, self._answered = self._answers + 1, time.monotonic()
                self._changed.notify_all()
        elif message.kind is Kind.IMAGE:
            digest = fields["digest"]
            self._control.send(Kind.IMAGE, digest=digest, refused=self._keep(bytes.fromhex(digest), message.bulk()))
        elif message.kind is Kind.OBJECT:
            data = message.bulk()
            with self._changed:
                if self._objects is not None and not self._closed:
                    self._objects.part(bytes.fromhex(fields["identity"]), data, bool(fields["last"]))
        elif message.kind is Kind.COMPILER:
            self._start_compiler()
        elif message.kind is Kind.CODE:
            found = None if self._code is None else self._code.find(fields["name"])
            self._control.send(Kind.CODE, name=fields["name"], found=found is not None, bulk=found)
        elif message.kind is Kind.CLAIM:
            granted = self._code is None or self._code.claim(fields["name"])
            self._control.send(Kind.CLAIM, name=fields["name"], granted=granted)
        elif message.kind is Kind.KEEP and self._code is not None:
            self._code.keep(fields["name"], message.bulk())
        elif message.kind is Kind.SPANS and self._spans is not None:
            spans, self._spans = self._spans, None  # once
            spans(self.name, message.bulk())
        elif message.kind is Kind.REPORT and not self._reported:
            self._reported = True
            reports.write(reports.read(message.bulk(reports.MOST_BYTES)), self._pool.reports)
        elif message.kind is Kind.ENDED:
            self._counts = _counts(fields["counts"])
            how = How(fields["how"])
            self._end(Ended(int(fields["status"]), str(fields["details"]), str(fields["why"]), how))
        elif message.kind is Kind.MAPPED:
            memory = control.read_map(message.bulk(control.MAP_BYTES))
            with self._changed:
                self._map = memory
                self._changed.notify_all()
        else:
            raise ValueError(f"a message {message.kind.name}")

    def _end(self, ended: Ended) -> bool:
        """Whether it had not ended before."""
        with self._changed:
            first = self._ended is None
            if first:
                self._ended = ended
            self._changed.notify_all()
            wake = self._wake
        if wake is not None:
            wake()
        return first

    def _keep(self, digest: bytes, image: bytes) -> str:
        """An image that the guest has uploaded: the host checks it as if the guest had sent it here. Why the session may not use it."""
        with self._changed:
            if self._closed:
                return ""
            try:
                self.images.begin(len(image), digest)
                self.images.chunk(memoryview(image))
                self.images.end(digest)
            except OverQuota as error:
                log.info("session %s: %s", self.name, error)
                return error.message
            except (CudaError, ProtocolError) as error:
                log.info("session %s: an image is not kept for others: %s", self.name, error)
        return ""

    def _start_compiler(self) -> None:
        """The worker, which may not, wants a process that compiles kernels for it."""
        try:
            descriptor = self.worker.start_compiler()
        except OSError as error:
            log.error("session %s: no process can be started to compile its kernels: %s", self.name, error)
            descriptor = None
        try:
            self._control.send(Kind.COMPILER, descriptor=descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _fate(self, error: Gone) -> str:
        """What became of the process."""
        return self.worker.kill() or str(error)

    def interrupt(self) -> None:
        """The guest is gone: its work ends, if need be with the process. From any thread, before or after `close`."""
        if not self._closed:
            if self.worker.member is not None:
                self.worker.member.interrupt()
            with contextlib.suppress(Gone):
                self._control.send(Kind.INTERRUPT)

    def takes_too_much(self, taken: int, limit: int) -> None:
        """Its processes take more memory than they may: the session ends. From the watch's thread."""
        why = f"its process takes {taken >> 20} MiB of the host's memory, and may take {limit >> 20}"
        self._stop_for(_EXHAUSTED, why)

    def _breaks_rules(self, why: str | None) -> None:
        """Its process does not keep to what sessions that share the device's memory agree on: the session ends. From any thread.

        Args:
            why: None: the process says no more about the device.
        """
        if why is None:
            self._lost(Gone("it has ended what it says about the device"))
        elif not self._closed:
            self._stop_for(_INTERNAL, f"its process is ended: {why}")

    def _lost(self, error: Gone) -> None:
        """The process has ended by itself, or is ended as if it had."""
        if not self._closed and not self._stopped:
            why = f"its process ended: {self._fate(error)}"
            if self._end(Ended(_INTERNAL, f"session {self.name} is ended: {why}", why, How.LOST)):
                log.error("session %s is lost: %s", self.name, why)

    def _stop_for(self, status: int, why: str) -> None:
        if self._end(Ended(status, f"session {self.name} is ended: {why}", why, How.LOST)):
            log.error("session %s is ended: %s", self.name, why)
        self.stop()

    def stop(self) -> None:
        """See `host.RemoteSession`."""
        self._stopped = True
        self.worker.stop()

    def close(self) -> None:
        """Idempotent; never raises. The worker ends by itself, or is ended."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self.images.close()
        if self._code is not None:
            self._code.close()
        self._pool.release(self.worker)


def _counts(said: object) -> dict[str, int]:
    """What a worker counts: a guest may have taken it over. Raises ValueError."""
    if not isinstance(said, dict) or len(said) > _MOST_COUNTS:
        raise ValueError("no counts")
    return {str(name): min(max(0, int(number)), _MOST) for name, number in said.items()}
