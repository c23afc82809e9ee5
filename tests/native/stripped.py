"""Runs every program of tests/native with its runtime linked in and stripped, in all three modes, and writes one line each to stripped.txt.

Usage: python tests/native/stripped.py [--toolchains 13.0,13.5] [--only NAME,NAME]

The runtime in such a program speaks to libcuda.so.1 (FARLANE_INTEROP=1). A line has the round trips of modes none, calls and loops, and
in mode calls at most MOST_MORE more than the shared build's. Anything else is written out and makes the command fail.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.registry import Entry
from farlane.frontend.devtools.toolchain import Toolchain, ToolchainError, install
from farlane.frontend.embedded import EmbeddedHost
from native_builds import REGISTRY, VARYING, Row, one_level

MODES = ("none", "calls", "loops")
RESULT = Path(__file__).with_name("stripped.txt")
ON = {"FARLANE_INTEROP": "1"}
# The embedded runtime starts with questions of its own.
MOST_MORE = 2


def stripped(entry: Entry, toolchain: Toolchain, row: Row, folder: Path) -> list[str]:
    """The command of the static build without its symbol table."""
    program, *arguments = entry.compiled(toolchain, row.build())
    copy = folder / Path(program).name
    shutil.copy2(program, copy)
    subprocess.run(["strip", copy], check=True)
    return [str(copy), *arguments]


def outcome(guest: Guest, entry: Entry, command: list[str]) -> tuple[list[int], str]:
    """The round trips of each mode, and what is wrong."""
    trips = []
    for mode in MODES:
        try:
            done = guest.run(command, mode, timeout=300, extra=ON)
        except subprocess.TimeoutExpired:
            return trips, f"mode {mode}: not done in 300 s"
        trips.append(done.report.round_trips)
        if (done.status, done.stdout, done.stderr) != (0, entry.expected, ""):
            said = (done.stderr or done.stdout).replace(f"{REGISTRY.parent}/", "")[-200:]
            return trips, f"mode {mode}: status {done.status}, {said!r}"
    return trips, ""


def line(guest: Guest, entry: Entry, toolchain: Toolchain, optimization: int) -> tuple[str, bool]:
    name = toolchain.specification.name
    head = f"{entry.name} {name} -O{optimization}:"
    shared = entry.compiled(toolchain, Row(name, optimization, "sm", "shared").build())
    before = guest.run(shared, "calls", timeout=300, extra=ON).report.round_trips
    with tempfile.TemporaryDirectory(prefix="farlane-stripped-") as folder:
        command = stripped(entry, toolchain, Row(name, optimization, "sm", "static"), Path(folder))
        trips, wrong = outcome(guest, entry, command)
    if wrong:
        return f"{head} {wrong}", False
    if entry.sources[0].stem in VARYING:
        return f"{head} the expected output; round trips vary with its threads", True
    return f"{head} {trips}, mode calls of the shared build {before}", trips[1] <= before + MOST_MORE


def main() -> int:
    parser = argparse.ArgumentParser(description="Stripped builds of tests/native.")
    parser.add_argument("--toolchains", default="13.0,13.5")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    names = set(filter(None, options.only.split(",")))
    entries = [entry for entry in registry.load(REGISTRY) if not entry.helper]
    # With --only the other lines stay.
    lines = RESULT.read_text().splitlines() if names and RESULT.exists() else []
    good = True
    with EmbeddedHost("sim") as host:
        guest = Guest(host.url)
        for name in options.toolchains.split(","):
            try:
                toolchain = install(name)
            except ToolchainError as error:
                lines.append(f"{name}: not run: {error}")
                continue
            for entry in entries:
                if names and entry.name not in names:
                    continue
                if toolchain.specification.compiler in entry.compilers and not entry.build.driver:
                    text, fine = line(guest, entry, toolchain, one_level(entry))
                    text = text if fine else f"FAILED {text}"
                    print(text, flush=True)
                    head = text.removeprefix("FAILED ").partition(":")[0]
                    place = next(
                        (at for at, old in enumerate(lines) if old.removeprefix("FAILED ").startswith(f"{head}:")),
                        len(lines),
                    )
                    lines[place : place + 1] = [text.replace("\n", " ")]
                    good = good and fine
                    RESULT.write_text("\n".join(lines) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
