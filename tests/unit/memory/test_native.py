"""Compiled models on disk: found again without Numba, never taken when damaged."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from farlane.backend.memory import native, optimising
from farlane.backend.memory.optimising import TABLE, Known
from farlane.backend.memory.paging import PageTable
from farlane.backend.memory.tlb import Spec, Stream, counts, layout
from farlane.backend.memory.tlb.fast import FastTlb
from farlane.backend.system import flat

USE = """
import sys
from farlane.backend.memory import config
from farlane.backend.memory.cores.model import MemoryModel
from farlane.backend.memory.cores.touches import records
from farlane.backend.memory.slots.core import Demand
model = MemoryModel(config.preset("mgpusim"))
for pages in ([5, 6], [6, 1 << 30]):
    model.begin("kernel", 0, Demand(0, 16, 32), 1)
    model.touch(records(pages, 0, 0, 0, [1, 2]))
    model.gone(5 << 12, 6 << 12)
assert model.total.walks == 3 and model.report()["pages"] == 3
print(sorted(sys.modules.keys() & {"numba", "numpy.ma", "importlib.metadata"}))
"""


USE_SPECIAL = """
import sys
import numpy as np
from farlane.backend.memory.paging import PageTable
from farlane.backend.memory.tlb import Spec, Stream
from farlane.backend.memory.tlb.fast import FastTlb
from farlane.backend.memory.tlb.spec import Network
cores = int(sys.argv[1])
counts = FastTlb(Spec(cores=cores, network=Network(columns=2)), PageTable(), special=True).run(Stream.of(cores, [0], [5]))
assert counts.faults == 1
print(sorted(sys.modules.keys() & {"numba"}))
"""


def made() -> list[Path]:
    """The hierarchy's code as Numba makes it, made if it is not there yet."""
    unit, places = native._unit("farlane.backend.memory.tlb.compiled", (layout.__name__, counts.__name__))
    FastTlb(Spec(), PageTable()).run(Stream.of(64, [0], [5]))
    return [place / f"{unit}.bitcode" for place in places if (place / f"{unit}.bitcode").exists()][:1]


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
    for kind, kept in native._KEPT.items():
        for number in range(kept + 4):
            native._write(tmp_path, f"tlb-{number}{kind}", "entry", b"code")
    native._write(tmp_path, "cores-1.object", "entry", b"code")
    for kind, kept in native._KEPT.items():
        assert len(list(tmp_path.glob(f"tlb-*{kind}"))) == kept
    assert (tmp_path / "cores-1.object").exists()


ANSWER = f"""
declare i64 @{TABLE}(i64, i64)
define i32 @entry(ptr %result, ptr %nothing, i64 %address, i64 %one, i64 %other) {{
  %a = call i64 @{TABLE}(i64 %address, i64 0)
  %b = call i64 @{TABLE}(i64 %address, i64 1)
  %c = call i64 @{TABLE}(i64 %address, i64 2)
  %place = sub i64 %b, %address
  %words = inttoptr i64 %c to ptr
  %second = getelementptr i64, ptr %words, i64 1
  %word = load i64, ptr %second
  %tens = mul i64 %place, 10
  %hundreds = mul i64 %word, 100
  %some = add i64 %a, %tens
  %all = add i64 %some, %hundreds
  store i64 %all, ptr %result
  ret i32 0
}}
"""


@pytest.mark.parametrize(
    ("known", "answer"),
    [
        (Known(), 200 + 30 + 1),
        (Known(words=((0, 4),)), 200 + 30 + 4),
        (Known(places=((1, 8),)), 200 + 80 + 1),
        (Known(contents=((2, (5, 6)),)), 600 + 30 + 1),
        (Known(((0, 4),), ((1, 8),), ((2, (5, 6)),)), 600 + 80 + 4),
    ],
)
def test_what_is_known_is_not_read(known: Known, answer: int) -> None:
    bitcode = bytes(llvm.parse_assembly(ANSWER).as_bitcode())
    entry = native._link("entry", optimising.optimised("entry", bitcode, known))
    words = np.array([7, 2], np.int64)
    table = np.array([1, 0, words.ctypes.data], np.int64)
    table[1] = table.ctypes.data + 3
    assert entry(table.ctypes.data, 0, 0) == answer


@pytest.mark.skipif(platform.machine() != "x86_64", reason="flat images are for x86-64")
@pytest.mark.xdist_group("tlb")  # compiled once
def test_kept_without_llvms_linker() -> None:
    """What all the units are: nothing in them needs more than flat images have."""
    FastTlb(Spec(), PageTable()).run(Stream.of(64, [0], [5]))
    unit, places = native._unit("farlane.backend.memory.tlb.compiled", (layout.__name__, counts.__name__))
    stored = native._stored(places, f"{unit}.object")
    assert stored is not None
    assert stored[1].startswith(flat.MAGIC)


@pytest.mark.xdist_group("tlb")  # compiled once
def test_code_for_a_case_is_made_without_numba(tmp_path: Path) -> None:
    """From the bitcode that Numba has left, once; then it is there."""
    environment = {**os.environ, "FARLANE_CACHE_DIR": str(tmp_path)}
    place = tmp_path / "memory"
    place.mkdir()

    def run(cores: int) -> str:
        done = subprocess.run(
            [sys.executable, "-c", USE_SPECIAL, str(cores)], capture_output=True, text=True, check=True, env=environment
        )
        return done.stdout.strip()

    for file in made():
        shutil.copy(file, place)
    before = {file.name for file in place.iterdir()}
    assert run(4) == "[]"
    (new,) = {file.name for file in place.iterdir()} - before
    made_at = (place / new).stat().st_mtime_ns
    assert run(4) == "[]"
    assert (place / new).stat().st_mtime_ns == made_at
    assert run(8) == "[]"
    assert len(list(place.iterdir())) == len(before) + 2
