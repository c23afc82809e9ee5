"""A host in a child process: `farlane serve`, for one program, on a private Unix socket that its parent names.

Owns how it is started and waited for. `farlane run` (frontend) and `farlane sim` (backend) start one, and neither may
import the other, so the module that serves is run by its name. The host ends with its parent.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence

MODULE = "farlane.backend.commands.serve"
START_SECONDS = 60.0


class NotReadyError(Exception):
    """The host does not listen. `status`: what it ended with; None: it did not start within START_SECONDS."""

    def __init__(self, status: int | None) -> None:
        late = f"did not start within {START_SECONDS:.0f} s"
        super().__init__(late if status is None else f"ended at once (status {status})")
        self.status = status


class ChildHost:
    """A host that has been started, and takes a while to listen: `wait_ready` waits for that.

    Args:
        device: name of the device it serves.
        url: where it listens.
        options: further arguments of `farlane serve`.
        environment: all of its variables.
    """

    def __init__(self, device: str, url: str, options: Sequence[str], environment: Mapping[str, str]) -> None:
        self._ready, writer = os.pipe()
        # The guest prints what concerns it: the host repeating it on the same terminal would only confuse.
        # What starts the program analyzes it.
        arguments = [sys.executable, "-m", MODULE, "--device", device, "--listen", url, "--no-analyze"]
        arguments += ["--die-with-parent", str(os.getpid()), "--ready-fd", str(writer), "--log-level", "error"]
        arguments += options
        try:
            # A process group of its own: the terminal's Ctrl-C reaches the program, whose last work the host then still does.
            self.process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(writer,),
                process_group=0,
                # numpy's linear algebra, which the host does not use, would start a thread for each processor.
                env={"OPENBLAS_NUM_THREADS": "1", **environment},
            )
        except BaseException:
            os.close(self._ready)
            raise
        finally:
            os.close(writer)

    def wait_ready(self) -> None:
        """Returns when the host listens. To be called once. Raises NotReadyError; the process is ended then."""
        try:
            ready, _, _ = select.select([self._ready], [], [], START_SECONDS)
            if ready and os.read(self._ready, 4096):
                return
            if not ready:
                self.process.kill()
            status = self.process.wait()  # without a word: its message is on stderr
        finally:
            self.close()
        raise NotReadyError(status if ready else None)

    def close(self) -> None:
        """Gives the pipe back where nothing waited for it. Idempotent."""
        if self._ready >= 0:
            os.close(self._ready)
            self._ready = -1
