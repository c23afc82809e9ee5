"""Checks of what this machine lets processes do: generated code, shared memory, limits, sockets, the cache, settings."""

from __future__ import annotations

import ctypes.util
import mmap
import os
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

from farlane.frontend import shim_library
from farlane.frontend.doctor.finding import FAILED, NOTE, OK, Finding
from farlane.hosturl import variables

MOST_PATH = 107  # bytes of a Unix socket's path
EMBEDDED_SOCKET = "farlane-xxxxxxxx/host.sock"
ADDRESS_SPACE = 88 << 30  # a session reserves 80 GiB for its device memory, without using them
OPEN_FILES = 256


def check_generated_code() -> Iterator[Finding]:
    """A process may run code that it has made: the simulated device compiles kernels."""
    try:
        mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
    except OSError as error:
        yield Finding(
            FAILED,
            "generated-code",
            f"this machine forbids processes to run code that they generate ({error.strerror}): no kernel can be compiled",
            "Allow it for the host: SELinux's deny_execmem, systemd's MemoryDenyWriteExecute= or a seccomp filter forbids it. "
            "Or use a host on another machine (--host).",
        )
        return
    yield Finding(OK, "generated-code", f"generated code may run{_confinement()}")


def _confinement() -> str:
    """What confines this process, as far as it can be read."""
    found = []
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        status = ""
    if "Seccomp:\t2" in status:
        found.append("seccomp")
    try:
        if Path("/sys/fs/selinux/enforce").read_text().strip() == "1":
            found.append("SELinux")
    except OSError:
        pass
    return f" (under {' and '.join(found)})" if found else ""


def check_shared_memory() -> Iterator[Finding]:
    """Guest and host of one machine can share memory."""
    try:
        os.close(os.memfd_create("farlane-doctor"))
    except OSError as error:
        text = f"there is no shared memory (memfd_create: {error.strerror}): messages go through sockets, more slowly"
        yield Finding(NOTE, "shared-memory", text, "Allow memfd_create in the container's seccomp filter.")
        return
    yield Finding(OK, "shared-memory", "shared memory for guests and hosts of this machine")


def check_limits() -> Iterator[Finding]:
    """The limits of processes (ulimit) leave room for device memory and connections."""
    space = resource.getrlimit(resource.RLIMIT_AS)[0]
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    fine = True
    if space != resource.RLIM_INFINITY and space < ADDRESS_SPACE:
        fine = False
        yield Finding(
            FAILED,
            "limits",
            f"a process may have {space >> 20} MiB of address space only: device memory cannot be reserved",
            "Remove the limit: `ulimit -v unlimited`, or LimitAS= of the service. --quota bounds what programs use.",
        )
    if files != resource.RLIM_INFINITY and files < OPEN_FILES:
        fine = False
        text = f"a process may have {files} open files only: a host with several sessions needs more"
        yield Finding(NOTE, "limits", text, "Raise the limit: `ulimit -n 4096`, or LimitNOFILE= of the service.")
    if fine:
        yield Finding(OK, "limits", "limits of address space and open files")


def check_temporary_folder() -> Iterator[Finding]:
    """The embedded host can listen on a socket in the folder for temporary files."""
    try:
        folder = tempfile.gettempdir()
        with tempfile.TemporaryDirectory(prefix="farlane-"):
            pass
    except OSError as error:
        text = f"no folder for temporary files can be written: {error.strerror}"
        yield Finding(FAILED, "temporary-folder", text, "Set TMPDIR to a folder that exists and can be written.")
        return
    length = len(os.fsencode(os.path.join(folder, EMBEDDED_SOCKET)))
    if length > MOST_PATH:
        text = f"the path {folder} is too long: a socket in it would have {length} bytes, and {MOST_PATH} are allowed"
        yield Finding(FAILED, "temporary-folder", text, "Set TMPDIR to a shorter path: TMPDIR=/tmp.")
        return
    yield Finding(OK, "temporary-folder", f"temporary files in {folder}")


def cache_folder() -> Path:
    """Where compiled kernels are kept between runs."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get(variables.CACHE) or os.path.join(root, "farlane"))


def check_cache() -> Iterator[Finding]:
    """Compiled kernels and manifests can be kept for the next run."""
    folder = cache_folder()
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        yield Finding(
            NOTE,
            "cache",
            f"nothing can be kept in {folder}: kernels are compiled anew in each run",
            f"Make {there} writable, or set {variables.CACHE} to a folder that is.",
        )
    else:
        yield Finding(OK, "cache", f"compiled kernels are kept in {folder}")


def check_settings() -> Iterator[Finding]:
    """Variables of the environment that change what `farlane run` does."""
    for name in ("FARLANE_HOST", "FARLANE_DEFER", "LD_PRELOAD"):
        if value := os.environ.get(name):
            yield Finding(NOTE, "settings", f"{name}={value} is set")
    mode = os.environ.get("FARLANE_DEFER")
    if mode and mode not in shim_library.MODES:
        advice = f"Set it to one of {', '.join(shim_library.MODES)}, or unset it."
        yield Finding(FAILED, "settings", f"FARLANE_DEFER={mode} is no deferral mode", advice)
    if found := ctypes.util.find_library("cuda"):
        text = f"NVIDIA's driver library {found} is on this machine; programs under `farlane run` do not use it"
        yield Finding(NOTE, "settings", text)
