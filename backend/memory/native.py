"""Compiled models: by Numba, which keeps its code in Farlane's cache.

The first use on a machine compiles, which takes tens of seconds; each later process imports Numba and loads the code, in about half a second.
Numba looks for changes in the file of the function that it compiles alone, so the folder is named by all sources that a unit's code depends on, and by Numba's
version. It lies under FARLANE_CACHE_DIR, or in the user's cache. What lies there is executed.

A unit is a package whose module `run` has `entry`, a function of three 64-bit numbers that answers one.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from importlib import util
from pathlib import Path
from typing import Any

from farlane.backend.system import files

Entry = Callable[[int, int, int], int]

KEPT = 4  # folders of a unit: other versions that use the same cache
_lock = threading.Lock()
_log = logging.getLogger(__name__)


@functools.cache
def entry(package: str, *besides: str) -> Entry:
    """A unit's entry, which runs without the GIL. `besides`: modules outside of the package that its code depends on."""
    with _lock:
        function, place = importlib.import_module(f"{package}.run").entry, folder(package, *besides)
        try:
            return _compiled(function, place)
        except Exception:
            _log.warning("the code in %s cannot be used; it is compiled anew", place, exc_info=True)
            shutil.rmtree(place, ignore_errors=True)
            return _compiled(function, place)


def _compiled(function: Entry, place: Path) -> Entry:
    from numba import int64, njit

    with _cache(place) as there, _alone(place if there else None), _indices_from_zero():
        compiled: Any = njit(int64(int64, int64, int64), error_model="numpy", nogil=True, cache=there)(function)
    result: Entry = compiled
    return result


def folder(package: str, *besides: str) -> Path:
    """Where a unit's code is kept."""
    import numba

    home = Path(_origin(package)).parent
    sources = [*sorted(home.glob("*.py")), Path(__file__).with_name("compiling.py"), *map(_origin, besides)]
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return (
        files.cache_folder() / "memory" / f"{package.rpartition('.')[0].rpartition('.')[2]}-{digest.hexdigest()[:32]}"
    )


def _origin(name: str) -> Path:
    found = util.find_spec(name)
    if found is None or found.origin is None:
        raise ImportError(f"no module {name}")
    return Path(found.origin)


@contextlib.contextmanager
def _alone(place: Path | None) -> Iterator[None]:
    """One process compiles for a folder, and the others wait and find its code."""
    if place is None:
        yield
        return
    with (place / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _indices_from_zero() -> Iterator[None]:
    """Numba has each access look for an index below zero, which would count from the end. The models have none."""
    from numba import types
    from numba.np import arrayobj

    module: Any = arrayobj
    before = module.fix_integer_index

    def plain(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
        return context.cast(builder, index, kind, types.intp)

    module.fix_integer_index = plain
    try:
        yield
    finally:
        module.fix_integer_index = before


@contextlib.contextmanager
def _cache(place: Path) -> Iterator[bool]:
    """Has Numba keep what it compiles in this folder; whether it can. Old versions' folders go."""
    from numba.core import config

    settings: Any = config
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = os.access(place, os.W_OK | os.X_OK)
    except OSError:
        there = False
    if not there:
        _log.warning("%s cannot be written: the memory models are compiled anew by each process", place)
        yield False
        return
    os.utime(place)
    versions = place.parent.glob(f"{place.name.partition('-')[0]}-*")
    for old in sorted((one for one in versions if one.is_dir()), key=lambda one: one.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    before, settings.CACHE_DIR = settings.CACHE_DIR, str(place)
    try:
        yield True
    finally:
        settings.CACHE_DIR = before
