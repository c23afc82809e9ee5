"""Manual pages from the parsers of the commands: one page for `farlane`, one for each command.

Usage: python frontend/devtools/manual.py [--check]    (writes frontend/man/generated, or compares it)

Owns the form of a page (man(7), as groff and mandoc read it). What a page says comes from the parsers, from the table of exit
statuses, and from the list of variables here. The pages are in the repository, because a wheel is built where the commands'
own requirements are not installed. The launcher's page, for the Debian package, is made from what `farlane-run --help` prints.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from farlane.frontend import cli
from farlane.terminal import statuses
from farlane.terminal.examples import examples_of, parts_of, sentence

FOLDER = Path(__file__).resolve().parents[1] / "man" / "generated"
VARIABLES = {
    "FARLANE_HOST": "The host's URL, where --host is not given.",
    "FARLANE_CA": "The host's ca.pem, where --ca is not given.",
    "FARLANE_TOKEN": "The guest's token.",
    "FARLANE_TOKEN_FILE": "A file with the guest's token, where --token-file is not given.",
    "FARLANE_CERTIFICATE": "The guest's client certificate, in place of a token; FARLANE_KEY names its key.",
    "FARLANE_DEFER": "The deferral mode, where --defer is not given: none, calls or loops.",
    "FARLANE_CHECK": "What to look for in kernels, where --check is not given.",
    "NO_COLOR": "Not empty: no colours.",
}


def escaped(text: str) -> str:
    """Text as roff takes it."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text


def bold(text: str) -> str:
    return f"\\fB{escaped(text)}\\fR"


def italic(text: str) -> str:
    return f"\\fI{escaped(text)}\\fR"


def _head(name: str, summary: str) -> list[str]:
    return [
        f'.TH "{escaped(name.upper())}" "1" "" "Farlane" "Farlane"',
        '.SH "NAME"',
        f"{escaped(name)} \\- {escaped(summary)}",
    ]


def _value(action: argparse.Action) -> str:
    """What stands behind an option, or for a positional argument."""
    if action.nargs == 0:
        return ""
    name = action.metavar if isinstance(action.metavar, str) else None
    if name is None and action.choices is not None:
        name = "|".join(map(str, action.choices))
    text = italic(name or action.dest.upper().replace("_", "-"))
    return f"[{text}]" if action.nargs == "?" else f"{text} ..." if action.nargs == "+" else text


def _help(action: argparse.Action, prog: str) -> str:
    values = {name: value for name, value in vars(action).items() if value is not argparse.SUPPRESS} | {"prog": prog}
    return (action.help or "") % values


def _shown(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if action.help is not argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction):
            yield action


def _synopsis(parser: argparse.ArgumentParser) -> str:
    words = [bold(parser.prog), f"[{italic('option')} ...]"]
    words += [_value(action) for action in _shown(parser) if not action.option_strings]
    words += [f"{italic('COMMAND')} ..."] if parts_of(parser) else []
    return " ".join(words)


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in _shown(parser):
        yield ".TP"
        if action.option_strings:
            value = _value(action)
            yield ", ".join(bold(name) for name in action.option_strings) + (f" {value}" if value else "")
        else:
            yield _value(action)
        yield escaped(sentence(_help(action, parser.prog)))


def _examples(parser: argparse.ArgumentParser) -> Iterator[str]:
    for command, meaning in examples_of(parser):
        yield from (".TP", bold(command), escaped(sentence(meaning)))


def _statuses(name: str) -> Iterator[str]:
    yield '.SH "EXIT STATUS"'
    for row in statuses.TABLE:
        if name == "farlane" or row.command == "all" or name.removeprefix("farlane-") in _commands(row.command):
            yield from (".TP", bold(row.status), escaped(row.meaning))


def _commands(text: str) -> set[str]:
    return {each.split()[0] for each in text.split(", ")}


def page(parser: argparse.ArgumentParser, summary: str) -> str:
    """The page of a command, or of `farlane`."""
    name = parser.prog.replace(" ", "-")
    lines = [*_head(name, summary), '.SH "SYNOPSIS"']
    parts = parts_of(parser)
    commands = name == "farlane"
    own = [parser] if commands or not parts else list(parts.values())
    for index, each in enumerate(own):
        lines += [*([".br"] if index else []), _synopsis(each)]
    lines += ['.SH "DESCRIPTION"', escaped(parser.description or "")]
    if commands:
        lines.append('.SH "COMMANDS"')
        for command, text in _summaries(parser):
            lines += [".TP", f"{bold(f'farlane-{command}')}(1)", escaped(sentence(text))]
    for each in own:
        if len(own) == 1:
            lines += ['.SH "OPTIONS"', *_options(each)]
        else:
            lines += [f'.SH "{escaped(each.prog.upper())}"', escaped(each.description or ""), *_options(each)]
    lines.append('.SH "EXAMPLES"')
    for each in own:
        lines += _examples(each)
    lines += ['.SH "ENVIRONMENT"']
    for variable, text in VARIABLES.items():
        lines += [".TP", bold(variable), escaped(text)]
    lines += _statuses(name)
    also = [f"farlane-{command}" for command, _ in _summaries(parser)] if commands else ["farlane"]
    lines += ['.SH "SEE ALSO"', ", ".join(f"{bold(one)}(1)" for one in also)]
    return "\n".join(lines) + "\n"


def _summaries(parser: argparse.ArgumentParser) -> list[tuple[str, str]]:
    return [
        (choice.dest, choice.help or "")
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    ]


def launcher_page(text: str) -> str:
    """The page of farlane-run, from its help.

    Raises:
        ValueError: the help has another form.
    """
    paragraphs = text.strip().split("\n\n", 2)
    if len(paragraphs) != 3 or not paragraphs[0].startswith("usage: farlane-run "):
        raise ValueError("the help of farlane-run has no usage, description and options")
    usage, description, options = paragraphs
    lines = _head("farlane-run", "run a CUDA program on a Farlane host")
    lines += ['.SH "SYNOPSIS"', escaped(usage.removeprefix("usage: ")), '.SH "DESCRIPTION"', escaped(description)]
    lines.append('.SH "OPTIONS"')
    for line in options.splitlines():
        if line.startswith("  --"):
            option, _, meaning = line.strip().partition("  ")
            lines += [".TP", bold(option), escaped(meaning.strip() or "Print the version, or the help, and exit.")]
        else:
            lines.append(escaped(line.strip()))
    lines.append('.SH "ENVIRONMENT"')
    for variable, meaning in VARIABLES.items():
        if variable != "NO_COLOR":  # the launcher shows none
            lines += [".TP", bold(variable), escaped(meaning)]
    return "\n".join([*lines, *_statuses("farlane-run")]) + "\n"


def pages() -> dict[str, str]:
    """All pages, by the names of their files."""
    parser = cli.full_parser()
    commands = parts_of(parser)
    found = {"farlane.1": page(parser, "run CUDA programs unchanged where there is no GPU")}
    for name, summary in _summaries(parser):
        found[f"farlane-{name}.1"] = page(commands[name], summary)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes the manual pages.")
    parser.add_argument("--check", action="store_true", help="compare only; status 1 when they differ")
    checking = parser.parse_args().check
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    there = {path.name: path.read_text() for path in FOLDER.glob("*.1")}
    if checking:
        for name in sorted(wanted.keys() | there.keys()):
            if wanted.get(name) != there.get(name):
                print(f"{FOLDER / name} is not what the parsers say: run `make generate`", file=sys.stderr)
        return int(wanted != there)
    for name in there.keys() - wanted.keys():
        (FOLDER / name).unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
