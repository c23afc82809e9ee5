"""The analyzer's rooms: what `ls` shows is what docs/explanation/analyzer/README.md says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ANALYZER = ROOT / "analyzer"


def test_the_page_names_every_room() -> None:
    page = (ROOT / "docs" / "explanation" / "analyzer" / "README.md").read_text()
    table = page[page.index("## Rooms") : page.index("## Bounds")]
    named = set(
        re.findall(r"([\w.]+?)/(?=[ ,|])|(\w+\.py)(?= \|)", "\n".join(re.findall(r"^\|[^|]*\|([^|]*\|)", table, re.M)))
    )
    here = {path.name for path in ANALYZER.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    files = {path.name for path in ANALYZER.glob("*.py")} - {"__init__.py"}
    assert {folder or file for folder, file in named} == here | files
