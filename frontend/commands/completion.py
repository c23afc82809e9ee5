"""`farlane completion`: what makes a shell complete Farlane's commands and options.

The script is shtab's, from the parsers of all commands: what it completes needs no Python while a user types.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from farlane.terminal.examples import add_examples, walk

SHELLS = ("bash", "zsh", "fish")
FILES = {"FILE", "OUT"}
FOLDERS = {"DIR", "FOLDER"}


class CompletionCommand:
    """Prints the script for a shell."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_examples(
            parser,
            (
                "farlane completion bash > ~/.local/share/bash-completion/completions/farlane",
                "for bash with the package bash-completion; else source the file in ~/.bashrc",
            ),
            ("farlane completion zsh > ~/.zfunc/_farlane", "for zsh, whose fpath names ~/.zfunc before compinit"),
            ("farlane completion fish > ~/.config/fish/completions/farlane.fish", "for fish"),
        )
        parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")

    def run(self, arguments: argparse.Namespace) -> int:
        print(script(arguments.shell))
        return 0


def script(shell: str) -> str:
    """The script for a shell. Imports all commands, which takes seconds."""
    import shtab
    from farlane.frontend.cli import full_parser

    parser = full_parser()
    for part in walk(parser):
        for action in part._actions:
            if _names_a_file(action):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif action.metavar in FOLDERS:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    return shtab.complete(parser, shell)


def _names_a_file(action: argparse.Action) -> bool:
    if isinstance(action.metavar, str) and action.metavar in FOLDERS:
        return False
    return action.type is Path or action.metavar in FILES or action.nargs == argparse.REMAINDER


command = CompletionCommand()
