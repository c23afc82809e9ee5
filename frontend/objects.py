"""The ELF objects of a program that call CUDA: the program itself and its own libraries, each with its identity.

Owns the search for libraries as the dynamic linker does it, as far as it leads to the program's own: RPATH, LD_LIBRARY_PATH, RUNPATH.
What the system or NVIDIA installed is left out, and what a program opens itself (dlopen) is not known before it runs.

Source: ld.so(8); protos/manifest.md, "Identity".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farlane.frontend import embedded_runtime
from farlane.limits.generated import IDENTITY_BYTES

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

MAXIMUM_OBJECTS = 64  # looked at
EMBEDDED = ".note.farlane"

_SYSTEM = ("/lib/", "/lib32/", "/lib64/", "/usr/lib/", "/usr/lib32/", "/usr/lib64/", "/usr/local/cuda")
_VENDOR = (
    "libcuda.", "libcudart.", "libcublas", "libcufft", "libcurand.", "libcusolver", "libcusparse", "libcudnn", "libnccl.",
    "libnvrtc", "libnvJitLink.", "libnpp", "libnvjpeg", "libfarlane_core.",
)  # fmt: skip
_CALLS = re.compile("(__)?cuda|cu[A-Z]")  # names of the runtime's functions, of the driver's


@dataclass(frozen=True)
class CudaObject:
    """An object that calls CUDA, shared or linked into it. `identity` is in hexadecimal; `embedded` is whether a manifest is in the file."""

    path: Path
    identity: str
    embedded: bool


@dataclass(frozen=True)
class _Elf:
    identity: str
    cuda: bool
    embedded: bool
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]


def cuda_objects(program: Path, environment: Mapping[str, str]) -> list[CudaObject]:
    """The program and its libraries that call CUDA. A file that cannot be read is passed over: the analysis would fail on it too."""
    preset = tuple(filter(None, environment.get("LD_LIBRARY_PATH", "").split(":")))
    found: list[CudaObject] = []
    seen: set[Path] = set()
    work: list[tuple[Path, tuple[str, ...]]] = [(program.resolve(), ())]
    while work and len(seen) < MAXIMUM_OBJECTS:
        path, inherited = work.pop(0)
        if path in seen:
            continue
        seen.add(path)
        elf = _read(path)
        if elf is None:
            continue
        if elf.cuda:
            found.append(CudaObject(path, elf.identity, elf.embedded))
        rpath = () if elf.runpath else (*_expanded(elf.rpath, path), *inherited)
        folders = (*rpath, *preset, *_expanded(elf.runpath, path))
        for name in elf.needed:
            library = _find(name, folders)
            if library is not None:
                work.append((library, rpath))
    return found


def _expanded(folders: tuple[str, ...], of: Path) -> tuple[str, ...]:
    origin = str(of.parent)
    return tuple(folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for folder in folders)


def _find(name: str, folders: tuple[str, ...]) -> Path | None:
    if name.rpartition("/")[2].startswith(_VENDOR):
        return None
    for path in [Path(name)] if "/" in name else [Path(folder) / name for folder in folders]:
        try:
            if path.is_file():
                path = path.resolve()
                return None if str(path).startswith(_SYSTEM) else path
        except OSError:
            continue
    return None


def _read(path: Path) -> _Elf | None:
    from elftools.elf.elffile import ELFFile  # program.inspect says why it is here

    try:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            if elf.header["e_machine"] != "EM_X86_64" or elf.elfclass != 64:
                return None
            return _described(elf)
    except Exception:  # pyelftools checks little, and raises what its parsing happens to hit
        return None


def _described(elf: ELFFile) -> _Elf:
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.sections import SymbolTableSection

    needed, rpath, runpath = [], [], []
    cuda = embedded = False
    for section in elf.iter_sections():
        embedded = embedded or section.name == EMBEDDED
        if isinstance(section, DynamicSection):
            for tag in section.iter_tags():
                entry: Any = tag  # the tag's kind decides which attributes it has
                if entry.entry.d_tag == "DT_NEEDED":
                    needed.append(str(entry.needed))
                elif entry.entry.d_tag == "DT_RPATH":
                    rpath += str(entry.rpath).split(":")
                elif entry.entry.d_tag == "DT_RUNPATH":
                    runpath += str(entry.runpath).split(":")
        elif isinstance(section, SymbolTableSection) and section.name == ".dynsym":
            cuda = any(
                symbol["st_shndx"] == "SHN_UNDEF" and _CALLS.match(symbol.name) is not None
                for symbol in section.iter_symbols()
            )
    cuda = cuda or embedded_runtime.has_symbols(elf)
    return _Elf(_identity(elf), cuda, embedded, tuple(needed), tuple(rpath), tuple(runpath))


def _identity(elf: ELFFile) -> str:
    from elftools.elf.sections import NoteSection

    section = elf.get_section_by_name(".note.gnu.build-id")
    if isinstance(section, NoteSection):
        for note in section.iter_notes():
            if note["n_type"] == "NT_GNU_BUILD_ID" and 2 <= len(note["n_desc"]) <= 2 * IDENTITY_BYTES:
                return str(note["n_desc"])
    digest = hashlib.sha256()
    for name in (".text", ".rodata", ".eh_frame"):
        section = elf.get_section_by_name(name)
        digest.update(section.data() if section is not None and section["sh_type"] != "SHT_NOBITS" else b"")
    return digest.hexdigest()
