"""cvt between all types, bit by bit, against exact rational arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor, trunc

import numpy as np
import pytest
from jit_tools import reference
from jit_tools.device import TinyDevice
from jit_tools.instructions import Case, verify
from jit_tools.reference import signed

INTEGERS = [("s", 8), ("u", 8), ("s", 16), ("u", 16), ("s", 32), ("u", 32), ("s", 64), ("u", 64)]
HOLD = {8: "u2", 16: "u2", 32: "u4", 64: "u8"}


def floats(form: str) -> np.ndarray:
    """Edges, values round integers and halves, values round the limits of the integer types, any patterns."""
    bits, _ = reference.FORMATS[form]
    values: list[int] = [
        0,
        1 << bits - 1,
        reference.infinity(form, False),
        reference.infinity(form, True),
        reference.nan(form),
        1,
    ]
    for whole in (1, 2, 3, 127, 128, 255, 256, 32767, 65535, 1 << 31, (1 << 32) - 1, 1 << 53, 1 << 63, 1 << 64):
        for delta in (Fraction(0), Fraction(1, 2), Fraction(-1, 2), Fraction(1, 4), Fraction(-3, 4)):
            for sign in (1, -1):
                values.append(reference.rounded(sign * (whole + delta), form))
    generator = np.random.default_rng(11)
    values += [int(value) for value in generator.integers(0, (1 << bits) - 1, 150, dtype=f"u{bits // 8}")]
    array = np.array(values, dtype=f"u{bits // 8}")
    return array if bits == 16 else array.view(f"f{bits // 8}")


def integral(value: Fraction, mode: str) -> int:
    if mode == "rni":
        return round(value)
    return {"rzi": trunc, "rmi": floor, "rpi": ceil}[mode](value)


@pytest.mark.parametrize("form", ["f16", "f32", "f64"])
def test_float_to_integer(device: TinyDevice, form: str) -> None:
    def reference_for(sign: str, bits: int, mode: str) -> Callable[[int], int]:
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if sign == "s" else (0, (1 << bits) - 1)

        def convert(x: int) -> int:
            kind = reference.kind_of(x, form)
            if kind == "nan":
                top = low if sign == "s" else 1 << bits - 1
                return top if form == "f64" or bits == 64 else 0
            if kind == "inf":
                return low if reference.is_negative(x, form) else high
            return max(low, min(high, integral(reference.value_of(x, form), mode)))

        return convert

    cases = []
    for sign, bits in INTEGERS:
        for mode in ("rni", "rzi", "rmi", "rpi"):
            extend = 16 if bits == 8 else bits
            function = reference_for(sign, bits, mode)
            cases.append((Case(f"cvt.{mode}.{sign}{bits}.{form} {{d}}, {{a}};", HOLD[extend]), function))
    verify(device, cases, {"a": floats(form)})


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("source", [32, 64])
def test_integer_to_float(device: TinyDevice, mode: str, source: int) -> None:
    generator = np.random.default_rng(source)
    edges = [
        0,
        1,
        (1 << source) - 1,
        1 << source - 1,
        (1 << source - 1) - 1,
        (1 << 24) + 1,
        0xFFFFFF80,
        0x7FFFFFC0,
        (1 << 24) + 3,
    ]
    values = [value & (1 << source) - 1 for value in edges]
    values += [int(value) for value in generator.integers(0, 1 << source, 120, dtype=f"u{source // 8}")]
    values += [
        int(value) >> int(shift) for value, shift in zip(values[-100:], generator.integers(0, source, 100), strict=True)
    ]
    if source == 64:
        values += [(1 << 53) + 1, (1 << 54) + 3, (1 << 63) + 1025, (1 << 63) + 1024, (1 << 64) - 1024, (1 << 64) - 1025]
    cases = []
    for sign in "su":
        for form, hold in (("f32", "f4"), ("f64", "f8"), ("f16", "u2")):
            if form == "f16" and (mode != "rn"):
                continue

            def convert(x: int, sign: str = sign, form: str = form) -> int:
                return reference.rounded(Fraction(signed(x, source) if sign == "s" else x), form, mode)

            cases.append((Case(f"cvt.{mode}.{form}.{sign}{source} {{d}}, {{a}};", hold), convert))
    verify(device, cases, {"a": np.array(values, dtype=f"u{source // 8}")})


def test_integer_to_integer(device: TinyDevice) -> None:
    generator = np.random.default_rng(3)
    edges = [
        0,
        1,
        127,
        128,
        255,
        256,
        32767,
        32768,
        65535,
        65536,
        1 << 31,
        (1 << 31) - 1,
        (1 << 32) - 1,
        1 << 63,
        (1 << 64) - 1,
    ]
    wide = np.array(edges + [int(value) for value in generator.integers(0, 1 << 64, 100, dtype="u8")], dtype="u8")
    for source_bits in (16, 32, 64):
        cases = []
        for sign, bits in INTEGERS:
            if bits > source_bits:
                continue
            for to_sign, to_bits in INTEGERS:
                for saturate in ("", ".sat"):
                    low, high = (
                        (-(1 << to_bits - 1), (1 << to_bits - 1) - 1) if to_sign == "s" else (0, (1 << to_bits) - 1)
                    )

                    def convert(
                        x: int, bits: int = bits, sign: str = sign, low: int = low, high: int = high, saturate: str = saturate,
                        to: tuple[str, int] = (to_sign, to_bits),
                    ) -> int:  # fmt: skip
                        value = signed(x, bits) if sign == "s" else x & (1 << bits) - 1
                        if saturate:
                            return max(low, min(high, value))
                        return signed(value, to[1]) if to[0] == "s" else value & (1 << to[1]) - 1

                    text = f"cvt{saturate}.{to_sign}{to_bits}.{sign}{bits} {{d}}, {{a}};"
                    cases.append((Case(text, HOLD[max(to_bits, 16)]), convert))
        verify(device, cases, {"a": wide.astype(HOLD[source_bits])})


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_narrowing(device: TinyDevice, mode: str) -> None:
    def convert(source: str, target: str) -> Callable[[int], int]:
        def function(x: int) -> int:
            kind = reference.kind_of(x, source)
            if kind == "nan":
                return reference.nan(target)
            if kind == "inf":
                return reference.infinity(target, reference.is_negative(x, source))
            return reference.rounded(reference.value_of(x, source), target, mode, reference.is_negative(x, source))

        return function

    def halves(form: str) -> str:
        return f" setp.nan.{form} {{p}}, {{d}}, {{d}}; selp.b16 {{d}}, {reference.nan(form)}, {{d}}, {{p}};"

    values = [
        0x47800000,
        0x477FF000,
        0x477FEFFF,
        0x33000000,
        0x33000001,
        0x33800000,
        0x387FC000,
        0x387FE001,
        0x3F801000,
        0x3F803000,
    ]
    single = np.concatenate([np.array(values, dtype="u4").view("f4"), floats("f32")])
    verify(
        device,
        [
            (Case(f"cvt.{mode}.f16.f32 {{d}}, {{a}};" + halves("f16"), "u2"), convert("f32", "f16")),
            (Case(f"cvt.{mode}.bf16.f32 {{d}}, {{a}};" + halves("bf16"), "u2"), convert("f32", "bf16")),
            (Case("cvt.f64.f32 {d}, {a};", "f8"), convert("f32", "f64")),
        ],
        {"a": single},
    )
    close = single.astype("f8") * np.linspace(1 - 2**-40, 1 + 2**-40, len(single))
    verify(
        device,
        [
            (Case(f"cvt.{mode}.f32.f64 {{d}}, {{a}};", "f4"), convert("f64", "f32")),
            (Case(f"cvt.{mode}.f16.f64 {{d}}, {{a}};" + halves("f16"), "u2"), convert("f64", "f16")),
        ],
        {"a": np.concatenate([floats("f64"), close])},
    )


@pytest.mark.parametrize(("form", "out"), [("f32", "f4"), ("f64", "f8")])
def test_integral_floats_and_saturation(device: TinyDevice, form: str, out: str) -> None:
    def rounding(mode: str) -> Callable[[int], int]:
        def function(x: int) -> int:
            if reference.kind_of(x, form) in ("nan", "inf", "zero"):
                return x
            return reference.rounded(
                Fraction(integral(reference.value_of(x, form), mode)), form, "rn", reference.is_negative(x, form)
            )

        return function

    def saturated(x: int) -> int:
        if reference.kind_of(x, form) == "nan" or reference.is_negative(x, form):
            return 0
        return min(x, reference.rounded(Fraction(1), form))

    cases = [
        (Case(f"cvt.{mode}.{form}.{form} {{d}}, {{a}};", out), rounding(mode)) for mode in ("rni", "rzi", "rmi", "rpi")
    ]
    verify(device, [*cases, (Case(f"cvt.sat.{form}.{form} {{d}}, {{a}};", out), saturated)], {"a": floats(form)})


def test_widening_halves(device: TinyDevice) -> None:
    def widen(form: str, target: str) -> Callable[[int], int]:
        def function(x: int) -> int:
            kind = reference.kind_of(x, form)
            if kind == "nan":
                return reference.nan(target)
            if kind == "inf":
                return reference.infinity(target, reference.is_negative(x, form))
            return reference.rounded(reference.value_of(x, form), target, "rn", reference.is_negative(x, form))

        return function

    verify(
        device,
        [
            (Case("cvt.f32.f16 {d}, {a};", "f4"), widen("f16", "f32")),
            (Case("cvt.f64.f16 {d}, {a};", "f8"), widen("f16", "f64")),
            (Case("cvt.f32.bf16 {d}, {a};", "f4"), widen("bf16", "f32")),
        ],
        {"a": floats("f16")},
    )


def test_packing_conversion(device: TinyDevice) -> None:
    values = floats("f32")
    keep = np.isfinite(values)
    values = values[keep]

    def convert(a: int, b: int) -> int:
        high, low = (
            reference.rounded(reference.value_of(x, "f32"), "f16", "rn", reference.is_negative(x, "f32"))
            for x in (a, b)
        )
        return high << 16 | low

    verify(device, [(Case("cvt.rn.f16x2.f32 {d}, {a}, {b};", "u4"), convert)], {"a": values, "b": values[::-1].copy()})
