"""Exact results of x86-64's operations, on bits: what slices compute with.

Integers are Python's, cut to their width. Floating-point numbers are bits of 4 or 8 bytes. Python's own arithmetic
rounds doubles as SSE does; floats are computed as doubles and rounded once more, which gives the same bits, as a double
has more than twice as many digits. What differs from Python, and is done here: NaNs, which keep their bits; what is not
defined (the NaN with a sign); dividing by zero; overflow.

Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, 4.8.3.5 (which NaN is passed on), volume
2 (MINSD, MAXSD, CVTTSD2SI); S. Figueroa, When is double rounding innocuous?
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from farlane.analyzer.machine.arithmetic import low, signed
from farlane.analyzer.slices.form import Code


class StuckError(Exception):
    """An operation has no result: the program would be ended by a fault here."""


_FORMS = {4: ("<I", "<f", 23, 8), 8: ("<Q", "<d", 52, 11)}


def number(bits: int, width: int) -> float:
    """The number that bits stand for."""
    integer, floating, _, _ = _FORMS[width]
    return float(struct.unpack(floating, struct.pack(integer, low(bits, width)))[0])


def bits(value: float, width: int) -> int:
    """The bits of a number, rounded to nearest; a NaN becomes the undefined one."""
    if math.isnan(value):
        return undefined(width)
    integer, floating, _, _ = _FORMS[width]
    try:
        packed = struct.pack(floating, value)
    except OverflowError:
        packed = struct.pack(floating, math.copysign(math.inf, value))
    return int(struct.unpack(integer, packed)[0])


def undefined(width: int) -> int:
    """The NaN that an operation without a result gives."""
    _, _, digits, exponent = _FORMS[width]
    return ((1 << (exponent + 2)) - 1) << (digits - 1)


def is_nan(value: int, width: int) -> bool:
    _, _, digits, exponent = _FORMS[width]
    value = low(value, width)
    return value >> digits & (1 << exponent) - 1 == (1 << exponent) - 1 and value & (1 << digits) - 1 != 0


def _quiet(value: int, width: int) -> int:
    return low(value, width) | 1 << (_FORMS[width][2] - 1)


def _divided(first: float, second: float) -> float:
    if second:
        return first / second
    if not first or math.isnan(first):
        return math.nan
    return math.copysign(math.inf, first) * math.copysign(1, second)


def _root(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


def floating(code: Code, operands: list[int], width: int) -> int:
    """An operation on floating-point numbers; a comparison gives 1 or 0."""
    if code in (Code.F_MINIMUM, Code.F_MAXIMUM):
        first, second = (number(each, width) for each in operands)
        chosen = first < second if code == Code.F_MINIMUM else first > second
        return low(operands[0 if chosen else 1], width)
    if code in _COMPARISONS:
        first, second = (number(each, width) for each in operands)
        return int(_COMPARISONS[code](first, second))
    for each in operands:
        if is_nan(each, width):
            return _quiet(each, width)
    values = [number(each, width) for each in operands]
    return bits(_OPERATIONS[code](*values), width)


_COMPARISONS: dict[Code, Callable[[float, float], bool]] = {
    Code.F_EQUAL: lambda a, b: a == b,
    Code.F_LESS: lambda a, b: a < b,
    Code.F_LESS_EQUAL: lambda a, b: a <= b,
    Code.F_UNORDERED: lambda a, b: math.isnan(a) or math.isnan(b),
}
_OPERATIONS: dict[Code, Callable[..., float]] = {
    Code.F_ADD: lambda a, b: a + b,
    Code.F_SUBTRACT: lambda a, b: a - b,
    Code.F_MULTIPLY: lambda a, b: a * b,
    Code.F_DIVIDE: _divided,
    Code.F_SQUARE_ROOT: _root,
}


def from_integer(value: int, width: int) -> int:
    """The floating-point number nearest to an integer, to the even one of two."""
    magnitude = abs(value)
    digits = _FORMS[width][2] + 1
    excess = magnitude.bit_length() - digits
    if excess > 0:
        kept, rest, half = magnitude >> excess, magnitude & (1 << excess) - 1, 1 << (excess - 1)
        magnitude = kept + (rest > half or (rest == half and kept & 1)) << excess
    return bits(math.copysign(float(magnitude), value), width)


def to_integer(value: int, width: int, size: int, nearest: bool) -> int:
    """A floating-point number as a signed integer of `size` bytes; what is none, or does not fit, is the lowest one."""
    lowest = 1 << (8 * size - 1)
    held = number(value, width)
    if math.isnan(held) or math.isinf(held):
        return lowest
    whole = round(held) if nearest else math.trunc(held)
    return low(whole, size) if -lowest <= whole < lowest else lowest


def widened(value: int) -> int:
    """8 bytes from 4."""
    if not is_nan(value, 4):
        return bits(number(value, 4), 8)
    value = _quiet(value, 4)
    return value >> 31 << 63 | 0x7FF << 52 | (value & 0x7FFFFF) << 29


def narrowed(value: int) -> int:
    """4 bytes from 8."""
    if not is_nan(value, 8):
        return bits(number(value, 8), 4)
    value = _quiet(value, 8)
    return value >> 63 << 31 | 0xFF << 23 | value >> 29 & 0x7FFFFF


def whole(code: Code, value: int, width: int) -> int:
    """A floating-point number rounded to a whole one, of the same sign where it is 0."""
    if is_nan(value, width):
        return _quiet(value, width)
    held = number(value, width)
    if math.isinf(held):
        return low(value, width)
    ways: dict[Code, Callable[[float], int]] = {
        Code.ROUND_EVEN: round,
        Code.ROUND_DOWN: math.floor,
        Code.ROUND_UP: math.ceil,
    }
    found = ways.get(code, math.trunc)(held)
    return bits(math.copysign(float(abs(found)), held), width)


def divided(code: Code, first: int, second: int, width: int) -> int:
    """A quotient or remainder; raises StuckError."""
    is_signed = code in (Code.DIVIDE_SIGNED, Code.REMAINDER_SIGNED)
    if is_signed:
        first, second = signed(first, width), signed(second, width)
    if not second:
        raise StuckError("a division by zero")
    quotient = abs(first) // abs(second)
    if (first < 0) != (second < 0):
        quotient = -quotient
    if is_signed and quotient >> (8 * width - 1) not in (0, -1):
        raise StuckError("a quotient that does not fit")
    wanted = quotient if code in (Code.DIVIDE, Code.DIVIDE_SIGNED) else first - quotient * second
    return low(wanted, width)


def integer(code: Code, operands: list[int], width: int) -> int:
    """An operation on integers of `width` bytes."""
    if code == Code.NEGATE:
        return low(-operands[0], width)
    if code == Code.NOT:
        return low(~operands[0], width)
    first, second = operands
    if code in _SHIFTS:
        count = second & (63 if width == 8 else 31)
        held = signed(first, width) if code == Code.SHIFT_ARITHMETIC else low(first, width)
        return low(held << count if code == Code.SHIFT_LEFT else held >> count, width)
    if code in (Code.LESS, Code.LESS_EQUAL, Code.HIGH_SIGNED):
        one, other = signed(first, width), signed(second, width)
    else:
        one, other = low(first, width), low(second, width)
    if code in (Code.DIVIDE, Code.REMAINDER, Code.DIVIDE_SIGNED, Code.REMAINDER_SIGNED):
        return divided(
            code, first if code >= Code.DIVIDE_SIGNED else one, second if code >= Code.DIVIDE_SIGNED else other, width
        )
    return low(_INTEGERS[code](one, other), 8) if code >= Code.EQUAL else _cut(code, one, other, width)


_SHIFTS = frozenset({Code.SHIFT_LEFT, Code.SHIFT_RIGHT, Code.SHIFT_ARITHMETIC})
_INTEGERS: dict[Code, Callable[[int, int], int]] = {
    Code.ADD: lambda a, b: a + b,
    Code.SUBTRACT: lambda a, b: a - b,
    Code.MULTIPLY: lambda a, b: a * b,
    Code.AND: lambda a, b: a & b,
    Code.OR: lambda a, b: a | b,
    Code.XOR: lambda a, b: a ^ b,
    Code.EQUAL: lambda a, b: a == b,
    Code.BELOW: lambda a, b: a < b,
    Code.BELOW_EQUAL: lambda a, b: a <= b,
    Code.LESS: lambda a, b: a < b,
    Code.LESS_EQUAL: lambda a, b: a <= b,
}


def _cut(code: Code, one: int, other: int, width: int) -> int:
    if code in (Code.HIGH, Code.HIGH_SIGNED):
        return low(one * other >> 8 * width, width)
    return low(_INTEGERS[code](one, other), width)


def compute(code: Code, operands: list[int], width: int) -> int:
    """An operation without memory and without an immediate; raises StuckError."""
    if code == Code.COPY:
        return low(operands[0], width)
    if code == Code.SIGN:
        return low(signed(operands[0], width), 8)
    if code == Code.SELECT:
        return low(operands[0] if operands[2] else operands[1], width)
    if code == Code.INSERT:
        mask = low(-1, width)
        return operands[0] & ~mask | operands[1] & mask
    if code in (Code.FROM_4, Code.FROM_8):
        return from_integer(signed(operands[0], 4 if code == Code.FROM_4 else 8), width)
    if code in (Code.TO_4, Code.TO_8, Code.NEAREST_4, Code.NEAREST_8):
        size = 4 if code in (Code.TO_4, Code.NEAREST_4) else 8
        return to_integer(operands[0], width, size, code in (Code.NEAREST_4, Code.NEAREST_8))
    if code == Code.WIDEN:
        return widened(low(operands[0], 4))
    if code == Code.NARROW:
        return narrowed(operands[0])
    if code >= Code.ROUND_EVEN:
        return whole(code, operands[0], width)
    if code >= Code.F_ADD:
        return floating(code, operands, width)
    return integer(code, operands, width)
