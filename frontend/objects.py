"""The ELF objects of a program that call CUDA: the program itself and its own libraries, each with its identity.

Owns which of the libraries that the dynamic linker finds (farlane.frontend.libraries) are the program's own: what the system or NVIDIA installed
is left out, and what a program opens itself (dlopen) is not known before it runs.

Source: protos/manifest.md, "Identity".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from farlane.frontend import embedded_runtime, libraries
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


def cuda_objects(program: Path, environment: Mapping[str, str]) -> list[CudaObject]:
    """The program and its libraries that call CUDA. A file that cannot be read is passed over: the analysis would fail on it too."""
    linked = libraries.linked(program, {**environment, "LD_PRELOAD": ""})
    own = (path.resolve() for path in linked.found if not of_vendor(path))
    found: list[CudaObject] = []
    for path in [program.resolve(), *(path for path in own if not str(path).startswith(_SYSTEM))][:MAXIMUM_OBJECTS]:
        elf = _read(path)
        if elf is not None and elf.cuda:
            found.append(CudaObject(path, elf.identity, elf.embedded))
    return found


def of_vendor(library: Path) -> bool:
    """Whether a library is NVIDIA's, or the shim's in its place."""
    return library.name.startswith(_VENDOR)


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
    from elftools.elf.sections import SymbolTableSection

    cuda = embedded = False
    for section in elf.iter_sections():
        embedded = embedded or section.name == EMBEDDED
        if isinstance(section, SymbolTableSection) and section.name == ".dynsym":
            cuda = any(
                symbol["st_shndx"] == "SHN_UNDEF" and _CALLS.match(symbol.name) is not None
                for symbol in section.iter_symbols()
            )
    return _Elf(_identity(elf), cuda or embedded_runtime.has_symbols(elf), embedded)


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
