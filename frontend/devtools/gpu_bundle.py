"""What a GPU machine without a network needs for `make test-gpu` and `make bench-gpu`, beside what it has itself.

`make FOLDER` (needs a network) writes the built shim and wheels for every supported Python; `enter FOLDER -- ARGUMENTS` runs this machine's
python with what its own packages lack taken from there, and with the packages of the working tree it lies in.

Runs as a script, with the standard library alone: on the machine that enters, nothing is installed yet. What the machine has (CuPy, grpcio, numpy,
networkx, nvcc) is its own; a package is taken from the folder only when it cannot be imported, or is there in a version that does not serve.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.12", "3.13")
LIMIT = 60 << 20
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
# What is imported, and the distribution that has it. Not here: what the machine has, and what only the simulated device needs.
PACKAGES = {
    "capstone": "capstone>=5,<6",
    "elftools": "pyelftools>=0.31",
    "google.protobuf": "protobuf>=6.31,<8",
    "hypothesis": "hypothesis>=6.100",
    "lz4": "lz4>=4.3",
    "pytest": "pytest>=8",
    "pytest_timeout": "pytest-timeout>=2.3",
    "zstandard": "zstandard>=0.22",
    # ... and what these need
    "_pytest": "pytest>=8",
    "iniconfig": "iniconfig",
    "packaging": "packaging",
    "pluggy": "pluggy",
    "pygments": "pygments",
    "sortedcontainers": "sortedcontainers",
}
TREE = {
    "frontend": "frontend",
    "backend": "backend",
    "analyzer": "analyzer",
    "roundtrips": "benchmarks/roundtrips",
    "v1": "protos/farlane/v1",
}
_METADATA = "Metadata-Version: 2.1\nName: farlane\nVersion: {version}\n"


def make(folder: Path) -> int:
    """Writes the bundle."""
    libraries = sorted((REPOSITORY / "frontend/lib").glob("*.so*"))
    if not libraries:
        print("gpu-bundle: the shim is not built; run `make shim`", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    (folder / "lib").mkdir()
    for library in libraries:
        shutil.copy2(library, folder / "lib")
    for python in PYTHONS:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--implementation", "cp", "--python-version", python, "--dest", str(wheels)]
        for platform in PLATFORMS:
            command += ["--platform", platform]
        subprocess.run([*command, *sorted(set(PACKAGES.values()))], check=True)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    count = len(list(wheels.iterdir()))
    print(
        f"gpu-bundle: {folder}: {size / 1e6:.1f} MB, {count} wheels for Python {', '.join(PYTHONS)}, {len(libraries)} libraries"
    )
    if size > LIMIT:
        print(f"gpu-bundle: more than {LIMIT / 1e6:.0f} MB", file=sys.stderr)
        return 1
    return 0


def missing() -> list[str]:
    """The requirements of packages that this python cannot import, or has in another version."""
    found = []
    for module, requirement in PACKAGES.items():
        try:
            there = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:  # a parent package
            there = False
        if not there or not serves(requirement):
            found.append(requirement)
    return sorted(set(found))


def serves(requirement: str) -> bool:
    """Whether the version that is installed is one of those asked for. What says nothing of its version is taken as it is."""
    name, *bounds = re.split(r"(?=[<>])|,(?=[<>])", requirement)
    try:
        installed = numbers(importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return True
    for bound in filter(None, bounds):
        limit = numbers(bound.lstrip("<>=").rstrip(","))
        if installed < limit if bound.startswith(">=") else installed >= limit:
            return False
    return True


def numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: (6, 31) of 6.31rc1."""
    return tuple(int(part) for part in re.findall(r"\d+", re.match(r"[\d.]*", version)[0]))  # type: ignore[index]


def enter(folder: Path, arguments: Sequence[str]) -> int:
    """Runs this python on the working tree; its exit status."""
    site = Path(tempfile.mkdtemp(prefix="farlane-site-"))
    try:
        wanted = missing()
        if wanted:
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
            command += ["--find-links", str(folder / "wheels"), "--target", str(site), *wanted]
            subprocess.run(command, check=True)
        package = site / "farlane"
        package.mkdir()
        for name, path in TREE.items():
            (package / name).symlink_to(REPOSITORY / path)
        metadata = site / "farlane-0+tree.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(_METADATA.format(version="0+tree"))
        _bring_shim(folder)
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join([str(site), *filter(None, [environment.get("PYTHONPATH")])])
        if "FARLANE_CUDA_ROOT" not in environment and (root := cuda_root()) is not None:
            environment["FARLANE_CUDA_ROOT"] = str(root)
        return subprocess.run([sys.executable, *arguments], cwd=REPOSITORY, env=environment).returncode
    finally:
        shutil.rmtree(site, ignore_errors=True)


def _bring_shim(folder: Path) -> None:
    """The built shim, where the working tree has none."""
    target = REPOSITORY / "frontend/lib"
    target.mkdir(exist_ok=True)
    for library in (folder / "lib").iterdir():
        if not (target / library.name).exists():
            shutil.copy2(library, target)


def cuda_root() -> Path | None:
    """Where this machine's nvcc lies."""
    nvcc = shutil.which("nvcc")
    if nvcc is not None:
        return Path(nvcc).resolve().parents[1]
    usual = Path("/usr/local/cuda")
    return usual if (usual / "bin/nvcc").exists() else None


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("make", "enter"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("arguments", nargs="*", help="behind --: what python runs")
    options = parser.parse_args(words)
    folder = options.folder.resolve()
    if options.action == "make":
        return make(folder)
    if not (folder / "wheels").is_dir():
        print(
            f"{folder} is no bundle: run `make gpu-bundle` where there is a network, and bring it along",
            file=sys.stderr,
        )
        return 1
    return enter(folder, options.arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
