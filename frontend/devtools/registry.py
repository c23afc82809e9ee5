"""The registry of test programs: what `tests/native/registry.toml` says, checked, and how its programs are built.

Owns the file's schema. Sources are found by their names, in the registry's folder and those in it. Does not decide which
builds are tested in which mode: the tests do.
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

KEYS = {
    "name",
    "sources",
    "flags",
    "nvcc_flags",
    "clang_flags",
    "libraries",
    "variants",
    "expected",
    "architecture",
    "compilers",
    "helper",
    "rare",
    "driver",
}
VARIANT_KEYS = {"suffix", "flags", "nvcc_flags", "clang_flags", "compilers", "architecture", "rare"}


class RegistryError(Exception):
    """The registry is wrong; the message says where."""


@dataclass(frozen=True)
class Entry:
    """One way of building one program.

    Attributes:
        name: the program's name, a variant's suffix included.
        sources: its translation units.
        libraries: sources made into shared objects, whose paths are the program's arguments.
        expected: what it prints, None when its output is not compared.
        build: the options that are the entry's own; its optimization is replaced by the caller's.
        compilers: the kinds of compiler it can be built with.
        variant: whether it is another build of a program that has an entry too.
        helper: whether it is no test of its own but used by tests.
        rare: whether it is left out where a selection is tested.
    """

    name: str
    sources: tuple[Path, ...]
    libraries: tuple[Path, ...]
    expected: str | None
    build: Build
    compilers: tuple[str, ...]
    variant: bool
    helper: bool
    rare: bool

    def compiled(self, toolchain: Toolchain, build: Build) -> list[str]:
        """Builds the program (from the cache, if it is there) and returns its command line.

        Args:
            toolchain: the compiler, of a kind in `compilers`.
            build: options from outside, which come before the entry's own. An architecture of the entry's own wins.
        """
        own = self.build
        merged = dataclasses.replace(
            build,
            architecture=own.architecture or build.architecture,
            flags=build.flags + own.flags,
            nvcc_flags=build.nvcc_flags + own.nvcc_flags,
            clang_flags=build.clang_flags + own.clang_flags,
            driver=own.driver,
        )
        command = [str(compile_program(toolchain, self.sources, self.sources[0].stem, merged))]
        shared = dataclasses.replace(merged, shared_object=True)
        for library in self.libraries:
            command.append(str(compile_program(toolchain, [library], f"lib{library.stem}.so", shared)))
        return command


def load(path: Path) -> list[Entry]:
    """The registry's entries, variants behind their programs.

    Raises:
        RegistryError: a key is unknown or missing, a source is not there, or a name occurs twice.
    """
    entries: list[Entry] = []
    files: dict[str, Path] = {}
    for source in sorted(path.parent.rglob("*.cu")):
        if source.name in files:
            raise RegistryError(f"{path}: {source} and {files[source.name]} have the same name")
        files[source.name] = source
    for row in tomllib.loads(path.read_text())["program"]:
        _check(row, KEYS, path)
        entries.append(_entry(row, {}, path, files))
        for variant in row.get("variants", []):
            _check(variant, VARIANT_KEYS, path)
            entries.append(_entry(row, variant, path, files))
    names = [entry.name for entry in entries]
    if duplicates := {name for name in names if names.count(name) > 1}:
        raise RegistryError(f"{path}: more than one {', '.join(sorted(duplicates))}")
    return entries


def _check(row: dict[str, Any], allowed: set[str], path: Path) -> None:
    if unknown := row.keys() - allowed:
        raise RegistryError(f"{path}: {row.get('name', row)}: unknown keys {', '.join(sorted(unknown))}")


def _entry(row: dict[str, Any], variant: dict[str, Any], path: Path, files: dict[str, Path]) -> Entry:
    name = row["name"]
    sources, libraries = row.get("sources", [f"{name}.cu"]), row.get("libraries", [])
    if missing := [source for source in (*sources, *libraries) if source not in files]:
        raise RegistryError(f"{path}: {name}: no file {', '.join(missing)}")

    def options(key: str) -> tuple[str, ...]:
        return (*row.get(key, ()), *variant.get(key, ()))

    return Entry(
        name=f"{name}-{variant['suffix']}" if variant else name,
        sources=tuple(files[source] for source in sources),
        libraries=tuple(files[source] for source in libraries),
        expected=row.get("expected"),
        build=Build(
            architecture=variant.get("architecture", row.get("architecture", "")),
            flags=options("flags"),
            nvcc_flags=options("nvcc_flags"),
            clang_flags=options("clang_flags"),
            driver=row.get("driver", False),
        ),
        compilers=tuple(variant.get("compilers", row.get("compilers", ("nvcc", "clang")))),
        variant=bool(variant),
        helper=row.get("helper", False),
        rare=variant.get("rare", row.get("rare", False)),
    )
