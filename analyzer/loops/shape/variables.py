"""Induction variables and exit tests as arithmetic progressions.

A test compares values whose difference is start + step * n in iteration n; the loop goes on while that difference
satisfies the relation. Numbers are taken as unbounded integers: that the variables do not overflow is assumed, as every
prediction is checked when the program runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from farlane.analyzer.flow.result import Result
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.values.condition import Condition
from farlane.analyzer.values.expression import OPERATION, Value, Values


class InductionVariable(NamedTuple):
    phi: Value
    initial: Value
    step: int
    size: int


class Progress(NamedTuple):
    """In iteration n the loop goes on while start + step * n relation 0."""

    start: Value
    step: int
    relation: str
    size: int


def induction_variables(result: Result, values: Values, loop: Loop) -> dict[Value, InductionVariable]:
    """phi = initial at the entry, phi + step in the next iteration, whichever way that is reached."""
    found: dict[Value, InductionVariable] = {}
    for phi, inputs in result.phis.items():
        if phi.arguments[1] != loop.header or not isinstance(phi.arguments[2], (int, tuple)):
            continue
        outside = {value for source, value in inputs.items() if source not in loop.blocks}
        inside = {value for source, value in inputs.items() if source in loop.blocks}
        if len(outside) != 1 or len(inside) != 1:
            continue
        following = inside.pop()
        size = 8
        if following.kind == OPERATION and following.arguments[0] in ("zx4", "sx4"):
            size, following = 4, following.arguments[1]
        step = values.combine(following, phi, -1)
        if step.is_constant and step.constant:
            signed = step.constant & 0xFFFFFFFF if size == 4 else step.constant
            signed -= (1 << 8 * size) if signed >> (8 * size - 1) else 0
            found[phi] = InductionVariable(phi, outside.pop(), signed, size)
    return found


def progress(values: Values, test: Condition, variables: Mapping[Value, InductionVariable]) -> Progress | None:
    """The test under which a loop goes on as a progression; None when it is none, or does not move."""
    difference = values.combine(plain(values, test.left), plain(values, test.right), -1)
    start, step = values.constant(difference.constant), 0
    for atom, coefficient in difference.terms:
        variable = variables.get(atom)
        if variable is None:
            start = values.combine(start, atom, coefficient)
        else:
            signed = coefficient - 2**64 if coefficient >> 63 else coefficient
            start = values.combine(start, plain(values, variable.initial), signed)
            step += signed * variable.step
    return Progress(start, step, test.relation, test.size) if step else None


def plain(values: Values, value: Value) -> Value:
    """The value without extensions of 32-bit parts."""
    total = values.constant(value.constant)
    for atom, coefficient in value.terms:
        inner = atom
        while inner.kind == OPERATION and inner.arguments[0] in ("zx4", "sx4"):
            inner = inner.arguments[1]
        total = values.combine(total, plain(values, inner) if inner is not atom else inner, coefficient)
    return total


def iterations(start: int, step: int, relation: str) -> int | None:
    """How many n >= 0 in a row, from 0, satisfy start + step * n relation 0; None: all of them, or never exactly."""
    if relation in (">", ">="):
        start, step, relation = -start, -step, {">": "<", ">=": "<="}[relation]
    if relation == "<=":
        start, relation = start - 1, "<"
    if relation == "<":
        if start >= 0:
            return 0
        return -(start // step) if step > 0 else None
    if relation == "!=":
        quotient, rest = divmod(-start, step)
        return quotient if rest == 0 and quotient >= 0 else None
    return 1 if start == 0 else 0
