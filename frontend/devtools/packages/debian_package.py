"""Writing a Debian package: the same files give the same bytes. Needs dpkg-deb."""

from __future__ import annotations

import gzip
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from farlane.frontend.devtools.packages import TIME

MAINTAINER = "The Farlane developers <maintainers@farlane.invalid>"
SIGNED = "Thu, 01 Jan 2026 00:00:00 +0000"  # TIME
COPYRIGHT = """\
Copyright 2026 the Farlane developers

Farlane is licensed under the Apache License, version 2.0:
/usr/share/common-licenses/Apache-2.0
"""


@dataclass(frozen=True)
class Recipe:
    """What a package says of itself.

    Attributes:
        description: as in a control file: one line, then lines that begin with a space.
        overrides: lintian's, with the reason above each.
        scripts: of the maintainer, by name (postinst, ...).
        settings: absolute paths of files that an upgrade leaves as the user has changed them.
        compression: of `dpkg-deb -Z` and its level.
        architecture: Debian's name of the kind of machine.
    """

    name: str
    version: str
    depends: str
    section: str
    description: str
    news: str
    overrides: str
    scripts: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    compression: tuple[str, ...] = ("-Zxz",)
    architecture: str = "amd64"


def build(recipe: Recipe, fill: Callable[[Path], None], target: Path) -> Path:
    """Writes the package, with what `fill` puts into a folder, and returns its path."""
    package = target / f"{recipe.name}_{recipe.version}_{recipe.architecture}.deb"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="farlane-package-") as folder:
        tree = Path(folder) / "tree"
        fill(tree)
        _documents(tree, recipe)
        kilobytes = sum(-(-path.lstat().st_size // 1024) for path in tree.rglob("*") if not path.is_dir())
        control = [
            f"Package: {recipe.name}",
            f"Version: {recipe.version}",
            f"Architecture: {recipe.architecture}",
            f"Maintainer: {MAINTAINER}",
            f"Installed-Size: {kilobytes}",
            f"Depends: {recipe.depends}",
            f"Section: {recipe.section}",
            "Priority: optional",
            f"Description: {recipe.description}",
        ]
        write(tree / "DEBIAN/control", "\n".join(control))
        for name, text in recipe.scripts.items():
            write(tree / "DEBIAN" / name, text, executable=True)
        if recipe.settings:
            write(tree / "DEBIAN/conffiles", "".join(f"{path}\n" for path in recipe.settings))
        for path in (tree, *tree.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
            os.utime(path, (TIME, TIME), follow_symlinks=False)
        partial = package.with_suffix(".new")
        command = ["dpkg-deb", "--root-owner-group", *recipe.compression, "--build", str(tree), str(partial)]
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(TIME)}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        partial.replace(package)
    return package


def write(path: Path, text: str, *, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755 if executable else 0o644)


def write_page(tree: Path, name: str, text: str) -> None:
    """A manual page of section 1."""
    page = tree / "usr/share/man/man1" / f"{name}.gz"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_bytes(gzip.compress(text.encode(), mtime=0))


def _documents(tree: Path, recipe: Recipe) -> None:
    documents = tree / "usr/share/doc" / recipe.name
    documents.mkdir(parents=True, exist_ok=True)
    entry = f"{recipe.name} ({recipe.version}) unstable; urgency=medium\n\n  * {recipe.news}\n\n -- {MAINTAINER}  {SIGNED}\n"
    (documents / "changelog.gz").write_bytes(gzip.compress(entry.encode(), mtime=0))
    write(documents / "copyright", COPYRIGHT)
    write(tree / "usr/share/lintian/overrides" / recipe.name, recipe.overrides)
