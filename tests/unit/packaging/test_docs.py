"""The pages: short ones, in four parts, with lines that read well, links that lead somewhere, and none that is not linked to."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
WIDTH, LENGTH = 120, 200
PARTS = {"tutorials", "howto", "reference", "explanation", "results", "adr", "pictures"}
PAGES = [
    *(page for page in sorted(ROOT.glob("*.md"))),
    *(
        page
        for folder in ("docs", "protos", "benchmarks", "analyzer", "examples")
        for page in sorted((ROOT / folder).rglob("*.md"))
    ),
]
LINK = re.compile(r"\]\(([^)\s#]*)(#[^)]*)?\)")
GENERATED = {  # written by a program, as long as what it lists
    "reference/commands.md",
    "reference/coverage.md",
    "results/cupy-suite.md",
    "results/numba-suite.md",
    "results/roundtrips/roundtrips.md",
    "results/tutorials.md",
}
WRITTEN = [page for page in sorted(DOCS.rglob("*.md")) if str(page.relative_to(DOCS)) not in GENERATED]  # by hand


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text_of(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """As GitHub and the site make them of headings."""
    found = re.findall(r"^#+ (.*)$", text_of(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", "")).replace(" ", "-") for heading in found}


def linked(page: Path) -> set[Path]:
    """The files of the repository that a page links to."""
    targets = (target for target, _ in LINK.findall(text_of(page)))
    paths = {(page.parent / target).resolve() for target in targets if target and "://" not in target}
    return paths | {path / "README.md" for path in paths if (path / "README.md").exists()}


def test_lines_outside_of_tables_are_short() -> None:
    lines = ((name(page), line) for page in PAGES for line in page.read_text().splitlines())
    assert [line for line in lines if len(line[1]) > WIDTH and not line[1].lstrip().startswith("|")] == []


def test_links_lead_somewhere() -> None:
    lost = [(name(page), str(target)) for page in PAGES for target in linked(page) if not target.exists()]
    for page in PAGES:
        for target, anchor in LINK.findall(text_of(page)):
            there = (page.parent / target).resolve() if target else page
            if anchor and "://" not in target and there.suffix == ".md" and anchor[1:] not in anchors(there):
                lost.append((name(page), target + anchor))
    assert lost == []


def test_every_page_is_found_from_the_first() -> None:
    found: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page not in found and page.suffix == ".md" and page.exists():
            found.add(page)
            todo += linked(page)
    assert [name(page) for page in PAGES if page not in found] == []


def test_pages_of_docs_are_short() -> None:
    lengths = {name(page): len(page.read_text().splitlines()) for page in WRITTEN}
    assert {page: length for page, length in lengths.items() if length > LENGTH} == {}, "split it"


def test_pages_stand_in_one_of_the_parts() -> None:
    assert {path.name for path in DOCS.iterdir() if path.is_dir()} <= PARTS
    assert [path.name for path in DOCS.glob("*.md")] == ["README.md"]
    assert {path for path in GENERATED if not (DOCS / path).exists()} == set()


def test_a_page_has_one_title() -> None:
    assert [name(page) for page in WRITTEN if not page.read_text().startswith("# ")] == []
    assert [name(page) for page in WRITTEN if len(re.findall(r"^# ", text_of(page), re.M)) != 1] == []


def test_every_page_is_in_the_sites_navigation() -> None:
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - named == set()


def test_pages_that_code_names_are_there() -> None:
    """Docstrings, messages and help texts name pages by their path."""
    lost = set()
    for folder in ("analyzer", "backend", "benchmarks", "examples", "fleet", "frontend", "package", "protos", "tests"):
        for pattern in ("*.py", "*.rs", "*.toml", "*.proto", "*.md"):
            for path in (ROOT / folder).rglob(pattern):
                if "target" not in path.parts:
                    mentioned = re.findall(r"docs/[A-Za-z0-9_/-]+\.md", path.read_text())
                    lost |= {f"{name(path)}: {page}" for page in mentioned if not (ROOT / page).exists()}
    assert lost == set()
