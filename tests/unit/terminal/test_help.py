"""Help texts: every command and every part of one has examples, each example is a call that its parser takes, and one tone."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest
from farlane.frontend import cli
from farlane.terminal.examples import examples_of, parts_of, walk

ROOT = Path(__file__).resolve().parents[3]
PARSER = cli.full_parser()
PARSERS = list(walk(PARSER))
SHELL = {"|", ">", "2>", ">>", "&&"}


def parse(command: str) -> argparse.Namespace:
    """The call as the parser takes it, up to what the shell does with its output."""
    words = shlex.split(command)
    end = next((index for index, word in enumerate(words) if word in SHELL), len(words))
    assert words[0] == "farlane"
    return PARSER.parse_args(words[1:end])


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.prog)
def test_every_parser_has_examples_that_it_takes(parser: argparse.ArgumentParser) -> None:
    examples = examples_of(parser)
    assert examples
    for command, meaning in examples:
        assert command.startswith(parser.prog), command
        assert meaning[0].islower() or not meaning[0].isalpha(), meaning
        assert not meaning.endswith("."), meaning
        if "--help" in command:
            with pytest.raises(SystemExit):
                parse(command)
        else:
            assert parse(command).command == command.split()[1]
        assert command in parser.format_help()


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.prog)
def test_every_option_says_what_it_is(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:
        if action.dest != "command" and action.dest != "part":
            assert action.help, action.dest
            assert not action.help.endswith("."), action.help
            assert not action.help[0].isupper() or action.help.split()[0].isupper(), action.help
    assert parser.description
    assert parser.description.endswith(".")


def test_an_example_that_is_wrong_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse("farlane run --no-such-option -- ./app")
    assert caught.value.code == 2
    assert "--no-such-option" in capsys.readouterr().err


def test_the_page_lists_what_prints_json() -> None:
    page = " ".join((ROOT / "docs/reference/exit-statuses.md").read_text().split())
    said = re.search(r"`--json` \(([a-z, ]+)\)", page)
    assert said is not None
    printing = [
        name for name, parser in parts_of(PARSER).items()
        for action in parser._actions if "--json" in action.option_strings and action.nargs == 0
    ]  # fmt: skip
    assert said[1].split(", ") == sorted(printing)


def test_every_command_is_there() -> None:
    assert set(parts_of(PARSER)) == set(cli.installed())
