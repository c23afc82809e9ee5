"""`make results`: measures anew what takes minutes, into docs/results/measured.md, and draws the plots of all results from their tables.

Usage: python pages/results.py [--plots] [--only NAME,NAME]
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import plots

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/results/measured.md"
LIMIT = 600  # seconds for one benchmark
LINES = 40  # of its output
BENCHMARKS = {  # what each says, and how it is run
    "start": ("How long commands take to start", "benchmarks/starting.py"),
    "recorder": ("What a launch costs in a recorded loop", "benchmarks/recorder.py"),
    "records": ("What a record costs the host", "benchmarks/replay/records.py"),
    "switching": ("What a switch between sessions moves (S2); bytes are exact", "benchmarks/memory/switching.py"),
}
HEAD = """# Measured anew

`make results` writes this page: benchmarks that take minutes, as they print. Times of a busy machine say little; counts
and bytes are exact. What was measured on quiet machines, and what it means, stands on the other pages of
[Results](README.md).
"""


def processor() -> str:
    match = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return match[1] if match else platform.machine()


def measured(title: str, script: str) -> str:
    """A section of the page. Ends the command when the benchmark fails: nothing half measured is written."""
    print(f"python {script} ...", flush=True)
    before = os.getloadavg()[0]
    try:
        done = subprocess.run(
            [sys.executable, script],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{script} took more than {LIMIT} s: run it by itself, or leave it out by --only") from None
    if done.returncode:
        raise SystemExit(f"{script} failed:\n{done.stdout}")
    lines = [line.rstrip()[:120] for line in done.stdout.strip().splitlines()][-LINES:]
    load = f"load {before:.1f} before, {os.getloadavg()[0]:.1f} after"
    day = datetime.datetime.now(datetime.UTC).date()
    return "\n".join(
        [
            f"\n## {title}\n",
            f"`python {script}`, {day}, {processor()},",
            f"{os.cpu_count()} processors, {load}.\n",
            "```text",
            *lines,
            "```",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plots", action="store_true", help="draw only")
    parser.add_argument(
        "--only", metavar="NAMES", help=f"of {', '.join(BENCHMARKS)}, with commas; other sections stay as they are"
    )
    arguments = parser.parse_args()
    plots.draw_all()
    if arguments.plots:
        return 0
    names = arguments.only.split(",") if arguments.only else list(BENCHMARKS)
    if unknown := set(names) - set(BENCHMARKS):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    old = re.split(r"\n(?=\n## )", PAGE.read_text().rstrip("\n"))[1:] if PAGE.exists() else []
    sections = {title: text for title, _ in BENCHMARKS.values() for text in old if text.startswith(f"\n## {title}\n")}
    for name in names:
        sections[BENCHMARKS[name][0]] = measured(*BENCHMARKS[name])
        kept = [sections[title] for title, _ in BENCHMARKS.values() if title in sections]
        PAGE.write_text(HEAD + "\n".join(kept) + "\n")  # after each: what is measured stays when the next one fails
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
