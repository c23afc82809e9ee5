"""Compiled models on disk: found again without Numba, never taken when damaged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from farlane.backend.memory import native

USE = """
import sys
from farlane.backend.memory import config
from farlane.backend.memory.cores.model import MemoryModel
from farlane.backend.memory.cores.touches import rows
from farlane.backend.memory.slots.core import Demand
model = MemoryModel(config.preset("mgpusim"))
for pages in ([5, 6], [6, 1 << 30]):
    model.begin("kernel", 0, Demand(0, 16, 32), 1)
    model.touch(rows(pages, 0, 0, 0, [1, 2]))
    model.gone(5 << 12, 6 << 12)
assert model.total.walks == 3 and model.report()["pages"] == 3
print(sorted(sys.modules.keys() & {"numba", "numpy.ma", "importlib.metadata"}))
"""


@pytest.mark.xdist_group("tlb")  # compiled once
def test_compiled_once() -> None:
    """Nor is anything else loaded that takes longer than the model of a small program."""
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert native._write(tmp_path / "new", "tlb-1.object", "entry", b"code")
    assert native._read(tmp_path / "new" / "tlb-1.object") == ("entry", b"code")
    assert not native._write(tmp_path / "new" / "tlb-1.object", "tlb-2.object", "entry", b"code")


@pytest.mark.parametrize("damage", [b"", b"FARLMEM1", b"\0" * 100])
def test_damaged_files_count_as_absent(tmp_path: Path, damage: bytes) -> None:
    native._write(tmp_path, "tlb-1.object", "entry", b"code")
    file = tmp_path / "tlb-1.object"
    data = file.read_bytes()
    file.write_bytes(damage)
    assert native._read(file) is None
    file.write_bytes(data[:-1] + b"x")
    assert native._read(file) is None


def test_old_versions_go(tmp_path: Path) -> None:
    for number in range(12):
        native._write(tmp_path, f"tlb-{number}.object", "entry", b"code")
    native._write(tmp_path, "cores-1.object", "entry", b"code")
    assert len(list(tmp_path.glob("tlb-*"))) == native._KEPT
    assert (tmp_path / "cores-1.object").exists()
