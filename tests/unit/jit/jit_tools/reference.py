"""Exact arithmetic on float bit patterns, with Python integers and fractions only."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

# name -> (total bits, fraction bits)
FORMATS = {"f16": (16, 10), "bf16": (16, 7), "f32": (32, 23), "f64": (64, 52)}


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def kind_of(bits: int, form: str) -> str:
    """ "nan", "inf", "zero" or "number"."""
    total, fraction = FORMATS[form]
    exponent = bits >> fraction & ((1 << total - fraction - 1) - 1)
    low = bits & ((1 << fraction) - 1)
    if exponent == (1 << total - fraction - 1) - 1:
        return "nan" if low else "inf"
    return "zero" if not exponent and not low else "number"


def is_negative(bits: int, form: str) -> bool:
    return bool(bits >> (FORMATS[form][0] - 1))


def value_of(bits: int, form: str) -> Fraction:
    """The exact value of a finite float."""
    total, fraction = FORMATS[form]
    bias = (1 << total - fraction - 2) - 1
    exponent = bits >> fraction & ((1 << total - fraction - 1) - 1)
    low = bits & ((1 << fraction) - 1)
    magnitude = Fraction(low | (1 << fraction if exponent else 0)) * Fraction(2) ** (max(exponent, 1) - bias - fraction)
    return -magnitude if is_negative(bits, form) else magnitude


def infinity(form: str, negative: bool) -> int:
    total, fraction = FORMATS[form]
    return (negative << total - 1) | ((1 << total - fraction - 1) - 1) << fraction


def nan(form: str) -> int:
    return infinity(form, False) | 1 << FORMATS[form][1] - 1


def rounded(value: Fraction, form: str, mode: str = "rn", zero_negative: bool = False) -> int:
    """The bits of `value` rounded to a format; mode rn, rz, rm or rp."""
    total, fraction = FORMATS[form]
    bias = (1 << total - fraction - 2) - 1
    if value == 0:
        return zero_negative << total - 1
    negative = value < 0
    magnitude = -value if negative else value
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    exponent = max(exponent, 1 - bias)
    scaled = magnitude / Fraction(2) ** (exponent - fraction)
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    if mode == "rn":
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1)
    elif mode == "rz":
        up = False
    else:
        up = rest > 0 and negative == (mode == "rm")
    whole += up
    # The implicit bit adds one to the exponent field, which also carries an overflow of the fraction.
    field = ((exponent + bias - 1) << fraction) + whole
    largest = ((1 << total - fraction - 1) - 1) << fraction
    if field >= largest:
        toward = mode == "rz" or (mode == "rm" and not negative) or (mode == "rp" and negative)
        field = largest - 1 if toward else largest
    return (negative << total - 1) | field


def flushed(bits: int, form: str) -> int:
    """Subnormals to zero, keeping the sign."""
    total, fraction = FORMATS[form]
    if kind_of(bits, form) == "number" and not bits >> fraction & ((1 << total - fraction - 1) - 1):
        return bits >> total - 1 << total - 1
    return bits


def add(x: int, y: int, form: str, mode: str = "rn") -> int:
    return fma(x, rounded(Fraction(1), form), y, form, mode)


def mul(x: int, y: int, form: str, mode: str = "rn") -> int:
    a, b = kind_of(x, form), kind_of(y, form)
    negative = is_negative(x, form) != is_negative(y, form)
    if "nan" in (a, b) or {a, b} == {"inf", "zero"}:
        return nan(form)
    if "inf" in (a, b):
        return infinity(form, negative)
    return rounded(value_of(x, form) * value_of(y, form), form, mode, negative)


def fma(x: int, y: int, z: int, form: str, mode: str = "rn") -> int:
    a, b, c = (kind_of(item, form) for item in (x, y, z))
    negative = is_negative(x, form) != is_negative(y, form)
    if "nan" in (a, b, c) or {a, b} == {"inf", "zero"}:
        return nan(form)
    if "inf" in (a, b):
        return nan(form) if c == "inf" and is_negative(z, form) != negative else infinity(form, negative)
    if c == "inf":
        return z
    product, addend = value_of(x, form) * value_of(y, form), value_of(z, form)
    if product == 0 and addend == 0:
        minus = (negative and is_negative(z, form)) or (negative != is_negative(z, form) and mode == "rm")
    else:
        minus = mode == "rm"
    return rounded(product + addend, form, mode, minus)


def div(x: int, y: int, form: str, mode: str = "rn") -> int:
    a, b = kind_of(x, form), kind_of(y, form)
    negative = is_negative(x, form) != is_negative(y, form)
    if "nan" in (a, b) or a == b == "inf" or a == b == "zero":
        return nan(form)
    if a == "inf" or b == "zero":
        return infinity(form, negative)
    if b == "inf":
        return rounded(Fraction(0), form, mode, negative)
    return rounded(value_of(x, form) / value_of(y, form), form, mode, negative)


def sqrt(x: int, form: str, mode: str = "rn") -> int:
    kind = kind_of(x, form)
    if kind == "zero":
        return x
    if kind == "nan" or is_negative(x, form):
        return nan(form)
    if kind == "inf":
        return x
    # Enough digits that only exact squares look exact.
    value = value_of(x, form) * 4**600
    root = isqrt(value.numerator // value.denominator)
    exact = root * root == value
    return rounded(Fraction(root if exact else 2 * root + 1, 2**600 if exact else 2**601), form, mode)
