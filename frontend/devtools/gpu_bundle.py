"""What a GPU machine without a network needs for `make test-gpu` and `make bench-gpu`, beside what it has itself.

`make FOLDER` (needs a network) writes the built shim, the host's data plane and wheels for every supported Python; `enter FOLDER -- ARGUMENTS` runs this machine's
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
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.12", "3.13")
LIMIT = 60 << 20
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
# What is imported, and the distribution that has it: what this project needs (pyproject.toml) but for what the machine has, and what the tests do.
PACKAGES = {
    "capstone": "capstone>=5,<6",
    "cryptography": "cryptography>=43",
    "elftools": "pyelftools>=0.31",
    "google.protobuf": "protobuf>=6.31,<8",
    "hypothesis": "hypothesis>=6.100",
    "lz4": "lz4>=4.3",
    "prometheus_client": "prometheus-client>=0.20",
    "pytest": "pytest>=8",
    "pytest_timeout": "pytest-timeout>=2.3",
    "rich": "rich>=13",
    "shtab": "shtab>=1.8",
    "xdist": "pytest-xdist>=3.6",
    "zstandard": "zstandard>=0.22",
    # ... and what these need
    "_pytest": "pytest>=8",
    "cffi": "cffi",
    "execnet": "execnet",
    "iniconfig": "iniconfig",
    "markdown_it": "markdown-it-py",
    "mdurl": "mdurl",
    "packaging": "packaging",
    "pluggy": "pluggy",
    "pycparser": "pycparser",
    "pygments": "pygments",
    "sortedcontainers": "sortedcontainers",
}
# What the machine has itself, and what only the simulated device needs.
MACHINE = ("grpcio", "llvmlite", "networkx", "numba", "numpy")
# What is built and not in the tree, from the repository's root.
BUILT = ("frontend/lib/*.so*", "frontend/lib/farlane-run", "backend/plane/*.so")
_METADATA = "Metadata-Version: 2.1\nName: farlane\nVersion: {version}\n"


def project() -> dict[str, Any]:
    """What pyproject.toml says."""
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


def built(root: Path) -> Iterator[Path]:
    """The libraries and programs that are built, below a repository or a bundle's `built`."""
    for pattern in BUILT:
        yield from sorted(root.glob(pattern))


def make(folder: Path, pythons: Sequence[str] = PYTHONS) -> int:
    """Writes the bundle."""
    libraries = list(built(REPOSITORY))
    if {file.parent.name for file in libraries} != {"lib", "plane"}:
        print("gpu-bundle: the shim or the host's data plane is not built; run `make shim`", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    for library in libraries:
        target = folder / "built" / library.relative_to(REPOSITORY)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(library, target)
        subprocess.run(["strip", "--strip-unneeded", target], check=True)
    for python in pythons:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--implementation", "cp", "--python-version", python, "--dest", str(wheels)]
        for platform in PLATFORMS:
            command += ["--platform", platform]
        subprocess.run([*command, *sorted(set(PACKAGES.values()))], check=True)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    count = len(list(wheels.iterdir()))
    print(
        f"gpu-bundle: {folder}: {size / 1e6:.1f} MB, {count} wheels for Python {', '.join(pythons)}, {len(libraries)} built files"
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
        _install_tree(site)
        _bring_built(folder)
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join([str(site), *filter(None, [environment.get("PYTHONPATH")])])
        if "FARLANE_CUDA_ROOT" not in environment and (root := cuda_root()) is not None:
            environment["FARLANE_CUDA_ROOT"] = str(root)
        return subprocess.run([sys.executable, *arguments], cwd=REPOSITORY, env=environment).returncode
    finally:
        shutil.rmtree(site, ignore_errors=True)


def _install_tree(site: Path) -> None:
    """The working tree as an installed package: links to the folders that pyproject.toml names, and its commands."""
    described = project()
    package = site / "farlane"
    package.mkdir()
    for name, path in described["tool"]["setuptools"]["package-dir"].items():
        if name == "farlane":
            for part in (REPOSITORY / path).iterdir():
                (package / part.name).symlink_to(part)
        else:
            (package / name.removeprefix("farlane.")).symlink_to(REPOSITORY / path)
    metadata = site / "farlane-0+tree.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(_METADATA.format(version="0+tree"))
    groups = described["project"]["entry-points"] | {"console_scripts": described["project"]["scripts"]}
    lines = [
        f"[{group}]\n" + "".join(f"{n} = {target}\n" for n, target in each.items()) for group, each in groups.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))


def _bring_built(folder: Path) -> None:
    """What is built, where the working tree has none."""
    for file in built(folder / "built"):
        target = REPOSITORY / file.relative_to(folder / "built")
        target.parent.mkdir(exist_ok=True)
        if not target.exists():
            shutil.copy2(file, target)


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
    parser.add_argument("--pythons", default=",".join(PYTHONS), help="whose wheels (make): 3.11,3.12")
    options = parser.parse_args(words)
    folder = options.folder.resolve()
    if options.action == "make":
        return make(folder, options.pythons.split(","))
    if not (folder / "wheels").is_dir():
        print(
            f"{folder} is no bundle: run `make gpu-bundle` where there is a network, and bring it along",
            file=sys.stderr,
        )
        return 1
    return enter(folder, options.arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
