"""What the launcher must know about a program before it starts it: can its CUDA calls be intercepted?

Owns the reading of the program's ELF headers (with pyelftools, which bounds what it reads to the file). Does not run
anything and does not look into the fat binary: whether an image can run is the shim's and the host's to say. A runtime that is
linked into the program is redirected when the program starts (frontend/shim/crates/redirect).
"""

from __future__ import annotations

import os
import platform
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farlane.frontend import embedded_runtime, shim_library
from farlane.frontend.errors import UserError
from farlane.terminal.statuses import NOT_EXECUTABLE, NOT_FOUND

if TYPE_CHECKING:
    from elftools.elf.dynamic import DynamicSection, DynamicSegment
    from elftools.elf.elffile import ELFFile

RUNTIME_PREFIX = "libcudart.so."
REGISTER = "__cudaRegisterFatBinary"
FATBIN_SECTIONS = (".nv_fatbin", ".nvFatBinSegment")
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}

SANITIZER_PREFIX = "libasan.so"
FLAG_EXECUTABLE = 0x08000000  # DF_1_PIE


@dataclass(frozen=True)
class Program:
    """An executable as the launcher sees it.

    Attributes:
        path: the file that will be executed.
        is_elf: False for scripts, whose interpreter makes the CUDA calls.
        runtimes: major versions of the shared CUDA runtimes it is linked to, for example ("13",).
        has_kernels: it carries a fat binary.
        static_runtime: the CUDA runtime is linked into it.
        stripped: of that runtime there are no symbols by which its functions could be found.
        fully_static: no dynamic loader starts it, so nothing can be preloaded.
        sanitizer: the library of AddressSanitizer that it is linked to, empty when there is none.
        needs_driver: it is linked to the driver API's library.
        needed: the libraries that it is linked to, by the names it has for them.
    """

    path: Path
    is_elf: bool
    runtimes: tuple[str, ...] = ()
    has_kernels: bool = False
    static_runtime: bool = False
    stripped: bool = False
    fully_static: bool = False
    sanitizer: str = ""
    needs_driver: bool = False
    needed: tuple[str, ...] = ()


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
    # The launcher finds the program, starts a host, and only then reads headers: that much earlier, the host starts.
    from elftools.common.exceptions import ELFError, ELFParseError
    from elftools.elf.elffile import ELFFile

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
    from elftools.elf.dynamic import DynamicSection, DynamicSegment

    machine = elf.header["e_machine"]
    if machine != MACHINES.get(platform.machine()):
        raise UserError(
            f"{path} is built for {str(machine).removeprefix('EM_')}, this machine is {platform.machine()}",
            "Farlane runs the program's host code here: build it for this machine.",
            status=NOT_EXECUTABLE,
        )
    dynamic: list[DynamicSegment | DynamicSection] = []
    dynamic += [segment for segment in elf.iter_segments() if isinstance(segment, DynamicSegment)]
    dynamic += [section for section in elf.iter_sections() if isinstance(section, DynamicSection)]
    # The segment is what the loader reads; the section stands in for it in files that have no segments.
    needed = _needed(dynamic[0]) if dynamic else []
    has_kernels = any(elf.get_section_by_name(name) is not None for name in FATBIN_SECTIONS)
    interpreted = any(segment["p_type"] == "PT_INTERP" for segment in elf.iter_segments())
    runtimes = tuple(
        sorted({name[len(RUNTIME_PREFIX) :].split(".")[0] for name in needed if name.startswith(RUNTIME_PREFIX)})
    )
    symbols = embedded_runtime.has_symbols(elf)
    without_symbols = has_kernels and not runtimes and not symbols and not _imports(elf, REGISTER)
    return Program(
        path=path,
        is_elf=True,
        runtimes=runtimes,
        has_kernels=has_kernels,
        static_runtime=symbols or without_symbols,
        stripped=without_symbols,
        fully_static=not interpreted and (elf.header["e_type"] == "ET_EXEC" or _is_executable(dynamic)),
        sanitizer=next((name for name in needed if name.startswith(SANITIZER_PREFIX)), ""),
        needs_driver=shim_library.DRIVER in needed,
        needed=tuple(needed),
    )


def _imports(elf: ELFFile, name: str) -> bool:
    from elftools.elf.sections import SymbolTableSection

    table = elf.get_section_by_name(".dynsym")
    return isinstance(table, SymbolTableSection) and any(
        symbol["st_shndx"] == "SHN_UNDEF" for symbol in table.get_symbol_by_name(name) or ()
    )


def _is_executable(dynamic: list[DynamicSegment | DynamicSection]) -> bool:
    """Whether a position-independent file is a program, and not a library or the loader itself."""
    flags = [tag["d_val"] for table in dynamic[:1] for tag in table.iter_tags("DT_FLAGS_1")]
    return any(value & FLAG_EXECUTABLE for value in flags)


def _needed(dynamic: DynamicSegment | DynamicSection) -> list[str]:
    tags: Iterable[Any] = dynamic.iter_tags("DT_NEEDED")  # the tag's kind decides which attributes it has
    return [str(tag.needed) for tag in tags]


def require_interceptable(program: Program, interop: bool = False) -> str:
    """Checks that the program's CUDA calls can be intercepted.

    Args:
        program: what `inspect` found.
        interop: whether the user lets a runtime that cannot be redirected run (settings.interop).

    Returns:
        A remark for the user, empty when there is none.

    Raises:
        UserError: the loader would ignore what is preloaded, or the runtime linked into the program cannot be found.
    """
    _require_preloading(program)
    if program.stripped and not interop:
        raise stripped_refusal(program)
    if program.fully_static:
        return f"{program.path} is a static executable without CUDA; CUDA calls of programs it starts are intercepted"
    if (
        program.is_elf
        and not program.has_kernels
        and not program.runtimes
        and not (program.static_runtime or program.needs_driver)
    ):
        return f"{program.path} is not a CUDA program itself; CUDA calls of libraries it loads are intercepted"
    return ""


def _require_preloading(program: Program) -> None:
    if _changes_identity(program.path):
        raise UserError(
            f"{program.path} runs under another user's or group's id (set-user-id), so the loader ignores preloaded libraries",
            "Run it as that user, or without the set-user-id bit.",
            status=NOT_EXECUTABLE,
        )
    if program.fully_static and (program.has_kernels or program.static_runtime):
        raise UserError(
            f"{program.path} is fully static (nvcc -Xcompiler -static), so no library can be preloaded into it",
            "Link it with the shared C library.",
            status=NOT_EXECUTABLE,
        )


def _changes_identity(path: Path) -> bool:
    try:
        status = path.stat()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    user = bool(status.st_mode & stat.S_ISUID) and status.st_uid != os.getuid()
    group = bool(status.st_mode & stat.S_ISGID and status.st_mode & stat.S_IXGRP) and status.st_gid != os.getgid()
    return user or group


def stripped_refusal(program: Program) -> UserError:
    """A stripped program's runtime cannot be redirected: it runs on the driver API's library as it is, where the user allows that."""
    return UserError(
        f"{program.path} has the CUDA runtime linked into it and is stripped, so that runtime must run as it is, which is switched off",
        "Switch it on with `farlane setup --interop` (docs/explanation/interoperability.md says what it means), do not strip it, or rebuild it with "
        "`nvcc -cudart shared`.",
    )
