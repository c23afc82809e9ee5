"""What a worker may still do once it has a guest: it replays, and reaches nothing of others, should it ever be taken over.

A guest's work is machine code in the worker's process. Kernels stay inside their memory (docs/explanation/simulated-device/README.md); this is the second wall, for the
day that the first one has a hole. Two steps (backend/plane/confinement):

1. At the process's beginning, before any library has started a thread (start.py): files. The worker reads the interpreter, Farlane, and the
   system's libraries, and writes none. No network, no signals to others.
2. When the session opens: system calls. It opens files only to read them, makes no sockets and no processes.

What it compiles the host keeps for it (code.py). Where the host runs as root, a worker has a user of its own (users.py).

Owns the folders, the limits and the variables that a worker gets.
"""

from __future__ import annotations

import os
import platform
import resource
import sys
import sysconfig
from collections.abc import Mapping
from importlib.util import find_spec

from farlane.backend import plane

# What the C library, the interpreter and LLVM read of the system. Not /etc: it has others' secrets.
_SYSTEM = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/localtime",
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage",
    "/dev/urandom", "/dev/null",
)  # fmt: skip
# Farlane's packages that a worker imports: in a source tree they lie in several folders.
_OWN = (
    "farlane",
    "farlane.backend",
    "farlane.demangle",
    "farlane.fatbin",
    "farlane.hosturl",
    "farlane.limits",
    "farlane.v1",
)
# Of the host's variables. Others may be secrets.
_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
_PREFIXES = ("PYTHON", "FARLANE_SIM", "FARLANE_JIT", "COV_CORE")
_FILES = 1024


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a worker."""
    return {name: value for name, value in environment.items() if name in _VARIABLES or name.startswith(_PREFIXES)}


def restrict_files() -> str:
    """The first step; the process must have one thread. Returns how much the kernel enforces (plane.restrict_files).

    Raises:
        OSError: the kernel refuses what it has.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core is a file, with the guest's data
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    installed = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    own = [folder for name in _OWN if (spec := find_spec(name)) for folder in spec.submodule_search_locations or ()]
    shared = os.path.join(sys.base_prefix, "lib")  # of the interpreter, where it is not the system's
    read = [path for path in (*_SYSTEM, *installed, *own, shared, *sys.path) if path and os.path.exists(path)]
    return plane.restrict_files(sorted(set(read)))


def restrict_calls() -> None:
    """The second step. Raises OSError."""
    plane.restrict_calls()


def is_supported() -> bool:
    """Whether this system has what the second step needs; what the first one finds is said by the worker."""
    return sys.platform == "linux" and platform.machine() == "x86_64"
