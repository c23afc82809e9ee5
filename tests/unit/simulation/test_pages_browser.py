"""The pages of `farlane sim` in a real browser, on a screen and on a telephone: they fit, and show the comparison at a glance."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from browser import WIDTHS, measured, needs_browser
from farlane.backend.memory import config
from farlane.backend.memory.cores.model import MemoryModel
from farlane.backend.memory.cores.touches import records
from farlane.backend.memory.slots.core import Demand
from farlane.backend.memory.tlb.counts import Counts
from farlane.backend.simulation import pages, sweep

BARS = """[...document.querySelectorAll(".share")].map((row) => {
  const box = (element) => element.getBoundingClientRect();
  const bar = row.querySelector(".bar"), parts = [...bar.children];
  const filled = parts.reduce((sum, part) => sum + box(part).width, 0) / box(bar).width;
  return { name: row.querySelector("b").textContent, filled, beside: row.querySelector("em").textContent,
    below: box(bar).top >= box(row.querySelector("b")).bottom };
})"""

CELLS = """[...document.querySelectorAll(".changes")[0].querySelectorAll("td.better, td.worse")].map((cell) => [
  cell.className, cell.textContent, window.getComputedStyle(cell).backgroundColor])"""


@pytest.fixture(scope="module")
def run() -> str:
    model = MemoryModel(config.parse("[tlb]\ncores = 4\n[tlb.network]\ncolumns = 2\n"))
    for symbol in ("_Z5storePii", "_Z4loadIfEvPKT_"):
        model.begin(symbol, 0, Demand(0, 32, 32), 4)
        lanes = np.arange(64)
        model.touch(records(lanes % 16, 0, 0, lanes // 16, lanes))
        model.barrier()
    report = model.report()
    report["migration"] = {}
    report["seconds"] |= {"kernels": 0.0, "session": time.monotonic()}
    return pages.run("farlane sim run ./program", [report])


@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_a_run(run: str, width: int, tmp_path: Path) -> None:
    bars = measured(run, width, tmp_path, BARS)
    assert [bar["name"] for bar in bars] == ["store", "load<float>", "in total"]
    for bar in bars:
        assert bar["filled"] == pytest.approx(1.0, abs=0.02)
        assert bar["beside"].endswith(" cycles")
        assert bar["below"] is (width == 400)


@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_a_sweep(width: int, tmp_path: Path) -> None:
    def counts(latency: int) -> Counts:
        return Counts(requests=100, latency=latency, misses=10, walks=10, cycles=1000)

    result = sweep.Result("program", 100, 8, {"none": counts(1000), "s3": counts(800), "larger": counts(1100)}, {})
    cells = measured(sweep.page([result]), width, tmp_path, CELLS)
    assert [cell[:2] for cell in cells] == [["better best", "-20.0%"], ["worse", "+10.0%"]]
    assert len({cell[2] for cell in cells}) == 2  # two colours
