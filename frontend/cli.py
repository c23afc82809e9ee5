"""The `farlane` command: finds its subcommands and runs one.

Owns nothing but the dispatch. A subcommand is an object with `help`, `add_arguments(parser)` and `run(arguments) -> exit status`,
registered in the entry-point group "farlane.commands": frontend, backend and analyzer each bring their own, and none imports
another. A subcommand whose module cannot be imported (an extra that is not installed) is listed with the reason.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.metadata import entry_points, version
from typing import Protocol

GROUP = "farlane.commands"


class Command(Protocol):
    """What an entry point of the group "farlane.commands" must be."""

    help: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


def load_commands(wanted: str | None = None) -> tuple[dict[str, Command], dict[str, str]]:
    """The subcommands by name, and for those that cannot be loaded the reason.

    Args:
        wanted: load this one alone, when there is one of that name: the others' modules take time.
    """
    commands: dict[str, Command] = {}
    broken: dict[str, str] = {}
    entries = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    for entry in [entry for entry in entries if entry.name == wanted] or entries:
        try:
            commands[entry.name] = entry.load()
        except ImportError as error:
            broken[entry.name] = str(error)
    return commands, broken


def build_parser(commands: dict[str, Command], broken: dict[str, str]) -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="farlane",
        description="Run CUDA programs unchanged where there is no GPU: their calls are batched and replayed on a host.",
        epilog="; ".join(f"{name} is not available: {reason}" for name, reason in broken.items()) or None,
    )
    parser.add_argument("--version", action="version", version=f"farlane {version('farlane')}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in commands.items():
        sub = subparsers.add_parser(name, help=command.help, description=command.help)
        command.add_arguments(sub)
        sub.set_defaults(execute=command.run)
    return parser


def have_standard_streams() -> None:
    """Opens /dev/null in the place of standard streams that are closed, for us and for what we start.

    Without it the next pipe or socket takes the number 0, 1 or 2, and whoever writes to standard output writes into it.
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
    commands, broken = load_commands(given[0] if given else None)
    arguments = build_parser(commands, broken).parse_args(argv)
    try:
        status = arguments.execute(arguments)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 141
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main())
