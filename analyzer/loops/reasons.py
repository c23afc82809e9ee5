"""The vocabulary in which the analyzer says what stands in the way; documented in docs/analyzer.md.

A reason is a fact about a loop, found or not ruled out. None of them is a permission, and the absence of all is none either.
"""

from __future__ import annotations

from enum import StrEnum


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
