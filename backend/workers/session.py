"""A worker's session as the host sees it: bytes in, encoded replies out.

Owns the conversation with one worker, and what the host keeps of the session: the images that the guest knows of or uploaded. The guest's end interrupts
by ending the process; nothing gentler stops a GPU's kernel.

Locking: as `backend.session.Session`: one thread at a time, `interrupt` from any.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence

from farlane.backend.device.base import CudaError, Description, Window
from farlane.backend.errors import DeadTransport, ProtocolError, SessionLost
from farlane.backend.host.host import Reason, Refused
from farlane.backend.host.session import CREDIT_BYTES, MESSAGE_BYTES
from farlane.backend.objects.images import SessionImages
from farlane.backend.plane import Call, Tape
from farlane.backend.workers.pool import Worker, WorkerPool
from farlane.backend.workers.wire import Gone, Kind

log = logging.getLogger("farlane.workers")


class SessionProcesses:
    """The host's sessions, each in a process of its own (`host.Processes`)."""

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        self.descriptions: Sequence[Description] = pool.descriptions

    def open(
        self,
        name: str,
        tape_version: int,
        quota: int,
        checks: Sequence[str],
        images: SessionImages,
        known: Sequence[bytes],
    ) -> tuple[WorkerSession, Description]:
        """Raises Refused."""
        worker = self.pool.take()
        try:
            session = WorkerSession(name, worker, images, known, tape_version, quota, checks, self.pool.release)
        except BaseException:
            self.pool.release(worker)
            raise
        log.info("session %s runs in process %d", name, worker.pid)
        return session, self.pool.description_of(worker)

    def close(self) -> None:
        self.pool.close()


class WorkerSession:
    """What a transport talks to, in the place of a `Session`."""

    def __init__(
        self,
        name: str,
        worker: Worker,
        images: SessionImages,
        known: Sequence[bytes],
        tape_version: int,
        quota: int,
        checks: Sequence[str],
        release: Callable[[Worker], None],
    ) -> None:
        """Opens the session in its worker.

        Args:
            known: digests of images that the guest knows of.
            release: takes the worker when the session has ended.

        Raises:
            Refused: the device has no room for it, or the worker has ended.
        """
        self.name = name
        self.images = images
        self._worker = worker
        self._release = release
        self._closed = self._interrupted = False
        wire = worker.wire
        try:
            for digest in known:
                image = images.find(digest)
                if image is not None:
                    wire.send(Kind.IMAGE, digest, image)
            wanted = {"name": name, "tape_version": tape_version, "quota": quota, "checks": list(checks)}
            wire.send_json(Kind.OPEN, wanted)
            kind, data = wire.receive()
        except Gone as error:
            raise Refused(Reason.DEVICE, f"the session's process ended at its start: {self._end(error)}") from None
        if kind is not Kind.OPENED:
            text = data.decode("utf-8", "replace") if kind is Kind.REFUSED else f"it answered with {kind.name}"
            raise Refused(Reason.DEVICE, text)
        opened = json.loads(data)
        self.window = Window(opened["base"], opened["size"])
        self.quota: int = opened["quota"]

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def used_bytes(self) -> None:
        """Known in its process only."""

    @property
    def busy_nanoseconds(self) -> None:
        """Known in its process only."""

    @property
    def pid(self) -> int:
        return self._worker.pid

    def converse(self, call: Call) -> bytes | None:
        """As `Session.converse`."""
        while isinstance(message := call.receive(), Tape):
            for reply in self.submit(message.group, message.records, message.last):
                call.send(reply)
        return message

    def submit(self, group: int, records: bytes, last: bool) -> Iterator[bytes]:
        """As `Session.submit`.

        Raises:
            SessionLost: the worker has ended, or failed.
        """
        if self._closed:
            raise ProtocolError("the session has ended")
        if len(records) > min(MESSAGE_BYTES, CREDIT_BYTES):
            raise ProtocolError(f"a message of {len(records)} bytes of records; at most {MESSAGE_BYTES} are allowed")
        wire = self._worker.wire
        try:
            wire.send_tape(group, last, memoryview(records))
            while True:
                kind, data = wire.receive()
                if kind is Kind.REPLY:
                    yield data
                elif kind is Kind.DONE:
                    if data:
                        yield data
                    return
                elif kind is Kind.IMAGE:
                    self._keep(data)
                elif kind is Kind.BROKEN:
                    raise ProtocolError(data.decode("utf-8", "replace"))
                elif kind is Kind.FAILED:
                    raise SessionLost(f"its process failed: {data.decode('utf-8', 'replace')}")
                else:
                    raise Gone(f"a frame of kind {kind.name}")
        except Gone as error:
            if self._interrupted:
                raise DeadTransport("the guest is gone") from None
            raise SessionLost(f"its process ended: {self._end(error)}") from None

    def _keep(self, data: bytes) -> None:
        """An image that the guest has uploaded: the host checks it as if the guest had sent it here."""
        digest, image = data[:32], memoryview(data)[32:]
        try:
            self.images.begin(len(image), digest)
            self.images.chunk(image)
            self.images.end(digest)
        except CudaError as error:
            log.info("session %s: an image is not kept for others: %s", self.name, error.message)

    def _end(self, error: Gone) -> str:
        """What became of the process."""
        return self._worker.kill() or str(error)

    def interrupt(self) -> None:
        """The guest is gone: the process ends, whatever it runs. From any thread, before or after `close`."""
        if not self._closed:
            self._interrupted = True
            self._worker.stop()

    def close(self) -> None:
        """Idempotent; never raises. The worker ends by itself, or is ended."""
        if self._closed:
            return
        self._closed = True
        self.images.close()
        self._release(self._worker)
