"""Runs every program of tests/native with its runtime shared and linked in, in all three modes, and writes one line each to matrix.txt.

Usage: python tests/native/matrix.py [--toolchains 13.0,13.5] [--only NAME,NAME] [--continue]

A line has the round trips of modes none, calls and loops. "same" says that the static build printed what is expected and made exactly the
shared build's round trips; anything else is written out and makes the command fail.

A whole run takes hours on a small machine. matrix.txt is written after each program, and `--continue` keeps the good lines of a run that
was cut off: it runs what has no line there, or a bad one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.registry import Entry
from farlane.frontend.devtools.toolchain import SPECIFICATIONS, Toolchain, ToolchainError, install
from farlane.frontend.embedded import EmbeddedHost
from native_builds import MODES, REGISTRY, VARYING, Row, one_level

RESULT = Path(__file__).with_name("matrix.txt")
SAME_OUTPUT = "the same output; round trips vary with its threads"
LONGEST = 900  # seconds that one run may take


@dataclass(frozen=True)
class Cell:
    """A program, the toolchain that builds it, and the digit of -O."""

    entry: Entry
    toolchain: str
    optimization: int

    def __str__(self) -> str:
        return f"{self.entry.name} {self.toolchain} -O{self.optimization}"


def cells(toolchains: list[str], names: set[str]) -> Iterator[Cell]:
    for toolchain in toolchains:
        for entry in (e for e in registry.load(REGISTRY) if not e.helper):
            if SPECIFICATIONS[toolchain].compiler in entry.compilers and (not names or entry.name in names):
                yield Cell(entry, toolchain, one_level(entry))


def outcome(guest: Guest, cell: Cell, toolchain: Toolchain, cudart: str) -> tuple[list[int], str]:
    """The round trips of each mode, and what is wrong."""
    trips, wrong = [], ""
    command = cell.entry.compiled(toolchain, Row(cell.toolchain, cell.optimization, "sm", cudart).build())
    # The host keeps images: sending one that it has not seen costs round trips in mode none.
    guest.run(command, "calls", timeout=LONGEST)
    for mode in MODES:
        done = guest.run(command, mode, timeout=LONGEST)
        trips.append(done.report.round_trips)
        if (done.status, done.stdout, done.stderr) != (0, cell.entry.expected, ""):
            wrong = wrong or f"mode {mode}: status {done.status}, {(done.stderr or done.stdout)[-200:]!r}"
    return trips, wrong


def measured(guest: Guest, cell: Cell, toolchain: Toolchain) -> str:
    """What is to be said about a program."""
    found = {}
    for cudart in ("shared", "static"):
        try:
            trips, wrong = outcome(guest, cell, toolchain, cudart)
        except subprocess.TimeoutExpired:
            wrong = f"a run took longer than {LONGEST} s"
        if wrong:
            return f"{cudart}: {wrong}"
        found[cudart] = trips
    if cell.entry.sources[0].stem in VARYING:
        return SAME_OUTPUT
    same = found["shared"] == found["static"]
    return f"shared {found['shared']}, " + ("same" if same else f"static {found['static']}")


def good(text: str) -> bool:
    return text == SAME_OUTPUT or (text.startswith("shared [") and text.endswith("], same"))


def kept() -> dict[str, str]:
    """The good lines of the last run, by what they are about."""
    lines = [line.partition(": ") for line in RESULT.read_text().splitlines()] if RESULT.exists() else []
    return {about: text for about, _, text in lines if good(text)}


def main() -> int:
    parser = argparse.ArgumentParser(description="Static and shared builds of tests/native, side by side.")
    parser.add_argument("--toolchains", default=",".join(SPECIFICATIONS))
    parser.add_argument("--only", default="", help="programs; what is in matrix.txt about others stays")
    parser.add_argument("--continue", dest="resume", action="store_true", help="keep the good lines of matrix.txt")
    options = parser.parse_args()
    names = set(filter(None, options.only.split(",")))
    lines = kept() if options.resume or names else {}
    everything = [str(cell) for cell in cells(list(SPECIFICATIONS), set())]
    toolchains: dict[str, Toolchain | ToolchainError] = {}
    fine = True
    with EmbeddedHost("sim") as host:
        guest = Guest(host.url)
        for cell in cells(options.toolchains.split(","), names):
            if str(cell) in lines and not names:
                continue
            try:
                toolchain = toolchains.get(cell.toolchain) or install(cell.toolchain)
            except ToolchainError as error:
                toolchain = error
            toolchains[cell.toolchain] = toolchain
            if isinstance(toolchain, ToolchainError):
                lines[str(cell)] = f"not run: {toolchain}"
            else:
                lines[str(cell)] = measured(guest, cell, toolchain)
            print(f"{cell}: {lines[str(cell)]}", flush=True)
            fine = fine and good(lines[str(cell)])
            RESULT.write_text("".join(f"{about}: {lines[about]}\n" for about in everything if about in lines))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
