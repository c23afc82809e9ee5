"""`farlane fleet map`: one program over many inputs, on the fleet.

Owns the command line, the bar, and the order of what is printed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import BinaryIO, TextIO

from farlane.backend.commands.sizes import parse_count
from farlane.hosturl.variables import ACCESS, named_host
from farlane.terminal import examples
from farlane.terminal.progress import Progress

RETRIES = 2


class InputError(Exception):
    """The message is for the user."""


def add_part(parts: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Without the cluster's address, which all parts have."""
    part = examples.add_part(
        parts,
        "map",
        "run a program over many inputs, each a task of the Ray cluster: its {} is each of them in turn",
        (
            "farlane fleet map --inputs 1 2 3 -- ./app --seed {}",
            "three runs; what they print comes in the order of the inputs",
        ),
        (
            "farlane fleet map --retries 5 -- ./app {} < names",
            "one run for each line of a file, tried five times more where it fails",
        ),
    )
    part.add_argument("--host", metavar="URL", help="of the fleet's gateway (default: FARLANE_HOST)")
    part.add_argument("--inputs", nargs="+", metavar="INPUT", help="in the place of standard input's lines")
    part.add_argument(
        "--retries",
        type=parse_count,
        default=RETRIES,
        metavar="N",
        help="of each input that fails (default: %(default)s)",
    )
    part.add_argument(
        "--cpus", type=float, default=1.0, metavar="X",
        help="of the cluster's CPUs, for each program: bounds how many run at once (default: 1)",
    )  # fmt: skip
    part.add_argument("program", nargs="+", metavar="-- PROGRAM", help="the program and its arguments, behind --")
    return part


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """The cluster is connected. Raises InputError."""
    from farlane.fleet.cluster.mapping import run_all

    url = named_host(arguments.host)
    if not url:
        raise InputError("name the fleet's gateway: --host URL, or FARLANE_HOST")
    if not arguments.cpus > 0:
        raise InputError("--cpus must be above 0")
    inputs = arguments.inputs or [line for line in (line.rstrip("\n") for line in sys.stdin) if line]
    variables = {name: os.environ[name] for name in ACCESS if name in os.environ}
    outcomes = run_all(
        url, arguments.program, inputs, retries=arguments.retries, cpus=arguments.cpus, variables=variables
    )
    outputs = _InOrder(out.buffer)
    failed: dict[int, str] = {}
    with Progress("programs", len(inputs)) as bar:
        for outcome in outcomes:
            with bar.hidden():
                outputs.add(outcome.number, outcome.output)
            if outcome.error:
                failed[outcome.number] = outcome.error
                bar.begin(f"programs ({len(failed)} failed)")
            bar.advance()
    for number, why in sorted(failed.items()):
        print(f"farlane: {inputs[number]}: {why}", file=sys.stderr)
    if failed:
        tried = f"{1 + arguments.retries} times" if arguments.retries else "once"
        print(f"farlane: {len(failed)} of {_count(inputs)} failed, each tried {tried}", file=sys.stderr)
    return 1 if failed else 0


def _count(inputs: Sequence[str]) -> str:
    return f"{len(inputs)} input{'s' if len(inputs) != 1 else ''}"


class _InOrder:
    """Prints each output once all before it are printed."""

    def __init__(self, to: BinaryIO) -> None:
        self._to = to
        self._kept: dict[int, bytes] = {}
        self._next = 0

    def add(self, number: int, output: bytes) -> None:
        self._kept[number] = output
        while self._next in self._kept:
            self._to.write(self._kept.pop(self._next))
            self._next += 1
        self._to.flush()
