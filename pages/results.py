"""`make results`: measures what takes minutes, and writes the tables and plots of docs/results from the data.

Usage: python pages/results.py [--tables | --only AREA[/TABLE],... | --all] [--busy]

A measurement replaces the tables of its command in docs/results/data (tables.py); adapters/ says which commands there are,
and reads what they print. Times are measured on a quiet machine only (it waits for one, for minutes), so that they do not replace better ones;
counts and bytes at any time.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import adapters
import plots
import tables
from adapters.reading import Source, Suite, Unreadable

ROOT = tables.ROOT
BUSY = 0.75  # load of a processor above which times say little
SETTLES = 180.0  # seconds in which the load of the measurement before is gone
BIN = Path(sys.executable).parent


def processor() -> str:
    match = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return match[1] if match else platform.machine()


def environment() -> dict[str, str]:
    """`python` and `farlane` are this environment's."""
    return os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}


def printed(command: str, statuses: tuple[int, ...]) -> str:
    """What a command prints. Ends this one when it fails: nothing half measured is written."""
    print(f"{command} ...", flush=True)
    done = subprocess.run(
        ["bash", "-c", f"exec env {command}"], cwd=ROOT, env=environment(), capture_output=True, text=True
    )
    if done.returncode not in statuses:
        raise SystemExit(f"{command} ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def measure(source: Source) -> None:
    """Puts the source's tables into the data, and writes them into the page."""
    before = os.getloadavg()[0]
    outputs = [printed(command, source.statuses) for command in source.commands]
    load = f"load {before:.1f} to {os.getloadavg()[0]:.1f}" + ("; counts are exact" if source.exact else "")
    try:
        found = source.read(*(outputs if source.each else ["\n".join(outputs)]))
    except (Unreadable, KeyError, ValueError, IndexError) as error:
        path = ROOT / ".cache/unread.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(outputs))
        raise SystemExit(f"{source.commands[0]}: {error!r}; what it printed is in {path.relative_to(ROOT)}") from error
    how = " and ".join(f"`{command}`" for command in source.commands)
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    machine = f"{processor()}, {os.cpu_count()} processors"
    there = tables.load(source.page)
    for name, table in found.items():
        there[name] = tables.Measured(how, day, machine, load, table.head, table.rows, table.notes)
    tables.save(source.page, there)


def quiet() -> bool:
    """Waits for the load that the measurement before has left to go. False: something else keeps the machine busy."""
    ends = time.monotonic() + SETTLES
    while (busy := os.getloadavg()[0] > BUSY * (os.cpu_count() or 1)) and time.monotonic() < ends:
        time.sleep(5)
    return not busy


def wanted(words: str) -> Iterable[Source | Suite]:
    """The sources and suites of areas (`slots`) and of single tables (`slots/waits`)."""
    for word in words.split(","):
        area, _, table = word.partition("/")
        found: list[Source | Suite] = [
            each for each in adapters.SOURCES if each.page == area and (not table or table in each.tables)
        ]
        found += [each for each in adapters.SUITES if each.page == area and not table]
        if not found:
            known = sorted(
                f"{each.page}/{name}" for each in adapters.SOURCES for name in each.tables if each.page == area
            )
            raise SystemExit(f"nothing measures {word}; there are {', '.join(known or adapters.AREAS)}")
        yield from found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--tables", action="store_true", help="measure nothing: write tables and plots from the data")
    which.add_argument("--only", metavar="AREAS", help=f"of {', '.join(adapters.AREAS)}, with commas; or AREA/TABLE")
    which.add_argument("--all", action="store_true", help="every area, the slow ones too; many hours")
    parser.add_argument("--busy", action="store_true", help="measure times although the machine is busy")
    arguments = parser.parse_args()
    chosen: list[Source | Suite] = [each for each in adapters.SOURCES if each.quick]
    if arguments.tables:
        chosen = []
    elif arguments.only:
        chosen = list(wanted(arguments.only))
    elif arguments.all:
        chosen = [*adapters.SOURCES, *adapters.SUITES]
    left_out = []
    for each in chosen:
        if isinstance(each, Suite):
            subprocess.run(shlex.split(each.command), cwd=ROOT, env=environment(), check=True)
        elif each.exact or arguments.busy or quiet():
            measure(each)
        else:
            left_out.append(each.commands[0])
    tables.write_all()
    plots.draw_all()
    if left_out:
        print(f"not measured, since the machine is busy (load {os.getloadavg()[0]:.1f}); --busy measures nevertheless:")
        print("\n".join(f"    {command}" for command in left_out))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
