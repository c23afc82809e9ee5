"""The gallery: runs the commands that the examples' pages show, and compares what they print.

Usage: python examples/gallery.py [--python PYTHON] [NAME ...]    (all that need no further packages, or those that are named)

Owns the form of the pages. A page's commands are the lines of its indented blocks that begin with `$ `; the lines below a
command are what it prints, standard output and standard error together. `...` in a line stands for anything, `...` alone for any
lines, `[exit status N]` for its status. `nvcc` is the one from PyPI. A page that says `pip install` needs further packages.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install

FOLDER = Path(__file__).resolve().parent
CLI = [sys.executable, "-m", "farlane.frontend.cli"]
SECONDS = 280
ANY = "..."
_STATUS = re.compile(r"\[exit status (\d+)\]")


class Differs(Exception):
    """A command printed something else than its page says."""


@dataclass
class Command:
    """A command of a page, and what it prints there."""

    line: str
    shown: list[str] = field(default_factory=list)
    status: int = 0


def names() -> list[str]:
    """All examples of the gallery."""
    return sorted(page.parent.name for page in FOLDER.glob("*/README.md"))


def needs_packages(name: str) -> bool:
    return "$ pip install " in (FOLDER / name / "README.md").read_text()


def commands(page: str) -> Iterator[Command]:
    """The commands of a page."""
    command: Command | None = None
    for line in page.splitlines():
        text = line.removeprefix("    ")
        if not line.startswith("    "):
            if command is not None:
                yield command
            command = None
        elif text.startswith("$ "):
            if command is not None:
                yield command
            command = Command(text.removeprefix("$ "))
        elif command is not None and (match := _STATUS.fullmatch(text)):
            command.status = int(match[1])
        elif command is not None:
            command.shown.append(text)
    if command is not None:
        yield command


def agrees(shown: Sequence[str], printed: str) -> bool:
    """Whether what was printed is what a page shows."""
    lines = [re.escape(line.rstrip()).replace(re.escape(ANY), ".*") for line in shown]
    pattern = "".join("(?:.*\\n)*?" if line == ".*" else f"{line}\\s*?\\n" for line in lines)
    return re.fullmatch(pattern, printed if printed.endswith("\n") or not printed else f"{printed}\n") is not None


def run(name: str, python: Path | str = sys.executable) -> int:
    """Runs the commands of an example in a copy of its folder; how many there were. Raises Differs."""
    count = 0
    with tempfile.TemporaryDirectory(prefix="farlane-example-") as folder:
        shutil.copytree(FOLDER / name, folder, dirs_exist_ok=True)
        for command in commands((FOLDER / name / "README.md").read_text()):
            if not command.line.startswith("pip install "):
                _run(name, command, Path(folder), str(python))
                count += 1
    return count


def _run(name: str, command: Command, folder: Path, python: str) -> None:
    words = shlex.split(command.line)
    if words[0] == "nvcc":
        _compile(name, words[1:], folder)
        return
    known = {"farlane": CLI, "python": [python]}
    line = [*known.get(words[0], [words[0]]), *(python if word == "python" else word for word in words[1:])]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FARLANE_")}
    environment["XDG_CONFIG_HOME"] = str(folder)  # what an example sets up is not the user's
    done = subprocess.run(
        line, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=SECONDS,
    )  # fmt: skip
    if done.returncode != command.status or not agrees(command.shown, done.stdout):
        shown = "\n".join(command.shown)
        raise Differs(
            f"{command.line}: status {done.returncode}, the page says {command.status}\n{done.stdout}\nThe page:\n{shown}"
        )


def _compile(name: str, words: Sequence[str], folder: Path) -> None:
    """nvcc [-lineinfo] -o PROGRAM SOURCE: compiled once, and copied."""
    parser = argparse.ArgumentParser(prog="nvcc")
    parser.add_argument("-lineinfo", action="store_true")
    parser.add_argument("-o", dest="program", required=True)
    parser.add_argument("source")
    wanted = parser.parse_args(words)
    build = Build(cudart="static", nvcc_flags=("-lineinfo",) if wanted.lineinfo else ())
    source = (FOLDER / name / wanted.source).resolve()  # not the copy: what was compiled is found again by its place
    shutil.copy(compile_program(install("13.0"), [source], wanted.program, build), folder / wanted.program)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="for examples that need packages")
    parser.add_argument("names", nargs="*", choices=[[], *names()], metavar="NAME")
    arguments = parser.parse_args()
    status = 0
    for name in arguments.names or [each for each in names() if not needs_packages(each)]:
        try:
            print(f"{name}: {run(name, arguments.python)} commands print what the page says", flush=True)
        except Differs as error:
            print(f"{name}: {error}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    raise SystemExit(main())
