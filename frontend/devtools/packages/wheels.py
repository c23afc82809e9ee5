"""The sdist, and the wheel that is built from it: from the files that git knows, in a clean folder, with the libraries built by cargo.

Needs cargo and a C compiler, and Python's build tools from the package index.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from farlane.frontend.devtools.packages import ROOT, TIME, run
from farlane.frontend.devtools.toolchain import locked

# Where the sdist is unpacked. Always there, so that cargo finds what it has built of the crates that we depend on. The bytes do not
# follow from it.
SOURCE = ROOT / "build/packages"


def copy_tracked(target: Path) -> None:
    """Copies the files that git knows, as they are now: a build leaves folders behind in its source."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)


def build_sdist(target: Path) -> Path:
    """Writes the sdist into a folder, and returns its path. The same files give the same bytes."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="farlane-sdist-") as folder:
        source, made = Path(folder) / "source", Path(folder) / "made"
        source.mkdir()
        copy_tracked(source)
        run([sys.executable, "-m", "build", "--sdist", "--outdir", str(made), str(source)])
        (built,) = made.glob("*.tar.gz")
        partial = target / f".{built.name}"
        _write_again(built, partial)
        partial.replace(target / built.name)
    return target / built.name


def build_wheel(
    sdist: Path, target: Path, source: Path = SOURCE, cargo_target: Path = ROOT / "frontend/shim/target"
) -> Path:
    """Writes the wheel of an sdist into a folder, and returns its path. The same files give the same bytes.

    Args:
        source: where the sdist is unpacked; what is there goes.
        cargo_target: where cargo keeps what it has built of the crates that we depend on.
    """
    target.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(TIME), "CARGO_TARGET_DIR": str(cargo_target)}
    with locked(source.with_suffix(".lock")), tempfile.TemporaryDirectory(prefix="farlane-wheel-") as made:
        tree = unpack(sdist, source)
        run(
            [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", made, str(tree)],
            environment,
        )
        (built,) = Path(made).glob("*.whl")
        shutil.copy(built, target / f".{built.name}")
        (target / f".{built.name}").replace(target / built.name)
    return target / built.name


def unpack(sdist: Path, target: Path) -> Path:
    """Returns the folder of the sources. Files are as new as they are here: by their times in the sdist, which are old, cargo would take
    what it has built of earlier ones for theirs."""
    now = time.time()

    def member(found: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
        return tarfile.data_filter(found, folder).replace(mtime=now, deep=False)

    shutil.rmtree(target, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(target, filter=member)
    (source,) = target.iterdir()
    return source


def _write_again(archive: Path, target: Path) -> None:
    """Without times, owners and the order in which the files were found."""
    with tarfile.open(archive) as old, io.BytesIO() as data:
        with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as new:
            for member in sorted(old.getmembers(), key=lambda each: each.name):
                member.mtime, member.uid, member.gid, member.uname, member.gname = TIME, 0, 0, "", ""
                member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                member.pax_headers = {}
                new.addfile(member, old.extractfile(member) if member.isfile() else None)
        target.write_bytes(gzip.compress(data.getvalue(), mtime=0))
