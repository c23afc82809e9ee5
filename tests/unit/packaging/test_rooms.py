"""No file of the product is too long, no folder too full, and docs/explanation/architecture/rooms.md shows what is there."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LINES, FILES = 400, 20
CODE = {".py", ".rs", ".c", ".cpp", ".h", ".S", ".ll", ".proto", ".sh"}
OTHERS = CODE | {".cu", ".cuh", ".ptx", ".md", ".toml", ".txt", ".tsv"}
# The product's code. Its tables (protos/cuda) are as long as CUDA is, and the plane's stub is one module's.
PRODUCT = dict.fromkeys(("frontend", "backend", "analyzer", "fleet", "package", "protos", "pages"), CODE)
FOLDERS = PRODUCT | dict.fromkeys(("tests", "benchmarks", "docs", "examples"), OTHERS)


def sources(top: str, kinds: set[str]) -> list[Path]:
    """What is written by hand below a folder: what git has, and what is new."""
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", top]
    listed = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = [ROOT / line for line in listed.splitlines() if "generated" not in line and "_pb2" not in line]
    return [path for path in found if path.suffix in kinds and path.exists()]


@pytest.mark.parametrize("top", PRODUCT)
def test_no_file_is_too_long(top: str) -> None:
    lines = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in sources(top, PRODUCT[top])}
    assert lines
    assert {path: count for path, count in lines.items() if count > LINES} == {}


@pytest.mark.parametrize("top", FOLDERS)
def test_no_folder_is_too_full(top: str) -> None:
    folders = Counter(path.parent for path in sources(top, FOLDERS[top]) if path.name != "__init__.py")
    assert {str(folder.relative_to(ROOT)): count for folder, count in folders.items() if count > FILES} == {}


def test_the_page_shows_the_folders() -> None:
    page = (ROOT / "docs/explanation/architecture/rooms.md").read_text()
    picture = page[page.index("## The repository's rooms") : page.index("## The host's rooms")]
    made = {"build", "dist", "farlane.egg-info", "shared", "__pycache__"}

    def folders(top: Path) -> set[str]:
        return {path.name for path in top.iterdir() if path.is_dir() and path.name[0] != "."} - made

    assert set(re.findall(r"^    (\w+)/", picture, re.M)) == folders(ROOT)
    assert set(re.findall(r"^      (\w+)/", picture, re.M)) == folders(ROOT / "tests")
