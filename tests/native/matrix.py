"""Runs every program of tests/native with its runtime shared and linked in, in all three modes, and writes one line each to matrix.txt.

Usage: python tests/native/matrix.py [--toolchains 13.0,13.5] [--only NAME,NAME]

A line has the round trips of modes none, calls and loops. "same" says that the static build printed what is expected and made exactly the
shared build's round trips; anything else is written out and makes the command fail.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.registry import Entry
from farlane.frontend.devtools.toolchain import SPECIFICATIONS, Toolchain, ToolchainError, install
from farlane.frontend.embedded import EmbeddedHost
from native_builds import REGISTRY, Row

MODES = ("none", "calls", "loops")
RESULT = Path(__file__).with_name("matrix.txt")
# How far the host runs ahead depends on its speed, and so do the round trips that this saves.
SETTINGS = {"FARLANE_AHEAD": "off"}
# Several threads wait for each other's work: their round trips differ from run to run.
VARYING = ("threads",)


def outcome(guest: Guest, entry: Entry, toolchain: Toolchain, row: Row) -> tuple[list[int], str]:
    """The round trips of each mode, and what is wrong."""
    trips, wrong = [], ""
    command = entry.compiled(toolchain, row.build())
    # The host keeps images: sending one that it has not seen costs round trips in mode none.
    guest.run(command, "calls", timeout=300, extra=SETTINGS)
    for mode in MODES:
        done = guest.run(command, mode, timeout=300, extra=SETTINGS)
        trips.append(done.report.round_trips)
        if (done.status, done.stdout, done.stderr) != (0, entry.expected, ""):
            wrong = wrong or f"mode {mode}: status {done.status}, {(done.stderr or done.stdout)[-200:]!r}"
    return trips, wrong


def line(guest: Guest, entry: Entry, toolchain: Toolchain, optimization: int) -> tuple[str, bool]:
    name = toolchain.specification.name
    found = {}
    for cudart in ("shared", "static"):
        trips, wrong = outcome(guest, entry, toolchain, Row(name, optimization, "sm", cudart))
        if wrong:
            return f"{entry.name} {name} -O{optimization}: {cudart}: {wrong}", False
        found[cudart] = trips
    if entry.sources[0].stem in VARYING:
        return f"{entry.name} {name} -O{optimization}: the same output; round trips vary with its threads", True
    same = found["shared"] == found["static"]
    said = "same" if same else f"static {found['static']}"
    return f"{entry.name} {name} -O{optimization}: shared {found['shared']}, {said}", same


def main() -> int:
    parser = argparse.ArgumentParser(description="Static and shared builds of tests/native, side by side.")
    parser.add_argument("--toolchains", default=",".join(SPECIFICATIONS))
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    names = set(filter(None, options.only.split(",")))
    entries = [e for e in registry.load(REGISTRY) if not e.helper and (not names or e.name in names)]
    lines, good = [], True
    with EmbeddedHost("sim") as host:
        guest = Guest(host.url)
        for name in options.toolchains.split(","):
            try:
                toolchain = install(name)
            except ToolchainError as error:
                lines.append(f"{name}: not run: {error}")
                continue
            for index, entry in enumerate(entries):
                if toolchain.specification.compiler in entry.compilers:
                    text, fine = line(guest, entry, toolchain, 3 if index % 2 else 0)
                    print(text, flush=True)
                    lines.append(text)
                    good = good and fine
                    if not names:
                        RESULT.write_text("\n".join(lines) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
