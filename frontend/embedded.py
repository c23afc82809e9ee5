"""The embedded host: a host of our own in a child process, on a private Unix socket, for one `farlane run`.

Owns the child and its socket's folder (mode 0700). Linux ends the child with us, so nothing is left behind even when
this process is killed. It runs a module by name: the frontend does not import the backend.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from farlane.frontend.errors import UserError

SERVE_MODULE = "farlane.backend.commands.serve"
START_SECONDS = 60.0
STOP_SECONDS = 10.0
ABANDONED_SECONDS = 0.25  # for a host whose guest has been ended by a signal: no guest waits for its work
MODEL_VARIABLE = "FARLANE_SIM_MODEL"  # the host models what the program did, and writes a report when its session ends: that is work, however long it takes


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
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: int | None = None  # where the host says that it listens
        self.url = ""

    def __enter__(self) -> EmbeddedHost:
        self.start()
        self.wait_ready()
        return self

    def start(self) -> None:
        """Starts the host, which takes a while to listen: `wait_ready` waits for that. To be closed whatever comes next."""
        self._folder = Path(tempfile.mkdtemp(prefix="farlane-"))
        self.url = f"unix://{self._folder}/host.sock"
        self._ready, writer = os.pipe()
        arguments = [sys.executable, "-m", SERVE_MODULE, "--device", self._device, "--listen", self.url]
        # The guest prints what concerns it; the host repeating it on the same terminal would only confuse.
        # The launcher analyzes programs itself.
        arguments += [
            "--die-with-parent",
            str(os.getpid()),
            "--no-analyze",
            "--ready-fd",
            str(writer),
            "--log-level",
            "error",
            *self._extra,
        ]
        if self._quota is not None:
            arguments += ["--quota", str(self._quota)]
        try:
            # A process group of its own: the terminal's Ctrl-C reaches the program, whose last work the host then still does.
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(writer,),
                process_group=0,
                # numpy's linear algebra, which the host does not use, would start a thread for each processor.
                env={"OPENBLAS_NUM_THREADS": "1", **(os.environ if self._environment is None else self._environment)},
            )
        finally:
            os.close(writer)

    def wait_ready(self) -> None:
        """Returns when the host listens. Raises UserError, and closes the host, when it does not."""
        try:
            self._wait_ready()
        except BaseException:
            self.close()
            raise

    def _wait_ready(self) -> None:
        assert self._process is not None
        assert self._ready is not None
        ready, _, _ = select.select([self._ready], [], [], START_SECONDS)
        if not ready:
            raise UserError(f"the embedded host did not start within {START_SECONDS:.0f} s", "Run `farlane doctor`.")
        if not os.read(self._ready, 4096):
            status = self._process.wait()  # the pipe closed without a word: it has ended and said why on stderr
            raise UserError(
                f"the embedded host ended at once (status {status})",
                "Its message is above. `farlane doctor` checks the installation.",
            )

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
                    if os.environ.get(MODEL_VARIABLE):
                        print("farlane: the memory model is at work; its report comes when it is done", file=sys.stderr)
                    else:
                        self._process.kill()
                    self._process.wait()
            self._process = None
        if self._ready is not None:
            os.close(self._ready)
            self._ready = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
