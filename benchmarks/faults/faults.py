"""What goes wrong: one function for each kind, which does it to a host and a guest that runs.

Owns what is to be expected of each: whether the guest can be right nevertheless, and whether others may notice.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from farlane.backend.security import certificates, tokens
from farlane.backend.security.folder import Folder
from farlane.frontend.devtools.guest import Guest, Outcome
from network import Way
from served import TRANSPORTS, Served

NETWORK = ("tcp", "tls")
THREAD, PROCESS = "thread", "process"


@dataclass
class Scene:
    """What a fault happens to."""

    served: Served
    transport: str
    program: str
    victim: subprocess.Popen[str]
    random: Random
    cleanup: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)  # when the guests have ended

    def another(self, guest: Guest, timeout: float) -> Outcome:
        """A short guest beside the others. Raises subprocess.TimeoutExpired."""
        return guest.run([self.program, "1", "1"], timeout=timeout)

    @property
    def way(self) -> Way:
        way = self.served.way(self.transport)
        assert way is not None
        return way

    def host(self, number: int) -> None:
        self.served.process.send_signal(number)

    def wait_open(self) -> None:
        """Until the victim's session is open, and has sent something: before that it is not resumed (docs/reference/limitations/host.md)."""
        while self.victim.poll() is None and not self.served.has_sent(self.victim.pid):
            time.sleep(0.02)

    def pause(self, most: float) -> None:
        time.sleep(self.random.uniform(0.02, most))


@dataclass(frozen=True)
class Fault:
    name: str
    inject: Callable[[Scene], None]
    transports: tuple[str, ...] = TRANSPORTS
    workers: tuple[str, ...] = (THREAD, PROCESS)
    survived: bool = False  # the victim must end well
    killed: bool = False  # the victim is ended by the fault itself, and says nothing
    felt: bool = False  # the other session may fail by it, too
    restart: bool = False  # the host is gone


def _kill(scene: Scene) -> None:
    scene.victim.kill()


def _terminate(scene: Scene) -> None:
    scene.victim.terminate()


def _stop_guest(scene: Scene) -> None:
    scene.victim.send_signal(signal.SIGSTOP)
    scene.pause(1.0)
    scene.victim.send_signal(signal.SIGCONT)


def _kill_worker(scene: Scene) -> None:
    """Any of them: the victim's, the other session's, or one that waits. The others are unharmed in any case."""
    os.kill(scene.random.choice(scene.served.children), signal.SIGKILL)


def _stop_workers(scene: Scene) -> None:
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in scene.served.children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        scene.pause(1.0)


def _kill_host(scene: Scene) -> None:
    scene.host(signal.SIGKILL)


def _end_host(scene: Scene) -> None:
    scene.host(signal.SIGTERM)
    scene.pause(1.0)
    scene.host(signal.SIGTERM)  # at once


def _stop_host(scene: Scene) -> None:
    scene.host(signal.SIGSTOP)
    scene.pause(2.0)
    scene.host(signal.SIGCONT)


def _reset(scene: Scene) -> None:
    scene.wait_open()
    scene.way.cut("reset")


def _end(scene: Scene) -> None:
    scene.wait_open()
    scene.way.cut("end")


def _half_open(scene: Scene) -> None:
    scene.wait_open()
    up = scene.random.random() < 0.5
    scene.way.hold(up=up, down=not up)
    scene.pause(2.0)
    scene.way.cut("reset")
    scene.way.release()


def _silence(scene: Scene) -> None:
    scene.way.hold(up=True, down=True)
    scene.pause(2.0)
    scene.way.release()


def _slow(scene: Scene) -> None:
    scene.way.throttle(scene.random.choice((4e6, 16e6)), scene.random.choice((0.0, 0.001, 0.005)))
    scene.cleanup.callback(scene.way.throttle, None)


def _nonsense(scene: Scene) -> None:
    """Others connect and say anything, also the beginnings of what is right."""
    starts = (b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"FARLANE\0", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    for _ in range(8):
        data = scene.random.choice(starts) + scene.random.randbytes(scene.random.choice((0, 1, 9, 100, 5000)))
        address: object = str(scene.served.folder / "h")
        family = socket.AF_UNIX
        if scene.random.random() < 0.7:
            family, address = (
                socket.AF_INET,
                ("127.0.0.1", int(scene.random.choice(scene.served.urls[1:]).rpartition(":")[2])),
            )
        with contextlib.suppress(OSError), socket.socket(family) as end:
            end.settimeout(2)
            end.connect(address)
            end.sendall(data)
            if scene.random.random() < 0.5:
                end.recv(100)


@contextlib.contextmanager
def _limited(pid: int, what: int, most: int) -> Iterator[None]:
    """A process's soft limit, which counts for what it does from now on."""
    before = resource.prlimit(pid, what)
    resource.prlimit(pid, what, (most if before[1] == resource.RLIM_INFINITY else min(most, before[1]), before[1]))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, what, before)


def _no_files(scene: Scene) -> None:
    """A host without descriptors, which another guest comes to."""
    scene.wait_open()
    pid = scene.served.process.pid
    have = max(int(each) for each in os.listdir(f"/proc/{pid}/fd")) + 1
    with _limited(pid, resource.RLIMIT_NOFILE, have + scene.random.randrange(3)):
        guest = scene.served.guest(scene.transport, direct=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            scene.another(guest, 3)


def _full_disk(scene: Scene) -> None:
    """Nothing can be written to files, of which the host has its caches and logs."""
    scene.cleanup.enter_context(_limited(scene.served.process.pid, resource.RLIMIT_FSIZE, 0))
    scene.pause(1.0)


def _no_memory(scene: Scene) -> None:
    """What is asked for from now on is refused."""
    pids = scene.served.children if scene.served.workers == PROCESS else [scene.served.process.pid]
    for pid in pids:
        with contextlib.suppress(OSError):
            have = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            room = scene.random.choice((0, 1 << 20, 16 << 20))
            scene.cleanup.enter_context(_limited(pid, resource.RLIMIT_AS, have + room))
    scene.pause(1.0)


def _revoked(scene: Scene) -> None:
    """A guest whose token is revoked is refused, and one that has expired; those that are there go on."""
    folder = Folder(scene.served.private)
    name, token = f"t{scene.random.getrandbits(40)}", tokens.new_token()
    expires = time.time() - 1 if scene.random.random() < 0.5 else None
    tokens.create(folder, tokens.Entry(name, tokens.digest_of(token.encode()), "token", time.time(), expires))
    if expires is None:
        tokens.revoke(folder, name)
    access = {"FARLANE_CA": scene.served.access["FARLANE_CA"], "FARLANE_TOKEN": token}
    outcome = scene.another(Guest(scene.served.guest("tls", direct=True).url, "grpc", access), 30)
    if outcome.status == 0 or f"({name})" not in outcome.stderr:
        raise AssertionError(f"a guest with a bad token: {outcome.status}, {outcome.stderr}")


def _expired(scene: Scene) -> None:
    """The host's certificate expires: guests that come say so, and those that are there go on; then it is renewed."""
    folder = Folder(scene.served.private)
    kept = scene.served.folder / "kept"
    kept.mkdir(exist_ok=True)
    names = certificates.names_of(folder.certificate)
    for path in (folder.certificate, folder.key):
        shutil.copy2(path, kept / path.name)

    def renew() -> None:
        for path in (folder.key, folder.certificate):
            (kept / path.name).replace(path)

    scene.cleanup.callback(renew)
    certificates.create_host(folder, names, 0)
    time.sleep(1.1)
    outcome = scene.another(scene.served.guest("tls", direct=True), 30)
    if outcome.status == 0 or "expired" not in outcome.stderr:
        raise AssertionError(f"a host with an expired certificate: {outcome.status}, {outcome.stderr}")


def _jump(scene: Scene) -> None:
    """The host's wall clock jumps, forward or back, and back again."""
    for _ in range(3):
        scene.served.jump(scene.random.choice((-1, 1)) * scene.random.choice((2, 90, 7200, 90 * 86400)))
        scene.pause(0.5)
    scene.served.jump(0)


FAULTS = (
    Fault("guest killed", _kill, killed=True),
    Fault("guest terminated", _terminate, killed=True),
    Fault("guest stopped for a while", _stop_guest, survived=True),
    Fault("a worker killed", _kill_worker, workers=(PROCESS,), felt=True),
    Fault("workers stopped for a while", _stop_workers, workers=(PROCESS,), survived=True),
    Fault("host killed", _kill_host, felt=True, restart=True),
    Fault("host terminated", _end_host, felt=True, restart=True),
    Fault("host stopped for a while", _stop_host, survived=True),
    Fault("connection reset", _reset, transports=NETWORK, survived=True),
    Fault("connection ended", _end, transports=NETWORK, survived=True),
    Fault("connection half open, then reset", _half_open, transports=NETWORK, survived=True),
    Fault("silence for a while", _silence, transports=NETWORK, survived=True),
    Fault("slow connection", _slow, transports=NETWORK, survived=True),
    Fault("the clock jumps", _jump, survived=True),
    Fault("nonsense from others", _nonsense, survived=True),
    Fault("no descriptors left", _no_files, survived=True, felt=True),
    Fault("disk full", _full_disk, felt=True),
    Fault("no memory left", _no_memory, felt=True),
    Fault("bad tokens", _revoked, survived=True),
    Fault("certificate expired", _expired, transports=("shm", "unix", "tcp", "tls"), survived=True),
)
