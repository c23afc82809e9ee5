"""The embedded host: a host of our own in a child process, on a private Unix socket, for one `farlane run`.

Owns the child and its socket's folder (mode 0700). Linux ends the child with us, so nothing is left behind even when
this process is killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from farlane.childhost import ChildHost, NotReadyError
from farlane.frontend.errors import UserError
from farlane.hosturl import variables

STOP_SECONDS = 10.0
ABANDONED_SECONDS = 0.25  # for a host whose guest has been ended by a signal: no guest waits for its work


class EmbeddedHost:
    """A context manager; `url` is where the host listens.

    Args:
        device: name of the device it serves.
        quota: device memory of the session in bytes; None for the host's default.
        extra: further arguments of `farlane serve`.
        environment: the host's; None for this process's.
    """

    def __init__(
        self,
        device: str,
        quota: int | None = None,
        extra: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = environment
        self._device = device
        self._quota = quota
        self._extra = extra
        self._folder: Path | None = None
        self._child: ChildHost | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> EmbeddedHost:
        self.start()
        self.wait_ready()
        return self

    def start(self) -> None:
        """Starts the host, which takes a while to listen: `wait_ready` waits for that. To be closed whatever comes next."""
        self._folder = Path(tempfile.mkdtemp(prefix="farlane-"))
        self.url = f"unix://{self._folder}/host.sock"
        quota = [] if self._quota is None else ["--quota", str(self._quota)]
        environment = os.environ if self._environment is None else self._environment
        self._child = ChildHost(self._device, self.url, [*self._extra, *quota], environment)
        self._process = self._child.process

    def wait_ready(self) -> None:
        """Returns when the host listens. Raises UserError, and closes the host, when it does not."""
        assert self._child is not None
        try:
            self._child.wait_ready()
        except NotReadyError as error:
            self.close()
            help_ = "Run `farlane doctor`."
            if error.status is not None:
                help_ = "Its message is above. `farlane doctor` checks the installation."
            raise UserError(f"the embedded host {error}", help_) from None
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The host's process, while it runs."""
        assert self._process is not None
        return self._process.pid

    def alive(self) -> bool:
        """False once the host process has ended."""
        return self._process is not None and self._process.poll() is None

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self, abandoned: bool = False) -> None:
        """Ends the host, and waits until it has: for so long, or without a limit where its report is still to come. Idempotent.

        Args:
            abandoned: its guest has ended, so its work is of no use.
        """
        if self._process is not None:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
                try:
                    self._process.wait(ABANDONED_SECONDS if abandoned else STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    # The host models what the program did, and its report comes when its session ends: that is work.
                    if os.environ.get(variables.MODEL):
                        print("farlane: the memory model is at work; its report comes when it is done", file=sys.stderr)
                    else:
                        self._process.kill()
                    self._process.wait()
            self._process = None
        if self._child is not None:
            self._child.close()
            self._child = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
