"""Compiled models in Numba's cache: found again, never taken for other sources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from farlane.backend.memory import native
from farlane.backend.memory.tlb import counts, layout

UNIT = "farlane.backend.memory.slots.compiled"  # the smallest
USE = """
from farlane.backend.memory import native
from farlane.backend.memory.slots import layout
compiled = native.entry("farlane.backend.memory.slots.compiled", layout.__name__)
print(sum(compiled.stats.cache_hits.values()), sum(compiled.stats.cache_misses.values()))
"""


def use(folder: Path) -> list[int]:
    """How often a new process found code in the cache, and how often not."""
    environment = {**os.environ, "FARLANE_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, check=True, env=environment)
    return [int(number) for number in done.stdout.split()]


@pytest.mark.xdist_group("tlb")
def test_compiled_once_on_a_machine(tmp_path: Path) -> None:
    assert use(tmp_path) == [0, 1]
    assert use(tmp_path) == [1, 0]


@pytest.mark.xdist_group("tlb")
def test_code_in_the_cache_that_is_damaged_is_compiled_anew(tmp_path: Path) -> None:
    use(tmp_path)
    for file in tmp_path.rglob("*.nbi"):
        file.write_bytes(b"")
    assert use(tmp_path) == [0, 1]


def test_other_sources_have_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FARLANE_CACHE_DIR", str(tmp_path))
    alone = native.folder(UNIT)
    assert alone == native.folder(UNIT)
    assert len({alone, native.folder(UNIT, layout.__name__), native.folder(UNIT, counts.__name__)}) == 3
    assert alone.parent == tmp_path / "memory"
    assert alone.name.startswith("slots-")


def test_old_versions_go(tmp_path: Path) -> None:
    for number in range(native.KEPT + 3):
        old = tmp_path / f"tlb-{number}"
        old.mkdir()
        os.utime(old, (number, number))
    (tmp_path / "cores-1").mkdir()
    with native._cache(tmp_path / "tlb-new") as there:
        assert there
    assert len(list(tmp_path.glob("tlb-*"))) == native.KEPT
    assert (tmp_path / "tlb-new").is_dir()
    assert (tmp_path / "cores-1").is_dir()


def test_without_a_folder_nothing_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    with native._cache(tmp_path / "file" / "tlb-1") as there:
        assert not there
    assert "cannot be written" in caplog.text
