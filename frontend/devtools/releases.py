"""NVIDIA's own headers and libraries for comparison: runtime wheels from PyPI, in the cache folder of the toolchains."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from farlane.frontend.devtools.toolchain import cache_folder, locked

# The oldest and newest of each major version: what lies between adds symbols, but none that the newest lacks.
RELEASES = ("12.0.107", "12.9.79", "13.0.96", "13.5.37")
_CRT = "nvidia-cuda-crt==13.5.37"  # crt/host_defines.h; CUDA 12 keeps it in the compiler's large wheel


@dataclass(frozen=True)
class Release:
    version: str
    include: tuple[Path, ...]
    library: Path

    @property
    def major(self) -> str:
        return self.version.split(".")[0]


@functools.cache
def release(version: str) -> Release:
    """One release's headers and shared library; downloads about 4 MB when they are not in the cache."""
    major = version.split(".")[0]
    package = f"nvidia-cuda-runtime-cu12=={version}" if major == "12" else f"nvidia-cuda-runtime=={version}"
    tree, crt = _wheel(package), _wheel(_CRT)
    part = tree / "nvidia" / ("cuda_runtime" if major == "12" else "cu13")
    return Release(version, (part / "include", crt / "nvidia/cu13/include"), part / f"lib/libcudart.so.{major}")


def _wheel(requirement: str) -> Path:
    folder = cache_folder() / "wheels" / requirement.replace("==", "-")
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                tree = Path(scratch) / "tree"
                command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
                subprocess.run([*command, "--no-compile", "--target", str(tree), requirement], check=True)
                tree.rename(folder)
    return folder


def compile_c(source: str, release_: Release, output: Path, *options: str) -> None:
    """Compiles a C program with the release's headers."""
    include = [f"-I{folder}" for folder in release_.include]
    command = [
        "cc",
        "-xc",
        "-Wall",
        "-Werror",
        "-Wno-deprecated-declarations",
        *include,
        "-o",
        str(output),
        "-",
        "-xnone",
        *options,
    ]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"cc failed:\n{done.stderr}")


@functools.cache
def preprocessed(version: str, *defines: str, header: str = "cuda_runtime_api.h") -> str:
    """An API's header with everything it includes, after the preprocessor."""
    include = [f"-I{folder}" for folder in release(version).include]
    command = ["cc", "-E", "-P", "-xc", *include, *defines, "-"]
    text = f"#include <{header}>\n"
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


_PROTOTYPE = re.compile(
    r"extern\s+((?:const )?\w+\s*\**)\s*(?:__attribute__\(\([^)]*\)\)\s*)*\b(cuda\w+)\s*\(([^;{}]*)\)\s*;"
)


def prototypes(version: str) -> dict[str, tuple[str, list[str]]]:
    """Exported symbol -> (result, argument types), in `spelled` form.

    A macro renames some functions, and renames more for the per-thread default stream; without the macros the plain names
    are declared: all three together are the library's symbols.
    """
    found: dict[str, tuple[str, list[str]]] = {}
    for define in ("-D__CUDA_API_VERSION_INTERNAL", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM", "-DNOTHING"):
        for result, name, arguments in _PROTOTYPE.findall(preprocessed(version, define)):
            types = [] if arguments.strip() in ("", "void") else [_type(a) for a in arguments.split(",")]
            found[name] = (spelled(result), types)
    return found


_DRIVER_PROTOTYPE = re.compile(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(([^;{}]*)\)\s*;")


def driver_prototypes(version: str) -> dict[str, list[str]]:
    """Exported symbol of the driver API -> argument types, in `spelled` form, as cuda.h declares it to today's programs.

    The macros are as in `prototypes`; old versions of a function are declared only where none of them renames.
    """
    found: dict[str, list[str]] = {}
    for define in ("-D__CUDA_API_VERSION_INTERNAL", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM", "-DNOTHING"):
        for name, arguments in _DRIVER_PROTOTYPE.findall(preprocessed(version, define, header="cuda.h")):
            types = [] if arguments.strip() in ("", "void") else [_type(a) for a in arguments.split(",")]
            found[name] = types
    return found


def _type(argument: str) -> str:
    """`struct cudaDeviceProp *prop` -> `cudaDeviceProp *`."""
    match = re.fullmatch(r"(.*?[\s*])\w+(\[\])?", argument.strip(), re.DOTALL)
    if match is None:
        raise ValueError(f"no argument of a prototype: {argument!r}")
    return spelled(match.group(1) + ("*" if match.group(2) else ""))


def spelled(c_type: str) -> str:
    """One spelling for one type: no `enum` and `struct`, one space between words, none between and behind stars."""
    words = re.sub(r"\b(enum|struct)\s+", "", c_type).replace("*", " * ").split()
    return re.sub(r"\* (?=\*|const)", "*", " ".join(words))


def enumeration(version: str, name: str, header: str = "cuda_runtime_api.h") -> dict[str, int]:
    """The enumerators of an enumeration with their values."""
    body = re.search(
        rf"enum\s+(?:__attribute__\(\([^)]*\)\)\s*)*{name}\s*\{{([^}}]*)\}}", preprocessed(version, header=header)
    )
    if body is None:
        raise ValueError(f"CUDA {version} has no enumeration {name}")
    return {enumerator: int(value, 0) for enumerator, value in re.findall(r"(\w+)\s*=\s*(\w+)", body.group(1))}
