"""One worker as the host has it: the process, from its start to its end, and what it may have started for it.

Owns the command, the processes that compile beside it, and how it ends. Locking: see its methods; else one thread at a time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from farlane.backend.device.base import Description
from farlane.backend.device.options import DeviceOptions
from farlane.backend.device.registry import DeviceUnavailable
from farlane.backend.plane import Page
from farlane.backend.system import log as logs
from farlane.backend.workers import compiling, lifeline, memory
from farlane.backend.workers.control import Control, Gone, Kind, pair
from farlane.backend.workers.description import read_description
from farlane.backend.workers.users import Users

if TYPE_CHECKING:
    from farlane.backend.device.sim.processes.listener import Member

START_SECONDS = 60.0  # one that gets no memory while it starts may never be ready
END_SECONDS = 10.0
_NOTICE_SECONDS = 2.0

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
        users: Users | None = None,
        bell: int | None = None,
        member: Member | None = None,
    ) -> None:
        """`bell`: of the scheduler that shares the device's time; its page goes with it. `member`: the worker's, of a device whose memory sessions share.
        Raises NoUser."""
        self.member = member
        self._variables = variables
        self._users = users
        self._user = None if users is None else users.take()
        self._confined = confined
        self._compilers: list[subprocess.Popen[bytes]] = []
        module = "start" if confined else "process"
        ours, theirs = pair()
        end, self._lifeline = os.pipe()  # neither is inherited by other workers
        self.page = None if bell is None else Page(shared=True)
        descriptor = None if self.page is None else self.page.descriptor
        shared = () if descriptor is None or bell is None else (descriptor, bell)
        place = ["--place", *map(str, shared)] if shared else []
        ends = () if member is None else member.ends
        switching = ["--ends", *map(str, ends)] if ends else []
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-P", "-m", f"farlane.backend.workers.{module}", "--device", device, "--options",
                    options.to_json(), "--control", str(theirs.fileno()), lifeline.OPTION, str(end),
                    "--log-level", logged.level, "--log-format", logged.format, *place, *switching,
                ],
                pass_fds=(theirs.fileno(), end, *shared, *ends), env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                process_group=0,  # one that is stopped goes on when the host has ended: its group is an orphan then
                **(self._user.arguments() if self._user else {}),
            )  # fmt: skip
        except BaseException:
            ours.close()
            os.close(self._lifeline)
            self._give_user()
            raise
        finally:
            theirs.close()
            os.close(end)
        if member is not None:
            member.started()
        memory.end_first(self._process.pid)
        self.control = Control(ours)
        self.description: Description | None = None
        self.listener: threading.Thread | None = None  # takes what its session says, until its end
        self.files: str | None = None  # how much of its files' confinement the kernel enforces

    @property
    def pid(self) -> int:
        return self._process.pid

    def processes(self) -> list[int]:
        """Its own, and those that compile for it."""
        return [self.pid, *(each.pid for each in self._compilers)]

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
        self.description = read_description(fields)
        return self.description

    def start_compiler(self) -> int | None:
        """A descriptor, the caller's, that leads to a process which compiles kernels; None where it has as many as it gets.

        Raises:
            OSError: none can be started.
        """
        self._compilers = [each for each in self._compilers if each.poll() is None]
        if not self._confined or len(self._compilers) >= compiling.MOST:
            return None
        process, descriptor = compiling.start(self._variables, self._user)
        self._compilers.append(process)
        return descriptor

    def stop(self) -> None:
        """Ends it now. From any thread."""
        self._process.kill()

    def kill(self) -> str:
        """Ends it now; how it ended, if it had done so by itself."""
        self._release()
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
        self._release()
        with contextlib.suppress(Gone):
            self.control.send(Kind.CLOSE)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            log.warning("worker %d does not end, and is killed", self.pid)
            self._process.kill()
            self._process.wait()
        if self.listener is not None:
            self.listener.join(END_SECONDS)  # what it said last, such as its session's report, is taken
        for compiler in self._compilers:
            compiler.kill()
            compiler.wait()
        self._give_user()
        if self.member is not None:
            self.member.close()
        self.control.close()
        os.close(self._lifeline)

    def _release(self) -> None:
        """No signals for sharing the device from now on: once it was waited for, its number may be another process's."""
        if self.member is not None:
            self.member.release()

    def _give_user(self) -> None:
        if self._users is not None and self._user is not None:
            self._users.give(self._user)
