"""Tests of many cases of which a share runs: `pytest.mark.sampled(3)` on a test runs a third of its cases, `--full-matrix` all.

For a test whose cases take long and differ in little. Which of them run is decided by the cases' names: the same ones in
every run, and in each test that has these cases. A case that is named runs anyhow: on the command line
(`FILE::test[case]`), or in the file of `--only-skipped`, which has only such as were not left out.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable

import pytest


def left_out(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """The cases that do not run: of each test's, all but one in so many as its mark says, rounded up."""
    cases: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if (mark := item.get_closest_marker("sampled")) is not None:
            cases[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    left: set[pytest.Item] = set()
    for (_, each), found in cases.items():
        found.sort(key=lambda item: hashlib.sha256(item.nodeid.partition("[")[2].encode()).digest())
        left.update(found[-(-len(found) // each) :])
    return left


def everything_runs(config: pytest.Config) -> bool:
    """Whether no test is sampled in this run."""
    named = config.getoption("--only-skipped") is not None or any("[" in name for name in config.args)
    return bool(config.getoption("--full-matrix")) or named


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes the cases that do not run off what was collected."""
    if everything_runs(config):
        return
    left = left_out(items)
    if left:
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=sorted(left, key=lambda item: item.nodeid))
