"""The ledger of skipped tests: compares them with the table of those that may skip, and runs them again.

Owns three options of pytest, which `make test` and `.ci/run` use:

- `--write-skips=FILE` writes the names of the tests that skipped, one a line, except those that skip on every machine.
- `--only-skipped=FILE` runs only the tests that such a file names: a second run, with more installed, repeats nothing.
- `--expect-skips=clang,docker?` names what this machine lacks (sections of expected_skips.toml). Exactly the tests of
  these sections must skip, else the run fails and names the tests in question. With `?` its tests may skip or run.

The `=` matters: pytest takes a file that stands alone for a test, and then does not find this plugin.
Without `--expect-skips` any test may skip. Works with and without xdist, whose main process keeps the ledger.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

EXPECTED = Path(__file__).parent / "expected_skips.toml"
_XDIST_GROUP = re.compile(r"@[^@\]]*$")  # xdist appends "@group" to the names of tests of a group


@dataclass(frozen=True)
class Skip:
    """A test that skipped."""

    test: str
    reason: str

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]


@dataclass(frozen=True)
class Section:
    """What a machine may lack, and how many tests of each file skip where it does."""

    name: str
    reason: re.Pattern[str]
    tests: Mapping[str, int]
    always: bool = False  # on every machine


def load(text: str) -> dict[str, Section]:
    """Reads the table of expected skips."""
    return {
        name: Section(name, re.compile(row["reason"]), row["tests"], row.get("always", False))
        for name, row in tomllib.loads(text).items()
    }


def section_of(sections: Mapping[str, Section], skip: Skip) -> Section | None:
    return next((section for section in sections.values() if section.reason.search(skip.reason)), None)


def complaints(
    sections: Mapping[str, Section], lacks: Sequence[str], skips: Iterable[Skip], *, again: bool = False
) -> list[str]:
    """What is wrong with the tests that skipped on a machine that lacks these sections; empty if nothing is.

    Args:
        again: the run was of tests that had skipped before, and so without those that always do.
    """
    uncertain = {name.removesuffix("?") for name in lacks if name.endswith("?")}
    certain = set(lacks) - {f"{name}?" for name in uncertain}
    if unknown := sorted((certain | uncertain) - sections.keys()):
        return [f"--expect-skips: {EXPECTED.name} has no section {', '.join(unknown)}"]
    certain |= {name for name, section in sections.items() if section.always and not again}
    by_section: dict[str, dict[str, list[Skip]]] = defaultdict(lambda: defaultdict(list))
    found = []
    for skip in sorted(skips, key=lambda skip: skip.test):
        if section := section_of(sections, skip):
            by_section[section.name][skip.file].append(skip)
        else:
            found.append(f"skipped for a reason that {EXPECTED.name} does not have: {skip.test}: {skip.reason}")
    for name in sorted(sections.keys() - uncertain):
        expected = sections[name].tests if name in certain else {}
        for file in sorted(expected.keys() | by_section[name].keys()):
            skipped = by_section[name][file]
            if len(skipped) != expected.get(file, 0):
                found.append(f'{name}: {len(skipped)} tests of "{file}" skipped, not {expected.get(file, 0)}')
                found += [f"    {skip.test}: {skip.reason}" for skip in skipped]
    return found


class SkipLedger:
    """The plugin: keeps the ledger of one run."""

    def __init__(self, write: Path | None, only: Path | None, lacks: Sequence[str] | None) -> None:
        self._write = write
        self._only = None if only is None else set(only.read_text().splitlines())
        self._lacks = lacks
        self._seen: set[str] = set()
        self._skips: dict[str, Skip] = {}
        self._complaints: list[str] = []

    @pytest.hookimpl(tryfirst=True)  # before xdist changes the names of tests
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if self._only is None:
            return
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self._only])
        items[:] = [item for item in items if item.nodeid in self._only]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        test = _XDIST_GROUP.sub("", report.nodeid)
        self._seen.add(test)
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        self._skips[test] = Skip(test, reason.removeprefix("Skipped: "))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return
        sections = load(EXPECTED.read_text())
        if self._write is not None:
            found = ((test, section_of(sections, skip)) for test, skip in sorted(self._skips.items()))
            tests = [test for test, section in found if section is None or not section.always]
            self._write.parent.mkdir(parents=True, exist_ok=True)
            self._write.write_text("".join(f"{test}\n" for test in tests))
        if self._lacks is not None:
            again = self._only is not None
            self._complaints = complaints(sections, self._lacks, self._skips.values(), again=again)
        if self._only is not None:
            self._complaints += [f"--only-skipped: did not run: {test}" for test in sorted(self._only - self._seen)]
        if self._complaints and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._complaints:
            terminalreporter.section("unexpected skips", red=True)
            for line in self._complaints:
                terminalreporter.write_line(line)


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--write-skips", type=Path, metavar="FILE", help="write the names of the tests that skipped")
    parser.addoption("--only-skipped", type=Path, metavar="FILE", help="run only the tests that FILE names")
    parser.addoption(
        "--expect-skips",
        type=lambda text: text.split(",") if text else [],
        metavar="WHAT,...",
        help="fail unless exactly the tests skip that need these (sections of tests/selection/expected_skips.toml)",
    )


def register(config: pytest.Config) -> None:
    """Registers the plugin where one of its options is given."""
    options = [config.getoption(name) for name in ("write_skips", "only_skipped", "expect_skips")]
    if any(option is not None for option in options):
        config.pluginmanager.register(SkipLedger(*options), "skip-ledger")
