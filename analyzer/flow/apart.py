"""Places of the frame that are computed: arrays, of structures above all, whose elements lie a fixed distance apart.

Two accesses do not meet when they are at different fields of such elements: their offsets differ, modulo the distance, by more than the
accesses are long. Assumed is, as everywhere here, that computing an index does not overflow.
"""

from __future__ import annotations

import math

from farlane.analyzer.flow.expression import Value, Values

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
