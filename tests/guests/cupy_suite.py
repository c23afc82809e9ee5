"""CuPy's own test suite as a guest of the simulated device (`make test-cupy`): runs a share of it, compares, writes the page.

Fetches CuPy's source archive, whose tests the wheel does not have, by its version and digest, and runs the suite's parts by
`farlane run` with pytest on two workers; cupy_plugin.py keeps the share of each part and writes outcomes. The suite has some
20,000 tests in these parts; of each part one test in so many is run, chosen by its name, so that about 100 are (`--every 1`
runs all). Tests that the suite marks as slow, or as for several devices, are left out. Writes cupy_results.txt (numbers by
part, and every test that does not pass) and docs/results/cupy-suite.md from it. Fails, and writes nothing, when a test fails that the
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
import tempfile
import tomllib
import urllib.parse
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path

from farlane.frontend.devtools.toolchain import install
from running import FARLANE, PYTHON, ROOT
from suites import Result, add, count, new_failures, reason

FOLDER = Path(__file__).resolve().parent
SOURCE = ROOT / ".cache/cupy"
RESULTS, REASONS, PAGE = FOLDER / "cupy_results.txt", FOLDER / "cupy_reasons.toml", ROOT / "docs/results/cupy-suite.md"
VERSION = "14.2.0"  # the one of requirements.txt
DIGEST = "cfed725e612178cfbdbf62f4a3a598b60edecbbca718c0d4580c21a16ae4a62c"
INDEX = "https://pypi.org/simple"  # used where pip's settings name no index
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
    with tempfile.TemporaryDirectory(dir=SOURCE) as temporary, tarfile.open(archive) as file:
        kept = [item for item in file.getmembers() if item.name.startswith(f"{tests.parent.name}/tests/")]
        file.extractall(temporary, members=kept, filter="data")
        made = Path(temporary) / tests.parent.name
        # Tests are named from the folder of this file, which is also read in place of Farlane's settings.
        (made / "tests/pytest.ini").write_text("[pytest]\n")
        made.rename(tests.parent)
    return tests


def run(part: str, every: int, workers: int) -> list[Result]:
    """The results of a part's share. Raises SystemExit when pytest itself ended early."""
    tests, outcomes = source(), SOURCE / f"{part}.jsonl"
    outcomes.unlink(missing_ok=True)
    # Without what a test that calls this has from its own pytest.
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
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
    """The results in the plugin's file, by part/name; of a test with several (its call, what is around it) the worst counts."""
    found: dict[str, Result] = {}
    for line in text.splitlines():
        name, outcome, words = json.loads(line)
        add(found, Result(f"{part}/{name.removeprefix('cupy_tests/').removeprefix(f'{part}_tests/')}", outcome, words))
    return sorted(found.values())


def by_part(results: Iterable[Result]) -> dict[str, list[Result]]:
    """The results of each part."""
    parts: dict[str, list[Result]] = {}
    for item in results:
        parts.setdefault(item.name.partition("/")[0], []).append(item)
    return parts


def results_text(results: Sequence[Result]) -> str:
    """The committed form: a line of numbers for each part, and one for each test that neither passes nor is skipped."""
    lines = []
    for part, found in sorted(by_part(results).items()):
        numbers = " ".join(f"{outcome} {count(found, outcome)}" for outcome in ("pass", "skip", "fail", "error"))
        lines.append(f"{part}: {numbers}")
        lines += [f"{item.outcome} {item.name}" for item in found if item.failed]
    return "\n".join(lines) + "\n"


def regressions(results: Iterable[Result], committed: str) -> list[Result]:
    """The failures that the committed file does not have."""
    failures = (line for line in committed.splitlines() if line.startswith(("fail ", "error ")))
    return new_failures(results, {line.split(" ", 1)[1] for line in failures})


def page(results: Sequence[Result], shares: dict[str, int], reasons: dict[str, str]) -> str:
    """docs/results/cupy-suite.md."""
    out = [
        "# CuPy's own test suite",
        "",
        f"`make test-cupy` runs a share of the tests of CuPy {VERSION} on the simulated device and writes this page. Of each part one",
        "test in so many is run, chosen by its name; `CUPY_ARGS='--every 1 --only logic'` runs all of a part, and compares.",
        "Tests that the suite marks as slow, or as for several devices, are left out.",
        "How CuPy runs as a guest: [Python guests](../howto/python-guests.md). What else runs:",
        "[NVIDIA's libraries](../reference/libraries.md).",
        "",
        "| part | one in | run | passed | skipped | failed |",
        "|---|---|---|---|---|---|",
    ]
    parts = by_part(results)
    for part, every in shares.items():
        found = parts.get(part, [])
        passed, skipped = count(found, "pass"), count(found, "skip")
        failed = len(found) - passed - skipped
        rate = f"{passed / (passed + failed):.1%}" if passed + failed else "-"
        out.append(f"| {part} | {every} | {len(found)} | {passed} ({rate}) | {skipped} | {failed} |")
    out += ["", "Percentages are of the tests that were not skipped: the suite skips some by itself.", ""]
    failures = [item for item in results if item.failed]
    if failures:
        out += ["## Failed", ""]
        out += [f"- `{item.name}`:\n  {reason(item.name, reasons)}" for item in failures]
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
        print(f"{item.outcome}: {item.name}: {item.words}")
    if options.every or options.only or (worse and not options.accept):
        return 1 if worse else 0
    text = page(results, PARTS, tomllib.loads(REASONS.read_text())["reasons"])
    RESULTS.write_text(results_text(results))
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
