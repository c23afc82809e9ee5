"""Other Debian releases, each a folder with its C library and compiler, in which commands run as on a machine of that release.

Usage: python tests/glibc/roots.py    (makes what is missing, so that the tests need not wait for it)

Owns `<cache>/roots/<release>`: `apt` (packages, with lists and settings apart from this machine's), `root` (the packages, unpacked). A
command enters `root` in a mount namespace of its own, where this machine's folders appear at their own paths. Also clean systems, as
debootstrap makes them: `<cache>/roots/clean-<release>`.
Needs apt-get, Debian's keyring, and either root's rights or user namespaces; clean systems need root's rights and debootstrap.
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

from farlane.frontend.devtools import debian
from farlane.frontend.devtools.debian import Unavailable
from farlane.frontend.devtools.toolchain import cache_folder, locked

PACKAGES = ("base-files", "libc6-dev", "g++", "dash", "coreutils", "sed", "grep")
HOST_NEEDS = ("python3", "systemd", "libstdc++6")  # what the package farlane-host depends on, besides the C library
# Of a clean system's commands.
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
REPOSITORY = Path(__file__).resolve().parents[2]
ENTER = """
root=$1; shift
for folder in $1; do mkdir -p "$root$folder" && mount --rbind "$folder" "$root$folder" || exit 125; done
shift
if [ $$ = 1 ]; then mount -t proc proc "$root/proc" || exit 125; fi
exec chroot "$root" "$@"
"""


@dataclass(frozen=True)
class Release:
    """A Debian release. `glibc` is its C library's version."""

    name: str
    glibc: str

    @property
    def folder(self) -> Path:
        return cache_folder() / "roots" / self.name

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], timeout: float = 120, folder: Path = REPOSITORY
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command in the release, with that environment and no other."""
        places = ["/proc", "/dev", tempfile.gettempdir(), str(REPOSITORY), str(cache_folder())]
        return enter(self.folder / "root", places, command, environment, timeout, folder)


def enter(
    root: Path,
    places: Sequence[str],
    command: Sequence[str],
    environment: Mapping[str, str],
    timeout: float,
    folder: Path,
    users: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a root folder, where these folders of this machine appear at their own paths.

    Args:
        users: it makes users and gives files to them, which takes root's own rights.
    """
    space = [] if users else ["--map-root-user"]
    words = entering(space, root, places, command, environment, folder)
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout)


def entering(
    space: Sequence[str],
    root: Path,
    places: Sequence[str],
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
) -> list[str]:
    """The command line of `enter`. `space` has unshare's options; with `--pid --fork` the root gets a /proc of its own."""
    words = ["unshare", *space, "--mount", "--", "sh", "-c", ENTER, "sh", str(root)]
    inside = ["/usr/bin/env", "-i", "-C", str(folder), *(f"{name}={value}" for name, value in environment.items())]
    return [*words, " ".join(dict.fromkeys(places)), *inside, *command]


def clean(release: str, packages: Sequence[str] = ()) -> Path:
    """A minimal system of the release, as debootstrap makes it, with these packages. It is not to be changed: copy it.

    Raises:
        Unavailable: debootstrap cannot make it here.
    """
    if shutil.which("debootstrap") is None:
        raise Unavailable("debootstrap is not installed")
    if os.geteuid() != 0:
        raise Unavailable("debootstrap needs root's rights")
    root = cache_folder() / "roots" / "-".join(("clean", release, *packages))
    root.parent.mkdir(parents=True, exist_ok=True)
    with locked(root.with_suffix(".lock")):
        if not root.exists():
            partial = root.with_suffix(".new")
            shutil.rmtree(partial, ignore_errors=True)
            include = [f"--include={','.join(packages)}"] if packages else []
            command = ["debootstrap", "--variant=minbase", *include, release, str(partial), debian.MIRROR]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                said = f"{done.stdout[-300:]}{done.stderr[-300:]}"
                raise Unavailable(f"debootstrap cannot make Debian {release} here: {said}")
            partial.rename(root)
    return root


RELEASES = {
    release.name: release
    for release in (Release("bullseye", "2.31"), Release("bookworm", "2.36"), Release("trixie", "2.41"))
}


@functools.cache
def release(name: str) -> Release:
    """The release, unpacked.

    Raises:
        Unavailable: this machine cannot download its packages or enter its folder.
    """
    found = RELEASES[name]
    debian.require_tools(name)
    if shutil.which("unshare") is None:
        raise Unavailable(f"the folder of Debian {name} cannot be entered here: unshare is not installed")
    with locked(found.folder.with_name(f"{name}.lock")):
        root = found.folder / "root"
        if not (root / "unpacked").exists():
            debian.unpack(debian.Archive(name, found.folder).with_dependencies(PACKAGES), root)
            for link, target in (("bin/sh", "dash"), ("usr/bin/cc", "gcc")):
                if not (root / link).exists():
                    (root / link).symlink_to(target)
            (root / "unpacked").touch()
    tried = found.run(["/bin/sh", "-c", "echo entered"], {})
    if tried.stdout != "entered\n":
        raise Unavailable(f"the folder of Debian {name} cannot be entered here: {tried.stderr.strip()}")
    return found


def main() -> int:
    for name in RELEASES:
        try:
            print(f"Debian {name}: {release(name).folder}", flush=True)
        except Unavailable as reason:
            print(f"Debian {name}: not available: {reason}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
