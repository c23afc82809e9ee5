"""Abstract values: what a register or a cell may hold, and which objects an address may lead to.

Independent of `flow`, on purpose: there values are predictions, which the shim checks; here they carry proofs. Every
operation errs on the side of more objects.

An object is one of
- FRAME: the stack, from the analyzed function's frame downward (callees' frames included) and upward;
- Heap(site): what the allocation at a call instruction returned, in all its executions;
- GLOBAL: the program's own variables with fixed addresses;
- OUTSIDE: everything that existed before the function was entered, GLOBAL included, and whatever has escaped;
- ANYTHING: everything.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from farlane.analyzer.machine.arithmetic import signed


class Heap(NamedTuple):
    """An allocation by its call instruction and the chain that leads there; `pinned`: a device may reach it."""

    site: tuple[int, ...]
    pinned: bool = False


Object: TypeAlias = str | Heap
FRAME, GLOBAL, OUTSIDE, ANYTHING = "frame", "global", "outside", "anything"
Objects: TypeAlias = frozenset[Object]
NONE: Objects = frozenset()
IN_FRAME: Objects = frozenset({FRAME})
IN_GLOBAL: Objects = frozenset({GLOBAL})
IN_OUTSIDE: Objects = frozenset({OUTSIDE})
IN_ANYTHING: Objects = frozenset({ANYTHING})

CONSTANT, AT_LEAST, EXACT, UPWARD, ANY = range(5)
_LEAST = -(2**63)


class Value(NamedTuple):
    """What 8 bytes may be.

    kind CONSTANT: the number; AT_LEAST: an integer that counts up from the number at least, without overflow; EXACT:
    the stack pointer at the function's entry plus the number; UPWARD: that, or more; ANY: anything based on `objects`,
    with the number 1 where it is the address at which a block of `objects` begins, else 0.
    """

    kind: int
    number: int
    objects: Objects

    @property
    def framed(self) -> bool:
        return self.kind in (EXACT, UPWARD)


UNKNOWN = Value(ANY, 0, IN_OUTSIDE)  # a number, or an address from elsewhere
NUMBER = Value(ANY, 0, NONE)
WILD = Value(ANY, 0, IN_ANYTHING)


_new = tuple.__new__  # makes a value without the call of its class, which takes twice as long


def constant(number: int, objects: Objects = NONE) -> Value:
    return _new(Value, (CONSTANT, number if _LEAST <= number < -_LEAST else signed(number), objects))


def frame(offset: int) -> Value:
    return _new(Value, (EXACT, offset, IN_FRAME))


def based_on(objects: Objects) -> Value:
    return _new(Value, (ANY, 0, objects))


def beginning(heap: Heap) -> Value:
    return Value(ANY, 1, frozenset({heap}))


def blurred(value: Value, more: Objects = NONE) -> Value:
    """The value after it may have been replaced by something based on `more`."""
    if value.kind == ANY and not value.number and value.objects >= more:
        return value
    return Value(ANY, 0, value.objects | more)


def join(first: Value, second: Value, widen: bool = False) -> Value:
    """What holds for both; with `widen`, lower bounds that fall (from the first to the second) are given up."""
    if first == second:
        return first
    objects = first.objects | second.objects
    lower = min(first.number, second.number)
    for exact, upward in ((CONSTANT, AT_LEAST), (EXACT, UPWARD)):
        kinds = (exact, upward)
        plain = exact == EXACT or not objects
        if first.kind in kinds and second.kind in kinds and plain and not (widen and lower < first.number):
            return Value(upward, lower, objects)
    return Value(ANY, 0, objects)


def narrow(value: Value, size: int) -> Value:
    """The value of an operation on fewer than 8 bytes, or the low bytes of a value, zero-extended.

    An address is never kept in fewer than 8 bytes (docs/explanation/analyzer/permissions.md): what comes from elsewhere is then a number.
    """
    if size >= 8:
        return value
    if value.kind == CONSTANT:
        return _new(Value, (CONSTANT, value.number & ((1 << 8 * size) - 1), value.objects))
    if size == 4 and value.kind == AT_LEAST and value.number >= 0:
        return value  # an int that counts up does not overflow
    return _new(Value, (ANY, 0, value.objects - IN_OUTSIDE))


def computed(value: Value, size: int) -> Value:
    """The result of a sum, difference or product of `size` bytes: of fewer than 8 it is a number, as pieces of addresses
    are kept but not computed with (docs/explanation/analyzer/permissions.md). The program's own variables may have addresses of 4 bytes."""
    value = narrow(value, size)
    return value if size >= 8 or value.kind != ANY else Value(ANY, 0, value.objects & (IN_GLOBAL | IN_ANYTHING))


def widened(value: Value, size: int) -> Value:
    """Sign extension of the low `size` bytes."""
    if value.kind == CONSTANT:
        low = value.number & ((1 << 8 * size) - 1)
        return Value(CONSTANT, low - (1 << 8 * size) if low >> (8 * size - 1) else low, value.objects)
    if value.kind == AT_LEAST and value.number >= 0:
        return value
    return Value(ANY, 0, value.objects - IN_OUTSIDE)


def add(first: Value, second: Value) -> Value:
    """64-bit addition."""
    kind, number, objects = first
    its_kind, its_number, its_objects = second
    if kind == CONSTANT:
        if its_kind == CONSTANT:
            return constant(number + its_number, objects | its_objects)
        if its_kind != ANY and not objects:
            return _new(Value, (its_kind, number + its_number, its_objects))
    elif its_kind == CONSTANT and kind != ANY and not its_objects:
        return _new(Value, (kind, number + its_number, objects))
    objects |= its_objects
    for one, other in ((first, second), (second, first)):
        if one.kind in (EXACT, UPWARD, AT_LEAST) and other.kind == CONSTANT and not other.objects:
            return Value(one.kind, one.number + other.number, objects)
        if one.kind in (EXACT, UPWARD) and other.kind == AT_LEAST:
            return Value(UPWARD, one.number + other.number, objects)
        if one.kind == AT_LEAST and other.kind == AT_LEAST:
            return Value(AT_LEAST, one.number + other.number, objects)
    return Value(ANY, 0, objects)


def scale(value: Value, factor: int) -> Value:
    """Multiplication by a constant; an address is not multiplied, but a difference of two may be: objects stay."""
    if factor == 1:
        return value
    if value.kind == CONSTANT:
        return Value(CONSTANT, signed(value.number * factor), value.objects)
    if value.kind == AT_LEAST and factor > 0 and value.number >= 0:
        return Value(AT_LEAST, value.number * factor, value.objects)
    return Value(ANY, 0, value.objects - IN_OUTSIDE)
