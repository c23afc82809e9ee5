"""Where manifests are kept, and writing files so that no reader sees half of one.

The cache is `$XDG_CACHE_HOME/farlane/manifests/<revision>/<identity in hex>.manifest`. The revision is a digest of the
analyzer's own
sources: a changed analyzer finds nothing of the old one's. The launcher and the host compute the same (they import
    nothing of
the analyzer); a test compares them.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from farlane.analyzer.limits import AnalysisError


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    return root / "farlane" / "manifests" / revision(Path(__file__).resolve().parents[1])


def revision(sources: Path) -> str:
    """A digest of the Python files under a folder, their places included."""
    digest = hashlib.sha256()
    for path in sorted(sources.rglob("*.py"), key=lambda path: path.relative_to(sources).as_posix()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(sources).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def write(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Writes a file whole or not at all. A device or a FIFO is written to, and of a symbolic link the target is
    replaced.

    Raises:
        AnalysisError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            path.write_bytes(content)
            return
        path = Path(os.path.realpath(path))
        descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".new", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
            os.chmod(temporary, mode)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise AnalysisError(f"cannot write {path}: {error.strerror}") from error
