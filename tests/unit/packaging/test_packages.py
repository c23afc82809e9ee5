"""The package list, the mapping of folders to import names, and what a wheel would hold."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

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
