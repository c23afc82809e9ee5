"""Models as machine code: compiled by Numba once on a machine, afterwards an object file that LLVM loads without Numba.

Importing Numba and having it load its own cache takes over a second of processor time; loading an object takes hundredths. An object's file is named by the sources it was made
from, Numba, LLVM and the CPU, so it is never stale. It lies beside the sources it was made from (in __pycache__), or, where that cannot be written or
FARLANE_CACHE_DIR says so, in that folder or the user's cache. Files are written aside and renamed; a damaged one counts as absent. What lies there is executed.

The object may be of code for one case only (`Known`): making one from what Numba made, which is kept too, takes two seconds and no Numba.

A unit is a package whose module `run` has `text()`: LLVM IR and the name of its entry, a function of three 64-bit numbers that answers one, in Numba's calling convention.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib
import os
import struct
import threading
from collections.abc import Callable
from importlib import util
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
from farlane.backend.memory import optimising
from farlane.backend.memory.optimising import Known
from farlane.backend.system import files, flat
from farlane.backend.system.loading import Loaded

Entry = Callable[[int, int, int], int]

_MAGIC = b"FARLMEM1"
_HEADER = struct.Struct("<8s32sI")
_KEPT = {
    ".bitcode": 4,
    ".object": 32,
}  # files of a unit: other versions, other machines on the same disk, other hierarchies
_MAKERS = ("compiling", "optimising")
_lock = threading.Lock()
_linked: list[Loaded] = []  # loaded code stays
_SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)


@functools.cache
def entry(package: str, *besides: str, known: Known | None = None) -> Entry:
    """A unit's entry, which runs without the GIL. `besides`: modules outside of the package that its code depends on. `known`: code for this case only, which is quicker."""
    with _lock:
        unit, places = _unit(package, besides)
        name = f"{unit}{f'-{_hex(repr(known).encode())}' if known else ''}.object"
        stored = _stored(places, name)
        if stored is None:
            portable = _stored(places, f"{unit}.bitcode")
            if portable is None:
                portable = _compile(package)
                _keep(places, f"{unit}.bitcode", *portable)
            stored = portable[0], _image(*portable, known or Known())
            _keep(places, name, *stored)
        return _link(*stored)


def _unit(package: str, besides: tuple[str, ...]) -> tuple[str, list[Path]]:
    """How the files of a unit begin, and where they may lie."""
    found = util.find_spec(package)
    if found is None or found.origin is None:
        raise ImportError(f"no package {package}")
    folder = Path(found.origin).parent
    sources = [*sorted(folder.glob("*.py")), *(Path(__file__).with_name(f"{name}.py") for name in _MAKERS)]
    for name in besides:
        module = util.find_spec(name)
        if module is None or module.origin is None:
            raise ImportError(f"no module {name}")
        sources.append(Path(module.origin))
    return f"{package.rpartition('.')[0].rpartition('.')[2]}-{_digest(sources)}", _places(folder)


def _stored(places: list[Path], name: str) -> tuple[str, bytes] | None:
    return next((found for place in places if (found := _read(place / name)) is not None), None)


def _keep(places: list[Path], name: str, symbol: str, image: bytes) -> None:
    """Where it can be written."""
    any(_write(place, name, symbol, image) for place in places)


def _hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _digest(files: list[Path]) -> str:
    digest = hashlib.sha256(_machine())
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:32]


@functools.cache
def _machine() -> bytes:
    """What objects depend on beside their sources: the versions of Numba and LLVM, and the CPU."""
    features = llvm.get_host_cpu_features().flatten()
    versions = (llvmlite.__version__, llvm.get_default_triple(), llvm.get_host_cpu_name(), features)
    return repr(versions).encode() + _numba_version().read_bytes()


def _numba_version() -> Path:
    """The file that says which Numba is installed. Asking importlib.metadata takes longer than loading an object."""
    found = util.find_spec("numba")
    if found is None or found.origin is None:
        raise ImportError("Numba is not installed")
    return Path(found.origin).with_name("_version.py")


def _places(folder: Path) -> list[Path]:
    wanted = os.environ.get("FARLANE_CACHE_DIR")
    if wanted:
        return [Path(wanted) / "memory"]
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [folder / "__pycache__", Path(user) / "farlane" / "memory"]


def _read(file: Path) -> tuple[str, bytes] | None:
    try:
        data = file.read_bytes()
        magic, checksum, size = _HEADER.unpack_from(data)
    except (OSError, struct.error):
        return None
    body = data[_HEADER.size :]
    if magic != _MAGIC or hashlib.sha256(body).digest() != checksum:
        return None
    return body[:size].decode(), body[size:]


def _write(place: Path, name: str, symbol: str, image: bytes) -> bool:
    """Whether it could be written. Old versions go."""
    body = symbol.encode() + image
    data = _HEADER.pack(_MAGIC, hashlib.sha256(body).digest(), len(symbol.encode())) + body
    try:
        files.replace(place / name, data)
    except OSError:
        return False
    with contextlib.suppress(OSError):
        kind = Path(name).suffix
        others = sorted(place.glob(f"{name.partition('-')[0]}-*{kind}"), key=lambda item: item.stat().st_mtime)
        for old in others[: -_KEPT[kind]]:
            old.unlink()
    return True


def _compile(package: str) -> tuple[str, bytes]:
    made: tuple[str, bytes] = importlib.import_module("farlane.backend.memory.compiling").portable(package)
    return made


def _image(symbol: str, bitcode: bytes, known: Known) -> bytes:
    """A flat image where that can be had: LLVM's linker takes a millisecond each time."""
    made = optimising.optimised(symbol, bitcode, known)
    return flat.flattened(made, symbol) or made


def _link(symbol: str, image: bytes) -> Entry:
    loaded = Loaded(image, symbol)
    _linked.append(loaded)
    function = _SIGNATURE(loaded.address)

    def call(address: int, one: int, other: int) -> int:
        result = ctypes.c_int64()
        if function(ctypes.addressof(result), None, address, one, other):
            raise RuntimeError(f"{symbol} failed")
        return result.value

    return call
