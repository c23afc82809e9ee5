"""What the launcher must know about a program before it starts it: can its CUDA calls be intercepted?

Owns the reading of the program's ELF headers (with pyelftools, which bounds what it reads to the file). Does not run
anything and does not look into the fat binary: whether an image can run is the shim's and the host's to say.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError, ELFParseError
from elftools.elf.dynamic import DynamicSection, DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from farlane.frontend import shim_library
from farlane.frontend.errors import UserError

RUNTIME_PREFIX = "libcudart.so."
REGISTER = "__cudaRegisterFatBinary"
FATBIN_SECTIONS = (".nv_fatbin", ".nvFatBinSegment")
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # the shell's exit statuses


@dataclass(frozen=True)
class Program:
    """An executable as the launcher sees it.

    Attributes:
        path: the file that will be executed.
        is_elf: False for scripts, whose interpreter makes the CUDA calls.
        runtimes: major versions of the shared CUDA runtimes it is linked to, for example ("13",).
        has_kernels: it carries a fat binary.
        static_runtime: it carries a fat binary and the CUDA runtime itself, which cannot be intercepted.
        needs_driver: it is linked to the driver API's library.
    """

    path: Path
    is_elf: bool
    runtimes: tuple[str, ...] = ()
    has_kernels: bool = False
    static_runtime: bool = False
    needs_driver: bool = False


def find(name: str) -> Path:
    """The file the shell would run for `name`. Raises UserError when there is none."""
    if os.sep in name:
        path = Path(name)
        if not path.exists():
            raise UserError(f"{name}: no such file", status=NOT_FOUND)
        if path.is_dir():
            raise UserError(f"{name} is a folder", "Give the program to run after `--`.", status=NOT_EXECUTABLE)
        if not os.access(path, os.X_OK):
            raise UserError(f"{name} is not executable", f"chmod +x {name}", status=NOT_EXECUTABLE)
        return path
    found = shutil.which(name)
    if found is None:
        hint = f"There is a file ./{name}: write ./{name}." if Path(name).exists() else ""
        raise UserError(f"{name}: no such program in PATH", hint, status=NOT_FOUND)
    return Path(found)


def inspect(path: Path) -> Program:
    """Reads the program's headers.

    Raises:
        UserError: the file cannot be read, or is an ELF file that cannot run here.
    """
    try:
        with path.open("rb") as stream:
            if stream.read(4) != b"\x7fELF":
                return Program(path, is_elf=False)
            stream.seek(0)
            return _inspect_elf(path, ELFFile(stream))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (ELFError, ELFParseError, ValueError, KeyError, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is a damaged ELF file: {error}", "Rebuild it.", status=NOT_EXECUTABLE) from error


def _inspect_elf(path: Path, elf: ELFFile) -> Program:
    machine = elf.header["e_machine"]
    expected = MACHINES.get(platform.machine())
    if machine != expected:
        raise UserError(
            f"{path} is built for {str(machine).removeprefix('EM_')}, this machine is {platform.machine()}",
            "Farlane runs the program's host code here: build it for this machine.",
            status=NOT_EXECUTABLE,
        )
    dynamic: list[DynamicSegment | DynamicSection] = []
    imports: set[str] = set()
    dynamic += [segment for segment in elf.iter_segments() if isinstance(segment, DynamicSegment)]
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            dynamic.append(section)
        elif isinstance(section, SymbolTableSection) and section.name == ".dynsym":
            imports = {symbol.name for symbol in section.iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF"}
    # The segment is what the loader reads; the section stands in for it in files that have no segments.
    needed = _needed(dynamic[0]) if dynamic else []
    has_kernels = any(elf.get_section_by_name(name) is not None for name in FATBIN_SECTIONS)
    runtimes = tuple(
        sorted({name[len(RUNTIME_PREFIX) :].split(".")[0] for name in needed if name.startswith(RUNTIME_PREFIX)})
    )
    return Program(
        path=path,
        is_elf=True,
        runtimes=runtimes,
        has_kernels=has_kernels,
        static_runtime=has_kernels and not runtimes and REGISTER not in imports,
        needs_driver=shim_library.DRIVER in needed,
    )


def _needed(dynamic: DynamicSegment | DynamicSection) -> list[str]:
    tags: Iterable[Any] = dynamic.iter_tags("DT_NEEDED")  # the tag's kind decides which attributes it has
    return [str(tag.needed) for tag in tags]


def require_interceptable(program: Program) -> str:
    """Checks that the program's CUDA calls can be intercepted.

    Returns:
        A remark for the user, empty when there is none.

    Raises:
        UserError: the CUDA runtime is linked statically, or the program needs what is not there yet.
    """
    if program.static_runtime:
        raise UserError(
            f"{program.path} has the CUDA runtime linked into it, so its CUDA calls cannot be intercepted",
            "Rebuild it with `nvcc -cudart shared` (CMake: CUDA_RUNTIME_LIBRARY Shared). "
            "Statically linked runtimes are not supported yet.",
        )
    if program.is_elf and not program.has_kernels and not program.runtimes and not program.needs_driver:
        return f"{program.path} is not a CUDA program itself; CUDA calls of libraries it loads are intercepted"
    return ""
