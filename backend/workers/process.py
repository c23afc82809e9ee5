"""A worker: a process with one device that has one session, and then ends.

Owns the worker's life: it opens the device before a session waits for it, gets a session and the guest's connection,
takes the session's messages as any host does (server/service.py), closes the context and exits. So what a session holds
is given back twice, by its context and by the end of the process. A worker whose host has gone ends at once, whatever
it runs (lifeline.py).

The main thread listens to the host; the plane's thread of the guest's connection replays.
A confined worker (confinement.py) has begun in start.py; it gives up the rest when its session opens. It starts no
processes from then on: those that compile kernels beside it are started by the host (compiling.py).

Source: docs/explanation/systems.md, S1 point 1; protos/tape.md, "Processes".
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hmac
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from typing import Any

from farlane.backend.checkpoint.talk import Malformed
from farlane.backend.device import registry, reports
from farlane.backend.device.base import Device
from farlane.backend.device.options import DeviceOptions
from farlane.backend.device.saved import Unsaveable
from farlane.backend.host.accounts import How
from farlane.backend.host.entrance import Resumption
from farlane.backend.host.greeting import Refused
from farlane.backend.host.host import Admission, open_session
from farlane.backend.host.session import Session
from farlane.backend.host.spans import Arrival
from farlane.backend.objects.images import SessionImages, digest_of
from farlane.backend.plane import Call, CallGone, Place, Security, Server, leave, restore_call
from farlane.backend.server import messages
from farlane.backend.server.conversation import Status, converse, hold
from farlane.backend.server.edge import server_of_process
from farlane.backend.server.service import FIRST_MESSAGE_SECONDS, OPEN
from farlane.backend.system import log as logs
from farlane.backend.system.pipe import Ended, Pipe
from farlane.backend.workers import confinement, lifeline
from farlane.backend.workers.code import HostsCode
from farlane.backend.workers.compilers import Compilers
from farlane.backend.workers.control import BULK_LIMIT, TEXT_CHARACTERS, Control, Gone, Kind, Message, write_map
from farlane.backend.workers.description import described
from farlane.backend.workers.images import ForwardedImages
from farlane.backend.workers.moving import Given, Saved, take_session
from farlane.backend.workers.output import StandardError, StandardOutput

log = logging.getLogger("farlane.workers")

SWITCH_SECONDS = 0.0005
_GONE_SECONDS = 0.25  # for work to end whose guest has gone
_FAREWELL_SECONDS = 1.0  # for a guest to take how its session has ended


class _Objects:
    """What the guest sends of its program: it goes to the host, which knows what it has asked for."""

    found: tuple[tuple[bytes, bytes], ...] = ()
    wanted: tuple[bytes, ...] = ()

    def __init__(self, control: Control) -> None:
        self._control = control

    def part(self, identity: bytes, data: bytes, last: bool) -> None:
        self._control.send(Kind.OBJECT, bulk=data, identity=identity.hex(), last=last)

    def close(self) -> None:
        pass


class _Worker:
    """One session, and what the host says about it.

    Locking: none: what both threads use is an event or is set before the other one starts.
    """

    def __init__(self, control: Control, device: Device, *, confined: bool = False, place: Place | None = None) -> None:
        self._control = control
        self._device = device
        self._confined = confined
        self._place = place
        self._compilers = Compilers(control)
        self._code = HostsCode(control)
        self._images = ForwardedImages(control)
        self._server: Server | None = None
        self._token: str | None = None  # what the guest shows to be let in, where it has come by TLS
        self._security: Security | None = None
        self._begun = threading.Lock()  # held by the one call that the session's messages come by
        self._call: Call | None = None  # that one
        self._saved: Saved | None = None  # where its guest has not come yet
        self._given = Given()
        self._resumption: Resumption | None = None
        self._over = threading.Event()

    def serve(self) -> None:
        """One session. Raises Gone when the host has gone."""
        opened = self._open()
        if opened is None:
            return
        self._session, self._tape_version = opened
        try:
            while True:
                with self._control.receive() as message:
                    if not self._heed(message):
                        return
        finally:
            if self._server is not None:
                self._server.stop(_FAREWELL_SECONDS if self._over.is_set() else 0)
            self._given.wait(_FAREWELL_SECONDS)
            self._session.close()

    def _open(self) -> tuple[Session, int] | None:
        while True:
            with self._control.receive() as message:
                if message.kind is Kind.CLOSE:
                    return None
                if message.kind is Kind.IMAGE:
                    digest, image = bytes.fromhex(message.fields["digest"]), message.bulk()
                    if digest_of(image) == digest:
                        self._images.add(digest, image)
                    continue
                if message.kind not in (Kind.OPEN, Kind.TAKE):
                    raise Gone(f"a message {message.kind.name}")
                pipe = Pipe(message.take_descriptor()) if message.kind is Kind.TAKE else None
                wanted = message.fields
                break
        if self._confined:
            from farlane.backend.jit.compile import cache, process  # no other worker needs the compiler

            cache.close(self._code if wanted["keeps_code"] else None)
            process.start = self._compilers.start
            confinement.restrict_calls()
        try:
            opened = self._begin(wanted) if pipe is None else self._take(pipe, wanted)
        except Refused as refused:
            self._control.send(Kind.REFUSED, text=refused.message[:TEXT_CHARACTERS])
            return None
        except (Unsaveable, Malformed, Ended, TimeoutError) as error:  # one of the latter: the host has ended it
            self._control.send(Kind.REFUSED, text=str(error)[:TEXT_CHARACTERS])
            return None
        self._images.forwarding = True
        session = opened[0]
        if self._place is not None:
            session.resources.context.share(self._place)
        window = session.window
        self._control.send(Kind.OPENED, base=window.base, size=window.size, quota=session.quota)
        return opened

    def _begin(self, wanted: dict[str, Any]) -> tuple[Session, int]:
        """Raises Refused."""
        if wanted["token"] is not None:
            self._let_in(wanted["token"], wanted["certificate"].encode(), wanted["key"].encode())
        if wanted["secret"] is not None:
            self._resumption = Resumption(bytes.fromhex(wanted["secret"]), wanted["grace"])
        session = open_session(
            self._device,
            wanted["quota"],
            SessionImages(self._images),
            wanted["name"],
            wanted["tape_version"],
            wanted["checks"],
            self._say_spans if wanted["spans"] else None,
            wanted["payloads"],
            Arrival(*wanted["arrival"]) if wanted["arrival"] else None,
        )
        return session, wanted["tape_version"]

    def _take(self, pipe: Pipe, wanted: dict[str, Any]) -> tuple[Session, int]:
        """A session that was saved. Raises Unsaveable, Malformed, Ended, TimeoutError."""
        with pipe:
            session, self._saved = take_session(pipe, wanted["name"], self._device, self._images, wanted["quota"])
        process = self._saved.process
        if process.token:
            self._let_in(process.token, process.certificate, process.key)
        self._resumption = Resumption(self._saved.secret, wanted["grace"])
        return session, self._saved.tape_version

    def _let_in(self, token: str, certificate: bytes, key: bytes) -> None:
        """By what the guest comes by TLS."""
        self._token = f"Bearer {token}"
        self._security = Security.fixed(certificate, key)

    def _say_spans(self, content: bytes) -> None:
        if len(content) <= BULK_LIMIT:
            with contextlib.suppress(Gone):
                self._control.send(Kind.SPANS, bulk=content)

    def _heed(self, message: Message) -> bool:
        """Does what the host says; whether it is to be listened to further."""
        session = self._session
        if message.kind is Kind.CONNECTION:
            if self._server is None:
                self._server = server_of_process(self._serve_call, self._cancelled, self._security)
            self._server.adopt(message.take_descriptor(), message.fields["way"])
        elif message.kind is Kind.USAGE:
            self._control.send(Kind.USED, memory=session.used_bytes, counts=session.counts())
        elif message.kind is Kind.MAP:
            self._control.send(Kind.MAPPED, bulk=write_map(session.memory_map()))
        elif message.kind is Kind.INTERRUPT:
            session.interrupt()
            if self._begun.locked() and not self._over.wait(_GONE_SECONDS):
                os._exit(1)
        elif message.kind is Kind.IMAGE:
            self._images.answered(message)
        elif message.kind is Kind.COMPILER:
            self._compilers.answered(message)
        elif message.kind in (Kind.CODE, Kind.CLAIM):
            self._code.answered(message)
        elif message.kind is Kind.GIVE:
            self._given.start(Pipe(message.take_descriptor()))
        elif message.kind is Kind.CLOSE:
            return False
        else:
            raise Gone(f"a message {message.kind.name}")
        return True

    def _cancelled(self, call: Call) -> None:
        if self._call is not None and call.number == self._call.number:
            self._session.interrupt()

    def _serve_call(self, call: Call) -> None:
        """The guest's messages, on the thread of its connection."""
        if self._token is not None and not hmac.compare_digest(
            (call.authorization or "").encode(), self._token.encode()
        ):
            call.finish(Status.UNAUTHENTICATED, "this process has the session of another guest")
            return
        if call.method not in ("", OPEN) or not self._begun.acquire(blocking=False):
            if call.method == OPEN and self._resume(call):
                return
            call.finish(
                Status.UNIMPLEMENTED, "this is a session's process: it has the session's messages, by one connection"
            )
            return
        if self._saved is not None:
            if not self._go_on(call, self._saved):
                self._begun.release()
                call.finish(Status.UNAVAILABLE, "the session was saved, and its guest does not go on with it")
                return
            self._saved = None
        elif self._resumption is not None and call.method == OPEN:
            call.keep(self._resumption.grace)
        self._call = call
        session = self._session
        pausing = self._given.begin(session, call)
        admission = Admission(
            session,
            self._tape_version,
            session.window,
            session.quota,
            self._device.describe(),
            (),
            _Objects(self._control),
        )
        ended = hold(session.name, lambda: converse(admission, call, pausing))
        pausing.end()
        self._over.set()
        session.close()
        details, why = ended.details[:TEXT_CHARACTERS], ended.why[:TEXT_CHARACTERS]
        try:
            self._control.send(
                Kind.ENDED, status=int(ended.status), details=details, why=why, how=ended.how, counts=session.counts()
            )
        except Gone:
            os._exit(1)  # as with the lifeline
        if ended.how is How.MOVED:
            leave(call)
        else:
            call.finish(ended.status, details)

    def _go_on(self, call: Call, saved: Saved) -> bool:
        """The guest of a session that was saved comes to it. False: it has not, or is gone again."""
        assert self._resumption is not None
        with contextlib.suppress(CallGone, TimeoutError):
            if (shown := self._shown(call, self._resumption)) is not None:
                restore_call(call, self._resumption.grace, *saved.counts, saved.unconfirmed, shown.received)
                return True
        return False

    def _resume(self, call: Call) -> bool:
        """The session's call goes on with this one's connection. False: that is not what it is for."""
        own, resumption = self._call, self._resumption
        if own is None or resumption is None:
            return False
        with contextlib.suppress(CallGone, TimeoutError):
            if (shown := self._shown(call, resumption)) is not None:
                own.resume(call, shown.received)
                return True
        return False

    @staticmethod
    def _shown(call: Call, resumption: Resumption) -> messages.Resume | None:
        """What a guest that comes again shows. None: it is not the session's. Raises CallGone, TimeoutError."""
        data = call.receive(FIRST_MESSAGE_SECONDS)
        shown = messages.read_guest(data) if isinstance(data, bytes) else None
        if isinstance(shown, messages.Resume) and hmac.compare_digest(shown.secret, resumption.secret):
            return shown
        return None


def _send_report(control: Control, content: bytes) -> None:
    with contextlib.suppress(Gone):
        control.send(Kind.REPORT, bulk=content)


def _open_device(
    name: str, options: DeviceOptions, complaints: StandardError | None, ends: Sequence[int] | None
) -> Device:
    if complaints is None:
        return registry.open_device(name, options, **({} if ends is None else {"ends": tuple(ends)}))
    output = StandardOutput()  # the driver prints what kernels print
    return registry.open_device(name, options, output=output.take, complaints=complaints.take)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="farlane worker")
    parser.add_argument("--device", required=True)
    parser.add_argument("--options", default="{}", help="JSON: the device's options")
    parser.add_argument("--control", type=int, required=True, help="file descriptor of a socket to the host")
    parser.add_argument(
        lifeline.OPTION, type=int, required=True, help="file descriptor of a pipe that the host holds open"
    )
    parser.add_argument("--log-level", choices=logs.LEVELS, default="warning")
    parser.add_argument("--log-format", choices=logs.FORMATS, default="text")
    parser.add_argument(
        "--confined", metavar="wholly|partly|not", help="how much of its files' confinement is enforced"
    )
    parser.add_argument(
        "--place",
        type=int,
        nargs=2,
        metavar="FD",
        help="file descriptors of the session's page and the scheduler's bell",
    )
    parser.add_argument(
        "--ends", type=int, nargs=3, metavar="FD", help="file descriptors of a device that sessions share (channel.py)"
    )
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's: the host decides what becomes of its sessions
    if arguments.confined is None:
        lifeline.end_with_host(arguments.lifeline)
    complaints = StandardError() if arguments.device == "cupy" else None
    logs.configure(logs.Wanted(arguments.log_level, arguments.log_format))
    sys.setswitchinterval(SWITCH_SECONDS)
    control = Control(socket.socket(fileno=arguments.control))
    reports.send_by(functools.partial(_send_report, control))
    try:
        options = DeviceOptions.from_json(arguments.options)
        device = _open_device(arguments.device, options, complaints, arguments.ends)
    except registry.DeviceUnavailable as error:
        control.send(Kind.UNAVAILABLE, text=str(error)[:TEXT_CHARACTERS])
        return 1
    try:
        device.prepare()
        if arguments.confined is not None:
            from farlane.backend.jit.compile import cache

            cache.unchanged()  # it looks at files, which takes a while
        control.send(Kind.READY, confined=arguments.confined, **described(device.describe()))
        place = None if arguments.place is None else Place.attach(*arguments.place)
        _Worker(control, device, confined=arguments.confined is not None, place=place).serve()
    except Gone:
        return 1
    finally:
        device.close()
        if complaints is not None:
            complaints.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
