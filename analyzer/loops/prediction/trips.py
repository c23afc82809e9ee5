"""How often a loop's calls run, as a number or as a text, from one exit test that is an arithmetic progression."""

from __future__ import annotations

from collections.abc import Mapping

from farlane.analyzer.loops.model import TripCount
from farlane.analyzer.loops.prediction.text import place, show
from farlane.analyzer.loops.shape.variables import Progress, iterations
from farlane.analyzer.machine.arithmetic import number
from farlane.analyzer.values.expression import LOAD, OPERATION, Value, Values
from farlane.analyzer.values.state import State


def trip_count(
    values: Values, moves: Progress, extra: int, entry: State, entered: Mapping[Value, Value]
) -> TripCount | None:
    """The count as a number or an expression.

    Args:
        extra: 1 when the calls come before the test in an iteration.
        entry: the state at the loop's head.
        entered: phi of the head -> its value when the loop is entered.
    """
    if moves.start.is_constant:
        count = iterations(number(moves.start.constant, moves.size, True), moves.step, moves.relation)
        return None if count is None else TripCount(count + extra, str(count + extra))
    distance, step = moves.start, moves.step
    if step > 0:
        distance = values.scale(distance, -1)
    if moves.relation == "==" or ((moves.relation in ("<", "<=")) != (step > 0) and moves.relation != "!="):
        return None
    size = abs(step)
    if moves.relation == "!=":
        text = _quotient(values, values.add(distance, size * extra), size)
    else:
        equal = moves.relation in ("<=", ">=")
        distance = values.add(distance, 1) if equal else distance
        text = f"max(0, {show(distance, {})})" if size == 1 else f"max(0, ceil(({show(distance, {})}) / {size}))"
        text = f"{text} + {extra}" if extra else text
    found = tuple((show(atom, {}), places(atom, entry, entered)) for atom, _ in distance.terms)
    return TripCount(None, text, found)


def _quotient(values: Values, distance: Value, size: int) -> str:
    """distance / size, which is exact, with the factor taken out where every term has it."""
    numbers = [distance.signed, *(c - 2**64 if c >> 63 else c for _, c in distance.terms)]
    if any(each % size for each in numbers):
        return f"({show(distance, {})}) / {size}"
    total = values.constant(numbers[0] // size)
    for (atom, _), coefficient in zip(distance.terms, numbers[1:], strict=True):
        total = values.combine(total, atom, coefficient // size)
    return show(total, {})


def places(value: Value, entry: State, entered: Mapping[Value, Value]) -> tuple[str, ...]:
    """Registers and cells that hold a value at the loop's head; those that the loop changes hold it on the first
    entry."""

    def holds(held: Value) -> bool:
        held = entered.get(held, held)
        while held is not value and held.kind == OPERATION and held.arguments[0] in ("zx4", "sx4"):
            held = held.arguments[1]
        return held is value

    found = [place(key) for key, held in enumerate(entry.registers[:16]) if holds(held)]
    found += [
        place((base, *key)) for base, cells in entry.cells.items() for key, held in sorted(cells.items()) if holds(held)
    ]
    if value.kind == LOAD and not found:
        # Read from a fixed place, where it still stands.
        address, size, _ = value.arguments
        base, offset = entry.memory.values.base(address)
        fixed = address.is_constant or base is entry.memory.values.stack_pointer
        if entry.read(address, size) is value:
            if fixed:
                found.append(place((base, offset, size)))
            elif len(base.terms) == 1 and base.terms[0][1] == 1:
                # Behind a pointer, which stands somewhere itself.
                found += [f"[{held} + {offset}]" for held in places(base.terms[0][0], entry, entered)]
    return tuple(found)
