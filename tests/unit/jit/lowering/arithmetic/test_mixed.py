"""Float operations that came with newer architectures: sums of f32 and 16-bit numbers, extremes of three, fma.oob."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from farlane.backend import jit
from jit_tools import mnemonics, reference
from jit_tools.device import TinyDevice
from jit_tools.instructions import Case, verify
from jit_tools.singles import singles

HALVES = np.array(
    [0, 0x8000, 0x3C00, 0xBC00, 0x0001, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x3555, 0x4248, 0x1234, 0xD678], "u2"
)
OUTSIDE = 0x7FF7


def patterns(count: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    edges = generator.choice(HALVES, count // 2)
    return np.concatenate([edges, generator.integers(0, 1 << 16, count - count // 2, dtype="u2")])


def widened(code: int, form: str) -> int:
    """A 16-bit number as an f32."""
    kind, negative = reference.kind_of(code, form), reference.is_negative(code, form)
    if kind == "nan":
        return reference.nan("f32")
    if kind == "inf":
        return reference.infinity("f32", negative)
    return reference.rounded(reference.value_of(code, form), "f32", zero_negative=negative)


@pytest.mark.parametrize("form", ["f16", "bf16"])
def test_sums_with_f32(device: TinyDevice, form: str) -> None:
    c = singles()
    operands = {"a": patterns(len(c), 1), "b": patterns(len(c), 2), "c": c.view("f4")}
    cases: list[tuple[Case, Callable[..., int]]] = []
    for mode in ("rn", "rz", "rm", "rp"):
        cases += [
            (
                Case(f"add.{mode}.f32.{form} {{d}}, {{a}}, {{c}};", "f4"),
                lambda a, b, c, mode=mode: reference.add(widened(a, form), c, "f32", mode),
            ),
            (
                Case(f"sub.{mode}.f32.{form} {{d}}, {{a}}, {{c}};", "f4"),
                lambda a, b, c, mode=mode: reference.add(widened(a, form), c ^ 1 << 31, "f32", mode),
            ),
            (
                Case(f"fma.{mode}.f32.{form} {{d}}, {{a}}, {{b}}, {{c}};", "f4"),
                lambda a, b, c, mode=mode: reference.fma(widened(a, form), widened(b, form), c, "f32", mode),
            ),
        ]

    def saturated(a: int, b: int, c: int) -> int:
        whole = reference.add(widened(a, form), c, "f32")
        if reference.kind_of(whole, "f32") == "nan" or reference.is_negative(whole, "f32"):
            return 0
        return min(whole, 0x3F800000)

    cases.append((Case(f"add.sat.f32.{form} {{d}}, {{a}}, {{c}};", "f4"), saturated))
    verify(device, cases, operands)


def extreme(values: list[int], least: bool, nan: bool) -> int:
    numbers = [value for value in values if reference.kind_of(value, "f32") != "nan"]
    if not numbers or (nan and len(numbers) < len(values)):
        return 0x7FFFFFFF

    def key(value: int) -> int:
        return -(value & 0x7FFFFFFF) - 1 if value >> 31 else value

    return (min if least else max)(numbers, key=key)


def test_extremes_of_three(device: TinyDevice) -> None:
    c = singles()
    a, b = np.roll(c, 7), np.roll(c, 40)
    operands = {"a": a.view("f4"), "b": b.view("f4"), "c": c.view("f4")}
    cases: list[tuple[Case, Callable[..., int]]] = []
    for base in ("min", "max"):
        for nan in ("", ".NaN"):
            for size in ("", ".abs"):
                mask = 0x7FFFFFFF if size else 0xFFFFFFFF
                cases.append(
                    (
                        Case(f"{base}{nan}{size}.f32 {{d}}, {{a}}, {{b}}, {{c}};", "f4"),
                        lambda *v, base=base, nan=nan, mask=mask: extreme(
                            [x & mask for x in v], base == "min", bool(nan)
                        ),
                    )
                )
    verify(device, cases, operands)


@pytest.mark.parametrize("form", ["f16", "bf16"])
def test_factors_from_outside(device: TinyDevice, form: str) -> None:
    """fma.oob is 0 where a factor is what a tensor copy left for an element outside, whatever its sign; else it is fma."""
    generator = np.random.default_rng(3)
    a, b, c = (patterns(200, seed) for seed in (4, 5, 6))
    for values, count in ((a, 40), (b, 40), (c, 20)):
        values[generator.choice(200, count, replace=False)] = OUTSIDE
        values[generator.choice(200, count // 2, replace=False)] = OUTSIDE | 0x8000

    def product(a: int, b: int, c: int) -> int:
        if OUTSIDE in (a & 0x7FFF, b & 0x7FFF):
            return 0
        whole = reference.fma(a, b, c, form)
        return 0x7FFF if reference.kind_of(whole, form) == "nan" else whole

    def clamped(a: int, b: int, c: int) -> int:
        whole = product(a, b, c)
        return 0 if whole >> 15 else whole

    fix = f"setp.nan.{form} {{p}}, {{d}}, {{d}}; selp.b16 {{d}}, 0x7fff, {{d}}, {{p}};"
    cases = [
        (Case(f"fma.rn.oob.{form} {{d}}, {{a}}, {{b}}, {{c}};{fix}", "u2"), product),
        (Case(f"fma.rn.oob.relu.{form} {{d}}, {{a}}, {{b}}, {{c}};{fix}", "u2"), clamped),
    ]
    verify(device, cases, {"a": a, "b": b, "c": c})
    text = (
        "mov.b32 %t0, {{{a}, {b}}}; mov.b32 %t1, {{{b}, {c}}}; mov.b32 %t2, {{{c}, {a}}}; "
        f"fma.rn.oob.{form}x2 %t3, %t0, %t1, %t2; "
    )
    halves = [
        (Case(text + "mov.b32 {{{d}, %h0}}, %t3;" + fix, "u2"), product),
        (Case(text + "mov.b32 {{%h0, {d}}}, %t3;" + fix, "u2"), lambda a, b, c: product(b, c, a)),
    ]
    verify(device, halves, {"a": a, "b": b, "c": c})


@pytest.mark.parametrize("text", ["add.ftz.f32.f16 %f1, %h1, %f2;", "mul.f32.f16 %f1, %h1, %f2;", "fma.rn.oob.f32 %f1, %f2, %f3, %f4;", "min.f32.f16 %f1, %h1, %f2;", "min.xorsign.abs.f32 %f1, %f2, %f3, %f4;"])  # fmt: skip
def test_what_is_no_form(text: str) -> None:
    module = jit.parse_module(mnemonics.kernel(["ret"]).replace("ret ;", text + " ret;"))
    with pytest.raises(jit.PtxError):
        jit.compile_kernel(module, "k", (32, 1, 1), jit.Options(cache=False))
