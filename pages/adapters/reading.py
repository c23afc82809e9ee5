"""What an adapter is: the commands that measure tables of a page, and how it reads what they print."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tables import Table

N = r"(-?[\d.,]+)"  # a number; a difference of two times may be negative


class Unreadable(Exception):
    """A benchmark's output is not what its adapter expects; the message says what is missing."""


@dataclass(frozen=True)
class Source:
    """Commands, and how their outputs become tables by name: `read` gets them joined, or one by one where `each`.

    `exact`: the figures are counts, which do not depend on the machine or on what else it does. `quick`: it takes less
    than three minutes on a quiet machine. `statuses`: how the commands may end.
    """

    page: str
    commands: tuple[str, ...]
    read: Callable[..., dict[str, Table]]
    tables: tuple[str, ...]
    exact: bool = False
    quick: bool = False
    each: bool = False
    statuses: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Suite:
    """A page that its command writes itself."""

    page: str
    command: str


def matches(pattern: str, output: str) -> list[tuple[str, ...]]:
    """The groups of each line that the pattern describes. Blanks of the pattern stand for any number of blanks.

    Raises:
        Unreadable: there is no such line.
    """
    found = re.findall("^" + pattern.replace(" ", r"[ \t]+") + r"[ \t]*$", output, re.M)
    if not found:
        raise Unreadable(f"no line of the output is {pattern!r}: mend the adapter, or the benchmark")
    return [each if isinstance(each, tuple) else (each,) for each in found]


def first(pattern: str, output: str) -> tuple[str, ...]:
    return matches(pattern, output)[0]


def pairs(pattern: str, output: str) -> dict[str, str]:
    """The second group of each line that the pattern describes, by its first."""
    return {row[0]: row[1] for row in matches(pattern, output)}


def blocks(title: str, output: str) -> list[str]:
    """The parts of the output that follow each `title`.

    Raises:
        Unreadable: there is none.
    """
    _, *found = output.split(title)
    if not found:
        raise Unreadable(f"the output has no {title.strip()!r}: mend the adapter, or the benchmark")
    return found


def verdict(words: Iterable[str]) -> str:
    """One word for several of a benchmark: met, or missed where one of them is."""
    return "met" if all(word in ("reached", "met") for word in words) else "**missed**"


def several(values: Iterable[str]) -> str:
    """Values side by side, each once."""
    return ", ".join(dict.fromkeys(values))
