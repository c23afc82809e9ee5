"""A pytest plugin for CuPy's own suite: keeps a share of the tests, and writes each one's outcome to a file (cupy_suite.py).

A test is in the share if the CRC-32 of its name leaves no rest by CUPY_EVERY: the same tests in every run. CUPY_OUTCOMES names
the file: a line of JSON for each test, `[name, outcome, words]`, with "pass", "skip", "fail" or "error"; one that cannot be
collected is an error by its file's name.
"""

from __future__ import annotations

import json
import os
import zlib
from typing import Any

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the share."""
    every = int(os.environ["CUPY_EVERY"])
    kept: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        (others if zlib.crc32(item.nodeid.encode()) % every else kept).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = kept


def _write(name: str, outcome: str, words: str) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # the process that hands out the tests hears of all
    with open(os.environ["CUPY_OUTCOMES"], "a", encoding="utf-8") as file:
        file.write(json.dumps([name, outcome, words]) + "\n")


def _words(report: Any) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(crash.message if crash else report.longrepr).strip().splitlines()
    return lines[0][:200] if lines else ""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test counts once: as its call ended, or as what is around it failed."""
    if report.skipped:
        _write(report.nodeid, "pass" if hasattr(report, "wasxfail") else "skip", _words(report))
    elif report.failed:
        _write(report.nodeid, "fail" if report.when == "call" else "error", _words(report))
    elif report.when == "call":
        _write(report.nodeid, "pass", "")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be read as tests."""
    if report.failed:
        _write(report.nodeid, "error", _words(report))
