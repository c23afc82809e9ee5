"""Debian systems for AArch64, each a folder with its C library, in which commands run by QEMU's emulation of one program at a time.

Owns `<cache>/roots/<release>-arm64`. The kernel starts programs of the other processor by QEMU (binfmt_misc), for a command in a root and
its children only: since Linux 6.7 a user namespace has a table of its own, which this machine's does not see.
Needs qemu-aarch64-static (Debian's qemu-user-static), apt-get and Debian's keyring.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from farlane.frontend.devtools import debian
from farlane.frontend.devtools.debian import Unavailable
from farlane.frontend.devtools.toolchain import cache_folder, locked

QEMU = "qemu-aarch64-static"
PACKAGES = ("base-files", "libc6", "libgcc-s1", "libstdc++6")
RELEASES = ("bullseye", "trixie")  # glibc 2.31 and 2.41
# An ELF file's head for AArch64; the mask leaves out what differs between kinds of files. F: QEMU is opened here, outside of the root.
MAGIC = r"\x7f\x45\x4c\x46\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
ENTER = r"""
root=$1; qemu=$2; places=$3; shift 3
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc || exit 125
printf '%s' ":farlane-aarch64:M::MAGIC:MASK:$qemu:F" > /proc/sys/fs/binfmt_misc/register || exit 125
for folder in $places; do mkdir -p "$root$folder" && mount --rbind "$folder" "$root$folder" || exit 125; done
exec chroot "$root" "$@"
""".replace("MAGIC", MAGIC).replace("MASK", MASK)


@dataclass(frozen=True)
class System:
    """A system in a folder."""

    root: Path

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command of the system with that environment and no other; temporary files of this machine are at their own paths."""
        qemu = shutil.which(QEMU)
        assert qemu is not None, QEMU
        places = " ".join(("/proc", "/dev", tempfile.gettempdir()))
        words = ["unshare", "--user", "--map-root-user", "--mount", "--", "sh", "-c", ENTER, "sh", str(self.root)]
        words += [qemu, places, *command]
        outside = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        return subprocess.run(
            words, env=outside | environment, capture_output=True, text=True, timeout=timeout, cwd="/"
        )

    def with_package(self, package: Path, folder: Path) -> System:
        """A copy in a new folder, with a Debian package unpacked."""
        subprocess.run(["cp", "-a", str(self.root), str(folder)], check=True)
        subprocess.run(["dpkg-deb", "--extract", str(package), str(folder)], check=True)
        return System(folder)


@functools.cache
def system(release: str) -> System:
    """The release, with what programs in C and C++ need to run. It is not to be changed: copy it.

    Raises:
        Unavailable: this machine cannot download its packages or run its programs.
    """
    for tool in (QEMU, "unshare"):
        if shutil.which(tool) is None:
            raise Unavailable(f"programs for AArch64 cannot be run here: {tool} is not installed")
    folder = cache_folder() / "roots" / f"{release}-arm64"
    with locked(folder.with_name(f"{folder.name}.lock")):
        root = folder / "root"
        if not (root / "unpacked").exists():
            archive = debian.Archive(release, folder, "arm64")
            # libc6-dev alone: with its start-up code a program can be linked that runs with this release's C library.
            debian.unpack([*archive.with_dependencies(PACKAGES), *archive.alone(["libc6-dev"])], root)
            (root / "unpacked").touch()
    found = System(root)
    tried = found.run(["/usr/bin/mawk", 'BEGIN { print ENVIRON["WORD"] }'], {"WORD": "entered"})
    if tried.stdout != "entered\n":
        raise Unavailable(
            f"programs of Debian {release} for AArch64 cannot be run here (it takes a namespace of users, and Linux 6.7): "
            f"{tried.stderr.strip()}"
        )
    return found
