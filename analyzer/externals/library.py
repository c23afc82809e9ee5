"""What functions of the C and C++ libraries do with the program's memory: one table, for predictions and for proofs.

A row is `arguments -> result: names`. None of the functions keeps an address that it is given, but inside an object of
its own; none calls functions of the program's; and all come back. A function without a row is unknown: it may keep and
change whatever it can reach.

Arguments, a letter each:

- .: a number, or of no interest
- r: memory read; w: written; b: both; c: copied to what the first argument points to; f: freed
- l: an object of the library's own, read and written (a FILE, a guard); o: a C++ stream, which matters to predictions
  only where it lies in the frame
- behind a letter, how many bytes: a number; @n: as many as argument n says; < before either: at most so many; nothing:
  any number
- a last letter with a star: a format at this place, and memory that all further arguments point to

Result: n a number; 0 the first argument; p a pointer into what the first argument points to; h new memory that nothing
    else points to;
x an address from elsewhere.

Proofs rest on the rows in `library_rows.TRUSTED` alone (`TRUSTED` here), and never on a function's name by pattern.
Predictions take from a row what is written (`effect`), and know more functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from farlane.analyzer.externals.library_rows import ARITHMETIC, MATHEMATICS, PATTERNS, PREDICTED, PURE
from farlane.analyzer.externals.library_rows import TRUSTED as _TRUSTED

ANY = -1
STREAM = 528  # the largest of the standard streams
ARGUMENTS = 6  # in registers
__all__ = ["ANY", "EFFECTS", "NOTHING", "PURE", "STREAM", "TRUSTED", "Effect", "Row", "by", "effect"]


class Row(NamedTuple):
    """What a function does with what its arguments point to, and what it returns; in the letters above."""

    arguments: tuple[str, ...]
    result: str


class Effect(NamedTuple):
    """What a call does, as predictions see it.

    Attributes:
        writes: (argument, bytes); bytes <= -2 mean as many as argument -2 - bytes says.
        stream: whether the first argument is a stream, which matters only when it lies in the frame.
        allocates: whether the result is memory that nothing else points to.
        returns: the number of the argument that is also the result; None for another result.
        points: whether the result may point into what the first argument points to.
    """

    writes: tuple[tuple[int, int], ...] = ()
    stream: bool = False
    allocates: bool = False
    returns: int | None = None
    points: bool = False


NOTHING = Effect()


def by(argument: int) -> int:
    """As many bytes as an argument says."""
    return -2 - argument


def _row(text: str) -> Row:
    arguments, _, result = text.partition("->")
    return Row(tuple(arguments.split()), result.strip())


def _rows(text: str) -> Iterator[tuple[str, Row]]:
    """(name, row) of a block of rows; a line that begins with spaces goes on with the one before it."""
    for line in re.sub(r"\n +", " ", text.strip("\n")).splitlines():
        what, _, names = line.partition(":")
        row = _row(what)
        for name in names.split():
            yield name, row


def _effect(row: Row) -> Effect:
    writes: list[tuple[int, int]] = []
    for index, letter in enumerate(row.arguments):
        if letter == "w*":
            writes += [(argument, ANY) for argument in range(index + 1, ARGUMENTS)]
        elif letter[0] in "wb" or (letter[0] == "o" and letter[1:]):
            size = letter[1:].removeprefix("<")
            writes.append((index, by(int(size[1:])) if size.startswith("@") else int(size) if size else ANY))
    stream = bool(row.arguments) and row.arguments[0].startswith("o")
    return Effect(tuple(writes), stream, row.result == "h", 0 if row.result == "0" else None, row.result == "p")


# Name -> what proofs may rest on.
TRUSTED: dict[str, Row] = dict(_rows(_TRUSTED))
EFFECTS: dict[str, Effect] = {
    **dict.fromkeys(ARITHMETIC, NOTHING),
    **{f"{name}{suffix}": NOTHING for name in MATHEMATICS for suffix in ("", "f", "l")},
    **{f"__{name}{suffix}_finite": NOTHING for name in MATHEMATICS for suffix in ("", "f")},
    **{name: _effect(row) for block in (TRUSTED.items(), _rows(PREDICTED)) for name, row in block},
}
_looked_up: dict[str, Effect | None] = {}


def effect(name: str) -> Effect | None:
    """What a function does; None when that is not known."""
    if name not in _looked_up:
        found = EFFECTS.get(name)
        if found is None:
            found = _by_pattern(name)
        if len(_looked_up) > 100_000:
            _looked_up.clear()
        _looked_up[name] = found
    return _looked_up[name]


def _by_pattern(name: str) -> Effect | None:
    """By the beginning of a mangled name; a pattern is compiled when a name is first compared with it."""
    if not name.startswith("_Z"):
        return None
    return next((_effect(_row(row)) for pattern, row in PATTERNS if re.match(pattern, name)), None)
