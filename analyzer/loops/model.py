"""What the analyzer reports: loops, their calls, arguments, trip counts, and the reasons that stand in the way. Plain
data.

docs/reference/reasons.md documents the vocabulary. A reason is a fact about a loop, found or not ruled out. None of them is a
permission, and the absence of all is none either.

A `Formula` is evaluated when the program stands at a CUDA call's call instruction (for a launch with a push, the
push's), in 64-bit numbers that wrap. It reads registers that calls preserve, the frames above the stack pointer, and
global variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from farlane.analyzer.permissions.model import JoinedCopy, Permission
from farlane.analyzer.slices.form import Sliced


class Reason(StrEnum):
    """Why a loop's calls are not known in advance, or may not be deferred without more knowledge."""

    # An argument's value is not known in advance, because it depends on ...
    MEMORY_CHANGED = "memory-changed"  # memory that something in the loop may change
    HOST_CALL = "host-call"  # what a function of the host computes in the loop
    DEVICE_DATA = "device-data"  # data that the loop copies from the device
    RETURN_CODE = "return-code"  # the error code of a CUDA call in the loop
    CONTROL = "control"  # which way a branch in the loop went
    CALLEE = "callee"  # a value that arises inside a called function
    INSTRUCTION = "instruction"  # an instruction that is not modelled
    TOO_MANY = "too-many"  # nothing that was looked for: an iteration may make too many calls in called functions
    # The sequence of calls is not known in advance ...
    CONDITIONAL = "conditional"  # a call does not run in every iteration; in which is not known
    NESTED = "nested"  # a call stands in a loop inside this one, whose trip count is not known here
    CALLEE_LOOP = "callee-loop"  # a call stands in a loop of a called function
    UNKNOWN_KERNEL = "unknown-kernel"  # which kernel is launched is not known
    UNKNOWN_API = "unknown-api"  # a CUDA function whose arguments are not described
    UNKNOWN_COPY = "unknown-copy"  # a copy whose direction is no constant
    UNKNOWN_FUNCTION = "unknown-function"  # a function that may do anything, CUDA calls included
    IRREDUCIBLE = "irreducible"  # the loop has several entries
    # The number of iterations is not known in advance ...
    TRIP_COUNT = "trip-count"  # the exit test is no comparison of an induction variable with an invariant
    SEVERAL_EXITS = "several-exits"  # the loop can be left at more than one place
    EXIT_ON_DEVICE_DATA = "exit-on-device-data"  # the exit test depends on data copied from the device
    NO_EXIT = "no-exit"  # the loop is left only by an error, or never
    # The host may look at a result in the loop ...
    COPIES_TO_HOST = "copies-to-host"  # a copy to the host; whether it is read in the loop is not analyzed
    SYNCHRONIZES = "synchronizes"  # a synchronizing call; whether anything observes it is not analyzed
    QUERIES = "queries"  # a call whose answer is wanted at once


# What a loop holds; all other reasons say why it is not known when it is entered.
TELLING = frozenset({Reason.COPIES_TO_HOST, Reason.SYNCHRONIZES, Reason.QUERIES})


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
    """An argument of a call.

    Attributes:
        number: an invariant one's value, or by how much an affine one grows; None when that is not constant, or not the
            same for all callers of the function with the call.
        size: of a launch's parameter, its bytes that are known, from the first on; 0: it is not known which; None
            otherwise.
    """

    name: str
    kind: Kind
    text: str
    reasons: tuple[Reason, ...] = ()
    number: int | None = None
    size: int | None = None


@dataclass(frozen=True)
class Call:
    """A CUDA call in a loop: `chain` holds the call instructions that lead to it from the loop's function."""

    site: int
    chain: tuple[int, ...]
    name: str
    kernel: str | None
    arguments: tuple[Argument, ...]
    conditional: bool
    permission: Permission | None = None  # what was proven of the call, or why nothing was


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


class Place(StrEnum):
    """Where a value is found at a call instruction."""

    REGISTER = "register"  # `register`, whole
    FRAME = "frame"  # `size` bytes, zero-extended, at rsp + displacement, in this or a calling function's frame
    GLOBAL = "global"  # `size` bytes, zero-extended, at the link-time address `displacement`


@dataclass(frozen=True)
class Location:
    """A place and what is there: `register` is the number (3 rbx, 4 rsp, 5 rbp, 12..15)."""

    kind: Place
    register: int = 0
    displacement: int = 0
    size: int = 8


@dataclass(frozen=True)
class Operation:
    """zx1 zx2 zx4 sx1 sx2 sx4 (of the low bytes), and or xor mul shl shr sar udiv sdiv, eq ne ult ule slt sle (1 or 0),
    min."""

    name: str
    operands: tuple[Formula, ...]


@dataclass(frozen=True)
class Formula:
    """constant + sum of coefficient * term, modulo 2**64; `constant` and coefficients as signed numbers."""

    constant: int = 0
    terms: tuple[tuple[int, Location | Operation], ...] = ()


@dataclass(frozen=True)
class Test:
    """An exit test that follows a call: the loop goes on while left relation right, as numbers of `size` bytes.

    Attributes:
        branch: the address of the test's block.
        step: by how much left - right changes from one iteration to the next, when that is constant.
        exact: whether the formulas are what the program compares. Otherwise memory is read at the call that something
            may change before the test.
    """

    branch: int
    relation: str
    left: Formula
    right: Formula
    size: int
    signed: bool
    step: int | None
    exact: bool


@dataclass(frozen=True)
class Continuation:
    """Whether, seen from a CUDA call, its loop runs another iteration: all tests hold.

    It holds as long as no CUDA call fails: exits that a code of failure takes are no exits here.

    Attributes:
        site, chain: the call, as in `Call`.
        tests: in the order of their execution. Together they are exact where each is; overflow is counted in.
        complete: whether every exit of the loop is one of the tests; otherwise it may end though all hold.
        may_throw: whether the loop may also be left by a C++ exception.
        again: 1 when all tests hold; None when they are not complete or there is none.
        count: how often the loop goes on from here, assuming that the variables do not overflow; None when not known.
        jumps_out: whether code that may run in the loop, or in what it calls, throws an exception or calls longjmp.
    """

    site: int
    chain: tuple[int, ...]
    tests: tuple[Test, ...]
    complete: bool
    may_throw: bool
    again: Formula | None
    count: Formula | None
    jumps_out: bool = False

    @property
    def exact(self) -> bool:
        return self.complete and all(test.exact for test in self.tests)


@dataclass(frozen=True)
class Foretold:
    """What a launch of a loop is passed, found where the program stands at the loop's first launch in the same
    iteration.

    Attributes:
        name: the argument's, as in `Argument`.
        word: 0 or 1: which four bytes of the argument it is; None: all of it.
        formula: its low bytes count, as many as the argument has.
    """

    name: str
    word: int | None
    formula: Formula


@dataclass(frozen=True)
class LoopReport:
    """What is known of a loop with CUDA calls.

    Attributes:
        entry: where its function starts.
        parent: the header of the loop around it.
        line: the source line of its header; "" where that is not known.
        runs: calls by index, in groups between which the host wants an answer of the device.
        assumes_success: whether the loop holds a branch that error codes decide.
        assumes_separate: whether pointers read from memory are taken to point to objects of their own.
        foretold: by call, () for the first: all that is passed in an iteration of launches; () when that is not known at
            the first.
    """

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
    continuations: tuple[Continuation, ...] = ()
    runs: tuple[tuple[int, ...], ...] = ()
    assumes_success: bool = False
    assumes_separate: bool = False
    foretold: tuple[tuple[Foretold, ...], ...] = ()

    @property
    def described(self) -> bool:
        """Whether class, sequence and trip count are known when the loop is entered."""
        return self.class_ != Class.NONE and self.trip_count is not None and TELLING.issuperset(self.reasons)


@dataclass(frozen=True)
class ProgramReport:
    """The loops with CUDA calls of one executable, what was not analyzed: (function, why), and what was found of the
    loops that read and of copies in a row.

    `seconds`: of the processor, that the analysis took; `out_of_time`: whether it was given less than it needed.
    """

    path: str
    identity: str
    functions: int
    cuda_functions: int
    seconds: float
    loops: tuple[LoopReport, ...]
    skipped: tuple[tuple[str, str], ...]
    out_of_time: bool = False
    slices: tuple[Sliced, ...] = ()
    joined: tuple[JoinedCopy, ...] = ()

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """Of all calls, each site once: what was said of it last, which knows all the loops that reach it."""
        calls = (call for loop in self.loops for call in loop.calls)
        found = {call.site: call.permission for call in calls if call.permission is not None}
        return tuple(found[site] for site in sorted(found))
