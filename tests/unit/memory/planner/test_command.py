"""`farlane plan` on real files: the table, the JSON, the page, and what it says of wrong ones."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser import WIDTHS, measured, needs_browser
from farlane.backend.commands.plan import command
from farlane.backend.memory.planner.drawing import stays
from farlane.backend.memory.planner.genetic import GeneticSpec, search
from farlane.backend.memory.planner.segments import choose
from farlane.backend.memory.planner.trace import Trace

Make = Callable[..., Trace]


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(arguments))


@pytest.fixture
def file(tmp_path: Path, training: Make) -> Path:
    data: dict[str, Any] = training(4, 8, 3).to_json()
    data["objects"][0]["name"] = "<b>weights</b>"
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(data))
    return path


def test_the_table_names_every_object(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(file)) == 0
    told = capsys.readouterr().out
    assert "8 objects" in told
    assert "segment   2" in told
    assert all(f"object {number}" in told for number in range(1, 8))
    assert "known future, contiguous" in told


def test_sizes_are_written_as_for_other_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [{"bytes": 60 << 10}, {"bytes": 40 << 10}]
    file = tmp_path / "trace.json"
    file.write_text(
        json.dumps({"memory": 100 << 10, "objects": objects, "steps": [[[0, "w"]], [[1, "w"]], [[0, "r"]]]})
    )
    plans = []
    for size in ("64K", str(64 << 10)):
        assert run(str(file), "--memory", size, "--json") == 0
        plans.append(json.loads(capsys.readouterr().out))
    assert plans[0]["bytes_in"] == plans[1]["bytes_in"] == 60 << 10
    with pytest.raises(SystemExit):
        run(str(file), "--memory", "much")


def test_json_and_page(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    html = tmp_path / "plan.html"
    assert run(str(file), "--json", "--html", str(html)) == 0
    plan = json.loads(capsys.readouterr().out)
    sizes = {each["name"]: each["bytes"] for each in json.loads(file.read_text())["objects"]}
    assert plan["bytes_in"] == sum(sizes[move["object"]] for move in plan["moves"] if move["to"] == "device")
    assert plan["bytes_out"] == sum(sizes[move["object"]] for move in plan["moves"] if move["to"] == "host")
    assert set(plan["assignment"]) == set(sizes)
    page = html.read_text()
    assert "&lt;b&gt;weights" in page
    assert "<b>weights" not in page
    assert page.count("<line ") == len(plan["moves"])
    assert "http" not in page


def test_stays_cover_every_access(training: Make) -> None:
    trace = training(4, 8, 3)
    plan = search(trace, choose(trace), GeneticSpec(rounds=3), lambda: 0.0).plan
    assert plan is not None
    found = stays(trace, plan)
    for step, accesses in enumerate(trace.steps):
        for access in accesses:
            segment = plan.assignment[access.object]
            assert any(s == segment and n == access.object and first <= step < end for s, n, first, end in found)


@pytest.mark.parametrize(
    ("content", "arguments", "told"),
    [
        (None, [], "No such file"),
        ("{", [], "Expecting"),
        ("[" * 100_000, [], "recursion"),
        ('{"objects": [], "steps": []}', [], "memory: a whole number"),
        (
            '{"objects": [{"bytes": 9}], "steps": [[[0, "r"]]], "memory": 20}',
            ["--memory", "5"],
            "needs 9 bytes at once, the device has 5",
        ),
        ('{"objects": [{"bytes": 9}], "steps": [], "memory": 20}', ["--seconds", "0"], "seconds"),
        (
            '{"objects": [{"bytes": 60}, {"bytes": 50}, {"bytes": 50}], "steps": [[[0, "r"]], [[1, "r"], [2, "r"]]], "memory": 100}',
            [],
            "needed together",
        ),
    ],
)
def test_what_is_wrong_is_told(
    content: str | None, arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.json"
    if content is not None:
        path.write_text(content)
    assert run(str(path), *arguments) == 1
    assert told in capsys.readouterr().err


def test_objects_that_are_set_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [[[0, "r"], [1 + k % 3, "rw"]] for k in range(9)]
    objects = [{"name": "table", "bytes": 5}, *({"bytes": 40} for _ in range(3))]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"memory": 90, "objects": objects, "steps": steps}))
    assert run(str(file)) == 1
    assert "try --different or --aside" in capsys.readouterr().err
    assert run(str(file), "--aside", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["aside"], plan["aside_bytes"], plan["memory"]) == (["table"], 5, 85)
    assert "table" not in plan["assignment"]
    assert run(str(file), "--aside") == 0
    assert "aside, always on the device: table; 5 bytes moved" in capsys.readouterr().out


BARS = """[...document.querySelectorAll(".moved")].map((row) => {
  const box = (element) => element.getBoundingClientRect(), span = row.querySelector("span"), bar = row.querySelector("i");
  return { name: row.querySelector("b").textContent, bytes: row.querySelector("em").textContent, length: bar && box(bar).width / box(span).width,
    below: box(span).top >= box(row.querySelector("b")).bottom };
})"""


@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_compares_at_a_glance(file: Path, tmp_path: Path, width: int) -> None:
    assert run(str(file), "--html", str(tmp_path / "plan.html")) == 0
    bars = measured((tmp_path / "plan.html").read_text(), width, tmp_path, BARS)
    assert [bar["name"] for bar in bars][:2] == ["this plan", "greedy assignment"]
    assert len(bars) == 6
    most = max(int(bar["bytes"].replace(",", "")) for bar in bars if bar["length"] is not None)
    for bar in bars:
        assert bar["below"] is (width == 400)
        if bar["length"] is not None:
            assert bar["length"] == pytest.approx(int(bar["bytes"].replace(",", "")) / most, abs=0.02)
