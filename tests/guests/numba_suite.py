"""Numba's own CUDA test suite as a guest of the simulated device (`make test-numba`): runs it, compares, writes the page.

Runs each module by `farlane run` in a process of its own and parses unittest's verbose output; the results of a test's subtests are one
result. Writes numba_results.txt (every test that does not pass, and the number of those that do) and docs/results/numba-suite.md from it. Fails, and
writes nothing, when a test that the committed file does not list fails; `--accept` writes it all the same. `--continue` takes the
modules whose logs are complete from the last run; a log that ended before its time is run again. `--choose` runs nothing, but chooses
the tests of numba_sample.txt anew (test_numba.py).

Does not own: the reasons of failures, which are kept by hand in numba_reasons.toml by module or test.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

from running import FARLANE, PYTHON, ROOT
from suites import Result, add, count, new_failures, reason

FOLDER = Path(__file__).resolve().parent
LOGS = ROOT / ".cache/numba"
RESULTS, REASONS, PAGE = (
    FOLDER / "numba_results.txt",
    FOLDER / "numba_reasons.toml",
    ROOT / "docs/results/numba-suite.md",
)
SAMPLE, SAMPLE_SIZE = FOLDER / "numba_sample.txt", 75
PACKAGE = "numba.cuda.tests"
FINISHED = "\nexit status "
SECONDS = 900

_HEADER = re.compile(rf"^[ ]*(\w+) \(((?:{re.escape(PACKAGE)}|unittest\.loader)[\w.]*)\)", re.MULTILINE)
_STATUS = re.compile(r"(?:^|\.\.\. )(ok|FAIL|ERROR|expected failure|unexpected success|skipped .*)$", re.MULTILINE)
_SUMMARY = re.compile(
    rf"^(FAIL|ERROR|UNEXPECTED SUCCESS): .*?\(((?:{re.escape(PACKAGE)}|unittest\.loader)[\w.]*)\)", re.M
)


def parse(module: str, log: str) -> list[Result]:
    """The results of one module's log, by name. A module that could not be loaded, or that ended early, is an error by its own name."""
    output, _, status = log.partition(FINISHED)
    body = output.split("\n=====", 1)[0]
    headers = list(_HEADER.finditer(body))
    found: dict[str, Result] = {}
    for header, following in zip(headers, [*headers[1:], None], strict=False):
        segment = body[header.end() : following.start() if following else len(body)]
        statuses = _STATUS.findall(segment)
        _add(found, _name(module, header[2]), statuses[-1] if statuses else "ERROR")
    for kind, test in _SUMMARY.findall(output):
        _add(found, _name(module, test), kind)
    if re.search(r"^Ran \d+ test", output, re.MULTILINE) is None:
        words = "timeout" if status.strip() == "124" else "ended early"
        if (skip := re.search(r"^.*Skipped: (.*)$", output, re.MULTILINE)) is not None:
            found[module] = Result(module, "skip", skip[1])
        else:
            found[module] = Result(module, "error", words)
    return sorted(found.values())


def _name(module: str, test: str) -> str:
    return module if test.startswith("unittest.") else test.removeprefix(f"{PACKAGE}.")


def _add(found: dict[str, Result], name: str, status: str) -> None:
    """Of several results (of subtests) the worst one counts."""
    words = ""
    if status.startswith("skipped "):
        outcome, words = "skip", _unquoted(status.removeprefix("skipped "))
    else:
        outcome = {"ok": "pass", "expected failure": "pass", "ERROR": "error"}.get(status, "fail")
    add(found, Result(name, outcome, words))


def _unquoted(text: str) -> str:
    try:
        return " ".join(str(ast.literal_eval(text)).split())
    except (SyntaxError, ValueError):
        return text


def modules(python: Path) -> list[str]:
    """The suite's modules, in order, but for those that pytest alone runs (benchmarks, functions): asked for one, the suite runs all of Numba's tests."""
    # Not by importing Numba: its tests' package looks for a device.
    script = "import importlib.util as u; print(u.find_spec('numba_cuda').submodule_search_locations[0])"
    place = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    tests = Path(place) / "numba/cuda/tests"
    found = (path for path in tests.rglob("test_*.py") if re.search(r"^class \w+\(", path.read_text(), re.MULTILINE))
    files = (path.relative_to(tests).with_suffix("") for path in found)
    return sorted(".".join(file.parts) for file in files if "data" not in file.parts)


def command(python: Path, names: Sequence[str]) -> list[str]:
    """Runs modules or tests of the suite as a guest."""
    tests = [f"{PACKAGE}.{name}" for name in names]
    return [str(FARLANE), "run", "--", str(python), "-W", "ignore", "-m", "numba.runtests", "-v", *tests]


def listed(python: Path) -> list[str]:
    """The names of all tests that the suite's loader finds."""
    done = subprocess.run([*command(python, [])[:-1], "-l", PACKAGE], capture_output=True, text=True, check=True)
    return [line.removeprefix(f"{PACKAGE}.") for line in done.stdout.splitlines() if line.startswith(f"{PACKAGE}.")]


def sample(names: Iterable[str], committed: str) -> list[str]:
    """Of the tests that pass, those whose names have the smallest hashes. One that fails may ruin its process for those that follow."""
    passing = set(names) - set(outcomes(committed))
    return sorted(sorted(passing, key=lambda name: hashlib.sha256(name.encode()).digest())[:SAMPLE_SIZE])


def run(module: str, python: Path, logs: Path, resume: bool) -> str:
    """The log of a module: of the last run where `resume` allows it, and it is complete."""
    path = logs / f"{module}.log"
    if resume and path.exists() and FINISHED in (log := path.read_text(errors="replace")):
        return log
    logs.mkdir(parents=True, exist_ok=True)
    timed = ["timeout", "--kill-after=10", str(SECONDS), *command(python, [module])]
    with path.open("w") as file:
        done = subprocess.run(timed, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, check=False)
        file.write(f"{FINISHED}{done.returncode}\n")
    return path.read_text(errors="replace")


def results_text(results: Sequence[Result]) -> str:
    """The committed form: one line for each test that does not pass, and one with the number of those that do for each module."""
    lines = [f"{item.outcome} {item.name} {item.words}".rstrip() for item in results if item.outcome != "pass"]
    return "\n".join([f"pass {count(results, 'pass')}", *lines]) + "\n"


def outcomes(committed: str) -> dict[str, str]:
    """The tests of the committed form, which do not pass, with their outcomes."""
    lines = (line.split(" ", 2) for line in committed.splitlines()[1:])
    return {name: outcome for outcome, name, *_ in lines}


def regressions(results: Iterable[Result], committed: str) -> list[Result]:
    """The failures that the committed file does not have."""
    return new_failures(
        results, {name for name, outcome in outcomes(committed).items() if outcome in ("fail", "error")}
    )


def page(results: Sequence[Result], reasons: dict[str, str]) -> str:
    """docs/results/numba-suite.md."""
    total, passed, skipped = len(results), count(results, "pass"), count(results, "skip")
    out = [
        "# Numba's own test suite",
        "",
        "`make test-numba` runs Numba's CUDA tests on the simulated device and writes this page; it takes about an hour.",
        "NUMBA_ARGS=--continue goes on where a run was cut off. How Numba runs as a guest:",
        "[Python guests](../howto/python-guests.md).",
        f"`make test-guests` runs a fixed sample of {SAMPLE_SIZE} tests, `make test` a dozen kernels that Numba compiled",
        "(tests/unit/sim/test_numba_kernels.py): Numba itself is too large a download for it.",
        "",
        "| tests | passed | skipped | failed |",
        "|---|---|---|---|",
        f"| {total} | {passed} ({passed / total:.1%}) | {skipped} | {total - passed - skipped} |",
        "",
        "A test counts once, whatever its subtests. An expected failure passes. Functions for pytest (benchmarks,",
        "test_matmul) are not among them.",
        "",
        "## Failed",
        "",
    ]
    for item in results:
        if item.failed:
            out.append(f"- `{item.name}`:\n  {reason(item.name, reasons, '.')}")
    out += ["", "## Skipped", "", "The suite skips these itself, for the reasons that it prints.", ""]
    out += [f"- `{item.name}`:\n  {item.words}".rstrip() for item in results if item.outcome == "skip"]
    return "\n".join(out) + "\n"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--continue", dest="resume", action="store_true", help="take complete logs from the last run")
    parser.add_argument("--accept", action="store_true", help="write the results although tests fail that did not")
    parser.add_argument("--only", action="append", help="run this module only, and compare; writes nothing", default=[])
    parser.add_argument("--python", type=Path, default=PYTHON, help="the Python that has Numba")
    parser.add_argument("--choose", action="store_true", help="choose the tests of numba_sample.txt anew")
    options = parser.parse_args()
    if options.choose:
        SAMPLE.write_text("\n".join(sample(listed(options.python), RESULTS.read_text())) + "\n")
        return 0
    results: list[Result] = []
    for module in options.only or modules(options.python):
        found = parse(module, run(module, options.python, LOGS, options.resume))
        print(f"{module}: {count(found, 'pass')} of {len(found)} pass", flush=True)
        results += found
    results.sort()
    worse = regressions(results, RESULTS.read_text() if RESULTS.exists() else "")
    for item in worse:
        print(f"{item.outcome}: {item.name} (log: {LOGS.relative_to(ROOT)})")
    if options.only or (worse and not options.accept):
        return 1 if worse else 0
    RESULTS.write_text(results_text(results))
    PAGE.write_text(page(results, tomllib.loads(REASONS.read_text())["reasons"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
