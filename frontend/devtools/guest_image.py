"""The kernel and the root file system of a small virtual machine, from Debian's packages: a guest without Python and without NVIDIA's software.

Owns `<cache>/vm/<release>`: `kernel`, and `root.cpio`, which the kernel unpacks into memory. In it are busybox, the C and C++ libraries, the
kernel's modules for its devices, and `guest_init.sh` as /init. What differs from boot to boot (the shim, programs, a token) is a second
archive that the kernel unpacks over the first (`write_archive`).
"""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from farlane.frontend.devtools import debian
from farlane.frontend.devtools.toolchain import cache_folder, locked

RELEASE = "bookworm"
KERNEL = "linux-image-cloud-amd64"
LIBRARY_PACKAGES = ("libc6", "libgcc-s1", "libstdc++6")
INIT = Path(__file__).with_name("guest_init.sh")
LIBRARIES = (
    *("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6"),
    "ld-linux-x86-64.so.2",
)
# In the order in which the kernel takes them.
MODULES = (
    *("virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk"),
    *("failover", "net_failover", "virtio_net"),
    *("vsock", "vmw_vsock_virtio_transport_common", "vmw_vsock_virtio_transport", "vsock_loopback"),
)
MULTIARCH = "x86_64-linux-gnu"
CPIO_END = "TRAILER!!!"


@dataclass(frozen=True)
class GuestImage:
    """A kernel, and the archive of the root file system."""

    kernel: Path
    root: Path


def guest_image() -> GuestImage:
    """The image, made when it is not there yet. Raises debian.Unavailable where its packages cannot be had."""
    folder = cache_folder() / "vm" / RELEASE
    image = GuestImage(folder / "kernel", folder / "root.cpio")
    with locked(folder.with_name(f"{RELEASE}.lock")):
        newest = max(path.stat().st_mtime for path in (Path(__file__), INIT))
        if not image.root.exists() or image.root.stat().st_mtime < newest:
            _make(image, folder)
    return image


def _make(image: GuestImage, folder: Path) -> None:
    archive = debian.Archive(RELEASE, folder)
    packages = archive.alone([archive.first_dependency(KERNEL), "busybox-static", *LIBRARY_PACKAGES])
    unpacked = folder / "unpacked"
    debian.unpack(packages, unpacked)
    (kernel,) = (unpacked / "boot").glob("vmlinuz-*")
    shutil.copy(kernel, image.kernel)
    (modules,) = unpacked.glob("lib/modules/*")
    content: dict[str, Path | bytes | None] = dict.fromkeys(
        ("dev", "proc", "sys", "tmp", "etc", "run", "lib64", "lib/modules", "demo", "disk")
    )
    content["init"] = INIT
    content["bin/busybox"] = found(unpacked, "busybox")
    for library in LIBRARIES:
        content[f"lib/{MULTIARCH}/{library}"] = found(unpacked, library)
    content["lib64/ld-linux-x86-64.so.2"] = content[f"lib/{MULTIARCH}/ld-linux-x86-64.so.2"]
    for number, name in enumerate(MODULES):
        content[f"lib/modules/{number:02}-{name}.ko"] = module(modules, name)
    content["etc/hosts"] = b"127.0.0.1 localhost\n10.0.2.2 host\n"
    content["etc/passwd"] = b"root:x:0:0:root:/:/bin/sh\n"
    partial = image.root.with_suffix(".new")
    write_archive(partial, content, executable={"init", "bin/busybox"})
    partial.replace(image.root)
    shutil.rmtree(unpacked)


def found(root: Path, name: str) -> Path:
    """A file of the packages, whatever folder they have it in; links are followed."""
    files = [path for path in root.rglob(name) if path.is_file() and ("lib" in path.parts or "bin" in path.parts)]
    if not files:
        raise debian.Unavailable(f"Debian's packages that are unpacked in {root} have no {name}")
    return files[0].resolve()


def module(modules: Path, name: str) -> bytes:
    """A module of the kernel's, unpacked. Of a name "-" and "_" are the same."""
    for path in modules.rglob("*.ko*"):
        if path.name.partition(".ko")[0].replace("-", "_") == name:
            content = path.read_bytes()
            return {".xz": lzma.decompress, ".gz": gzip.decompress}.get(path.suffix, bytes)(content)
    raise debian.Unavailable(f"the kernel with {modules} has no module {name}")


def write_archive(target: Path, content: Mapping[str, Path | bytes | None], executable: Iterable[str] = ()) -> None:
    """Writes an archive that a kernel unpacks at its start (cpio, "newc").

    Args:
        content: files by name, as bytes or as a file to copy with its mode; None is a folder. Folders above them are added.
        executable: names of files that can be executed whatever their mode here is.
    """
    executable = set(executable)
    with target.open("wb") as output:
        for number, (name, source) in enumerate(_with_folders(content), 1):
            data = source.read_bytes() if isinstance(source, Path) else source or b""
            mode = stat.S_IFDIR | 0o755 if source is None else stat.S_IFREG | 0o644
            if name in executable or (isinstance(source, Path) and os.access(source, os.X_OK)):
                mode |= 0o111
            output.write(_entry(number, name, mode, data))
        output.write(_entry(0, CPIO_END, 0, b""))


def _with_folders(content: Mapping[str, Path | bytes | None]) -> Iterator[tuple[str, Path | bytes | None]]:
    seen: set[str] = set()
    for name, source in content.items():
        for folder in reversed([str(path) for path in Path(name).parents if str(path) != "."]):
            if folder not in seen:
                seen.add(folder)
                yield folder, None
        if name not in seen:
            seen.add(name)
            yield name, source


def _entry(number: int, name: str, mode: int, data: bytes) -> bytes:
    """Source: Documentation/driver-api/early-userspace/buffer-format.rst of the Linux kernel."""
    encoded = name.encode() + b"\0"
    # inode, mode, user, group, links, time, size, four numbers of devices, length of the name, checksum
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    head = header + encoded
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)
