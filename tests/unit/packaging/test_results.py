"""docs/results: the tables and plots of its pages are those of the committed data, and each table says how it was measured."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "pages"))
try:
    import adapters
    import plots
    import results
    import tables
    from adapters.reading import Source, Unreadable, matches
finally:
    sys.path.pop(0)

OUTPUTS = Path(__file__).with_name("outputs")
PAGES = tables.pages()


def test_pages_of_results_are_written_from_data_or_by_their_suite() -> None:
    suites = {suite.page for suite in adapters.SUITES}
    there = {path.stem for path in tables.RESULTS.rglob("*.md")} - {"README"}
    assert there == {*PAGES, *suites}


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_those_of_the_data(page: str) -> None:
    text = (tables.RESULTS / f"{page}.md").read_text()
    assert text == tables.written(page), "make results RESULTS_ARGS=--tables writes them"


@pytest.mark.parametrize("page", PAGES)
def test_a_table_says_how_when_and_where(page: str) -> None:
    for name, table in tables.load(page).items():
        assert table.how, name
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", table.date), name
        assert table.machine, name
        assert table.load, name
        assert table.rows, name


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_a_plot_of_its_data(page: str) -> None:
    text = (tables.RESULTS / f"{page}.md").read_text()
    assert re.search(rf"^!\[.+\]\(\.\./pictures/results-{page}\.svg\)$", text, re.M)
    [plot] = [plot for plot in plots.PLOTS if plot.page == page]
    labels, series = plots.data(plot)
    assert labels
    assert all(any(values) for values in series.values())


def test_the_plots_are_drawn_from_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them: drawing is slow, and the same for all."""
    monkeypatch.setattr(plots, "PICTURES", tmp_path)
    drawn = plots.draw(next(plot for plot in plots.PLOTS if plot.page == "task-switching"))
    numbers = re.compile(r'<path d="M[^"]*"')
    there = (ROOT / "docs/pictures" / drawn.name).read_text()
    assert numbers.findall(drawn.read_text()) == numbers.findall(there), "make results RESULTS_ARGS=--tables draws it"


def test_every_measured_table_has_a_place() -> None:
    for source in adapters.SOURCES:
        assert {*source.tables} <= {*tables.load(source.page)}, source.commands


@pytest.mark.parametrize("page", PAGES)
def test_a_table_has_a_command_or_is_a_record(page: str) -> None:
    measured = {name for source in adapters.SOURCES if source.page == page for name in source.tables}
    records = {name for name, table in tables.load(page).items() if table.record}
    assert not measured & records
    assert measured | records == {*tables.load(page)}


@pytest.mark.parametrize("page", PAGES)
def test_tables_of_figures_are_in_the_data(page: str) -> None:
    """Those that define words may stand in the page itself."""
    text = tables.PART.sub("", (tables.RESULTS / f"{page}.md").read_text())
    heads = re.findall(r"^(\|.*\|)\n\|[-:|]+\|$", text, re.M)
    assert [head for head in heads if head != "| hierarchy | what it is |"] == []


def test_commands_are_files_of_the_repository() -> None:
    for source in adapters.SOURCES:
        for command in source.commands:
            for script in re.findall(r"benchmarks/\S+\.py", command):
                assert (ROOT / script).exists(), command


def output(source: adapters.Source) -> Path:
    return OUTPUTS / source.page / f"{source.tables[0]}.txt"


@pytest.mark.parametrize("source", adapters.SOURCES, ids=lambda source: f"{source.page}-{source.tables[0]}")
def test_an_adapter_reads_what_its_benchmark_prints(source: adapters.Source) -> None:
    """`outputs` has what runs printed."""
    printed = output(source).read_text()
    found = source.read(*(printed.split("\f") if source.each else [printed]))
    assert {*found} <= {*source.tables}
    for table in found.values():
        assert table.rows
        assert all(len(row) == len(table.head) for row in table.rows)
        assert all(row[0] for row in table.rows)


@pytest.mark.parametrize("source", adapters.SOURCES, ids=lambda source: f"{source.page}-{source.tables[0]}")
def test_an_adapter_says_what_it_cannot_read(source: adapters.Source) -> None:
    with pytest.raises(Unreadable):
        source.read(*(["nothing"] * (len(source.commands) if source.each else 1)))


def test_a_cost_has_a_row_for_each_program_also_where_the_model_took_less_time_than_none() -> None:
    [source] = [source for source in adapters.SOURCES if source.page == "tlb-cost" and "kernels" in source.tables]
    output = (OUTPUTS / "tlb-cost/kernels.txt").read_text()
    assert source.read(output.replace(" 0.59 ", "-0.59 "))["kernels"].rows[0][6] == "-0.59"
    with pytest.raises(Unreadable, match="gups, kmeans"):
        source.read("gups: 2^19 updates; " + output)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of its own, with one table that has data."""
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setattr(tables, "DATA", tmp_path / "data")
    tables.save(
        "speed", {"cars": tables.Measured("by hand", "2026-01-01", "a car", "quiet", ["", "km/h"], [["a", "1"]], [])}
    )
    text = tmp_path / "speed.md"
    text.write_text("# Speed\n\n<!-- table cars -->\n<!-- end -->\n\nText.\n")
    return text


def cars(output: str) -> dict[str, tables.Table]:
    return {"cars": tables.Table(["", "km/h"], [list(row) for row in matches(r"(\w+) (\d+) km/h", output)], ["fast"])}


def test_a_measurement_replaces_a_table_and_nothing_else(page: Path) -> None:
    results.measure(Source("speed", ("printf 'a %s km/h\\nb 7 km/h\\n' 5",), cars, ("cars",), exact=True))
    tables.write_all()
    text = page.read_text()
    assert text.startswith("# Speed\n\n<!-- table cars -->\n\n`printf")
    assert "|  | km/h |\n|---|---:|\n| a | 5 |\n| b | 7 |\n\n- fast\n\n<!-- end -->\n\nText.\n" in text
    assert "counts are exact" in " ".join(text.split())  # the machine's name decides where lines end
    assert text == tables.written("speed"), "writing it again changes nothing"


def test_a_record_says_why_until_it_is_measured(page: Path) -> None:
    (before,) = tables.load("speed").values()
    tables.save("speed", {"cars": dataclasses.replace(before, record="the car is gone")})
    assert "a car; quiet. A record, which no command measures anew: the car is gone.\n" in tables.written("speed")
    results.measure(Source("speed", ("echo a 5 km/h",), cars, ("cars",)))
    assert "A record" not in tables.written("speed")


def test_a_command_that_fails_changes_nothing(page: Path) -> None:
    before = (page.parent / "data/speed.json").read_text()
    for command in ("sh -c 'echo broken; exit 3'", "echo something else"):
        with pytest.raises(SystemExit, match=r"broken|unread"):
            results.measure(Source("speed", (command,), cars, ("cars",)))
    assert (page.parent / "data/speed.json").read_text() == before


def test_a_page_without_a_place_for_a_table_is_an_error(page: Path) -> None:
    page.write_text("# Speed\n")
    with pytest.raises(tables.TablesError, match="cars"):
        tables.written("speed")


def test_times_are_not_measured_on_a_busy_machine(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = []
    monkeypatch.setattr(results, "measure", measured.append)
    monkeypatch.setattr(plots, "draw_all", lambda: None)
    monkeypatch.setattr("os.getloadavg", lambda: (99.0, 99.0, 99.0))
    monkeypatch.setattr(results, "SETTLES", 0.0)
    monkeypatch.setattr(sys, "argv", ["results.py", "--only", "latency/copies,slots/queues"])
    assert results.main() == 1
    assert [source.tables for source in measured] == [("queues",)]
    assert "python benchmarks/copies.py" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["results.py", "--only", "latency/copies", "--busy"])
    assert results.main() == 0
    assert len(measured) == 2
