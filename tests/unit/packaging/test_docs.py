"""The pages: lines of a length that reads well, links that lead somewhere, and no page that no other one leads to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
WIDTH = 120
PAGES = [
    ROOT / "README.md",
    *(
        page
        for folder in ("docs", "protos", "benchmarks", "analyzer")
        for page in sorted((ROOT / folder).rglob("*.md"))
    ),
]
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")


def linked(page: Path) -> set[Path]:
    """The files of the repository that a page links to."""
    return {(page.parent / target).resolve() for target in LINK.findall(page.read_text()) if "://" not in target}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_outside_of_tables_are_short(page: Path) -> None:
    lines = [line for line in page.read_text().splitlines() if not line.lstrip().startswith("|")]
    assert [line for line in lines if len(line) > WIDTH] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert [str(target) for target in linked(page) if not target.exists()] == []


def test_every_page_is_found_from_the_first_two() -> None:
    found: set[Path] = set()
    todo = [ROOT / "README.md", ROOT / "docs/explanation/architecture/README.md"]
    while todo:
        page = todo.pop()
        if page not in found and page.suffix == ".md" and page.exists():
            found.add(page)
            todo += linked(page)
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in found] == []
