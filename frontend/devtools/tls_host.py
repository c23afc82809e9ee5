"""A host with TLS in a process of its own, for tests and demos: `farlane host init` and `farlane serve`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

FARLANE = [sys.executable, "-m", "farlane.frontend.cli"]
STOP_SECONDS = 30.0


class TlsHost:
    """A context manager; started again by `restart` it listens on the same port with the same certificate.

    Args:
        folder: an empty folder, which the host's settings go into.
        names: names and addresses by which guests come, besides loopback.
        options: of `farlane serve`.
    """

    def __init__(self, folder: Path, names: Iterable[str], options: Iterable[str] = ()) -> None:
        self.folder = folder / "host"
        self.ca = self.folder / "ca.pem"
        self.token = folder / "token"
        self.port = 0
        self._options = tuple(options)
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        named = [word for name in names for word in ("--name", name)]
        init = [*FARLANE, "host", "init", "--folder", str(self.folder), *named, "--token-file", str(self.token)]
        subprocess.run(init, check=True, stdout=subprocess.DEVNULL, env=self._environment())

    def __enter__(self) -> TlsHost:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when it listens."""
        read, write = os.pipe()
        command = [*FARLANE, "serve", "--folder", str(self.folder), "--ready-fd", str(write)]
        command += ["--listen", f"farlane+tls://127.0.0.1:{self.port}", *self._options]  # the first line names the port
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                command, pass_fds=[write], stdout=subprocess.DEVNULL, stderr=log, env=self._environment()
            )
        os.close(write)
        with os.fdopen(read) as ready:
            line = ready.readline()
        if not line:
            raise RuntimeError(f"the host did not start: {self._log.read_text()[-2000:]}")
        self.port = int(line.strip().rpartition(":")[2])

    def stop(self, *, killed: bool = False) -> None:
        """Ends it, with a farewell to its guests or without."""
        if self._process is not None:
            if killed:
                self._process.kill()
            else:
                self._process.terminate()
            self._process.wait(STOP_SECONDS)
            self._process = None

    def url(self, name: str = "127.0.0.1") -> str:
        return f"farlane+tls://{name}:{self.port}"

    def access(self) -> dict[str, str]:
        """Variables by which a guest of this machine knows it and is let in."""
        return {"FARLANE_CA": str(self.ca), "FARLANE_TOKEN_FILE": str(self.token)}

    def top(self) -> dict[str, Any]:
        """What runs on it, as `farlane top --json` says."""
        command = [*FARLANE, "top", "--json", "--host", self.url()]
        environment = self._environment() | self.access()
        shown = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        found: dict[str, Any] = json.loads(shown)
        return found

    @staticmethod
    def _environment() -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
