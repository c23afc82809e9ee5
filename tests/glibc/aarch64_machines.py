"""Virtual machines for AArch64 in QEMU, which run one script to its end: a Debian kernel, and a root file system in memory.

A kernel of its own does what QEMU's emulation of one program cannot (second mappings of shared memory), and may have larger pages.
Owns `<cache>/vm/<kernel>`: the kernel and its release's C library, unpacked. Needs qemu-system-aarch64 (Debian's qemu-system-arm).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from farlane.frontend.devtools import debian, guest_image
from farlane.frontend.devtools.debian import Unavailable
from farlane.frontend.devtools.toolchain import cache_folder, locked

QEMU = "qemu-system-aarch64"
RELEASE = "trixie"
HOST = "10.0.2.2"  # this machine, as QEMU's user networking has it
MULTIARCH = "aarch64-linux-gnu"
LOADER = "ld-linux-aarch64.so.1"
LIBRARIES = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6")
MODULES = ("failover", "net_failover", "virtio_net")  # the rest is in the kernels
FOLDERS = ("dev", "proc", "sys", "tmp", "usr/bin", "usr/sbin", "sbin")
END = "the script has ended"
INIT = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin HOME=/
mount -t devtmpfs devices /dev
mount -t proc processes /proc
mount -t sysfs system /sys
mount -t tmpfs temporary /tmp
exec </dev/ttyAMA0 >/dev/ttyAMA0 2>&1
stty -onlcr
for module in /lib/modules/*.ko; do insmod "$module"; done
ip link set lo up
ip link set eth0 up
ip address add 10.0.2.15/24 dev eth0
ip route add default via {HOST}
sh /script
echo "{END}"
poweroff -f
"""


def run(kernel: str, files: Mapping[str, Path], script: str, timeout: float) -> str:
    """What the script prints, of the standard streams.

    Args:
        kernel: Debian's package that leads to the newest one of its kind.
        files: what is in the root file system besides, by name.

    Raises:
        Unavailable: QEMU or the packages cannot be had here.
    """
    if shutil.which(QEMU) is None:
        raise Unavailable(f"{QEMU} is not installed (apt-get install qemu-system-arm)")
    folder = cache_folder() / "vm" / f"{RELEASE}-{kernel}"
    with locked(folder.with_name(f"{folder.name}.lock")):
        unpacked = folder / "unpacked"
        if not (unpacked / "complete").exists():
            archive = debian.Archive(RELEASE, folder, "arm64")
            packages = [archive.first_dependency(kernel), "busybox-static", "libc6", "libgcc-s1", "libstdc++6"]
            debian.unpack(archive.alone(packages), unpacked)
            (unpacked / "complete").touch()
        root = folder / "root.cpio"
        _write_root(root, unpacked, files, script)
        (image,) = (unpacked / "boot").glob("vmlinuz-*")
        command = [
            QEMU,
            "-machine",
            "virt",
            "-cpu",
            "max",
            "-m",
            "1024",
            "-display",
            "none",
            "-nodefaults",
            "-no-reboot",
        ]
        command += ["-kernel", str(image), "-initrd", str(root), "-append", "console=ttyAMA0 loglevel=3 panic=-1"]
        command += ["-serial", "stdio", "-nic", "user,model=virtio-net-pci"]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout
        )
    printed, ended, _ = done.stdout.partition(f"{END}\n")
    assert ended, done.stdout[-2000:] + done.stderr
    return printed


def _write_root(target: Path, unpacked: Path, files: Mapping[str, Path], script: str) -> None:
    content: dict[str, Path | bytes | None] = dict.fromkeys(FOLDERS)
    content["init"], content["script"] = INIT.encode(), script.encode()
    content["bin/busybox"] = guest_image.found(unpacked, "busybox")
    for library in (*LIBRARIES, LOADER):
        content[f"lib/{MULTIARCH}/{library}"] = guest_image.found(unpacked, library)
    content[f"lib/{LOADER}"] = content[f"lib/{MULTIARCH}/{LOADER}"]
    (modules,) = unpacked.glob("usr/lib/modules/*")
    for number, name in enumerate(MODULES):
        content[f"lib/modules/{number}-{name}.ko"] = guest_image.module(modules, name)
    guest_image.write_archive(target, content | files, executable={"init", "bin/busybox"})
