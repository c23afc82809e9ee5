"""Other Debian releases, each a folder with its C library and compiler, in which commands run as on a machine of that release.

Usage: python tests/glibc/roots.py    (makes what is missing, so that the tests need not wait for it)

Owns `<cache>/roots/<release>`: `apt` (packages, with lists and settings apart from this machine's), `root` (the packages, unpacked), `target`
(the shim's build there). A command enters `root` in a mount namespace of its own, where this machine's folders appear at their own paths.
Needs apt-get, Debian's keyring, and either root's rights or user namespaces; for a release older than this machine, rustup's cargo.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from farlane.frontend import shim_library
from farlane.frontend.devtools.toolchain import cache_folder, locked

MIRROR = "http://deb.debian.org/debian"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
PACKAGES = ("base-files", "libc6-dev", "g++", "dash", "coreutils", "sed", "grep")
REPOSITORY = Path(__file__).resolve().parents[2]
ENTER = """
root=$1; shift
for folder in $1; do mkdir -p "$root$folder" && mount --rbind "$folder" "$root$folder" || exit 125; done
shift
exec chroot "$root" "$@"
"""


class Unavailable(Exception):
    """The release cannot be had here; the message says why."""


@dataclass(frozen=True)
class Release:
    """A Debian release. `glibc` is its C library's version."""

    name: str
    glibc: str

    @property
    def folder(self) -> Path:
        return cache_folder() / "roots" / self.name

    @property
    def older_than_this_machine(self) -> bool:
        here = (os.confstr("CS_GNU_LIBC_VERSION") or "glibc 0.0").split()[1]
        return _number(self.glibc) < _number(here)

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], timeout: float = 120, folder: Path = REPOSITORY
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command in the release, with that environment and no other."""
        places = ["/proc", "/dev", tempfile.gettempdir(), str(REPOSITORY), str(cache_folder()), *_rust()]
        words = ["unshare", "--map-root-user", "--mount", "--", "sh", "-c", ENTER, "sh", str(self.folder / "root")]
        inside = ["/usr/bin/env", "-i", "-C", str(folder), *(f"{name}={value}" for name, value in environment.items())]
        words += [" ".join(dict.fromkeys(places)), *inside, *command]
        return subprocess.run(words, capture_output=True, text=True, timeout=timeout)


RELEASES = {release.name: release for release in (Release("bullseye", "2.31"), Release("trixie", "2.41"))}


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _rust() -> list[str]:
    homes = [os.environ.get("CARGO_HOME", "~/.cargo"), os.environ.get("RUSTUP_HOME", "~/.rustup")]
    folders = [os.path.expanduser(home) for home in homes]
    return [folder for folder in folders if os.path.isdir(folder)]


@functools.cache
def release(name: str) -> Release:
    """The release, unpacked.

    Raises:
        Unavailable: this machine cannot download its packages or enter its folder.
    """
    found = RELEASES[name]
    for tool in ("apt-get", "dpkg", "unshare"):
        if shutil.which(tool) is None:
            raise Unavailable(f"packages of Debian {name} cannot be had: {tool} is not installed")
    if not KEYRING.exists():
        raise Unavailable(f"packages of Debian {name} cannot be had: no {KEYRING} (debian-archive-keyring)")
    with locked(found.folder.with_name(f"{name}.lock")):
        if not (found.folder / "root/unpacked").exists():
            _download(found)
            _unpack(found)
    tried = found.run(["/bin/sh", "-c", "echo entered"], {})
    if tried.stdout != "entered\n":
        raise Unavailable(f"the folder of Debian {name} cannot be entered here: {tried.stderr.strip()}")
    return found


def _download(found: Release) -> None:
    apt = found.folder / "apt"
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    (apt / "sources.list").write_text(f"deb [signed-by={KEYRING}] {MIRROR} {found.name} main\n")
    settings = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State": apt / "state",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
        "APT::Architecture": "amd64",
        "APT::Update::Error-Mode": "any",
        "APT::Sandbox::User": "root",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    install = ["--no-install-recommends", "--download-only", "--yes", "install", *PACKAGES]
    for command in (["update"], install):
        done = subprocess.run(["apt-get", "-qq", *options, *command], capture_output=True, text=True)
        if done.returncode != 0:
            raise Unavailable(f"packages of Debian {found.name} cannot be had: {done.stderr.strip()[-300:]}")


def _unpack(found: Release) -> None:
    """Unpacks the packages without running their scripts."""
    packages = sorted((found.folder / "apt/cache/archives").glob("*.deb"))
    packages.sort(key=lambda package: not package.name.startswith("base-files_"))  # it has the links /lib -> usr/lib
    root = found.folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for package in packages:
        subprocess.run(["dpkg", "-x", package, root], check=True)
    for link, target in (("bin/sh", "dash"), ("usr/bin/cc", "gcc")):
        if not (root / link).exists():
            (root / link).symlink_to(target)
    (root / "unpacked").touch()


@functools.cache
def shim(found: Release) -> Path:
    """The folder of the shim's libraries for the release: those of this machine, or for an older release those whose core is built there.

    The other libraries use no C library, so they are the same everywhere.

    Raises:
        Unavailable: no cargo that runs in the release.
    """
    if not found.older_than_this_machine:
        return shim_library.FOLDER
    cargo = next((Path(home) / "bin/cargo" for home in _rust() if (Path(home) / "bin/cargo").exists()), None)
    if cargo is None:
        raise Unavailable(f"the shim cannot be built for Debian {found.name}: no cargo of rustup's")
    target = found.folder / "target"
    command = [str(cargo), "build", "--locked", "--offline", "--quiet", "--release", "--package", "farlane_core"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    environment |= {name: os.environ[name] for name in ("CARGO_HOME", "RUSTUP_HOME") if name in os.environ}
    source = REPOSITORY / "frontend/shim"
    with locked(found.folder.with_name(f"{found.name}.lock")):
        done = found.run([*command, "--target-dir", str(target)], environment, timeout=3600, folder=source)
        assert done.returncode == 0, done.stderr
        folder = found.folder / "lib"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(shim_library.FOLDER, folder)
        shutil.copy2(target / "release" / shim_library.CORE, folder)
    return folder


def main() -> int:
    for name in RELEASES:
        try:
            print(f"Debian {name}: {release(name).folder}, shim {shim(release(name))}", flush=True)
        except Unavailable as reason:
            print(f"Debian {name}: not available: {reason}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
