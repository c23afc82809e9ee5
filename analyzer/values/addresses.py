"""Places of the frame that are computed: arrays, of structures above all, whose elements lie a fixed distance apart.

Two accesses do not meet when they are at different fields of such elements: their offsets differ, modulo the distance,
by more than the accesses are long. Assumed is, as everywhere here, that computing an index does not overflow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from farlane.analyzer.values.expression import INITIAL, OPERATION, PHI, Value, Values

# An offset of the frame, and of what the places with that offset are a multiple apart; 0: there is only one.
Strided = tuple[int, int]


def stride(values: Values, address: Value) -> Strided | None:
    """Where an address of the frame may be; None when it is no fixed offset with multiples of something."""
    if (values.stack_pointer, 1) not in address.terms:
        return None
    distance = 0
    for atom, coefficient in address.terms:
        if atom is not values.stack_pointer:
            distance = math.gcd(distance, coefficient - 2**64 if coefficient >> 63 else coefficient)
    return address.signed, distance


def apart(first: Strided, size: int, second: Strided, other: int) -> bool:
    """Whether an access of `size` bytes never meets one of `other` bytes."""
    (start, distance), (begin, step) = first, second
    modulus = math.gcd(distance, step)
    if modulus == 0:
        return start + size <= begin or begin + other <= start
    between = (begin - start) % modulus
    return between >= size and between + other <= modulus


def pieces(start: int, end: int) -> Iterable[tuple[int, int]]:
    """Places of 1, 2 and 4 bytes that make up fewer than 8, each with its size."""
    while start < end:
        size = next(size for size in (4, 2, 1) if start + size <= end and start % size == 0)
        yield start, size
        start += size


def unextended(value: Value) -> Value:
    """A value without extensions of 32-bit parts."""
    while value.kind == OPERATION and value.arguments[0] in ("zx4", "sx4"):
        value = value.arguments[1]
    return value


def lowest_moved(address: Value) -> int | None:
    """The offset of the frame below which an address lies that was computed by moving the stack pointer down; None for
    others.

    What is allocated so lies below all that has a fixed place, and is taken to be as long as what is stored there.
    """
    down = [atom.stack or coefficient >> 63 == 0 for atom, coefficient in address.terms]
    moved = address.stack and len(down) > 1 and down.count(True) == 1 and address.terms[down.index(True)][1] == 1
    whole = moved and address.terms[down.index(True)][0].kind == INITIAL
    return address.signed if whole else None


def allocated_top(address: Value) -> int | None:
    """The same where what the stack pointer was moved down by counts nothing in a loop, so that it is no index that may
    be negative."""
    top = lowest_moved(address)
    moved = [atom for atom, _ in address.terms if not atom.stack] if top is not None else []
    return None if any(part.kind == PHI for atom in moved for part, _ in unextended(atom).terms) else top


def chosen_elsewhere(address: Value) -> list[Value]:
    """The places outside the frame of an address that is one of several, null aside."""
    found = []
    for atom, _ in address.terms:
        if atom.kind == OPERATION and atom.arguments[0] == "choose":
            for place in atom.arguments[-2:]:
                if place.stack:
                    found += chosen_elsewhere(place)
                elif place.terms or place.constant:
                    found.append(place)
    return found
