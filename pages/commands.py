"""Writes docs/reference/commands.md from the parsers of `farlane`, or (with --check) says whether it differs.

Usage: python pages/commands.py [--check]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from farlane.frontend import cli

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/commands.md"
HEAD = """# Commands

`make generate` writes this page from the command's own parsers. `farlane COMMAND --help` says the same in a terminal.

"""


def cell(text: str) -> str:
    """A text as it stands in a table: one line, no column ends, and nothing that reads as markup."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "\\<").replace("*", "\\*").strip()


def code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def help_of(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    text = action.help or ""
    if text == argparse.SUPPRESS:
        return ""
    values = {name: value for name, value in vars(action).items() if value is not argparse.SUPPRESS}
    return cell(text % {**values, "prog": parser.prog}) if "%" in text else cell(text)


def spelled(action: argparse.Action) -> str:
    """How an argument is written: its options with the value's name, or the value's name alone."""
    metavar = action.metavar or (action.dest if not action.option_strings else action.dest.upper())
    if action.choices is not None and action.metavar is None:
        metavar = "{" + ",".join(map(str, action.choices)) + "}"
    value = " ".join(metavar) if isinstance(metavar, tuple) else str(metavar)
    if action.nargs == 0:
        value = ""
    elif action.nargs in ("?", "*") and action.option_strings:
        value = f"[{value}]"
    elif action.nargs in ("+", "*"):
        value = f"{value} ..."
    elif action.nargs == argparse.REMAINDER and not action.metavar:
        value = "..."
    if not action.option_strings:
        return code(value)
    return ", ".join(code(f"{option} {value}".strip()) for option in action.option_strings)


def sections(parser: argparse.ArgumentParser, summary: str, level: int) -> Iterator[str]:
    """A command's section, and those of its own subcommands."""
    yield f"{'#' * level} {parser.prog}\n"
    text = cell(parser.description or summary)
    if text:
        yield f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}\n"
    rows, nested = [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            nested += [(each, helps.get(name, "")) for name, each in action.choices.items()]
        elif action.help != argparse.SUPPRESS and not isinstance(action, argparse._HelpAction):
            rows.append(f"| {spelled(action)} | {help_of(action, parser)} |")
    if rows:
        yield "\n".join(["| argument | |", "|---|---|", *rows]) + "\n"
    if parser.epilog:  # a parser's examples
        yield "```text\n" + parser.epilog.strip() + "\n```\n"
    for each, help_text in nested:
        yield from sections(each, help_text, level + 1)


def page() -> str:
    entries = cli.installed()
    summaries = cli.summaries(entries)
    parser = cli.build_parser(summaries, {name: entry.load() for name, entry in entries.items()})
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    lines = ["| command | |", "|---|---|"]
    lines += [f"| [farlane {name}](#farlane-{name}) | {cell(summaries[name])} |" for name in sorted(summaries)]
    parts = ["\n".join(lines) + "\n"]
    for name in sorted(summaries):
        parts += sections(commands.choices[name], summaries[name], 2)
    return HEAD + "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the page would change")
    check = parser.parse_args().check
    text = page()
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    print(f"{'differs' if check else 'wrote'}: docs/reference/commands.md")
    if not check:
        PAGE.write_text(text)
    return int(check)


if __name__ == "__main__":
    sys.exit(main())
