"""`farlane sim sweep` on recorded requests, the plots, and the text of a run."""

from __future__ import annotations

import argparse
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from farlane.backend.commands.sim import command
from farlane.backend.memory import config
from farlane.backend.memory.cores.model import MemoryModel
from farlane.backend.memory.cores.touches import records
from farlane.backend.memory.cores.trace import TraceWriter
from farlane.backend.memory.slots.core import Demand
from farlane.backend.memory.tlb.counts import Counts
from farlane.backend.simulation import charts, pages, sweep, text

SMALL = """
[tlb]
cores = 4
[tlb.private]
entries = 4
ways = 4
[tlb.network]
columns = 2
"""


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(arguments))


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A configuration, and a trace of 16 blocks that read the same 8 pages twice."""
    (tmp_path / "memory.toml").write_text(SMALL)
    writer = TraceWriter(tmp_path / "same <pages>.zip", 4, 4096)
    model = MemoryModel(config.parse(SMALL), tlb=False, trace=writer)
    for _ in range(2):
        model.begin("k", 0, Demand(0, 32, 32), 16)
        block = np.repeat(np.arange(16), 8)
        model.touch(records(np.tile(np.arange(8), 16), 0, 0, block, np.tile(np.arange(8), 16) * 40 + block))
    model.barrier()
    writer.close()
    return str(tmp_path / "memory.toml"), str(tmp_path / "same <pages>.zip")


def test_a_sweep_compares_hierarchies(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown, drawn = tmp_path / "sweep.json", tmp_path / "sweep.html"
    settings, trace = files
    arguments = ["--config", settings, "--json", str(shown), "--html", str(drawn), trace]
    assert run("sweep", "--hierarchies", "s3,oracle", *arguments) == 0
    told = capsys.readouterr().out
    assert "256 requests, 8 pages" in told
    (program,) = json.loads(shown.read_text())["programs"]
    assert set(program["hierarchies"]) == {"none", "s3", "oracle"}
    assert all(counts["requests"] == 256 for counts in program["hierarchies"].values())
    assert {(cell["fill"], cell["spare"]) for cell in program["grid"]} == {
        (f, s) for f in (2, 3, 4, 5) for s in (2, 3, 4)
    }
    best = min(program["grid"], key=lambda cell: (cell["latency"], cell["fill"], cell["spare"]))
    assert f"best first: {best['fill']}/{best['spare']}" in told
    page = drawn.read_text()
    assert "same &lt;pages&gt;" in page
    assert "<pages>" not in page
    assert "http" not in page.replace("http-equiv", "")  # nothing from elsewhere


def test_what_cannot_be_compared_is_said(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    settings, trace = files
    assert run("sweep", "--no-grid", trace) == 1
    assert "4 cores" in capsys.readouterr().err
    assert run("sweep", "--config", settings, "--hierarchies", "best", trace) == 1
    assert "'best'" in capsys.readouterr().err
    assert run("sweep", "--config", settings, "missing.zip") == 1
    assert "missing.zip" in capsys.readouterr().err


def test_goals_are_judged_by_their_numbers() -> None:
    none = Counts(requests=100, misses=50, latency=1000, walks=40, cycles=1000)
    oracle = Counts(requests=100, misses=50, peer_hits=30, latency=500, walks=20, cycles=900)
    good = Counts(requests=100, misses=50, peer_hits=25, latency=600, walks=20, cycles=1010)
    bad = Counts(requests=100, misses=50, peer_hits=5, latency=610, walks=39, cycles=1011)
    for ours, gain, slower in ((good, "80% of the oracle's gain of 50.0%: met", "met"), (bad, "78%", "missed")):
        result = sweep.Result("p", 100, 9, {"none": none, "s3": ours, "oracle": oracle}, {})
        assert result.sharing
        found = sweep.verdict(result, "s3")
        assert gain in found
        assert found.endswith(slower)


def test_plots_are_well_formed() -> None:
    drawn = charts.bars({"<a>": {"x&y": 0.5, "z": -0.25}, "b": {"z": 3.0}}, percent=True)
    root = ElementTree.fromstring(drawn)
    heights = [float(bar.attrib["height"]) for bar in root.findall("rect") if bar.find("title") is not None]
    assert len(heights) == 3
    assert heights[2] == pytest.approx(6 * heights[0], rel=0.01)
    assert heights[1] == pytest.approx(heights[0] / 2, rel=0.02)
    ElementTree.fromstring(charts.bars({}))
    ElementTree.fromstring(charts.steps([(0, 1), (5, 3)], 10, 3, "slots <of>"))
    ElementTree.fromstring(charts.steps([], 0, 0, ""))


def test_the_report_of_a_run_is_shown() -> None:
    model = MemoryModel(config.parse(SMALL), tlb=False)
    model.begin("good", 0, Demand(1024, 32, 32), 2)
    model.touch(records([1, 2], 0, 0, [0, 1], 1))
    model.barrier()
    model.begin("large", 0, Demand(1 << 30, 32, 32), 1)
    session = model.report()
    session["seconds"]["kernels"] = 0.0
    shown = text.report([session, session])
    assert "session 2:" in shown
    assert "large" in shown
    assert "is not modelled: a block needs" in shown
    page = pages.run("farlane sim run x<y", [session])
    assert "x&lt;y" in page
    assert "good" in page
    session["migration"] = {"bytes_in": 4096}
    assert "bytes in 4096" in text.report([session])
