"""The commands of the pages: blocks marked ```bash run, and the output that a page shows for them.

Owns the words behind `run`: `fails` (the block must end with an error), `slow` (only `make test-pages` and `make test-tutorials` run it),
`clean` (only `make test-tutorials` runs it, in a clean system, because it installs something or leaves the folder), `stays` (what it starts goes on
beside the blocks behind it, which begin when it listens or has printed a line). A block marked ```text right behind a block of commands is output: the commands
must print its lines, in this order, among others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
WORDS = {"fails", "slow", "clean", "stays"}
_BLOCK = re.compile(r"^```bash run([^\n]*)\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.M | re.S)
_MARK = "==== block {} begins ===="
_BACKGROUND = re.compile(r"&(\s|$)")


@dataclass(frozen=True)
class Block:
    """Commands of a page.

    Attributes:
        words: those behind `run`.
        shown: the lines that the page shows as output.
    """

    words: frozenset[str]
    commands: str
    shown: tuple[str, ...]


def blocks(page: str) -> list[Block]:
    """A page's runnable blocks, in its order. `page` is a path in docs."""
    return [
        Block(frozenset(words.split()), commands, tuple(shown.splitlines()))
        for words, commands, shown in _BLOCK.findall((DOCS / page).read_text())
    ]


def pages() -> list[str]:
    """The pages that have runnable blocks."""
    return sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if _BLOCK.search(page.read_text()))


def script(chosen: Iterable[Block]) -> str:
    """What a reader types, in one shell that ends at the first command that fails. It marks where each block's output begins."""
    lines = ["set -eu"]
    for number, block in enumerate(chosen):
        lines.append(f"echo '{_MARK.format(number)}'")
        if "fails" in block.words:
            lines.append(f"if ( set -e\n{block.commands}\n); then echo 'this block must fail'; exit 1; fi")
        elif "stays" in block.words:
            lines.append(_staying(block.commands, f"stays-{number}.log"))
        else:
            lines.append(block.commands)
    return "\n".join(lines)


def _staying(commands: str, log: str) -> str:
    """The commands beside what follows, once a host listens or a program has printed a line. Those that go to the background by themselves keep the
    shell's variables."""
    background = "" if _BACKGROUND.search(commands) else " &"
    ready = "listening on" if "farlane serve" in commands else "."
    return f"""touch {log}
{{ {commands}}} > {log} 2>&1{background}
until grep -q '{ready}' {log}; do sleep 0.1; kill -0 $! || {{ cat {log}; exit 1; }}; done; cat {log}"""


def not_printed(chosen: Iterable[Block], output: str) -> list[str]:
    """The lines that the page shows and the script's run did not print, with the commands in front of them."""
    missing = []
    for number, block in enumerate(chosen):
        after = output.partition(_MARK.format(number) + "\n")[2]
        printed = iter(after.partition(_MARK.format(number + 1) + "\n")[0].splitlines())
        missing += [f"{block.commands}shows {line!r}" for line in block.shown if line not in printed]
    return missing
