"""Where the shim is and how a process is made to use it. Owns the environment of a guest process."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from farlane.frontend import settings, steering
from farlane.frontend.errors import UserError
from farlane.hosturl import variables
from farlane.terminal import statuses

FOLDER = Path(__file__).resolve().parent / "lib"
CORE = "libfarlane_core.so"
REDIRECT = "libfarlane_redirect.so"  # on x86-64 only
DRIVER = "libcuda.so.1"
MANAGEMENT = "libnvidia-ml.so.1"  # not preloaded: who opens it finds it beside the others
LAUNCHER = "farlane-run"  # for guests without Python (shim/crates/launcher)
RUNTIMES = ("12", "13")
MODES = ("none", "calls", "loops")
SMI = "FARLANE_SMI"  # off: nvidia-smi is the machine's own, where it has one
TRANSPORTS = ("auto", "grpc", "shm")
TIMINGS = ("faithful", "throughput")
CHECKS = ("memory", "race", "init", "leak")
CONTINUE = "continue"  # with CHECKS: what memory finds ends the launch and not the context
CHECK_LOG = "FARLANE_CHECK_LOG"  # a file that takes the reports of checks in standard error's place
GUESTS_OWN = (
    *(variables.HOST, "FARLANE_DEFER", "FARLANE_REPORT", "FARLANE_MANIFESTS", "FARLANE_TIMING", "FARLANE_GUARDS"),
    *("FARLANE_CHECK", CHECK_LOG, "FARLANE_INTEROP", "FARLANE_TEST", "FARLANE_TRANSPORT", variables.PRIORITY),
    "FARLANE_TIMELINE",
)
"""Variables that a guest reads and a host does not."""
LISTS = {"LD_PRELOAD": ":", "LD_LIBRARY_PATH": os.pathsep, "LD_AUDIT": os.pathsep}
"""Variables of the loader that a guest's environment has our files and folder in, and what separates their parts."""


def runtime_library(major: str) -> Path:
    """The replacement of libcudart.so.<major>."""
    return FOLDER / f"libcudart.so.{major}"


def require_built() -> None:
    """Raises UserError when the shim's libraries are not there."""
    missing = [
        name
        for name in (CORE, DRIVER, MANAGEMENT, *(f"libcudart.so.{m}" for m in RUNTIMES))
        if not (FOLDER / name).exists()
    ]
    if missing:
        raise UserError(
            f"the shim is not built: {', '.join(missing)} missing in {FOLDER}",
            "Install Farlane from its source with Rust's cargo and a C compiler there, or run `python frontend/shim/build.py`.",
        )


def driver_library() -> Path | None:
    """The replacement of NVIDIA's driver library, where it was built."""
    library = FOLDER / DRIVER
    return library if library.exists() else None


def preload_for(runtimes: tuple[str, ...], linked: str = "the program") -> list[Path]:
    """The libraries to preload for a program linked to these runtimes: these first, then the others, which libraries that it opens may have linked
    into them.

    Raises:
        UserError: the program, or what else is `linked` to them, needs a CUDA runtime that has no replacement.
    """
    unknown = [major for major in runtimes if major not in RUNTIMES]
    if unknown:
        raise UserError(
            f"{linked} is linked to libcudart.so.{unknown[0]}",
            f"Farlane replaces CUDA runtimes {' and '.join(RUNTIMES)}: rebuild it with one of those.",
        )
    libraries = [runtime_library(major) for major in dict.fromkeys((*runtimes, *RUNTIMES))]
    return [*libraries, *filter(None, [driver_library()])]


def deferral_mode(wanted: str | None) -> str:
    """The deferral mode: the one that is asked for, else FARLANE_DEFER's, else loops. Raises UserError for one that is none."""
    named = os.environ.get("FARLANE_DEFER")
    mode = wanted or named or "loops"
    if mode not in MODES:
        what = repr(wanted) if wanted else f"FARLANE_DEFER={named}"
        raise UserError(f"{what} is no deferral mode", f"One of {', '.join(MODES)}.", statuses.WRONG_CALL)
    return mode


def known_checks(names: Iterable[str]) -> tuple[tuple[str, ...], list[str]]:
    """Each name once, with CHECKS for "all"; and those that are no checks."""
    wanted = tuple(dict.fromkeys(names))
    if wanted == ("all",):
        return CHECKS, []
    return wanted, [name for name in wanted if name not in (*CHECKS, CONTINUE)]


def guest_environment(
    base: Mapping[str, str],
    *,
    host: str,
    mode: str,
    runtimes: tuple[str, ...],
    report: str | None,
    manifests: str | None = None,
    timing: str | None = None,
    guards: bool = False,
    checks: tuple[str, ...] = (),
    sanitizer: str = "",
    interop: bool | None = None,
    transport: str | None = None,
    timeline: str | None = None,
    priority: int | None = None,
) -> dict[str, str]:
    """The environment in which a program's CUDA calls go to `host`.

    Args:
        base: the environment to start from; its own LD_PRELOAD and LD_LIBRARY_PATH are kept behind ours.
        host: grpc://host:port or unix:///path.
        mode: one of MODES.
        runtimes: major versions of the CUDA runtimes the program is linked to, empty when unknown.
        report: file name to which the shim writes its counts at exit; %p stands for the process id.
        manifests: folder with manifests, or "off"; None leaves what the environment says.
        timing: one of TIMINGS; None leaves what the environment says.
        guards: whether copies to the host are read back lazily; False leaves what the environment says.
        checks: of CHECKS; none leaves what the environment says.
        sanitizer: the program's sanitizer library, which insists on being the first one.
        interop: whether NVIDIA's runtime gets its answers (settings.interop); None leaves what the environment says.
        transport: one of TRANSPORTS; None leaves what the environment says.
        timeline: file name to which the shim writes its spans at exit; %p stands for the process id.
        priority: of the program's sessions; None leaves what the environment says.
    """
    environment = dict(base)
    # The core by its own name as well: its clock functions come before the C library's only in that way.
    libraries = [*filter(None, [sanitizer]), *(str(path) for path in (FOLDER / CORE, *preload_for(runtimes)))]
    environment["LD_PRELOAD"] = ":".join([*libraries, *filter(None, [base.get("LD_PRELOAD")])])
    environment["LD_LIBRARY_PATH"] = os.pathsep.join([str(FOLDER), *filter(None, [base.get("LD_LIBRARY_PATH")])])
    if (FOLDER / REDIRECT).exists():
        # As an auditor it sees libraries that are opened later, too (frontend/shim/crates/redirect).
        environment["LD_AUDIT"] = os.pathsep.join([str(FOLDER / REDIRECT), *filter(None, [base.get("LD_AUDIT")])])
        if _auditing_slows_calls():
            environment["LD_BIND_NOW"] = "1"
    environment[variables.HOST] = host
    environment["FARLANE_DEFER"] = mode
    if report is not None:
        environment["FARLANE_REPORT"] = report
    if manifests is not None:
        environment["FARLANE_MANIFESTS"] = manifests
    if timing is not None:
        environment["FARLANE_TIMING"] = timing
    if guards:
        environment["FARLANE_GUARDS"] = "on"
    if checks:
        environment["FARLANE_CHECK"] = ",".join(checks)
    if interop is not None:
        environment[settings.INTEROP] = "1" if interop else "0"
    if transport is not None:
        environment["FARLANE_TRANSPORT"] = transport
    if timeline is not None:
        environment["FARLANE_TIMELINE"] = timeline
    if priority is not None:
        environment["FARLANE_PRIORITY"] = str(priority)
    return environment


def add_tools(environment: dict[str, str], folder: Path) -> None:
    """Puts `nvidia-smi` into the folder, which the environment's programs search first: `farlane smi`, without the shim."""
    tool = folder / "nvidia-smi"
    command = f"{shlex.quote(sys.executable)} -I -m farlane.frontend.cli smi"
    tool.write_text(f'#!/bin/sh\nunset LD_PRELOAD LD_AUDIT LD_BIND_NOW\nexec {command} "$@"\n')
    tool.chmod(0o755)
    environment["PATH"] = os.pathsep.join([str(folder), environment.get("PATH", os.defpath)])


def without_guest(base: Mapping[str, str]) -> dict[str, str]:
    """The environment without what makes a process a guest: for a host that a guest starts, and to leave a shell's again."""
    kept = {name: value for name, value in steering.unsteered(base).items() if name not in GUESTS_OWN}
    for name, separator in LISTS.items():
        parts = [part for part in kept.get(name, "").split(separator) if part and not _is_ours(Path(part))]
        if name in kept and not parts:
            del kept[name]
        elif parts:
            kept[name] = separator.join(parts)
    return kept


def in_guest(base: Mapping[str, str]) -> bool:
    """Whether a process with this environment is a guest."""
    return any(_is_ours(Path(part)) for part in base.get("LD_PRELOAD", "").split(":") if part)


def _is_ours(path: Path) -> bool:
    return path == FOLDER or path.parent == FOLDER


def _auditing_slows_calls() -> bool:
    """Before glibc 2.35 an auditor makes each call of a lazily bound function slow (glibc's bug 15533); one that is bound at the start is not."""
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION") or ""
        major, minor = version.removeprefix("glibc ").split(".")[:2]
        return (int(major), int(minor)) < (2, 35)
    except (ValueError, OSError):
        return False
