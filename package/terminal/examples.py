"""Examples in the help of a command: each is one line that a shell takes, with a sentence on what it does.

They stand in the parser's epilog. The manual pages show them, and a test parses each with the parser that it belongs to.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Parsers = argparse._SubParsersAction[argparse.ArgumentParser]

HEADING = "examples:"
_COMMAND, _MEANING = "  ", "      "


def add_examples(parser: argparse.ArgumentParser, *examples: tuple[str, str]) -> None:
    """Adds examples to the parser's help.

    Args:
        parser: the parser of a command, or of a part of one.
        examples: (command line, what it does), the most common use first.
    """
    lines = [HEADING]
    for command, meaning in examples:
        lines += [f"{_COMMAND}{command}", f"{_MEANING}{meaning}"]
    parser.epilog = "\n".join(lines)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def add_part(parts: Parsers, name: str, summary: str, *examples: tuple[str, str]) -> argparse.ArgumentParser:
    """Adds a part of a command (`farlane sim run`), with its summary and its examples."""
    part = parts.add_parser(name, help=summary, description=sentence(summary))
    add_examples(part, *examples)
    return part


def sentence(summary: str) -> str:
    """A summary as the first paragraph of a help text."""
    return f"{summary[:1].upper()}{summary[1:]}." if summary else ""


def examples_of(parser: argparse.ArgumentParser) -> list[tuple[str, str]]:
    """The parser's examples: (command line, what it does)."""
    lines = (parser.epilog or "").splitlines()
    if HEADING not in lines:
        return []
    shown = lines[lines.index(HEADING) + 1 :]
    return [(command.strip(), meaning.strip()) for command, meaning in zip(shown[::2], shown[1::2], strict=True)]


def parts_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of a command's parts, by name."""
    return {
        name: part
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, part in action.choices.items()
    }


def walk(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser, and those of all its parts."""
    yield parser
    for part in parts_of(parser).values():
        yield from walk(part)
