"""Compiling CUDA programs, each once: results are kept under a key of everything that goes into them.

Owns the cache `<cache>/programs/<key>/<name>` and the translation of a few options between nvcc and clang. The key
covers the sources, every header that they include by its place, the options, the toolchain's exact wheels and the host
compiler, so a stale program is never returned. Files appear by rename under a lock for each key; concurrent callers compile once.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from farlane.frontend.devtools.toolchain import CLANG, Toolchain, cache_folder, locked

# By its place: the guest image compiles programs with this folder alone (docker/Dockerfile).
DRIVER_LIBRARY = Path(__file__).resolve().parents[1] / "lib/libcuda.so.1"
_INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


class CompileError(Exception):
    """The compiler refused; the message holds its command and its output."""


@dataclass(frozen=True)
class Build:
    """How a program is to be compiled.

    Args:
        optimization: the digit of -O.
        architecture: "sm_75": machine code and PTX; "compute_75": PTX alone (clang always embeds both).
        flags: given to either compiler as they are.
        nvcc_flags, clang_flags: given to that compiler only.
        shared_object: make a shared library.
        driver: link it with the driver API, which is the shim's libcuda.so.1: NVIDIA's comes with a driver only.
        cudart: "shared" or "static": where the CUDA runtime is.
    """

    optimization: int = 3
    architecture: str = "sm_75"
    flags: tuple[str, ...] = ()
    nvcc_flags: tuple[str, ...] = ()
    clang_flags: tuple[str, ...] = ()
    shared_object: bool = False
    driver: bool = False
    cudart: str = "shared"


def compile_program(toolchain: Toolchain, sources: Sequence[Path], name: str, build: Build) -> Path:
    """Returns the compiled program (or shared library) called `name`.

    Raises:
        CompileError: with the compiler's own words.
    """
    command = _command(toolchain, build)
    # The libraries decide as well: clang's command does not name the runtime.
    libraries = [*toolchain.libraries(build.cudart), *(["libcuda"] if build.driver else [])]
    folder = cache_folder() / "programs" / _key(toolchain, sources, name, [*command, *libraries])
    output = folder / name
    if output.exists():
        return output
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not output.exists():
            libraries = toolchain.libraries(build.cudart)
            libraries += ["-Xlinker", str(DRIVER_LIBRARY)] if build.driver else []
            _compile(toolchain, [*command, *map(str, sources), *libraries], output)
    return output


def _command(toolchain: Toolchain, build: Build) -> list[str]:
    nvcc = toolchain.specification.compiler == "nvcc"
    architecture = build.architecture if nvcc else build.architecture.replace("compute_", "sm_")
    command = [*toolchain.command(architecture, build.cudart), f"-O{build.optimization}", "-std=c++17", *build.flags]
    command += build.nvcc_flags if nvcc else build.clang_flags
    if build.shared_object:
        command += ["-shared", "-Xcompiler", "-fPIC"] if nvcc else ["-shared", "-fPIC"]
    return command


def _compile(toolchain: Toolchain, command: list[str], output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent) as temporary:
        made = Path(temporary) / output.name
        command = [*command, "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, env=toolchain.environment())
        if done.returncode != 0:
            raise CompileError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        made.rename(output)


def _key(toolchain: Toolchain, sources: Sequence[Path], name: str, command: list[str]) -> str:
    digest = hashlib.sha256()
    options = [option.replace(str(toolchain.root), "") for option in command]
    description = [name, options, toolchain.specification.wheels, _host_compiler(toolchain.specification.compiler)]
    digest.update(json.dumps(description).encode())
    for path in [*sources, *_headers(sources)]:
        digest.update(json.dumps([path.name, path.stat().st_size]).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def _headers(sources: Sequence[Path]) -> list[Path]:
    """The files that the sources include by their place, and those that these do."""
    found: set[Path] = set()
    todo = list(sources)
    while todo:
        path = todo.pop()
        included = {(path.parent / name.decode()).resolve() for name in _INCLUDE.findall(path.read_bytes())}
        new = {header for header in included - found if header.exists()}
        found |= new
        todo += new
    return sorted(found)


@functools.cache
def _host_compiler(compiler: str) -> str:
    program = "g++" if compiler == "nvcc" else CLANG
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
