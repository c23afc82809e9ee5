"""`farlane.connect`: the running process becomes a guest.

Owns what `farlane run` arranges before a program starts and what of it can still be done inside one: the shim's libraries
are loaded for all that comes later, which then find them by their names; the environment leads the process's children. Code
that was loaded before keeps what it was bound to, so nothing here changes the C library's clocks, `read` and `dlopen` for it
(docs/howto/python-guests.md). Only `ctypes` is led to the shim's `dlopen`, which leaves nvJitLink out (shim, steering.rs).

To be called before the first CUDA call; not from two threads at once.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from farlane.frontend import keeper, settings, shim_library, steering
from farlane.frontend.errors import UserError
from farlane.frontend.hosts import connected, parse_url
from farlane.frontend.sizes import parse_size
from farlane.hosturl.variables import HOST, named_host
from farlane.terminal import statuses

EARLIER = "Call farlane.connect() before the first import that uses CUDA, or start the program with `farlane run`."
STEERED = "libnvJitLink.so"


@dataclass(frozen=True)
class Options:
    """The arguments of `farlane.connect`, which documents them."""

    host: str | None = None
    device: str | None = None
    mode: str | None = None
    capability: str | None = None
    quota: str | int | None = None
    checks: tuple[str, ...] = ()


_done: Options | None = None


def check_names(wanted: str | Iterable[str]) -> tuple[str, ...]:
    """Names of checks, from one text with commas or several. Raises UserError for a name that is none."""
    names, unknown = shim_library.known_checks(filter(None, wanted.split(",") if isinstance(wanted, str) else wanted))
    if unknown:
        raise UserError(
            f"there is no check {', '.join(unknown)}",
            f"{', '.join(shim_library.CHECKS)}, separated by commas, or all",
            statuses.WRONG_CALL,
        )
    return names


def connect(options: Options) -> str:
    """Does what `farlane.connect` says and returns the host's URL."""
    global _done
    if _done is not None:
        if options not in (_done, Options()):
            raise UserError(
                f"this process is a guest of {os.environ[HOST]} already, with other arguments",
                "Call farlane.connect() once: a process has one host and one mode as long as it lives.",
                statuses.WRONG_CALL,
            )
        return os.environ[HOST]
    if shim_library.DRIVER in (loaded := loaded_libraries()) and _is_ours(loaded[shim_library.DRIVER]):
        if os.environ.get(HOST):
            return _keep_launchers(options)
    else:
        _require_untouched(loaded)
    mode = shim_library.deferral_mode(options.mode)
    if os.environ.get("FARLANE_GUARDS") == "on":
        raise UserError(
            "FARLANE_GUARDS=on needs `farlane run`",
            "Start the program with it, or unset the variable.",
            statuses.WRONG_CALL,
        )
    shim_library.require_built()
    interop = settings.interop(os.environ)
    named = named_host(options.host)
    host = _reach(named, options) if named else _start(options)
    environment = shim_library.guest_environment(
        os.environ, host=host, mode=mode, runtimes=(), report=None, checks=options.checks, interop=interop
    )
    steering.steer(environment, options.device, named)
    os.environ.update(environment)
    _load()
    _done = options
    return host


def loaded_libraries() -> dict[str, Path]:
    """CUDA's libraries that this process has, NVIDIA's or ours, by the start of their names."""
    found = {}
    for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
        name = "".join(line.split(maxsplit=5)[5:]).removesuffix(" (deleted)")
        file = name.rpartition("/")[2]
        if name.startswith("/") and file.startswith(("libcuda.so", "libcudart.so")):
            found[".".join(file.split(".")[:3])] = Path(name)
    return found


def _is_ours(path: Path) -> bool:
    return path.with_name(shim_library.CORE).exists()


def _require_untouched(loaded: dict[str, Path]) -> None:
    for path in loaded.values():
        if not _is_ours(path):
            raise UserError(f"NVIDIA's {path.name} is loaded in this process already ({path})", EARLIER)


def _keep_launchers(options: Options) -> str:
    """A process that `farlane run` has started, or a shell with `farlane env`, stays that host's guest."""
    there = os.environ[HOST]
    named = (options.host, options.mode, ",".join(options.checks) or None)
    known = (there, os.environ.get("FARLANE_DEFER") or "loops", os.environ.get("FARLANE_CHECK"))
    differs = any(one not in (None, other) for one, other in zip(named, known, strict=True))
    if differs or any((options.device, options.capability, options.quota)):
        raise UserError(
            f"this process is a guest of {there} since its start, with other arguments",
            "Give them to `farlane run`, or start the program without it.",
            statuses.WRONG_CALL,
        )
    return there


def _reach(name: str, options: Options) -> str:
    """A host that is there already. Raises UserError where nothing listens."""
    if any((options.device, options.capability, options.quota)):
        raise UserError(
            "device, capability and quota are for a host of the process's own",
            "Give them to `farlane serve`.",
            statuses.WRONG_CALL,
        )
    url = parse_url(name)
    try:
        connected(url).close()
    except OSError as error:
        raise UserError(
            f"no host at {name}: {error.strerror or error}",
            "Is `farlane serve` running there, and does it listen on that address? Without an address farlane.connect() "
            "starts a host of its own.",
        ) from error
    return name


def _start(options: Options) -> str:
    quota = parse_size(options.quota) if isinstance(options.quota, str) else options.quota
    extra = ("--capability", options.capability) if options.capability else ()
    return keeper.start(options.device or "sim", quota, extra, shim_library.without_guest(os.environ))


def _load() -> None:
    """Loads the shim for everything that is loaded later."""
    libraries = [shim_library.FOLDER / shim_library.CORE, *shim_library.preload_for(())]
    core, *_ = [ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL) for library in libraries]
    _steer(core)


def _steer(core: ctypes.CDLL) -> None:
    """Leads ctypes to the shim's dlopen for nvJitLink; cuda.pathfinder opens it that way."""
    shims = core.dlopen
    shims.argtypes, shims.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
    real: Callable[..., int] = ctypes._dlopen  # type: ignore[attr-defined]

    def dlopen(name: str | bytes | os.PathLike[str] | None, mode: int = ctypes.DEFAULT_MODE) -> int:
        if name is not None and os.path.basename(os.fsdecode(name)).startswith(STEERED):
            handle = shims(os.fsencode(name), mode | os.RTLD_NOW)
            if handle:
                return int(handle)
        return real(name, mode)

    ctypes._dlopen = dlopen  # type: ignore[attr-defined]
