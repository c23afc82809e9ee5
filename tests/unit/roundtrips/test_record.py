"""A record of the round-trip benchmark: its goals, its way through JSON, its tables and its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from browser import WIDTHS, measured, needs_browser
from farlane.roundtrips import page, plot, text
from farlane.roundtrips.goals import verdicts
from farlane.roundtrips.measure import Point, Record, Row
from farlane.roundtrips.programs import CG_LIKE, CLASS_1_2


def row(name: str, family: str, none: float, calls: float, loops: float) -> Row:
    walls = {"none": none, "calls": calls, "loops": loops}
    points = [
        Point(500.0, mode, wall, wall, 3, 10, 1000, 100, wall / calls, wall / 8, wall / 4, [0.015, wall / calls + 1])
        for mode, wall in walls.items()
    ]
    return Row(name, f"what {name} <is>", family, 12, points)


@pytest.fixture
def record() -> Record:
    quantiles = {"median": 1.0, "p10": 1.0, "p90": 2.0}
    rows = [row("fast", CLASS_1_2, 1.0, 0.1, 0.02), row("slow", CG_LIKE, 1.0, 0.2, 0.25)]
    recorder = [{"mode": "loops", "constant": 90.0, "affine": 120.0, "append": 4.0}]
    return Record(
        "2026-01-01",
        "a machine",
        [500.0],
        quantiles,
        {"500": quantiles},
        rows,
        ["x: not here"],
        recorder,
        [7.25, 2.0],
        ["A remark."],
    )


def test_goals_are_met_or_missed(record: Record) -> None:
    found = {(verdict.program, verdict.wanted): verdict for verdict in verdicts(record)}
    assert found["fast", 50.0].met
    assert found["fast", 50.0].reached == pytest.approx(50)
    assert not found["slow", 10.0].met
    assert found["fast", 1.02].met
    assert not found["slow", 1.02].met
    assert found["slow", 1.02].reached == pytest.approx(1.25)


def test_through_json(record: Record) -> None:
    assert Record.from_json(json.loads(json.dumps(record.json()))) == record


def test_text_and_page_show_every_program(record: Record) -> None:
    for shown in (text.text(record), text.markdown(record), page.page(record)):
        assert "fast" in shown
        assert "slow" in shown
        assert "missed by 22.5 %" in shown
        assert "7.2, 2.0. A load above 1" in shown
        assert "A remark." in shown
        assert "1.25 (0.01 to 2.25)" in shown
        assert "31.2" in shown  # the guest's milliseconds in "slow", mode loops
    assert "<is>" not in page.page(record)
    assert page.page(record).count("<svg") == 2


def test_picture(record: Record, tmp_path_factory: pytest.TempPathFactory) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path_factory.mktemp("plot") / "plot.png"
    plot.write(record, target)
    assert target.read_bytes().startswith(b"\x89PNG")


LOOKED_AT = """(() => {
  const wide = [...document.querySelectorAll("svg")].map((svg) => svg.getBoundingClientRect());
  const tables = [...document.querySelectorAll(".table")];
  return {
    diagrams: wide.length, left: Math.min(...wide.map((box) => box.left)), right: Math.max(...wide.map((box) => box.right)),
    side: wide.filter((box) => Math.abs(box.top - wide[0].top) < 1).length,
    scroll: tables.filter((table) => table.scrollWidth > table.clientWidth).length, tables: tables.length,
    lines: [...document.querySelectorAll("p, h1, h2")].every((each) => each.scrollWidth <= each.clientWidth),
  };
})()"""


@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_fits(record: Record, width: int, tmp_path: Path) -> None:
    """Tables scroll by themselves where they are wider."""
    record.rows.append(row("a-program-with-a-long-name-" * 2, CG_LIKE, 1.0, 0.2, 0.25))
    found = measured(page.page(record), width, tmp_path, LOOKED_AT)
    assert found["diagrams"] == 3
    assert 0 <= found["left"] < found["right"] <= width
    assert found["side"] == (3 if width == 1400 else 1)
    assert found["tables"] >= 2
    assert found["scroll"] > 0 or width == 1400
    assert found["lines"]
