"""Programs with their manifest in them, so that the first run has it."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Puts a program's manifest into a copy of it."""
    folder = tmp_path_factory.mktemp("marked")

    @functools.cache
    def mark(program: str) -> str:
        copy = folder / f"{abs(hash(program)):x}-{Path(program).name}"
        words = [sys.executable, "-m", "farlane.frontend.cli", "analyze", "--embed", str(copy), program]
        subprocess.run(words, check=True, timeout=200)
        return str(copy)

    return mark
