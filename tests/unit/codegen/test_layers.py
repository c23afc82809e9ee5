"""The operations know neither API: no name of the runtime's or the driver's stands in their code, but where values get names of our own."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CRATES = ROOT / "frontend/shim/crates"
OF_AN_API = re.compile(r"\b(?:__)?(?:cuda[A-Z]\w*|cu[A-Z][a-z]\w*|CU[a-z]\w*|CU_\w+|CUDA_[A-Z]\w*)\b")
NO_CODE = re.compile(r'//[^\n]*|"(?:[^"\\]|\\.)*"', re.DOTALL)
"""Comments name CUDA's functions, and messages may."""


def names_of_an_api(path: Path) -> list[str]:
    code = NO_CODE.sub("", path.read_text().split("#[cfg(test)]")[0])
    return [f"{path.name}: {name}" for name in OF_AN_API.findall(code)]


def test_operations_name_neither_api() -> None:
    sources = [path for path in (CRATES / "operations/src").rglob("*.rs") if path.name != "types.rs"]
    assert len(sources) > 50
    assert [name for path in sources for name in names_of_an_api(path)] == []


def test_names_are_found_where_they_are() -> None:
    assert names_of_an_api(CRATES / "operations/src/types.rs")
    assert names_of_an_api(CRATES / "driver/src/stream.rs")
