"""Conditions of branches as comparisons of values, and the branches that only CUDA's error codes decide.

The engine analyzes control flow under the assumption that CUDA's calls succeed. A branch that error codes alone decide
goes the way it goes when they are all success (0), and the other way is not analyzed; `Result.assumed` lists these
branches. This makes an error exit an error exit. Codes remain symbolic values, so how a code is used can still be seen.

All claims about a program hold, therefore, as long as no CUDA call has failed. `cudaErrorNotReady` and
`CUDA_ERROR_NOT_READY` are no failures: the codes of queries are data and decide nothing here.
"""

from __future__ import annotations

from typing import NamedTuple

from farlane.analyzer.externals.interface import NO_CODES
from farlane.analyzer.externals.names import is_cuda
from farlane.analyzer.machine.arithmetic import AFTER_COMPARISON, AFTER_LOGIC, NEGATED, TURNED, compare, number
from farlane.analyzer.values.expression import CALL, CODE, INITIAL, INSIDE, OPERATION, Value, Values


class Condition(NamedTuple):
    """left relation right, as numbers of `size` bytes."""

    relation: str
    left: Value
    right: Value
    size: int
    signed: bool

    def turned(self) -> Condition:
        """The same with its sides exchanged."""
        return self._replace(relation=TURNED[self.relation], left=self.right, right=self.left)

    def constant(self) -> bool | None:
        """Whether it holds, when that is known."""
        if self.left is self.right:
            return self.relation in ("==", "<=", ">=")
        if not (self.left.is_constant and self.right.is_constant):
            return None
        first, second = (number(value.constant, self.size, self.signed) for value in (self.left, self.right))
        return compare(self.relation, first, second)


def condition(values: Values, mnemonic: str, flags: Value) -> Condition | None:
    """The condition under which a branch is taken; None when it is no comparison of integers."""
    if flags.kind != OPERATION:
        return None
    name, *operands = flags.arguments
    if name.startswith("cmp") and name[3:].isdigit() and mnemonic in AFTER_COMPARISON:
        relation, signed = AFTER_COMPARISON[mnemonic]
        return Condition(relation, operands[0], operands[1], int(name[3:]), signed)
    if name.startswith("res") and mnemonic in ("je", "jne") and operands[0].kind == OPERATION:
        inner = operands[0]
        if inner.arguments[0] == "zx1":
            inner = inner.arguments[1]
        if inner.kind == OPERATION and inner.arguments[0] == "set":
            found = condition(values, f"j{inner.arguments[1][3:]}", inner.arguments[2])
            if found is not None and mnemonic == "je":
                found = found._replace(relation=NEGATED[found.relation])
            return found
    if name.startswith("res") and mnemonic in AFTER_LOGIC:
        relation, signed = AFTER_LOGIC[mnemonic]
        return Condition(relation, operands[0], values.zero, int(name[3:]), signed)
    return None


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
