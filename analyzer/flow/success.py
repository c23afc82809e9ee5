"""Control flow under the assumption that CUDA's calls succeed.

A branch whose condition is decided by error codes alone goes the way it goes when they are all success (0); the other way
is not analyzed, and every such branch is listed in the result (`Result.assumed`). This is what makes an error exit an
error exit. Codes remain symbolic values: only branches are decided, so how a code is used can still be seen.

Everything said of a program holds, therefore, as long as no CUDA call has failed. `cudaErrorNotReady` and `CUDA_ERROR_NOT_READY` are no failures:
the codes of queries are data and decide nothing here.
"""

from __future__ import annotations

from farlane.analyzer.flow.condition import Condition, condition
from farlane.analyzer.flow.expression import CALL, CODE, INITIAL, INSIDE, OPERATION, Value, Values
from farlane.analyzer.flow.interface import NO_CODES
from farlane.analyzer.graph.names import is_cuda


def is_code(value: Value) -> bool:
    """Whether a value is an error code as a CUDA call returned it, perhaps extended."""
    while value.kind == OPERATION and value.arguments[0] in ("zx4", "sx4"):
        value = value.arguments[1]
    return _is_code(value)


def _is_code(atom: Value) -> bool:
    while atom.kind == INSIDE:
        atom = atom.arguments[1]
    if atom.kind == CALL:
        return is_cuda(atom.arguments[1]) and atom.arguments[1] not in NO_CODES
    return atom.kind == INITIAL and len(atom.arguments) == 2 and atom.arguments[1] == CODE


def on_success(values: Values, flags: Value) -> Value | None:
    """What flags are when all codes in them are success; None when there are none in them."""
    found = False

    def leaf(atom: Value) -> Value | None:
        nonlocal found
        if _is_code(atom):
            found = True
            return values.zero
        return None

    result = values.substitute(flags, leaf, {})
    return result if found else None


def decided(values: Values, mnemonic: str, flags: Value) -> bool | None:
    """Whether a branch is taken on success; None when error codes do not decide that."""
    replaced = on_success(values, flags)
    if replaced is None:
        return None
    test: Condition | None = condition(values, mnemonic, replaced)
    return None if test is None else test.constant()
