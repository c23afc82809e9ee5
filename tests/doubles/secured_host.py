"""A host that other machines may use, as a process, and what its guests run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from farlane.backend.security.folder import Folder


def farlane(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    command = [sys.executable, "-m", "farlane.frontend.cli", *arguments]
    return subprocess.run(command, env=clean | environment, capture_output=True, text=True, timeout=120)


def done(*arguments: str, **environment: str) -> str:
    outcome = farlane(*arguments, **environment)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


class Host:
    """A host that listens with TLS at all loopback addresses."""

    def __init__(self, path: Path, *arguments: str, within: Sequence[str] = ()) -> None:
        """`within`: a command that runs the host's."""
        self.folder = Folder(path / "host")
        said = done("host", "init", "--folder", str(self.folder.path))
        found = re.search("FARLANE_TOKEN=(\\S+)", said)
        assert found, said
        self.token = found[1]
        read, write = os.pipe()
        command = [*within, sys.executable, "-m", "farlane.backend.commands.serve", "--folder", str(self.folder.path)]
        command += ["--listen", "farlane+tls://0.0.0.0:0", "--ready-fd", str(write), *arguments]
        self._log = (path / "log").open("w+")
        self.process = subprocess.Popen(command, pass_fds=[write], stdout=subprocess.DEVNULL, stderr=self._log)
        os.close(write)
        with os.fdopen(read) as ready:
            self.port = int(ready.readline().rpartition(":")[2])

    def url(self, name: str = "localhost") -> str:
        return f"farlane+tls://{name}:{self.port}"

    def access(self, token: str | None = None) -> dict[str, str]:
        return {"FARLANE_CA": str(self.folder.authority), "FARLANE_TOKEN": self.token if token is None else token}

    def audit(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.folder.audit.read_text().splitlines()]

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        self._log.close()


def refused(outcome: subprocess.CompletedProcess[str], words: str) -> None:
    """The guest says it once, in a line."""
    assert outcome.returncode != 0
    lines = [line for line in outcome.stderr.splitlines() if line.startswith("farlane: ")]
    assert len(lines) == 1, outcome.stderr
    assert words in lines[0]
