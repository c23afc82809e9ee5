"""The oldest C library that what we build runs on: glibc 2.28, on x86-64 and AArch64.

The linker takes the newest version of each symbol that this machine's glibc has. Since 2.34 `libc.so.6` has what was in `libpthread.so.0`
and `libdl.so.2`, under new versions. So two libraries of these names, which hold only symbols and their old versions, come before it in the
linker's search: what is linked asks for the old versions, as a program does that was built on an old system. A newer glibc has them, too.
Functions that had no symbol in 2.28 are linked in (glibc_floor.c). On other processors nothing is done: what is built there needs this
machine's glibc. tests/unit/shim/test_glibc_floor.py checks the result, tests/e2e/packages/test_aarch64.py that for AArch64.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

VERSION = (2, 28)
SOURCE = Path(__file__).with_name("glibc_floor.c")
GLIBC_2_2_5, GLIBC_2_3_3, GLIBC_2_12 = "GLIBC_2.2.5", "GLIBC_2.3.3", "GLIBC_2.12"
PTHREAD: Mapping[str, str] = {
    "pthread_attr_getguardsize": GLIBC_2_2_5,
    "pthread_attr_getstack": GLIBC_2_2_5,
    "pthread_attr_setguardsize": GLIBC_2_2_5,
    "pthread_attr_setstack": GLIBC_2_2_5,
    "pthread_attr_setstacksize": GLIBC_2_2_5,
    "pthread_create": GLIBC_2_2_5,
    "pthread_detach": GLIBC_2_2_5,
    "pthread_getaffinity_np": "GLIBC_2.3.4",
    "pthread_getattr_np": GLIBC_2_2_5,
    "pthread_getspecific": GLIBC_2_2_5,
    "pthread_join": GLIBC_2_2_5,
    "pthread_key_create": GLIBC_2_2_5,
    "pthread_key_delete": GLIBC_2_2_5,
    "pthread_kill": GLIBC_2_2_5,
    "pthread_once": GLIBC_2_2_5,
    "pthread_rwlock_destroy": GLIBC_2_2_5,
    "pthread_rwlock_init": GLIBC_2_2_5,
    "pthread_rwlock_rdlock": GLIBC_2_2_5,
    "pthread_rwlock_unlock": GLIBC_2_2_5,
    "pthread_rwlock_wrlock": GLIBC_2_2_5,
    "pthread_setaffinity_np": "GLIBC_2.3.4",
    "pthread_setname_np": GLIBC_2_12,
    "pthread_setspecific": GLIBC_2_2_5,
    "pthread_sigmask": GLIBC_2_2_5,
}
LOADER: Mapping[str, str] = {
    "dladdr": GLIBC_2_2_5,
    "dladdr1": GLIBC_2_3_3,
    "dlclose": GLIBC_2_2_5,
    "dlerror": GLIBC_2_2_5,
    "dlinfo": GLIBC_2_3_3,
    "dlopen": GLIBC_2_2_5,
    "dlsym": GLIBC_2_2_5,
    "dlvsym": GLIBC_2_2_5,
}
LIBRARIES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "libpthread.so": ("libpthread.so.0", PTHREAD),
    "libdl.so": ("libdl.so.2", LOADER),
}
# By processor: the version of all of them in glibc's first release for it, None where they have versions of their own.
FIRST: Mapping[str, str | None] = {"x86_64": None, "aarch64": "GLIBC_2.17"}


def rustc_arguments(compiler: str, folder: Path, machine: str, own_stat: bool = False) -> list[str]:
    """What rustc gets when it links a library; the files that it names are made in `folder`.

    Args:
        machine: what the compiler compiles for.
        own_stat: the library defines `stat` and `stat64` itself.

    Raises:
        subprocess.CalledProcessError: the compiler failed; its messages are on standard error.
    """
    if machine not in FIRST:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    for name, (soname, symbols) in LIBRARIES.items():
        first = FIRST[machine]
        _stand_in(compiler, folder / name, soname, dict.fromkeys(symbols, first) if first else symbols)
    functions = folder / ("glibc_floor_own_stat.o" if own_stat else "glibc_floor.o")
    options = ["-O2", "-fPIC", "-Wall", *(["-DOWN_STAT"] if own_stat else [])]
    _compile([compiler, *options, "-c", "-o", str(functions), str(SOURCE)])
    return ["-L", f"native={folder}", "-C", f"link-arg={functions}"]


def _stand_in(compiler: str, library: Path, soname: str, symbols: Mapping[str, str]) -> None:
    """A library with these symbols in these versions, and no code: only the linker reads it."""
    versions = sorted(set(symbols.values()))
    nodes = {version: [name for name, of in symbols.items() if of == version] for version in versions}
    script = library.with_suffix(".map")
    script.write_text("".join(f"{node} {{ global: {'; '.join(names)}; }};\n" for node, names in nodes.items()))
    source = library.with_suffix(".S")
    lines = [f".globl {name}\n.type {name}, %function\n{name}: ret" for name in symbols]
    source.write_text("\n".join([".text", *lines, '.section .note.GNU-stack,"",%progbits', ""]))
    options = [f"-Wl,-soname,{soname}", f"-Wl,--version-script,{script}"]
    _compile([compiler, "-shared", "-nostdlib", *options, "-o", str(library), str(source)])


def _compile(command: Sequence[str]) -> None:
    subprocess.run(command, check=True)
