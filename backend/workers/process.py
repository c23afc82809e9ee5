"""A worker: a process with one device that replays one session, and then ends.

Owns the worker's life: it opens the device before a session waits for it, says so, is given a session, answers its tapes, closes the context and exits. What a
session holds is thus given back twice, by its context and by the end of the process. A worker whose host has gone ends at once, whatever it runs: a
thread watches the pipe that the host holds open.

Source: mission.md S1 point 1.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import socket
import sys
import threading
from typing import Any

from farlane.backend.device import registry
from farlane.backend.device.base import Context, Description, Device
from farlane.backend.device.options import DeviceOptions
from farlane.backend.errors import DeadTransport, ProtocolError
from farlane.backend.host.host import Refused, open_session
from farlane.backend.host.session import Session
from farlane.backend.objects.images import ImageStore, SessionImages, digest_of
from farlane.backend.server.messages import write_reply
from farlane.backend.system import log as logs
from farlane.backend.workers.output import StandardError, StandardOutput
from farlane.backend.workers.wire import Gone, Kind, Wire, tape

log = logging.getLogger("farlane.workers")

SWITCH_SECONDS = 0.0005
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1  # seconds between looks at a device that is busy still


class _Store(ImageStore):
    """The worker's images: what its guest uploads goes to the host, too, for other sessions."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire
        self.forwarding = False

    def add(self, digest: bytes, image: bytes) -> bytes:
        held = super().add(digest, image)
        if self.forwarding:
            self._wire.send(Kind.IMAGE, digest, image)
        return held


def described(description: Description) -> dict[str, Any]:
    return {
        "backend": description.backend,
        "name": description.name,
        "uuid": description.uuid.hex(),
        "compute_capability": list(description.compute_capability),
        "total_memory": description.total_memory,
        "takes_ptx": description.takes_ptx,
        "takes_machine_code": description.takes_machine_code,
        "makes_objects": description.makes_objects,
        "has_host_mappings": description.has_host_mappings,
        "has_conditions": description.has_conditions,
        "has_mappings": description.has_mappings,
        "takes_any_ptx": description.takes_any_ptx,
        "pci_bus_id": description.pci_bus_id,
        "attributes": {str(key): value for key, value in description.attributes.items()},
    }


class _Worker:
    def __init__(self, wire: Wire, device: Device) -> None:
        self._wire = wire
        self._device = device
        self._images = _Store(wire)

    def serve(self) -> None:
        """One session. Raises Gone when the host has gone."""
        session = self._open()
        if session is None:
            return
        context = session.resources.context
        try:
            while True:
                pause = _FIRST_PAUSE
                while self._wire.waits() and not context.rest() and self._wire.waits(pause):
                    pause = min(2 * pause, _LONGEST_PAUSE)
                kind, data = self._wire.receive()
                if kind is Kind.CLOSE:
                    return
                if kind is not Kind.TAPE:
                    raise Gone(f"a frame of kind {kind.name}")
                self._tape(session, data)
        finally:
            session.close()

    def _open(self) -> Session | None:
        while True:
            kind, data = self._wire.receive()
            if kind is Kind.CLOSE:
                return None
            if kind is Kind.IMAGE:
                if digest_of(memoryview(data)[32:]) == data[:32]:
                    self._images.add(data[:32], data[32:])
                continue
            if kind is not Kind.OPEN:
                raise Gone(f"a frame of kind {kind.name}")
            break
        wanted = json.loads(data)
        self._images.forwarding = True
        try:
            session = open_session(
                self._device,
                wanted["quota"],
                SessionImages(self._images),
                wanted["name"],
                wanted["tape_version"],
                wanted["checks"],
            )
        except Refused as refused:
            self._wire.send(Kind.REFUSED, refused.message.encode())
            return None
        context: Context = session.resources.context
        window = context.window
        self._wire.send_json(Kind.OPENED, {"base": window.base, "size": window.size, "quota": context.quota})
        return session

    def _tape(self, session: Session, data: bytes) -> None:
        group, last, start = tape(data)
        try:
            ended = b""
            for reply in session.submit(group, data, start, len(data), last):
                if reply.last:
                    ended = write_reply(reply)
                else:
                    self._wire.send(Kind.REPLY, write_reply(reply))
        except (ProtocolError, DeadTransport) as error:
            self._wire.send(Kind.BROKEN, str(error).encode())
        except Gone:
            raise
        except Exception as error:
            log.exception("session %s: the worker failed", session.name)
            self._wire.send(Kind.FAILED, repr(error).encode())
        else:
            self._wire.send(Kind.DONE, ended)


def _end_with_host(lifeline: int) -> None:
    """The other end of the pipe is closed when the host's process has ended, however it did."""

    def watch() -> None:
        os.read(lifeline, 1)
        os._exit(1)

    threading.Thread(target=watch, name="farlane-lifeline", daemon=True).start()


def _open_device(name: str, options: DeviceOptions, complaints: StandardError | None) -> Device:
    if complaints is None:
        return registry.open_device(name, options)
    output = StandardOutput()  # the driver prints what kernels print
    return registry.open_device(name, options, output=output.take, complaints=complaints.take)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="farlane worker")
    parser.add_argument("--device", required=True)
    parser.add_argument("--options", default="{}", help="JSON: the device's options")
    parser.add_argument("--wire", type=int, required=True, help="file descriptor of a socket to the host")
    parser.add_argument(
        "--lifeline", type=int, required=True, help="file descriptor of a pipe that the host holds open"
    )
    parser.add_argument("--log-level", choices=logs.LEVELS, default="warning")
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's: the host decides what becomes of its sessions
    _end_with_host(arguments.lifeline)
    complaints = StandardError() if arguments.device == "cupy" else None
    logs.configure(arguments.log_level)
    sys.setswitchinterval(SWITCH_SECONDS)
    wire = Wire(socket.socket(fileno=arguments.wire))
    try:
        device = _open_device(arguments.device, DeviceOptions.from_json(arguments.options), complaints)
    except registry.DeviceUnavailable as error:
        wire.send(Kind.UNAVAILABLE, str(error).encode())
        return 1
    try:
        device.prepare()
        wire.send_json(Kind.READY, described(device.describe()))
        _Worker(wire, device).serve()
    except Gone:
        return 1
    finally:
        device.close()
        if complaints is not None:
            complaints.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
