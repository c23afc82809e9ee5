"""Packages of a Debian release, downloaded and unpacked without installing them: for tests and demos that need another system than this machine.

Owns the downloads' bookkeeping: `folder/apt` has lists and settings apart from this machine's. No package's scripts run.
Needs apt-get, dpkg and Debian's keyring.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

MIRROR = "http://deb.debian.org/debian"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Unavailable(Exception):
    """Packages cannot be had here; the message says why."""


def require_tools(release: str) -> None:
    """Raises Unavailable where packages of the release cannot be downloaded and unpacked."""
    for tool in ("apt-get", "dpkg", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Unavailable(f"packages of Debian {release} cannot be had: {tool} is not installed")
    if not KEYRING.exists():
        raise Unavailable(f"packages of Debian {release} cannot be had: no {KEYRING} (debian-archive-keyring)")


class Archive:
    """A release's packages for one architecture (Debian's name), as files below `folder`.

    Raises:
        Unavailable: by every method, when a download fails.
    """

    def __init__(self, release: str, folder: Path, architecture: str = "amd64") -> None:
        require_tools(release)
        self.release = release
        self._architecture = architecture
        self._apt = folder / "apt"
        self._listed = False

    def with_dependencies(self, packages: Iterable[str]) -> list[Path]:
        """The packages and all that they need to run, each once."""
        self._run(["apt-get", "--no-install-recommends", "--download-only", "--yes", "install", *packages])
        return sorted((self._apt / "cache/archives").glob("*.deb"))

    def alone(self, packages: Sequence[str]) -> list[Path]:
        """The packages without what they need."""
        folder = self._apt / "single"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._run(["apt-get", "download", *packages], folder)
        return sorted(folder.glob("*.deb"))

    def first_dependency(self, package: str) -> str:
        """What an empty package, which stands for the newest of its kind, leads to."""
        shown = self._run(["apt-cache", "show", "--no-all-versions", package])
        found = re.search(r"^Depends: (\S+)", shown, re.MULTILINE)
        if found is None:
            raise Unavailable(f"{package} of Debian {self.release} leads to no other package")
        return found[1]

    def _run(self, command: Sequence[str], folder: Path | None = None) -> str:
        if not self._listed:
            self._listed = True
            for name in ("state/lists/partial", "cache/archives/partial"):
                (self._apt / name).mkdir(parents=True, exist_ok=True)
            (self._apt / "status").touch()
            source = f"deb [signed-by={KEYRING}] {MIRROR} {self.release} main\n"
            (self._apt / "sources.list").write_text(source)
            self._run(["apt-get", "update"])
        options = [word for name, value in self._settings().items() for word in ("-o", f"{name}={value}")]
        done = subprocess.run(
            [command[0], *(["-qq"] if command[0] == "apt-get" else []), *options, *command[1:]],
            capture_output=True,
            text=True,
            cwd=folder,
        )
        if done.returncode != 0:
            raise Unavailable(f"packages of Debian {self.release} cannot be had: {done.stderr.strip()[-300:]}")
        return done.stdout

    def _settings(self) -> Mapping[str, object]:
        return {
            "Dir::Etc::sourcelist": self._apt / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::State": self._apt / "state",
            "Dir::State::status": self._apt / "status",
            "Dir::Cache": self._apt / "cache",
            "APT::Architecture": self._architecture,
            "APT::Architectures": self._architecture,
            "APT::Update::Error-Mode": "any",
            "APT::Sandbox::User": "root",
        }


def unpack(packages: Iterable[Path], root: Path) -> None:
    """Unpacks packages into a new folder, without running their scripts."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    # base-files has the links /lib -> usr/lib.
    for package in sorted(packages, key=lambda package: (not package.name.startswith("base-files_"), package.name)):
        subprocess.run(["dpkg", "-x", package, root], check=True)
