"""Words for people: a sentence for each reason, class and kind of docs/reference/reasons.md."""

from __future__ import annotations

from farlane.analyzer.loops.model import Class, Kind, Reason
from farlane.analyzer.permissions.model import JoinedCopy

REASONS: dict[Reason, str] = {
    Reason.MEMORY_CHANGED: "An argument is read from memory that something in the loop may change.",
    Reason.HOST_CALL: "An argument is computed by a function of the host in the loop.",
    Reason.DEVICE_DATA: "An argument depends on data that the loop copies from the device.",
    Reason.RETURN_CODE: "An argument depends on the error code of a CUDA call.",
    Reason.CONTROL: "An argument depends on which way a branch went.",
    Reason.CALLEE: "An argument arises inside a called function and cannot be expressed here.",
    Reason.INSTRUCTION: "An argument depends on an instruction that is not modelled.",
    Reason.CONDITIONAL: "A call does not run in every iteration.",
    Reason.NESTED: "A call stands in a loop inside this one.",
    Reason.TOO_MANY: "An iteration may make so many calls in called functions that their arguments were not judged.",
    Reason.CALLEE_LOOP: "A call stands in a loop of a called function.",
    Reason.UNKNOWN_KERNEL: "Which kernel is launched, or with which parameters, is not known.",
    Reason.UNKNOWN_API: "A CUDA function whose arguments are not described is called.",
    Reason.UNKNOWN_COPY: "A copy's direction is no constant.",
    Reason.UNKNOWN_FUNCTION: "A function is called that may do anything.",
    Reason.IRREDUCIBLE: "The loop has several entries.",
    Reason.TRIP_COUNT: "The exit test is no comparison of an induction variable with an invariant.",
    Reason.SEVERAL_EXITS: "The loop can be left at more than one place.",
    Reason.EXIT_ON_DEVICE_DATA: "The exit test depends on data copied from the device.",
    Reason.NO_EXIT: "The loop is left only by an error, or never.",
    Reason.COPIES_TO_HOST: "Data is copied to the host.",
    Reason.SYNCHRONIZES: "A call waits for the device.",
    Reason.QUERIES: "A call's answer is wanted at once.",
}

CLASSES: dict[Class, str] = {
    Class.ONE: "All arguments are invariant.",
    Class.TWO: "All arguments are invariant or functions of the iteration.",
    Class.THREE: "All arguments are invariant or results of earlier CUDA calls of the loop.",
    Class.MIXED: "Of classes 2 and 3, or elements of a table that the loop leaves alone.",
    Class.NONE: "At least one argument is not known in advance.",
}

KINDS: dict[Kind, str] = {
    Kind.INVARIANT: "the same in every iteration",
    Kind.AFFINE: "constant + step * iteration",
    Kind.INDUCTION: "another function of the iteration",
    Kind.RESULT: "result of an earlier CUDA call",
    Kind.LOAD: "element of a table in host memory",
    Kind.UNKNOWN: "not known in advance",
}


def joining(copy: JoinedCopy) -> str:
    """What is known of a copy to the host in a row of them."""
    return f"joins the next call that waits; {copy.proof}" if copy.proof else f"waits by itself: {copy.refused}"
