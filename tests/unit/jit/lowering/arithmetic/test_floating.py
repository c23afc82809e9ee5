"""Float arithmetic, bit by bit, against exact rational arithmetic rounded as asked."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from jit_tools import reference
from jit_tools.device import TinyDevice
from jit_tools.instructions import Case, verify

MODES = ["rn", "rz", "rm", "rp"]


def numbers(form: str, seed: int) -> np.ndarray:
    """Edges first, then values of similar size (cancellation, halfway cases), then any bit patterns."""
    bits, fraction = reference.FORMATS[form]
    kind = f"u{bits // 8}"
    one = reference.rounded(Fraction(1), form)
    edges = [
        0, 1 << bits - 1, one, one | 1 << bits - 1, one + 1, one - 1, 1, (1 << fraction) - 1, 1 << fraction,
        reference.infinity(form, False) - 1, reference.infinity(form, True) - 1, reference.infinity(form, False),
        reference.infinity(form, True), reference.nan(form), 1 << bits - 1 | 1, one | 1 << fraction - 1,
    ]  # fmt: skip
    generator = np.random.default_rng(seed)
    rolled = np.concatenate([np.roll(np.array(edges, dtype=kind), shift * seed + seed) for shift in range(16)])
    near = generator.integers(one - (3 << fraction), one + (3 << fraction), 200, dtype=kind) | (
        generator.integers(0, 2, 200, dtype=kind) << np.array(bits - 1, dtype=kind)
    )
    wild = generator.integers(0, (1 << bits) - 1, 200, dtype=kind)
    return np.concatenate([rolled, near, wild]).view(f"f{bits // 8}")


@pytest.mark.parametrize("form", ["f32", "f64"])
@pytest.mark.parametrize("mode", MODES)
def test_rounded(device: TinyDevice, form: str, mode: str) -> None:
    out = f"f{reference.FORMATS[form][0] // 8}"
    one = reference.rounded(Fraction(1), form)
    flip = 1 << reference.FORMATS[form][0] - 1
    verify(
        device,
        [
            (Case(f"add.{mode}.{form} {{d}}, {{a}}, {{b}};", out), lambda a, b, c: reference.add(a, b, form, mode)),
            (
                Case(f"sub.{mode}.{form} {{d}}, {{a}}, {{b}};", out),
                lambda a, b, c: reference.add(a, b ^ flip, form, mode),
            ),
            (Case(f"mul.{mode}.{form} {{d}}, {{a}}, {{b}};", out), lambda a, b, c: reference.mul(a, b, form, mode)),
            (
                Case(f"fma.{mode}.{form} {{d}}, {{a}}, {{b}}, {{c}};", out),
                lambda a, b, c: reference.fma(a, b, c, form, mode),
            ),
            (Case(f"div.{mode}.{form} {{d}}, {{a}}, {{b}};", out), lambda a, b, c: reference.div(a, b, form, mode)),
            (Case(f"rcp.{mode}.{form} {{d}}, {{a}};", out), lambda a, b, c: reference.div(one, a, form, mode)),
            (Case(f"sqrt.{mode}.{form} {{d}}, {{a}};", out), lambda a, b, c: reference.sqrt(a, form, mode)),
        ],
        {"a": numbers(form, 1), "b": numbers(form, 2), "c": numbers(form, 3)},
    )


def test_ftz_and_saturation(device: TinyDevice) -> None:
    def f(bits: int) -> int:
        return reference.flushed(bits, "f32")

    def saturated(bits: int) -> int:
        kind = reference.kind_of(bits, "f32")
        if kind == "nan" or reference.is_negative(bits, "f32"):
            return 0
        return min(bits, 0x3F80_0000)

    verify(
        device,
        [
            (Case("add.ftz.f32 {d}, {a}, {b};", "f4"), lambda a, b, c: f(reference.add(f(a), f(b), "f32"))),
            (Case("mul.ftz.f32 {d}, {a}, {b};", "f4"), lambda a, b, c: f(reference.mul(f(a), f(b), "f32"))),
            (
                Case("fma.rn.ftz.f32 {d}, {a}, {b}, {c};", "f4"),
                lambda a, b, c: f(reference.fma(f(a), f(b), f(c), "f32")),
            ),
            (Case("add.sat.f32 {d}, {a}, {b};", "f4"), lambda a, b, c: saturated(reference.add(a, b, "f32"))),
            (Case("mul.rn.sat.f32 {d}, {a}, {b};", "f4"), lambda a, b, c: saturated(reference.mul(a, b, "f32"))),
            (Case("abs.ftz.f32 {d}, {a};", "f4"), lambda a, b, c: f(a) & 0x7FFF_FFFF),
            (Case("neg.ftz.f32 {d}, {a};", "f4"), lambda a, b, c: f(a) ^ 0x8000_0000),
        ],
        {"a": numbers("f32", 1), "b": numbers("f32", 2), "c": numbers("f32", 3)},
    )


@pytest.mark.parametrize("form", ["f32", "f64"])
def test_signs_and_extremes(device: TinyDevice, form: str) -> None:
    bits = reference.FORMATS[form][0]
    out = f"f{bits // 8}"
    sign = 1 << bits - 1

    def order(value: int) -> tuple[Fraction | float, int]:
        """Sorts -0 below +0."""
        if reference.kind_of(value, form) == "inf":
            return (float("-inf") if value & sign else float("inf"), 0)
        return (reference.value_of(value, form), 0 if value & sign else 1)

    def extreme(a: int, b: int, pick: object, propagate: bool) -> int:
        nans = [reference.kind_of(value, form) == "nan" for value in (a, b)]
        if any(nans):
            if all(nans) or propagate:
                return reference.nan(form)
            return b if nans[0] else a
        return pick(a, b, key=order)  # type: ignore[operator]

    cases = [
        (Case(f"abs.{form} {{d}}, {{a}};", out), lambda a, b: a & ~sign),
        (Case(f"neg.{form} {{d}}, {{a}};", out), lambda a, b: a ^ sign),
        (Case(f"copysign.{form} {{d}}, {{a}}, {{b}};", out), lambda a, b: (b & ~sign) | (a & sign)),
        (Case(f"min.{form} {{d}}, {{a}}, {{b}};", out), lambda a, b: extreme(a, b, min, False)),
        (Case(f"max.{form} {{d}}, {{a}}, {{b}};", out), lambda a, b: extreme(a, b, max, False)),
    ]
    if form == "f32":
        cases += [
            (Case("min.NaN.f32 {d}, {a}, {b};", out), lambda a, b: extreme(a, b, min, True)),
            (Case("max.NaN.f32 {d}, {a}, {b};", out), lambda a, b: extreme(a, b, max, True)),
        ]
    verify(device, cases, {"a": numbers(form, 1), "b": numbers(form, 2)})


@pytest.mark.parametrize("form", ["f16", "bf16"])
def test_half_precision(device: TinyDevice, form: str) -> None:
    bits, _ = reference.FORMATS[form]
    sign = 1 << bits - 1
    inputs = {name: numbers(form, index + 1).view("u2") for index, name in enumerate("abc")}

    def quiet(bits: int) -> int:
        return reference.nan(form) if reference.kind_of(bits, form) == "nan" else bits

    def compare(function: object) -> object:
        return lambda a, b, c: quiet(function(a, b, c))  # type: ignore[operator]

    # NaN payloads are not specified: a NaN result is made canonical.
    fix = f" setp.nan.{form} {{p}}, {{d}}, {{d}}; selp.b16 {{d}}, {reference.nan(form)}, {{d}}, {{p}};"
    verify(
        device,
        [
            (Case(f"add.{form} {{d}}, {{a}}, {{b}};{fix}", "u2"), compare(lambda a, b, c: reference.add(a, b, form))),
            (
                Case(f"sub.{form} {{d}}, {{a}}, {{b}};{fix}", "u2"),
                compare(lambda a, b, c: reference.add(a, b ^ sign, form)),
            ),
            (Case(f"mul.{form} {{d}}, {{a}}, {{b}};{fix}", "u2"), compare(lambda a, b, c: reference.mul(a, b, form))),
            (
                Case(f"fma.rn.{form} {{d}}, {{a}}, {{b}}, {{c}};{fix}", "u2"),
                compare(lambda a, b, c: reference.fma(a, b, c, form)),
            ),
            (Case(f"neg.{form} {{d}}, {{a}};{fix}", "u2"), compare(lambda a, b, c: a ^ sign)),
        ],
        inputs,
    )


def test_packed_half(device: TinyDevice) -> None:
    def join(*arrays: np.ndarray) -> np.ndarray:
        low, high = (array.view("u2").astype("u4") for array in arrays)
        return low | high << 16

    inputs = {name: join(numbers("f16", index + 1), numbers("f16", index + 5)) for index, name in enumerate("abc")}

    def both(function: object) -> object:
        def apply(*operands: int) -> int:
            halves = [function(*(value >> shift & 0xFFFF for value in operands)) for shift in (0, 16)]  # type: ignore[operator]
            # NaN payloads are not specified; the comparison is made on "is NaN".
            halves = [0x7E00 if reference.kind_of(half, "f16") == "nan" else half for half in halves]
            return halves[0] | halves[1] << 16

        return apply

    fix = (
        " mov.b32 {{%h0, %h1}}, {d}; setp.nan.f16 {p}, %h0, %h0; selp.b16 %h0, 0x7e00, %h0, {p};"
        " setp.nan.f16 {p}, %h1, %h1; selp.b16 %h1, 0x7e00, %h1, {p}; mov.b32 {d}, {{%h0, %h1}};"
    )
    verify(
        device,
        [
            (Case("add.f16x2 {d}, {a}, {b};" + fix, "u4"), both(lambda a, b, c: reference.add(a, b, "f16"))),
            (Case("sub.f16x2 {d}, {a}, {b};" + fix, "u4"), both(lambda a, b, c: reference.add(a, b ^ 0x8000, "f16"))),
            (Case("mul.f16x2 {d}, {a}, {b};" + fix, "u4"), both(lambda a, b, c: reference.mul(a, b, "f16"))),
            (Case("fma.rn.f16x2 {d}, {a}, {b}, {c};" + fix, "u4"), both(lambda a, b, c: reference.fma(a, b, c, "f16"))),
        ],
        inputs,
    )


def test_testp(device: TinyDevice) -> None:
    def normal(bits: int) -> bool:
        return reference.kind_of(bits, "f32") == "number" and reference.flushed(bits, "f32") == bits

    kinds = {
        "finite": lambda a: reference.kind_of(a, "f32") in ("zero", "number"),
        "infinite": lambda a: reference.kind_of(a, "f32") == "inf",
        "number": lambda a: reference.kind_of(a, "f32") != "nan",
        "notanumber": lambda a: reference.kind_of(a, "f32") == "nan",
        "normal": normal,
        "subnormal": lambda a: reference.kind_of(a, "f32") == "number" and not normal(a),
    }
    verify(
        device,
        [
            (Case(f"testp.{name}.f32 {{p}}, {{a}}; selp.u32 {{d}}, 1, 0, {{p}};", "u4"), test)
            for name, test in kinds.items()
        ],
        {"a": numbers("f32", 4)},
    )
