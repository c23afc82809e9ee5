"""Where the tests' time goes: `--processor-time=FILE` writes the seconds of processor and of the clock that each test file took.

A test's processor time is that of the process that runs it and of all processes below it: guests, hosts and compilers, whether they
have ended or not. What the fixtures of a module or of the session cost counts for the test that has them made or taken down. The
largest come first; a file that waits has many more seconds of the clock than of the processor. Linux only; works with xdist.

    python -m pytest -n 2 --dist loadgroup --processor-time=.cache/times.tsv tests/unit
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
_USER = 11  # of the fields behind a program's name in /proc/PID/stat: utime, stime, cutime, cstime


def _of_processes(pid: int) -> int:
    """Ticks of a process and of all below it; those that have ended count as their parents' children."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:  # it has just ended
        return 0
    ticks = sum(map(int, stat.rpartition(")")[2].split()[_USER : _USER + 4]))
    for task in tasks:
        try:
            children = Path(f"/proc/{pid}/task/{task}/children").read_text().split()
        except OSError:
            continue
        ticks += sum(_of_processes(int(child)) for child in children)
    return ticks


@dataclass
class Spent:
    """Of one test file."""

    tests: int = 0
    processor: float = 0.0
    clock: float = 0.0


class ProcessorTime:
    """The plugin: measures where tests run, adds up where they are reported."""

    def __init__(self, write: Path) -> None:
        self._write = write
        self._before = (0, time.monotonic())
        self._files: dict[str, Spent] = defaultdict(Spent)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        self._before = (_of_processes(os.getpid()), time.monotonic())
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        now = (_of_processes(os.getpid()), time.monotonic())
        # Attributes of a report travel from xdist's workers.
        report.spent = (max(0, now[0] - self._before[0]) / _TICKS, now[1] - self._before[1])
        self._before = now
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        file = self._files[report.nodeid.partition("::")[0]]
        file.tests += report.when == "setup"
        file.processor += report.spent[0]
        file.clock += report.spent[1]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return
        rows = sorted(self._files.items(), key=lambda row: -row[1].processor)
        spent = self._files.values()
        total = Spent(sum(f.tests for f in spent), sum(f.processor for f in spent), sum(f.clock for f in spent))
        self._write.parent.mkdir(parents=True, exist_ok=True)
        self._write.write_text(
            "processor\tclock\ttests\tfile\n"
            + "".join(f"{f.processor:.1f}\t{f.clock:.1f}\t{f.tests}\t{name}\n" for name, f in [("all", total), *rows])
        )


def add_options(parser: pytest.Parser) -> None:
    parser.addoption(
        "--processor-time", type=Path, metavar="FILE", help="write the seconds of processor and clock of each test file"
    )


def register(config: pytest.Config) -> None:
    if write := config.getoption("--processor-time"):
        config.pluginmanager.register(ProcessorTime(write), "processor-time")
