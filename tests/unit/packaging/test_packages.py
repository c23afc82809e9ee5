"""The package list, the mapping of folders to import names, and what a wheel would hold."""

from __future__ import annotations

import importlib
import json
import subprocess
import tarfile
import time
import tomllib
from pathlib import Path

from farlane.frontend.devtools.packages import TIME, wheels

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAPPING = SETTINGS["tool"]["setuptools"]["package-dir"]


def folders() -> set[str]:
    """The import names of all folders with an __init__.py."""
    names = set()
    for package, folder in MAPPING.items():
        base = ROOT / folder
        for init in base.rglob("__init__.py"):
            if "shim" not in init.relative_to(base).parts:
                names.add(".".join([package, *init.parent.relative_to(base).parts]))
    return names


def test_every_package_is_listed() -> None:
    assert set(SETTINGS["tool"]["setuptools"]["packages"]) == folders()


def test_packages_come_from_this_tree() -> None:
    for package, folder in MAPPING.items():
        if (ROOT / folder / "__init__.py").exists():
            module = importlib.import_module(package)
            assert Path(str(module.__file__)).resolve().parent == ROOT / folder


def test_every_command_can_be_loaded() -> None:
    for entry, target in SETTINGS["project"]["entry-points"]["farlane.commands"].items():
        module, _, name = target.partition(":")
        command = getattr(importlib.import_module(module), name)
        assert importlib.import_module(module.rpartition(".")[0]).HELP[entry]
        assert callable(command.run)
        assert callable(command.add_arguments)


def test_unpacked_sources_are_as_new_as_the_unpacking(tmp_path: Path) -> None:
    """Cargo goes by times: older sources would pass for what it has built already, whatever is in them."""
    sdist, old = tmp_path / "farlane.tar.gz", tarfile.TarInfo("farlane-1/Cargo.toml")
    old.mtime = TIME
    with tarfile.open(sdist, "w:gz") as archive:
        archive.addfile(old)
    began = time.time()
    for _ in range(2):  # what an earlier one has left goes
        source = wheels.unpack(sdist, tmp_path / "unpacked")
    assert [path.name for path in source.iterdir()] == ["Cargo.toml"]
    assert (source / "Cargo.toml").stat().st_mtime >= began - 1


def test_every_crate_is_below_the_workspaces_file() -> None:
    """Cargo names others after the folder of the clone, and two clones would not give the same bytes."""
    command = ["cargo", "metadata", "--offline", "--locked", "--no-deps", "--format-version", "1"]
    said = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    assert Path(said["workspace_root"]) == ROOT
    assert said["packages"]
    assert [found["name"] for found in said["packages"] if not Path(found["manifest_path"]).is_relative_to(ROOT)] == []
