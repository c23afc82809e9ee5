"""Checks of the installation: the system, Python's packages, the C library, the shim, the compilers that nvcc needs."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from farlane.frontend import shim_library
from farlane.frontend.doctor.finding import FAILED, NOTE, OK, Finding
from farlane.frontend.errors import UserError

PROBE_SECONDS = 30
REBUILD = "Reinstall Farlane: `pip install --force-reinstall .`, or `make shim` in its source tree."
SOURCES = Path(__file__).resolve().parents[1] / "shim" / "crates"


def check_system() -> Iterator[Finding]:
    """Operating system, processor and Python."""
    text = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    if platform.system() != "Linux":
        yield Finding(FAILED, "system", text, "The guest and the host run on Linux.")
    elif platform.machine() != "x86_64":
        yield Finding(NOTE, "system", text, "Farlane is tested on x86_64 only.")
    else:
        yield Finding(OK, "system", text)


def check_packages() -> Iterator[Finding]:
    """The Python packages Farlane needs, and the optional one for real GPUs."""
    yield Finding(OK, "packages", f"farlane {importlib.metadata.version('farlane')}")
    for distribution, module in (
        ("grpcio", "grpc"),
        ("protobuf", "google.protobuf"),
        ("llvmlite", "llvmlite"),
        ("numpy", "numpy"),
    ):
        try:
            importlib.import_module(module)
            yield Finding(OK, "packages", f"{distribution} {importlib.metadata.version(distribution)}")
        except Exception as error:  # a broken native library raises what it likes
            advice = f"pip install --force-reinstall {distribution}"
            yield Finding(FAILED, "packages", f"{distribution} cannot be imported: {error}", advice)
    try:
        importlib.import_module("cupy")
        yield Finding(OK, "gpu", "cupy (device `cupy`)")
    except Exception:
        text = "cupy is not installed: no real GPU can be served from here, the simulated device can"
        yield Finding(
            NOTE,
            "gpu",
            text,
            "For a GPU of this machine: pip install 'farlane[gpu]' (docs/howto/hosts/serve-a-gpu.md).",
        )


def check_c_library() -> Iterator[Finding]:
    """The C library is the GNU one, and as new as the shim needs."""
    named = c_library()
    if not named.startswith("glibc "):
        yield Finding(
            FAILED,
            "glibc",
            f"the C library is {named or 'not the GNU C library'}",
            "Use a distribution with glibc 2.28 or newer, for example Debian 10 or RHEL 8. Alpine's musl does not work.",
        )
        return
    core = shim_library.FOLDER / shim_library.CORE
    needed = needed_glibc(core) if core.exists() else (2, 28)
    text, wanted = named, ".".join(map(str, needed))
    if _numbers(named) < needed:
        advice = (
            f"Use a system with glibc {wanted} or newer, or build Farlane on this machine: pip install . in its source."
        )
        yield Finding(FAILED, "glibc", f"{text} is too old: the shim needs {wanted}", advice)
    else:
        yield Finding(OK, "glibc", f"{text} (the shim needs {wanted})")


def c_library() -> str:
    """Name and version of the C library, as in "glibc 2.36"; nothing when it does not say."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return ""


def needed_glibc(library: Path) -> tuple[int, ...]:
    """The newest version of glibc of which a library needs a symbol."""
    from elftools.elf.elffile import ELFFile
    from elftools.elf.gnuversions import GNUVerNeedSection

    with library.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".gnu.version_r")
        needed = section.iter_versions() if isinstance(section, GNUVerNeedSection) else ()
        names = [str(auxiliary.name) for _, versions in needed for auxiliary in versions]
    return max((_numbers(name) for name in names if name.startswith("GLIBC_")), default=(2, 0))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]+", text)[:2])


def check_shim() -> Iterator[Finding]:
    """The shim's libraries are there, of this version, and the loader accepts them."""
    try:
        shim_library.require_built()
    except UserError as error:
        yield Finding(FAILED, "shim", error.message, error.advice)
        return
    yield Finding(OK, "shim", f"shim libraries in {shim_library.FOLDER}")
    yield from check_shim_version()
    for major in shim_library.RUNTIMES:
        yield _loads(shim_library.runtime_library(major))


def check_shim_version() -> Iterator[Finding]:
    """The shim is of this version of Farlane, and not older than its sources where these are at hand."""
    ours = importlib.metadata.version("farlane")
    launcher = shim_library.FOLDER / shim_library.LAUNCHER
    if launcher.exists():
        try:
            told = subprocess.run([launcher, "--version"], capture_output=True, text=True, timeout=PROBE_SECONDS).stdout
        except (OSError, subprocess.TimeoutExpired) as error:
            told = str(error)
        built = told.strip().removeprefix("farlane-run ")
        if built != ours:
            yield Finding(FAILED, "shim-version", f"the shim is version {built}, Farlane is {ours}", REBUILD)
            return
    core = shim_library.FOLDER / shim_library.CORE
    newest = max((path.stat().st_mtime for path in SOURCES.rglob("*.rs")), default=0.0)
    if core.exists() and newest > core.stat().st_mtime:
        text = "the shim is older than its sources: it may not match them"
        yield Finding(NOTE, "shim-version", text, "Run `make shim` in the source tree.")


def _loads(library: Path) -> Finding:
    environment = {**os.environ, "LD_PRELOAD": str(library), "FARLANE_LOG": "error"}
    probe = subprocess.run(["/bin/true"], env=environment, capture_output=True, text=True, timeout=PROBE_SECONDS)
    if probe.returncode or "ld.so" in probe.stderr:
        said = probe.stderr.strip() or f"status {probe.returncode}"
        return Finding(FAILED, "shim", f"{library.name} cannot be preloaded: {said}", REBUILD)
    code = f"import ctypes; ctypes.CDLL({str(library)!r}).cudaGetErrorString"
    probe = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PROBE_SECONDS)
    if probe.returncode:
        last = (probe.stderr.strip().splitlines() or ["no message"])[-1]
        return Finding(FAILED, "shim", f"{library.name} cannot be loaded: {last}", REBUILD)
    return Finding(OK, "shim", f"{library.name} loads")


def check_nvcc() -> Iterator[Finding]:
    """nvcc, where it is, has the C++ compiler that it calls."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return
    compiler = os.environ.get("NVCC_CCBIN") or "g++"
    if shutil.which(compiler) is None:
        yield Finding(
            FAILED,
            "nvcc",
            f"{nvcc} calls the C++ compiler {compiler}, which is not there: it can compile nothing",
            "Install g++ (apt-get install g++), or name another compiler with nvcc -ccbin or NVCC_CCBIN.",
        )
    else:
        yield Finding(OK, "nvcc", f"{nvcc} with {compiler}")
