"""What is reported of a loop: plain data, in terms of addresses and texts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from farlane.analyzer.loops.reasons import Reason


class Kind(StrEnum):
    """What an argument is, seen from one loop."""

    INVARIANT = "invariant"
    AFFINE = "affine"  # constant + coefficients * induction variables
    INDUCTION = "induction"  # another function of the iteration's number: recurrences, products, shifts
    RESULT = "result"  # what an earlier CUDA call of the loop returned through a pointer
    LOAD = "load"  # an element of a table in host memory that the loop leaves alone
    UNKNOWN = "unknown"


class Class(StrEnum):
    """A loop's class, by the arguments of its CUDA calls alone."""

    ONE = "1"  # all invariant
    TWO = "2"  # and functions of the induction variables
    THREE = "3"  # and results of earlier calls
    MIXED = "mixed"  # of both kinds, or elements of tables
    NONE = "-"  # an argument is unknown


@dataclass(frozen=True)
class Argument:
    name: str
    kind: Kind
    text: str
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Call:
    """A CUDA call in a loop: `chain` holds the call instructions that lead to it from the loop's function."""

    site: int
    chain: tuple[int, ...]
    name: str
    kernel: str | None
    arguments: tuple[Argument, ...]
    conditional: bool


@dataclass(frozen=True)
class Induction:
    """An induction variable at the loop's head: its places there, its first value and its step."""

    name: str
    places: tuple[str, ...]
    initial: str
    step: str


@dataclass(frozen=True)
class TripCount:
    """How often the loop's CUDA calls run.

    Attributes:
        constant: the number, when it is one.
        text: the number as an expression over values at the loop's head on its first entry.
        places: (value, places that hold it there) for what the expression needs.
    """

    constant: int | None
    text: str
    places: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class LoopReport:
    function: str
    entry: int
    header: int
    parent: int | None
    depth: int
    line: str
    calls: tuple[Call, ...]
    class_: Class
    inductions: tuple[Induction, ...]
    trip_count: TripCount | None
    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class ProgramReport:
    """The loops with CUDA calls of one executable, and what was not analyzed: (function, why)."""

    path: str
    identity: str
    functions: int
    cuda_functions: int
    seconds: float
    loops: tuple[LoopReport, ...]
    skipped: tuple[tuple[str, str], ...]
