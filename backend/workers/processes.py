"""The host's sessions, each in a process of its own: opened, or made from one that was saved.

Owns what is said to a worker of the pool so that it has a session. What is said to it then is session.py's.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable, Sequence

from farlane.backend.device import reports
from farlane.backend.device.base import Description
from farlane.backend.host.entrance import Entrance, Resumption
from farlane.backend.host.greeting import Reason, Refused
from farlane.backend.host.spans import Arrival, Sink
from farlane.backend.objects.images import SessionImages
from farlane.backend.objects.payloads import CACHE_BYTES
from farlane.backend.system.pipe import Ended, Pipe
from farlane.backend.workers import code
from farlane.backend.workers.control import Kind
from farlane.backend.workers.pool import WorkerPool
from farlane.backend.workers.session import WorkerSession
from farlane.backend.workers.worker import Worker

log = logging.getLogger("farlane.workers")


class SessionProcesses:
    """The host's sessions, each in a process of its own (`host.Processes`)."""

    def __init__(self, pool: WorkerPool, spans: Sink | None = None) -> None:
        self.pool = pool
        self._spans = spans
        self.descriptions: Sequence[Description] = pool.descriptions

    def open(
        self,
        name: str,
        tape_version: int,
        quota: int,
        checks: Sequence[str],
        images: SessionImages,
        known: Sequence[bytes],
        entrance: Entrance | None = None,
        resumption: Resumption | None = None,
        guest: str = "",
        payload_bytes: int = CACHE_BYTES,
        arrival: Arrival | None = None,
    ) -> tuple[WorkerSession, Description]:
        """Raises Refused."""

        def begin(worker: Worker, kept: code.GuestCode | None) -> None:
            for digest in known:
                image = images.find(digest)
                if image is not None:
                    worker.control.send(Kind.IMAGE, bulk=image, digest=digest.hex())
            worker.control.send(
                Kind.OPEN,
                name=name,
                tape_version=tape_version,
                quota=quota,
                checks=list(checks),
                certificate=entrance and entrance.certificate.decode("ascii"),
                key=entrance and entrance.key.decode("ascii"),
                token=entrance and entrance.token,
                secret=resumption and resumption.secret.hex(),
                grace=resumption and resumption.grace,
                keeps_code=kept is not None,
                spans=self._spans is not None,
                arrival=arrival,
                payloads=payload_bytes,
            )

        session = self._begin(name, quota, images, guest, begin)
        return session, self.pool.description_of(session.worker)

    def reopen(
        self, name: str, quota: int, images: SessionImages, grace: float, guest: str, fill: Callable[[Pipe], None]
    ) -> WorkerSession:
        """Raises Refused, and what `fill` raises."""

        def begin(worker: Worker, kept: code.GuestCode | None) -> None:
            ours, theirs = socket.socketpair()
            with theirs, Pipe(ours.detach()) as pipe:
                worker.control.send(
                    Kind.TAKE,
                    descriptor=theirs.fileno(),
                    name=name,
                    quota=quota,
                    grace=grace,
                    keeps_code=kept is not None,
                )
                theirs.close()
                with contextlib.suppress(Ended):  # it says why
                    fill(pipe)

        return self._begin(name, quota, images, guest, begin)

    def _begin(
        self,
        name: str,
        quota: int,
        images: SessionImages,
        guest: str,
        begin: Callable[[Worker, code.GuestCode | None], None],
    ) -> WorkerSession:
        """Raises Refused, and what `begin` raises, which has a worker open the session."""
        worker = self.pool.take()
        try:
            kept = code.GuestCode(guest) if guest and self.pool.confined else None
            session = WorkerSession(name, worker, images, begin, self.pool, kept, self._spans)
        except BaseException:
            self.pool.release(worker)
            raise
        if session.quota > quota:
            session.close()
            raise Refused(Reason.DEVICE, f"its process has a session of {session.quota} bytes, which may have {quota}")
        session.watch(copies=False)
        log.info("session %s runs in process %d", name, worker.pid)
        return session

    def close(self) -> None:
        self.pool.close()
        if self.pool.switching is not None:
            reports.write(self.pool.switching.report(), self.pool.reports)
