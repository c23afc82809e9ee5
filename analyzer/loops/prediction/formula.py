"""Making formulas and evaluating them; what a formula is, `model.py` says.

Constants are folded, nothing else: formulas are small, and their compiler need not be clever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from farlane.analyzer.loops.model import Formula, Location, Operation
from farlane.analyzer.machine.arithmetic import number
from farlane.analyzer.postfix import binary

MASK = 2**64 - 1
ZERO = Formula()
_RELATIONS = {"==": "eq", "!=": "ne"}


def signed(value: int, size: int = 8) -> int:
    return number(value, size, True)


def constant(value: int) -> Formula:
    return Formula(signed(value))


def term(of: Location | Operation) -> Formula:
    return Formula(0, ((1, of),))


def total(parts: Iterable[tuple[int, Formula]]) -> Formula:
    """The sum of coefficient * formula."""
    number_, terms = 0, dict[Location | Operation, int]()
    for coefficient, part in parts:
        number_ += coefficient * part.constant
        for inner, of in part.terms:
            terms[of] = terms.get(of, 0) + coefficient * inner
    kept = tuple((signed(coefficient), of) for of, coefficient in terms.items() if coefficient & MASK)
    return Formula(signed(number_), kept)


def operation(name: str, *operands: Formula) -> Formula:
    made = Operation(name, operands)
    if all(not operand.terms for operand in operands):
        value = _apply(name, [operand.constant & MASK for operand in operands])
        if value is not None:
            return constant(value)
    return term(made)


def extended(formula: Formula, size: int, with_sign: bool) -> Formula:
    return formula if size >= 8 else operation(f"{'sx' if with_sign else 'zx'}{size}", formula)


def comparison(relation: str, left: Formula, right: Formula, size: int, with_sign: bool) -> Formula:
    """1 when left relation right, as numbers of `size` bytes, else 0."""
    left, right = extended(left, size, with_sign), extended(right, size, with_sign)
    if relation in (">", ">="):
        left, right, relation = right, left, {">": "<", ">=": "<="}[relation]
    if relation in _RELATIONS:
        return operation(_RELATIONS[relation], left, right)
    return operation(("s" if with_sign else "u") + ("lt" if relation == "<" else "le"), left, right)


def progress(relation: str, difference: Formula, step: int, size: int) -> Formula | None:
    """How many n >= 0 in a row, from 0, satisfy difference + step * n relation 0, without overflow; None: not known."""
    if relation in (">", ">="):
        difference, step, relation = total([(-1, difference)]), -step, {">": "<", ">=": "<="}[relation]
    if relation == "<=":
        difference, relation = total([(1, difference), (1, constant(-1))]), "<"
    if relation == "<":
        if step <= 0:
            return None
        rounded = total([(-1, difference), (1, constant(step - 1))])
        quotient = rounded if step == 1 else operation("udiv", rounded, constant(step))
        return operation("mul", operation("slt", difference, ZERO), quotient)
    if relation == "!=":
        distance = total([(-1 if step > 0 else 1, difference)])
        distance = extended(distance, size, False)
        return distance if abs(step) == 1 else operation("udiv", distance, constant(abs(step)))
    return operation("eq", difference, ZERO)


def evaluate(formula: Formula, read: Callable[[Location], int]) -> int | None:
    """The value, as an unsigned number of 64 bits; None when it divides by zero."""
    value = formula.constant
    for coefficient, of in formula.terms:
        if isinstance(of, Location):
            part: int | None = read(of)
        else:
            inner = [evaluate(operand, read) for operand in of.operands]
            known = [each for each in inner if each is not None]
            part = _apply(of.name, known) if len(known) == len(inner) else None
        if part is None:
            return None
        value += coefficient * part
    return value & MASK


def _apply(name: str, operands: list[int]) -> int | None:
    first = operands[0]
    if name[:2] in ("zx", "sx"):
        return number(first, int(name[2:]), name[0] == "s") & MASK
    second = operands[1]
    found = min(first, second) if name == "min" else binary(name, first, second)
    return None if found is None else found & MASK
