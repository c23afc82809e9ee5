"""CuPy's own test suite as a guest of the simulated device (`make test-cupy`): runs a share of it, compares, writes the page.

Fetches CuPy's source archive, whose tests the wheel does not have, by its version and digest, and runs the suite's parts by
`farlane run` with pytest on two workers; cupy_plugin.py keeps the share of each part and writes outcomes. The suite has some
20,000 tests in these parts; of each part one test in so many is run, chosen by its name, so that about 100 are (`--every 1`
runs all). Tests that the suite marks as slow, or as for several devices, are left out. Writes cupy_results.txt (numbers by
part, and every test that does not pass) and docs/cupy.md from it. Fails, and writes nothing, when a test fails that the
committed file does not list; `--accept` writes it all the same.

Does not own: the reasons of failures, which are kept by hand in cupy_reasons.toml by the beginnings of tests' names.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import urllib.parse
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from farlane.frontend.devtools.toolchain import install

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent
PYTHON, FARLANE = ROOT / ".cache/guests/bin/python", ROOT / ".venv/bin/farlane"
SOURCE = ROOT / ".cache/cupy"
RESULTS, REASONS, PAGE = FOLDER / "cupy_results.txt", FOLDER / "cupy_reasons.toml", ROOT / "docs/cupy.md"
VERSION = "14.2.0"  # the one of requirements.txt
DIGEST = "cfed725e612178cfbdbf62f4a3a598b60edecbbca718c0d4580c21a16ae4a62c"
INDEX = "https://pypi.org/simple"  # unless pip is told of another
# One test in so many of each part is run: about 100 of each.
PARTS = {
    "core": 30,
    "creation": 6,
    "fft": 25,
    "indexing": 4,
    "linalg": 14,
    "logic": 8,
    "math": 80,
    "random": 18,
    "sorting": 5,
    "statistics": 7,
}
SECONDS = 3600  # for a part


@dataclass(frozen=True, order=True)
class Result:
    """A test's part and name in it, its outcome (pass, skip, fail, error), and the suite's words."""

    part: str
    name: str
    outcome: str
    words: str = ""


def source() -> Path:
    """The folder of CuPy's tests, fetched if it is not there. Raises SystemExit when the archive is another one."""
    tests = SOURCE / f"cupy-{VERSION}" / "tests"
    if tests.exists():
        return tests
    SOURCE.mkdir(parents=True, exist_ok=True)
    asked = subprocess.run([PYTHON, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True)
    index = os.environ.get("PIP_INDEX_URL") or asked.stdout.strip() or INDEX
    page = f"{index.rstrip('/')}/cupy/"
    with urllib.request.urlopen(page) as answer:
        links = re.findall(r'href="([^"]*)"', answer.read().decode())
    link = next((link for link in links if f"/cupy-{VERSION}.tar.gz" in link), None)
    if link is None:
        sys.exit(f"{page} has no source archive of CuPy {VERSION}")
    archive = SOURCE / f"cupy-{VERSION}.tar.gz"
    with urllib.request.urlopen(urllib.parse.urljoin(page, link)) as answer:
        archive.write_bytes(answer.read())
    if hashlib.sha256(archive.read_bytes()).hexdigest() != DIGEST:
        sys.exit(f"{archive} is not the archive that this suite was written for: its SHA-256 is another one")
    with tarfile.open(archive) as file:
        kept = [item for item in file.getmembers() if item.name.startswith(f"cupy-{VERSION}/tests/")]
        file.extractall(SOURCE, members=kept, filter="data")
    (tests / "pytest.ini").write_text("[pytest]\n")  # tests are named from here, and Farlane's settings are not theirs
    return tests


def run(part: str, every: int, workers: int) -> list[Result]:
    """The results of a part's share. Raises SystemExit when pytest itself ended early."""
    tests, outcomes = source(), SOURCE / f"{part}.jsonl"
    outcomes.unlink(missing_ok=True)
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}  # of a test of this
    environment = outer | {
        "FARLANE_INTEROP": "1",
        "CUPY_EVERY": str(every),
        "CUPY_OUTCOMES": str(outcomes),
        "CUPY_CACHE_DIR": str(SOURCE / "kernels"),
        "NVCC": str(next(install("13.5").root.rglob("bin/nvcc"))),  # core asks for its version
        "PYTHONPATH": str(FOLDER),
    }
    asked = [
        str(PYTHON),
        "-m",
        "pytest",
        "-q",
        "-p",
        "cupy_plugin",
        "-p",
        "no:cacheprovider",
        "-n",
        str(workers),
        "--durations=9",
        "-m",
        "not slow and not multi_gpu",
    ]
    command = [
        "timeout",
        "--kill-after=10",
        str(SECONDS),
        str(FARLANE),
        "run",
        "--",
        *asked,
        f"cupy_tests/{part}_tests",
    ]
    with (SOURCE / f"{part}.log").open("w") as log:
        done = subprocess.run(
            command, cwd=tests, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    if done.returncode not in (0, 1):
        sys.exit(f"the run of {part} ended early, with status {done.returncode}: see {log.name}")
    return parse(part, outcomes.read_text(encoding="utf-8"))


def parse(part: str, text: str) -> list[Result]:
    """The results in the plugin's file; of a test with several (its call, what is around it) the worst counts."""
    found: dict[str, Result] = {}
    ranks = {"pass": 0, "skip": 1, "fail": 2, "error": 3}
    for line in text.splitlines():
        name, outcome, words = json.loads(line)
        name = name.removeprefix("cupy_tests/").removeprefix(f"{part}_tests/")
        if name not in found or ranks[outcome] > ranks[found[name].outcome]:
            found[name] = Result(part, name, outcome, words)
    return sorted(found.values())


def count(results: Iterable[Result], outcome: str) -> int:
    """How many results have that outcome."""
    return sum(item.outcome == outcome for item in results)


def results_text(results: Sequence[Result]) -> str:
    """The committed form: a line of numbers for each part, and one for each test that neither passes nor is skipped."""
    lines = []
    for part in sorted({item.part for item in results}):
        of_part = [item for item in results if item.part == part]
        numbers = " ".join(f"{outcome} {count(of_part, outcome)}" for outcome in ("pass", "skip", "fail", "error"))
        lines.append(f"{part}: {numbers}")
        lines += [f"{item.outcome} {part}/{item.name}" for item in of_part if item.outcome in ("fail", "error")]
    return "\n".join(lines) + "\n"


def regressions(results: Iterable[Result], committed: str) -> list[Result]:
    """The failures that the committed file does not have."""
    known = {line.split(" ", 1)[1] for line in committed.splitlines() if line.startswith(("fail ", "error "))}
    return [item for item in results if item.outcome in ("fail", "error") and f"{item.part}/{item.name}" not in known]


def reason(name: str, reasons: dict[str, str]) -> str:
    """The hand-kept reason for a test: that of the longest beginning of its name. Raises KeyError when there is none."""
    keys = [key for key in reasons if name.startswith(key)]
    if not keys:
        raise KeyError(f"cupy_reasons.toml has no reason for {name}")
    return reasons[max(keys, key=len)]


def page(results: Sequence[Result], shares: dict[str, int], reasons: dict[str, str]) -> str:
    """docs/cupy.md."""
    out = [
        "# CuPy's own test suite",
        "",
        f"`make test-cupy` runs a share of the tests of CuPy {VERSION} on the simulated device and writes this page. Of each part one",
        "test in so many is run, chosen by its name; `CUPY_ARGS='--every 1 --only logic'` runs all of a part, and compares.",
        "Tests that the suite marks as slow, or as for several devices, are left out.",
        "How CuPy runs as a guest: [python.md](python.md). NVIDIA's libraries: [libraries.md](libraries.md).",
        "",
        "| part | one in | run | passed | skipped | failed |",
        "|---|---|---|---|---|---|",
    ]
    for part, every in shares.items():
        found = [item for item in results if item.part == part]
        passed, skipped = count(found, "pass"), count(found, "skip")
        failed = len(found) - passed - skipped
        rate = f"{passed / (passed + failed):.1%}" if passed + failed else "-"
        out.append(f"| {part} | {every} | {len(found)} | {passed} ({rate}) | {skipped} | {failed} |")
    out += ["", "Percentages are of the tests that were not skipped: the suite skips some by itself.", ""]
    failures = [item for item in results if item.outcome in ("fail", "error")]
    if failures:
        out += ["## Failed", ""]
        out += [f"- `{item.part}/{item.name}`:\n  {reason(f'{item.part}/{item.name}', reasons)}" for item in failures]
    return "\n".join(out).rstrip("\n") + "\n"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, help="run one test in so many of each part; compares, and writes nothing")
    parser.add_argument("--only", action="append", help="run this part only; compares, and writes nothing", default=[])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--accept", action="store_true", help="write the results although tests fail that did not")
    options = parser.parse_args()
    if unknown := set(options.only) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    results: list[Result] = []
    for part in options.only or PARTS:
        found = run(part, options.every or PARTS[part], options.workers)
        skipped = count(found, "skip")
        print(f"{part}: {count(found, 'pass')} of {len(found)} pass, {skipped} are skipped", flush=True)
        results += found
    worse = regressions(results, RESULTS.read_text() if RESULTS.exists() else "")
    for item in worse:
        print(f"{item.outcome}: {item.part}/{item.name}: {item.words}")
    if options.every or options.only or (worse and not options.accept):
        return 1 if worse else 0
    text = page(results, PARTS, tomllib.loads(REASONS.read_text())["reasons"])
    RESULTS.write_text(results_text(results))
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
