"""Which addresses of its caller's frame what a called function computed may be: it is given some, finds others in
memory that it reaches by these, and goes on from there, by loops, choices and calls of its own.

`Memory.made_of` tells of each value of a called function, as its caller sees it (INSIDE), of which values of the caller
it is made, and whether it only goes up from these. What a called function loads behind stores of its own may be any
address that it reaches.
"""

from __future__ import annotations

from collections.abc import Callable

from farlane.analyzer.externals import library
from farlane.analyzer.flow.result import Result
from farlane.analyzer.machine.instruction import ARGUMENTS, RSP
from farlane.analyzer.values.expression import (
    CALL,
    INITIAL,
    INSIDE,
    LOAD,
    OPAQUE,
    OPERATION,
    OUT,
    PHI,
    POINTERS,
    Value,
    Values,
    lowest,
)
from farlane.analyzer.values.memory import Memory, Origins, allocated
from farlane.analyzer.values.state import State


def origins(value: Value, result: Result, memory: Memory) -> Origins:
    """Of what a value is made, by what its function's analysis found."""
    found: dict[Value, None] = {}
    anything, rises = False, True
    seen: set[Value] = set()
    work = [value]
    while work:
        each = work.pop()
        rises = rises and each.signed >= 0 and not any(coefficient >> 63 for _, coefficient in each.terms)
        for atom, coefficient in each.terms:
            if coefficient != 1 or atom in seen:
                continue
            seen.add(atom)
            if atom.kind == PHI:
                work += result.phis.get(atom, {}).values()
            elif atom.kind == INSIDE and atom in memory.made_of:
                made = memory.made_of[atom]
                work += made.found
                anything, rises = anything or made.anything, rises and made.rises
            elif atom.kind == OPERATION:
                if atom.arguments[0] in POINTERS:
                    rises = rises and atom.arguments[0] == "choose"
                    work += [part for part in atom.arguments[1:] if isinstance(part, Value)]
            elif atom.kind == INITIAL or _as_at_entry(atom):
                found[atom] = None
            else:
                anything = anything or _pointer(atom)
    return Origins(tuple(found), anything, rises)


def _as_at_entry(atom: Value) -> bool:
    if atom.kind != LOAD or atom.arguments[1] != 8:
        return False
    return all(version.kind == INITIAL for version in atom.arguments[2])


def _pointer(atom: Value) -> bool:
    """Whether an atom may be an address that the function did not make itself."""
    inner = atom
    while inner.kind == INSIDE:
        inner = inner.arguments[1]
    if inner.kind == CALL:
        known = library.effect(inner.arguments[1])
        return known is not None and known.points
    return inner.kind == OPAQUE or (inner.kind == LOAD and inner.arguments[1] == 8)


def stays_inside(value: Value, result: Result, memory: Memory) -> bool:
    """Whether an address that a function computed lies in its own frame, in what it allocated, or in what pointers
    point to that stand in its frame behind changes (the characters of a string): its caller knows of none of these. For
    readings that take such pointers to point into objects of their own."""
    seen: set[Value] = set()
    work = [value]
    while work:
        for atom, coefficient in work.pop().terms:
            if coefficient != 1 or atom in seen or atom is memory.values.stack_pointer or allocated(atom):
                continue
            seen.add(atom)
            if atom.kind == PHI:
                work += result.phis.get(atom, {}).values()
            elif atom.kind == OPERATION and atom.arguments[0] in POINTERS:
                work += [part for part in atom.arguments[1:] if isinstance(part, Value)]
            elif atom.kind == LOAD:
                base, offset = memory.values.base(atom.arguments[0])
                if base is not memory.values.stack_pointer or offset >= 0 or _as_at_entry(atom):
                    return False
            elif atom.kind in (INITIAL, INSIDE, OUT) or _pointer(atom):
                return False
    return bool(value.terms)


def mark(
    inside: Value, made: Origins, before: State, seen: Callable[[Value], Value], values: Values, new: bool
) -> None:
    """Notes of what a value of a called function is made for its caller, and whether it may be an address of its frame.

    Args:
        before: the caller's state at the call.
        seen: what a value of the called function is for its caller.
        new: whether `inside` was made only now.
    """
    memory = before.memory
    held = [_at_call(atom, before, seen, values) for atom in made.found]
    memory.made_of[inside] = Origins(tuple(value for value in held if value.terms), made.anything, made.rises)
    stack = [value for value in held if value.stack]
    if not stack:
        return
    low = lowest(stack) if made.rises else None
    if not inside.stack:
        inside.stack, inside.low = True, low
    elif inside.low is not None and (low is None or low < inside.low):
        inside.low = low
    else:
        return
    if not new:
        memory.epoch += 1


def _at_call(atom: Value, before: State, seen: Callable[[Value], Value], values: Values) -> Value:
    if atom.kind == LOAD:
        return before.read(seen(atom.arguments[0]), 8)
    # The function's own frame is gone when it returns.
    return values.zero if atom is values.stack_pointer else before.registers[atom.arguments[0]]


def reachable(before: State, values: Values) -> int | None:
    """The lowest offset of the caller's frame that a called function reaches by what it is given; None: nothing of
    it."""
    given = [before.registers[number] for number in ARGUMENTS]
    base, offset = values.base(before.registers[RSP])
    given += [held for (place, _), held in before.cells.get(base, {}).items() if offset <= place < offset + 64]
    return before.lowest_reached(value for value in given if value.stack)
