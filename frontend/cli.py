"""The `farlane` command: finds its subcommands and runs one.

Owns nothing but the dispatch. A subcommand is an object with `add_arguments(parser)` and `run(arguments) -> exit status`,
registered in the entry-point group "farlane.commands": frontend, backend and analyzer each bring their own, and none imports
another. The package that its module is in says in `HELP` what it does: only the command that runs is imported.
"""

from __future__ import annotations

import argparse
import glob
import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from farlane.terminal import statuses
from farlane.terminal.examples import add_examples, sentence

DISTRIBUTION = "farlane"
GROUP = "farlane.commands"
EXAMPLES = (
    ("farlane run -- ./app arguments", "run a CUDA program on the simulated device"),
    ("farlane run --host grpc://127.0.0.1:7070 -- ./app", "run it on a host that `farlane serve` has started"),
    ("farlane analyze ./app", "show its loops with CUDA calls"),
    ("farlane doctor ./app", "find out why it does not run, and what to do"),
    ("farlane run --help", "show the options of a command, with examples; `man farlane-run` shows them as well"),
)


class Command(Protocol):
    """What an entry point of the group "farlane.commands" must be."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


class Entry(NamedTuple):
    """Where a subcommand is."""

    module: str
    attribute: str

    def load(self) -> Command:
        command: Command = getattr(importlib.import_module(self.module), self.attribute)
        return command


def installed() -> dict[str, Entry]:
    """The subcommands' entry points by name, none of them loaded.

    Read from this distribution's own file: `importlib.metadata` takes a third of the time of a command that does little.
    """
    for folder in sys.path:
        for file in glob.glob(os.path.join(glob.escape(folder), f"{DISTRIBUTION}-*.dist-info", "entry_points.txt")):
            with open(file, encoding="utf-8") as text:
                return dict(sorted(_entries(text)))
    raise SystemExit(f"{DISTRIBUTION} is not installed: its entry points are nowhere on Python's path")


def _entries(lines: Iterable[str]) -> Iterator[tuple[str, Entry]]:
    group = ""
    for line in map(str.strip, lines):
        if line.startswith("["):
            group = line.strip("[]")
        elif group == GROUP and line:
            name, _, place = line.partition("=")
            module, _, attribute = place.strip().partition(":")
            yield name.strip(), Entry(module, attribute)


def summaries(entries: Mapping[str, Entry]) -> dict[str, str]:
    """What each subcommand does, in a line: from `HELP` of the package that its module is in, so that no command is loaded."""
    packages = {name: importlib.import_module(entry.module.rpartition(".")[0]) for name, entry in entries.items()}
    return {name: str(package.HELP[name]) for name, package in packages.items()}


def build_parser(summaries: Mapping[str, str], commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """The command line.

    Args:
        summaries: one line for each subcommand.
        commands: those whose arguments are known, too.
    """
    parser = argparse.ArgumentParser(
        prog="farlane",
        description="Run CUDA programs unchanged where there is no GPU: their calls are batched and replayed on a host.",
    )
    add_examples(parser, *EXAMPLES)
    parser.add_argument("--version", action=_Version)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in summaries.items():
        sub = subparsers.add_parser(name, help=summary, description=sentence(summary))
        if name in commands:
            commands[name].add_arguments(sub)
            sub.set_defaults(execute=commands[name].run)
    return parser


def full_parser() -> argparse.ArgumentParser:
    """The command line with the arguments of all commands. Imports them all, which takes seconds."""
    entries = installed()
    return build_parser(summaries(entries), {name: entry.load() for name, entry in entries.items()})


class _Version(argparse.Action):
    """Prints the version, which is looked up only then."""

    def __init__(self, option_strings: list[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"farlane {version(DISTRIBUTION)}")
        parser.exit()


def have_standard_streams() -> None:
    """Opens /dev/null in the place of standard streams that are closed, for us and for what we start.

    Without it the next pipe or socket takes the number 0, 1 or 2, and code that writes to standard output writes into it.
    """
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        os.set_inheritable(descriptor, True)
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def main(argv: list[str] | None = None) -> int:
    """Entry point of the `farlane` script."""
    have_standard_streams()
    given = sys.argv[1:] if argv is None else argv
    entries = installed()
    commands: dict[str, Command] = {}
    if given and given[0] in entries:
        name = given[0]
        entries = {name: entries[name]}
        try:
            commands[name] = entries[name].load()
        except ImportError as error:
            print(f"farlane: {name} is not available: {error}", file=sys.stderr)
            return statuses.FAILED
    arguments = build_parser(summaries(entries), commands).parse_args(argv)
    try:
        status = arguments.execute(arguments)
    except KeyboardInterrupt:
        return statuses.INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return statuses.BROKEN_PIPE
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main())
