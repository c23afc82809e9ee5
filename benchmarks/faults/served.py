"""A host under observation: started with every transport, asked what it holds, and compared with what it held at rest.

Owns its process, its folder with certificates and tokens, and the ways to it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from farlane import hosturl
from farlane.frontend.devtools.guest import Guest
from farlane.hosturl import description
from network import Way

TRANSPORTS = ("shm", "unix", "tcp", "tls")
SETTLE_SECONDS = 20.0
GRACE_SECONDS = 5  # for connections that break
# What a host may keep more than at rest: freed memory that the C library has not given back, caches of compiled kernels.
SPARE_FILES, SPARE_MEMORY = 2, 192 << 20


def _compiled_clock(folder: Path) -> Path:
    library = folder / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source], check=True)
    return library


@dataclass(frozen=True)
class Held:
    """What a host's process holds."""

    sessions: int
    memory: int  # of the device
    files: int
    processes: int  # its children
    resident: int  # bytes


class Served:
    """See the module. To be closed."""

    def __init__(self, workers: str) -> None:
        self.workers = workers
        self._named = tempfile.TemporaryDirectory(prefix="farlane-faults-")
        self.folder = Path(self._named.name)
        self.ways: list[Way] = []
        self.private, token = self.folder / "host", self.folder / "token"
        command = [sys.executable, "-m", "farlane.frontend.cli", "host", "init", "--folder", str(self.private)]
        subprocess.run([*command, "--token-file", str(token)], check=True, stdout=subprocess.DEVNULL)
        self._clock = _compiled_clock(self.folder)
        self._jump = self.folder / "jump"
        self.jump(0)
        self.access = {"FARLANE_CA": str(self.private / "ca.pem"), "FARLANE_TOKEN_FILE": str(token)}
        self.start()

    def start(self) -> None:
        self.log = (self.folder / "log").open("a")
        read, write = os.pipe()
        command = [sys.executable, "-m", "farlane.backend.commands.serve", "--device", "sim", "--no-analyze"]
        command += ["--folder", str(self.private), "--workers", self.workers, "--ready-fd", str(write)]
        command += ["--grace", str(GRACE_SECONDS)]
        for url in (f"unix://{self.folder}/h", "grpc://127.0.0.1:0", "farlane+tls://127.0.0.1:0"):
            command += ["--listen", url]
        environment = os.environ | {"FARLANE_CACHE_DIR": str(self.folder / "cache")}
        environment |= {"LD_PRELOAD": str(self._clock), "FARLANE_CLOCK_FILE": str(self._jump)}
        self.process = subprocess.Popen(
            command, pass_fds=[write], stdout=subprocess.DEVNULL, stderr=self.log, env=environment
        )
        os.close(write)
        with os.fdopen(read) as ready:
            self.urls = [line.strip() for line in ready]
        if len(self.urls) != 3:
            raise SystemExit(f"a host did not start: {(self.folder / 'log').read_text()}")
        ports = [int(url.rpartition(":")[2]) for url in self.urls[1:]]
        for way in self.ways:
            way.close()
        self.ways = [Way(port) for port in ports]
        self.base: Held | None = None

    def restart(self) -> None:
        """Ends what is left of it, and starts anew."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self.log.close()
        self.start()

    def jump(self, seconds: int) -> None:
        """From now on the host's time of day is so much ahead of the right one."""
        with self._jump.open("r+b" if self._jump.exists() else "wb") as file:
            file.write(struct.pack("l", seconds))

    def guest(self, transport: str, *, direct: bool = False) -> Guest:
        """`direct`: not by the ways on which things go wrong."""
        unix, tcp, tls = self.urls
        if not direct:
            tcp, tls = (f"{url.rpartition(':')[0]}:{way.port}" for url, way in zip((tcp, tls), self.ways, strict=True))
        return {
            "shm": Guest(unix, "shm"), "unix": Guest(unix, "grpc"), "tcp": Guest(tcp, "grpc"), "tls": Guest(tls, "grpc", self.access),
        }[transport]  # fmt: skip

    def way(self, transport: str) -> Way | None:
        return {"tcp": self.ways[0], "tls": self.ways[1]}.get(transport)

    @property
    def children(self) -> list[int]:
        found = []
        for each in Path("/proc").iterdir():
            if each.name.isdecimal():
                with contextlib.suppress(OSError):
                    state, parent = (each / "stat").read_text().rpartition(")")[2].split()[:2]
                    if int(parent) == self.process.pid and state != "Z":
                        found.append(int(each.name))
        return found

    def has_sent(self, pid: int) -> bool:
        """Whether this guest has a session and has sent work. Raises description.NoAnswer."""
        sessions = description.describe(hosturl.parse(self.urls[0]), 5).open
        return any(each.pid == pid and each.counts["groups"] > 0 for each in sessions)

    def held(self) -> Held:
        """Raises description.NoAnswer: it does not answer."""
        reply = description.describe(hosturl.parse(self.urls[0]), 5)
        own = Path(f"/proc/{self.process.pid}")
        resident = int((own / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        files = len(list((own / "fd").iterdir()))
        return Held(reply.sessions, reply.memory_used, files, len(self.children), resident)

    def leak(self) -> str:
        """What it still holds of sessions that are over; "": nothing. Waits for what ends by itself."""
        wrong, deadline = "", time.monotonic() + SETTLE_SECONDS
        while True:
            try:
                now = self.held()
            except description.NoAnswer as error:
                wrong = f"it does not answer: {error}"
            else:
                base = self.base or now
                wrong = self._compared(now, base)
                if not wrong:
                    self.base = base
                    return ""
            if time.monotonic() > deadline or self.process.poll() is not None:
                return wrong
            time.sleep(0.1)

    def _compared(self, now: Held, base: Held) -> str:
        if now.sessions or now.memory:
            return f"{now.sessions} sessions and {now.memory} bytes of device memory"
        if now.files > base.files + SPARE_FILES:
            return f"{now.files} open files; at rest it had {base.files}: {self._files()}"
        if now.processes > max(base.processes, 1):
            return f"{now.processes} processes; at rest it had {base.processes}"
        if now.resident > base.resident + SPARE_MEMORY:
            return f"{now.resident >> 20} MiB resident; at rest it had {base.resident >> 20}"
        return ""

    def _files(self) -> str:
        """What its descriptors are."""
        folder, found = Path(f"/proc/{self.process.pid}/fd"), []
        for each in sorted(os.listdir(folder), key=int):
            with contextlib.suppress(OSError):
                found.append(f"{each} {os.readlink(folder / each)}")
        return ", ".join(found)

    def close(self) -> None:
        for way in self.ways:
            way.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        self._named.cleanup()
