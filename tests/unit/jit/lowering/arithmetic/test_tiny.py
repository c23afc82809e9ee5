"""Formats of 6 and 4 bits, scales, fp8 of bf16 pairs: conversions against exact rational arithmetic."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from jit_tools import reference
from jit_tools.device import TinyDevice
from jit_tools.instructions import Case, verify
from jit_tools.reference import signed
from jit_tools.singles import singles

# Fraction bits, bias, largest code, NaN, bits of a value, bits between the two values of a pair.
FORMATS = {
    "e4m3": (3, 7, 0x7E, 0x7F, 8, 8), "e5m2": (2, 15, 0x7B, 0x7F, 8, 8), "e2m3": (3, 1, 0x1F, 0x1F, 6, 8), "e3m2": (2, 3, 0x1F, 0x1F, 6, 8),
    "e2m1": (1, 1, 0x07, 0x07, 4, 4),
}  # fmt: skip


@cache
def values(name: str) -> list[Fraction]:
    fraction, bias, largest = FORMATS[name][:3]
    found = []
    for code in range(largest + 1):
        exponent, low = code >> fraction, code & (1 << fraction) - 1
        whole = low + ((1 << fraction) if exponent else 0)
        found.append(Fraction(whole) * Fraction(2) ** (max(exponent, 1) - bias - fraction))
    return found


def narrowed(bits: int, name: str, form: str, mode: str = "rn", relu: bool = False) -> int:
    """The code of the nearest number, or (rz) of the next one towards zero."""
    known, sign = values(name), FORMATS[name][4] - 1
    kind = reference.kind_of(bits, form)
    if kind == "nan":
        return FORMATS[name][3]
    negative = reference.is_negative(bits, form)
    if relu and negative:
        return 0
    if kind == "inf":
        return len(known) - 1 | negative << sign
    size = abs(reference.value_of(bits, form))
    if mode == "rz":
        return bisect_right(known, size) - 1 | negative << sign
    above = bisect_left(known, size)
    near = range(max(above - 1, 0), min(above + 1, len(known)))
    return min(near, key=lambda item: (abs(known[item] - size), item & 1)) | negative << sign


def pair(one: Callable[[int], int], name: str) -> Callable[..., int]:
    return lambda a, b: one(b) | one(a) << FORMATS[name][5]


def inputs(name: str) -> np.ndarray:
    """Every number of the format, what lies halfway between, and a little beside; the usual floats."""
    exact = [float(value) for value in values(name)]
    middles = [(low + high) / 2 for low, high in pairwise(exact)]
    found = np.array([*exact, *middles], "f4")
    beside = np.concatenate([found, np.nextafter(found, np.float32(9e9)), np.nextafter(found, np.float32(-1))])
    return np.concatenate([beside, -beside, singles().view("f4")])


@pytest.mark.parametrize("name", FORMATS)
def test_to_pairs(device: TinyDevice, name: str) -> None:
    register = ".reg .b8 %s; " if name == "e2m1" else ".reg .b16 %s; "
    widen = "mov.b16 {d}, {{%s, 0}};" if name == "e2m1" else "mov.b16 {d}, %s;"
    cases = []
    for mode in ("rn", "rz"):
        for relu in ("", ".relu"):
            text = f"{{{{ {register}cvt.{mode}.satfinite{relu}.{name}x2.f32 %s, {{a}}, {{b}}; {widen} }}}}"
            cases.append((Case(text, "u2"), pair(lambda x, m=mode, r=relu: narrowed(x, name, "f32", m, bool(r)), name)))
    given = inputs(name)[:1000]
    verify(device, cases, {"a": given, "b": np.roll(given, 11)})
    for form in ("f16", "bf16"):
        codes = np.random.default_rng(4).integers(0, 1 << 32, 300, dtype="u4")
        text = f"{{{{ {register}cvt.rn.satfinite.{name}x2.{form}x2 %s, {{a}}; {widen} }}}}"

        def both(a: int, form: str = form) -> int:
            return narrowed(a & 0xFFFF, name, form) | narrowed(a >> 16, name, form) << FORMATS[name][5]

        verify(device, [(Case(text, "u2"), both)], {"a": codes})


@pytest.mark.parametrize("name", FORMATS)
def test_from_pairs(device: TinyDevice, name: str) -> None:
    _, _, largest, nan, bits, step = FORMATS[name]

    def widened(code: int, form: str) -> int:
        code &= (1 << bits) - 1
        negative, size = code >> bits - 1, code & (1 << bits - 1) - 1
        if name == "e5m2" and size == 0x7C:
            return reference.infinity(form, bool(negative))
        if size > largest or (name == "e4m3" and size == nan):
            return 0x7FFF
        return reference.rounded(values(name)[size], form) | negative << 15

    codes = np.arange(256, dtype="u2") | np.roll(np.arange(256, dtype="u2"), 77) << 8
    for form in ("f16", "bf16"):
        narrow = (
            "{{ .reg .b8 %s, %t; mov.b16 {{%s, %t}}, {a}; " if name == "e2m1" else "{{ .reg .b16 %s; mov.b16 %s, {a}; "
        )
        text = narrow + f".reg .b32 %z; cvt.rn.{form}x2.{name}x2 %z, %s; " + "mov.b32 {{LOW, HIGH}}, %z; "
        fix = f"setp.nan.{form} {{p}}, {{d}}, {{d}}; selp.b16 {{d}}, 0x7fff, {{d}}, {{p}}; }}}}"
        cases = [
            (Case(text.replace("LOW", "{d}").replace("HIGH", "_") + fix, "u2"), lambda a, f=form: widened(a, f)),
            (
                Case(text.replace("LOW", "_").replace("HIGH", "{d}") + fix, "u2"),
                lambda a, f=form: widened(a >> step, f),
            ),
        ]
        verify(device, cases, {"a": codes})


def scale(bits: int, mode: str, finite: bool) -> int:
    """The exponent of a magnitude, as a power of two between 2^-127 and 2^127."""
    kind = reference.kind_of(bits, "f32")
    if kind == "nan":
        return 0xFF
    if kind == "inf":
        return 0xFE if finite else 0xFF
    size = abs(reference.value_of(bits, "f32"))
    codes = [Fraction(2) ** (code - 127) for code in range(256)]
    code = bisect_left(codes, size) if mode == "rp" else max(bisect_right(codes, size) - 1, 0)
    return min(code, 0xFE) if finite else code


def test_scales(device: TinyDevice) -> None:
    powers = np.concatenate([2.0 ** np.arange(-130, 128), 1.5 * 2.0 ** np.arange(-130, 127)]).astype("f4")
    given = np.concatenate([powers, -powers[:50], singles().view("f4")])
    cases = []
    for mode in ("rz", "rp"):
        for finite in ("", ".satfinite"):
            text = f"cvt.{mode}{finite}.ue8m0x2.f32 {{d}}, {{a}}, {{b}};"
            one = lambda x, m=mode, f=finite: scale(x, m, bool(f))  # noqa: E731
            cases.append((Case(text, "u2"), lambda a, b, one=one: one(b) | one(a) << 8))
    verify(device, cases, {"a": given, "b": np.roll(given, 5)})

    def power(code: int) -> int:
        return 0x7FFF if code == 0xFF else 0x0040 if code == 0 else code << 7

    codes = np.arange(256, dtype="u2") | np.roll(np.arange(256, dtype="u2"), 9) << 8
    text = "{{ .reg .b32 %z; cvt.rn.bf16x2.ue8m0x2 %z, {a}; mov.b32 {d}, %z; }}"
    verify(device, [(Case(text, "u4"), lambda a: power(a & 255) | power(a >> 8) << 16)], {"a": codes})


def test_packing_narrow_integers(device: TinyDevice) -> None:
    a, b, c = (np.random.default_rng(seed).integers(-20, 20, 200).astype("i4").view("u4") for seed in (1, 2, 3))
    cases = []
    for name in ("u4", "s4", "u2", "s2"):
        bits, sign = int(name[1]), name[0] == "s"
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if sign else (0, (1 << bits) - 1)

        def packed(a: int, b: int, c: int, low: int = low, high: int = high, bits: int = bits) -> int:
            first, second = (max(low, min(high, signed(x, 32))) & (1 << bits) - 1 for x in (a, b))
            return c << 2 * bits | first << bits | second

        cases.append((Case(f"cvt.pack.sat.{name}.s32.b32 {{d}}, {{a}}, {{b}}, {{c}};", "u4"), packed))
    verify(device, cases, {"a": a, "b": b, "c": c})
