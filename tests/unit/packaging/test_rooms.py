"""No folder of tests, benchmarks or pages is too full to see what is in it, and docs/explanation/architecture/rooms.md shows what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MOST = 20
SOURCES = {".py", ".cu", ".cuh", ".c", ".cpp", ".h", ".ptx", ".md", ".toml", ".txt", ".tsv", ".sh", ".S"}


@pytest.mark.parametrize("top", ["tests", "benchmarks", "docs", "examples"])
def test_no_folder_is_too_full(top: str) -> None:
    folders: dict[Path, int] = {}
    for path in (ROOT / top).rglob("*"):
        if path.suffix in SOURCES and path.name != "__init__.py":
            folders[path.parent] = folders.get(path.parent, 0) + 1
    assert {str(folder.relative_to(ROOT)): count for folder, count in folders.items() if count > MOST} == {}


def test_the_page_shows_the_folders() -> None:
    page = (ROOT / "docs/explanation/architecture/rooms.md").read_text()
    picture = page[page.index("## The repository's rooms") : page.index("## The host's rooms")]
    made = {"build", "dist", "farlane.egg-info", "shared", "__pycache__"}

    def folders(top: Path) -> set[str]:
        return {path.name for path in top.iterdir() if path.is_dir() and path.name[0] != "."} - made

    assert set(re.findall(r"^    (\w+)/", picture, re.M)) == folders(ROOT)
    assert set(re.findall(r"^      (\w+)/", picture, re.M)) == folders(ROOT / "tests")
