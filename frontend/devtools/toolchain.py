"""CUDA compilers without a CUDA installation: nvcc, and clang for CUDA 12, put together from PyPI wheels on demand.

Owns: which wheels make up a toolchain (pinned), where they are installed, and the small additions without which the
wheels' layout does not compile (a `libcudart.so` to link with, a CUDA root that clang accepts). Does not own compiling
and caching programs (`programs.py`).

Toolchains live in `<cache>/toolchains/<name>`, each made in a temporary folder and renamed into place under an `fcntl`
lock, so any number of processes may ask for the same one at once and none ever sees half of it. A toolchain whose
description changed is made anew.

Facts the layout rests on, tried: NVIDIA's wheels for CUDA 13 share one tree `nvidia/cu13`, as `nvcc.profile` expects,
except for the folder `lib64`, in which 13.0 looks for libraries. The wheels for CUDA 12 hold ptxas, headers and
libdevice but neither nvcc nor fatbinary, so clang is the compiler there and CUDA 13.0's fatbinary writes the container;
it dropped the option by which clang names images, hence a wrapper. Clang includes `curand_mtgp32_kernel.h`
unconditionally; an empty file serves.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

LAYOUT_VERSION = 2
CLANG = "clang++-19"
CLANG_PACKAGE = "clang-19"


class ToolchainError(Exception):
    """A toolchain cannot be had here; the message says what is missing and what to do."""


@dataclass(frozen=True)
class Specification:
    """A toolchain: its name, its compiler and the exact wheels it is made of."""

    name: str
    compiler: str  # "nvcc" or "clang"
    cuda: str
    wheels: tuple[str, ...]

    @property
    def soname(self) -> str:
        """The runtime library that programs compiled with it ask for."""
        return f"libcudart.so.{self.cuda.split('.')[0]}"


SPECIFICATIONS = {
    specification.name: specification
    for specification in (
        Specification(
            "13.0",
            "nvcc",
            "13.0",
            (
                "nvidia-cuda-nvcc==13.0.88",
                "nvidia-nvvm==13.0.88",
                "nvidia-cuda-crt==13.0.88",
                "nvidia-cuda-runtime==13.0.96",
                "nvidia-cuda-cccl==13.0.85",
            ),
        ),
        Specification(
            "13.5",
            "nvcc",
            "13.5",
            (
                "nvidia-cuda-nvcc==13.5.37",
                "nvidia-nvvm==13.5.37",
                "nvidia-cuda-crt==13.5.37",
                "nvidia-cuda-runtime==13.5.37",
                "nvidia-cuda-cccl==13.3.5.0.6",
            ),
        ),
        Specification(
            "clang-12.9",
            "clang",
            "12.9",
            (
                "nvidia-cuda-nvcc-cu12==12.9.86",
                "nvidia-cuda-runtime-cu12==12.9.79",
                "nvidia-cuda-cccl-cu12==12.9.27",
                "nvidia-cuda-nvcc==13.0.88",
            ),
        ),
    )
}

FATBINARY_WRAPPER = """#!/bin/bash
# Clang writes --image=profile=sm_75,file=F; this fatbinary wants --image3=kind=elf,sm=75,file=F.
arguments=()
for argument in "$@"; do
    case "$argument" in
        --image=profile=sm_*) rest="${argument#--image=profile=sm_}" kind=elf ;;
        --image=profile=compute_*) rest="${argument#--image=profile=compute_}" kind=ptx ;;
        *) arguments+=("$argument"); continue ;;
    esac
    arguments+=("--image3=kind=$kind,sm=${rest%%,*},${rest#*,}")
done
exec "$(dirname "$(readlink -f "$0")")/../../nvidia/cu13/bin/fatbinary" "${arguments[@]}"
"""


@dataclass(frozen=True)
class Toolchain:
    """An installed toolchain; `host_compiler`: what nvcc compiles host code with."""

    specification: Specification
    root: Path
    host_compiler: str = "g++"

    @property
    def cuda_root(self) -> Path:
        return self.root / ("nvidia/cu13" if self.specification.compiler == "nvcc" else "cuda")

    @property
    def library_folder(self) -> Path:
        """Holds NVIDIA's own libcudart: for linking, and for running natively where there is a GPU."""
        return self.cuda_root / ("lib" if self.specification.compiler == "nvcc" else "lib64")

    def command(self, architecture: str = "sm_75", cudart: str = "shared") -> list[str]:
        """The compiler with the options without which it does not make a program on that runtime.

        Args:
            cudart: "shared", or "static": the runtime is linked into the program, as nvcc does it by itself.
            architecture: "sm_NN" for machine code and PTX; with nvcc also "compute_NN" for PTX alone, or a list
                "75,sm_90,compute_80" of several: the images as given, NN for machine code and PTX both.
        """
        if self.specification.compiler == "nvcc":
            host = [] if self.host_compiler == "g++" else ["-ccbin", self.host_compiler]
            return [str(self.cuda_root / "bin/nvcc"), *host, "-cudart", cudart, *_nvcc_architectures(architecture)]
        return [
            CLANG,
            f"--cuda-path={self.cuda_root}",
            f"--cuda-gpu-arch={architecture}",
            "--cuda-include-ptx=all",
            "-Wno-unknown-cuda-version",
            f"-L{self.library_folder}",
        ]

    def libraries(self, cudart: str = "shared") -> list[str]:
        """What stands behind the sources: clang does not add the runtime by itself."""
        if self.specification.compiler == "nvcc":
            return []
        static = str(self.root / "nvidia/cuda_runtime/lib/libcudart_static.a")
        return [static if cudart == "static" else "-lcudart", "-ldl", "-lrt", "-lpthread"]

    def environment(self) -> dict[str, str]:
        """The environment to compile in: the caller's, less what silently changes nvcc's options."""
        return {name: value for name, value in os.environ.items() if not name.startswith("NVCC_")}


@dataclass(frozen=True)
class SystemToolchain(Toolchain):
    """CUDA as this machine has it (FARLANE_CUDA_ROOT): for machines that cannot reach PyPI."""

    @property
    def cuda_root(self) -> Path:
        return self.root

    @property
    def library_folder(self) -> Path:
        return next((self.root / name for name in ("lib64", "lib") if (self.root / name).is_dir()), self.root / "lib64")


def system_toolchain(root: Path) -> SystemToolchain:
    """The nvcc under a CUDA root.

    Raises:
        ToolchainError: there is none, or it does not say its version.
    """
    try:
        said = subprocess.run([root / "bin/nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise ToolchainError(f"FARLANE_CUDA_ROOT={root} has no bin/nvcc that runs: {error}") from None
    version = re.search(r"release (\d+\.\d+)", said)
    if version is None:
        raise ToolchainError(f"{root}/bin/nvcc does not say its version")
    return SystemToolchain(Specification("system", "nvcc", version[1], (said.strip(),)), root)


def _nvcc_architectures(architecture: str) -> list[str]:
    if "," not in architecture:
        return [f"-arch={architecture}"]
    options = []
    for image in architecture.split(","):
        number = image.rpartition("_")[2]
        code = f"[sm_{number},compute_{number}]" if image == number else image
        options.append(f"-gencode=arch=compute_{number},code={code}")
    return options


def cache_folder() -> Path:
    """FARLANE_CACHE, else `.cache` in the repository this file lies in, else the user's cache folder."""
    if configured := os.environ.get("FARLANE_CACHE"):
        return Path(configured).resolve()
    repository = Path(__file__).resolve().parents[2]
    if (repository / "pyproject.toml").exists():
        return repository / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "farlane"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on `path` between processes; the file stays, so that its identity does not change."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def install(name: str, host_compiler: str = "g++") -> Toolchain:
    """Returns the toolchain, making it first where it is not there yet (downloads up to 250 MB). With FARLANE_CUDA_ROOT set,
    every nvcc is the one there. The host compiler is what nvcc is to use (`-ccbin`): g++ or CLANG.

    Raises:
        ToolchainError: something it needs is missing here: the name, a host compiler, clang, or the wheels.
    """
    specification = SPECIFICATIONS.get(name)
    if specification is None:
        raise ToolchainError(f"no toolchain {name!r}: there are {', '.join(SPECIFICATIONS)}")
    _require_host_tools(specification, host_compiler)
    if (configured := os.environ.get("FARLANE_CUDA_ROOT")) and specification.compiler == "nvcc":
        return replace(system_toolchain(Path(configured)), host_compiler=host_compiler)
    root = cache_folder() / "toolchains" / name
    with locked(root.with_name(f"{name}.lock")):
        if _stamp_of(root) != _stamp(specification):
            _make(specification, root)
    return Toolchain(specification, root, host_compiler)


def _require_host_tools(specification: Specification, host_compiler: str) -> None:
    if shutil.which("g++") is None:
        raise ToolchainError("g++ is not installed; a CUDA compiler needs a host C++ compiler (apt-get install g++)")
    if (specification.compiler == "clang" or host_compiler == CLANG) and shutil.which(CLANG) is None:
        raise ToolchainError(f"{CLANG} is not installed (apt-get install {CLANG_PACKAGE})")


def _stamp(specification: Specification) -> str:
    return json.dumps([LAYOUT_VERSION, specification.compiler, specification.cuda, *specification.wheels])


def _stamp_of(root: Path) -> str | None:
    try:
        return (root / "stamp.json").read_text()
    except OSError:
        return None


def _make(specification: Specification, root: Path) -> None:
    """Installs into a folder beside `root` and renames it, the stamp written last. The caller holds the lock."""
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=f".{specification.name}-") as temporary:
        tree = Path(temporary) / "tree"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--no-compile", "--target", str(tree), *specification.wheels]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise ToolchainError(f"pip could not install toolchain {specification.name}:\n{done.stderr.strip()}")
        if specification.compiler == "nvcc":
            (tree / "nvidia/cu13/lib/libcudart.so").symlink_to(specification.soname)
            (tree / "nvidia/cu13/lib64").symlink_to("lib")
        else:
            _make_clang_root(specification, tree)
        (tree / "stamp.json").write_text(_stamp(specification))
        shutil.rmtree(root, ignore_errors=True)
        tree.rename(root)


def _make_clang_root(specification: Specification, tree: Path) -> None:
    """A CUDA root as clang's driver looks for it. Links are relative: the tree is renamed after this."""
    root = tree / "cuda"
    for folder in ("bin", "include", "lib64", "nvvm"):
        (root / folder).mkdir(parents=True)
    for component in ("cuda_runtime", "cuda_nvcc", "cuda_cccl"):
        for entry in sorted((tree / "nvidia" / component / "include").iterdir()):
            link = root / "include" / entry.name
            if not entry.name.startswith("__") and not link.exists():
                link.symlink_to(Path("../..") / entry.relative_to(tree))
    (root / "include/curand_mtgp32_kernel.h").write_text("// Clang's CUDA wrapper includes this; cuRAND is not used.\n")
    (root / "nvvm/libdevice").symlink_to("../../nvidia/cuda_nvcc/nvvm/libdevice")
    (root / "bin/ptxas").symlink_to("../../nvidia/cuda_nvcc/bin/ptxas")
    wrapper = root / "bin/fatbinary"
    wrapper.write_text(FATBINARY_WRAPPER)
    wrapper.chmod(0o755)
    for name in ("libcudart.so", specification.soname):
        (root / "lib64" / name).symlink_to(f"../../nvidia/cuda_runtime/lib/{specification.soname}")
    version = {"cuda": {"name": "CUDA SDK", "version": f"{specification.cuda}.0"}}
    (root / "version.json").write_text(json.dumps(version))


def main(arguments: Sequence[str] | None = None) -> int:
    """`toolchain NAME` prints where it is; `toolchain NAME -- ARGS` runs its compiler with ARGS."""
    prog = "python -m farlane.frontend.devtools.toolchain"
    usage = "%(prog)s [--arch ARCH] [--cudart KIND] NAME [-- COMPILER ARGUMENTS]"
    parser = argparse.ArgumentParser(prog=prog, usage=usage, description=main.__doc__)
    parser.add_argument("name", help=f"one of {', '.join(SPECIFICATIONS)}")
    parser.add_argument("--arch", default="sm_75", help="sm_NN (machine code and PTX) or compute_NN (PTX)")
    parser.add_argument("--cudart", choices=("shared", "static"), default="shared", help="how the runtime is linked")
    words = list(sys.argv[1:] if arguments is None else arguments)
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    try:
        toolchain = install(options.name)
    except ToolchainError as error:
        print(f"toolchain: {error}", file=sys.stderr)
        return 1
    if end == len(words):
        print(toolchain.cuda_root)
        return 0
    command = [*toolchain.command(options.arch, options.cudart), *words[end + 1 :]]
    command += toolchain.libraries(options.cudart)
    return subprocess.run(command, env=toolchain.environment()).returncode


if __name__ == "__main__":
    sys.exit(main())
