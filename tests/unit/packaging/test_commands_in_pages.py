"""The commands that pages name: `farlane` has them with these options, the Makefile has the targets, and scripts are where they are said to be.

Whole lines of blocks are parsed by the real parser. Of what stands in a sentence, and of lines that show a choice ([--once | --json]), the
commands and options must be there. Nothing is run: tests/e2e/commands/test_pages.py does that.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from farlane.frontend.cli import full_parser

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("docs", "protos", "benchmarks", "analyzer", "examples")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])

FENCED = re.compile(r"^ *```([^\n]*)\n(.*?)^ *```$", re.M | re.S)
INDENTED = re.compile(r"(?:^(?: {4}|\t)(?! *- )[^\n]*\n(?:[ \t]*\n)*)+", re.M)
INLINE = re.compile(r"`([^`]+)`")
START = r"(?:^|[;&|(])\s*(?:[A-Z_]+=\S*\s+)*"
COMMAND = re.compile(START + r"farlane\s+(?!report \()([^\n]*)")  # a report begins "farlane report ("
MAKE = re.compile(START + r"make\s+([a-z][a-z -]*)")
SCRIPT = re.compile(START + r"python3?\s+((?:[\w-]+/)+[\w-]+\.py)")
OPERATORS = re.compile(r"[|&;<>()]+|\d?>.*")
SHOWN = re.compile(r"\[|\.\.\.|…|--\S+\|")  # a choice, or something left out: no line to type


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(text: str) -> Iterator[str]:
    """The blocks of commands: fenced ones that are no output, and indented ones."""
    for language, block in FENCED.findall(text):
        if language.split(" ")[0] in ("", "bash", "sh", "console"):
            yield block
    yield from INDENTED.findall(FENCED.sub("", text))


def lines(page: Path) -> Iterator[str]:
    """The lines of a page's blocks, continued ones joined, without comments."""
    for block in blocks(page.read_text()):
        joined = re.sub(r"\s*\\\n\s*|\n\s+(?=\[?--)", " ", block)
        yield from (re.sub(r"\s#.*", "", line) for line in joined.splitlines())


def inline(page: Path) -> Iterator[str]:
    """The pieces of code within a page's sentences."""
    for code in INLINE.findall(FENCED.sub("", page.read_text())):
        yield re.sub(r"\s+", " ", code)


def commands(texts: Iterable[str]) -> Iterator[str]:
    """What follows `farlane` in each."""
    for text in texts:
        yield from COMMAND.findall(text)


def words(command: str) -> list[str]:
    """The words of one command, up to an operator of the shell."""
    reader = shlex.shlex(command, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    with contextlib.suppress(ValueError):  # a quote that an outer one of $(...) ends
        found: list[str] = []
        for word in reader:
            if OPERATORS.fullmatch(word):
                break
            found.append(word)
        return found
    return command.split()


@functools.cache
def parser() -> argparse.ArgumentParser:
    return full_parser()


def sub(of: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser | None:
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices.get(name)
    return None


def unknown(command: str) -> list[str]:
    """The command, subcommand and options that are not there."""
    found = parser()
    for word in re.findall(r"[^\s\[\]|,]+", command.split(" -- ")[0]):
        inner = sub(found, word)
        if inner is not None:
            found = inner
            continue
        option = re.fullmatch(r"--[a-z][a-z-]*(=.*)?", word)
        known = word.split("=")[0] in found._option_string_actions if option else found is not parser()
        if not known and word != "COMMAND":
            return [word]
    return []


def refused(command: str) -> str:
    """Why the parser refuses a line; empty when it does not."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            parser().parse_args(words(command))
    except SystemExit as ended:
        why = errors.getvalue().strip().splitlines()[-1:] if ended.code else []
        return "".join(line for line in why if "'$" not in line)  # the shell's variables have their values when it runs
    return ""


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.M))


def test_commands_and_options_are_there() -> None:
    texts = ((name(page), command) for page in PAGES for command in commands((*lines(page), *inline(page))))
    assert [(page, command, lost) for page, command in texts if (lost := unknown(command))] == []


def test_lines_are_parsed() -> None:
    typed = ((name(page), command) for page in PAGES for command in commands(lines(page)) if not SHOWN.search(command))
    assert [(page, command, why) for page, command in typed if (why := refused(command))] == []


def test_targets_and_scripts_are_there() -> None:
    lost = []
    for page in PAGES:
        texts = [*lines(page), *inline(page)]
        named = {target for text in texts for made in MAKE.findall(text) for target in made.split()}
        scripts = {script for text in texts for script in SCRIPT.findall(text)}
        lost += [(name(page), target) for target in named - targets()]
        lost += [
            (name(page), script) for script in scripts if not any((at / script).exists() for at in (ROOT, page.parent))
        ]
    assert lost == []


def test_what_is_not_there_is_found() -> None:
    """The checks above would otherwise pass for pages in which they see nothing."""
    assert unknown("run --device sim -- ./app --of-its-own") == []
    assert unknown("token create [--wait N | --days N]") == ["--wait"]
    assert unknown("go -- ./app") == ["go"]
    assert refused("session save s1 /backup --leave") == ""
    assert "invalid choice" in refused("run --defer some -- ./app")
    assert sum(1 for page in PAGES for _ in commands(lines(page))) > 100
