"""setp, set, selp and slct against comparisons of exact values."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest
from jit_tools import reference
from jit_tools.device import TinyDevice
from jit_tools.instructions import Case, verify
from jit_tools.reference import signed

ORDER: dict[str, Callable[..., bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_integers(device: TinyDevice, bits: int) -> None:
    generator = np.random.default_rng(bits)
    edges = np.array([0, 1, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1, 7], dtype=f"u{bits // 8}")
    a = np.concatenate([np.repeat(edges, 6), generator.integers(0, 1 << bits, 50, dtype=f"u{bits // 8}")])
    b = np.concatenate([np.tile(edges, 6), generator.integers(0, 1 << bits, 50, dtype=f"u{bits // 8}")])
    cases = []
    for name, function in ORDER.items():
        for sign in "su":

            def test(x: int, y: int, function: Callable[..., bool] = function, sign: str = sign) -> int:
                return int(function(signed(x, bits), signed(y, bits)) if sign == "s" else function(x, y))

            cases.append(
                (Case(f"setp.{name}.{sign}{bits} {{p}}, {{a}}, {{b}}; selp.u32 {{d}}, 1, 0, {{p}};", "u4"), test)
            )
            cases.append(
                (Case(f"set.{name}.u32.{sign}{bits} {{d}}, {{a}}, {{b}};", "u4"), lambda x, y, test=test: -test(x, y))
            )
    for name, unsigned in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")):
        text = f"setp.{name}.u{bits} {{p}}, {{a}}, {{b}}; selp.u32 {{d}}, 1, 0, {{p}};"
        cases.append((Case(text, "u4"), lambda x, y, f=ORDER[unsigned]: int(f(x, y))))
    verify(device, cases, {"a": a, "b": b})


@pytest.mark.parametrize("form", ["f16", "f32", "f64"])
def test_floats(device: TinyDevice, form: str) -> None:
    bits, _ = reference.FORMATS[form]
    one = reference.rounded(reference.Fraction(1), form)
    edges = [
        0,
        1 << bits - 1,
        one,
        one | 1 << bits - 1,
        one + 1,
        1,
        reference.infinity(form, False),
        reference.infinity(form, True),
        reference.nan(form),
    ]
    a = np.array(np.repeat(np.array(edges, dtype=f"u{bits // 8}"), len(edges)))
    b = np.array(np.tile(np.array(edges, dtype=f"u{bits // 8}"), len(edges)))

    def number(x: int) -> object:
        kind = reference.kind_of(x, form)
        if kind == "inf":
            return float("-inf") if reference.is_negative(x, form) else float("inf")
        return reference.value_of(x, form)

    cases = []
    for name, function in ORDER.items():
        for unordered in (False, True):

            def test(x: int, y: int, function: Callable[..., bool] = function, unordered: bool = unordered) -> int:
                if "nan" in (reference.kind_of(x, form), reference.kind_of(y, form)):
                    return int(unordered)
                return int(function(number(x), number(y)))

            full = name + "u" * unordered
            cases.append((Case(f"setp.{full}.{form} {{p}}, {{a}}, {{b}}; selp.u32 {{d}}, 1, 0, {{p}};", "u4"), test))
            if form == "f32":
                result = f"set.{full}.f32.f32 {{d}}, {{a}}, {{b}};"
                cases.append((Case(result, "f4"), lambda x, y, test=test: 0x3F80_0000 * test(x, y)))

    def nan(x: int, y: int) -> int:
        return int("nan" in (reference.kind_of(x, form), reference.kind_of(y, form)))

    cases.append((Case(f"setp.nan.{form} {{p}}, {{a}}, {{b}}; selp.u32 {{d}}, 1, 0, {{p}};", "u4"), nan))
    cases.append(
        (Case(f"setp.num.{form} {{p}}, {{a}}, {{b}}; selp.u32 {{d}}, 1, 0, {{p}};", "u4"), lambda x, y: 1 - nan(x, y))
    )
    view = "u2" if bits == 16 else f"f{bits // 8}"
    verify(device, cases, {"a": a.view(view), "b": b.view(view)})


def test_combined_predicates(device: TinyDevice) -> None:
    generator = np.random.default_rng(2)
    a, b, c = (generator.integers(0, 3, 100).astype("u4") for _ in range(3))
    first = "setp.ne.u32 {q}, {c}, 1; "
    verify(
        device,
        [
            (
                Case(first + "setp.lt.and.u32 {p}, {a}, {b}, {q}; selp.u32 {d}, 1, 0, {p};", "u4"),
                lambda a, b, c: a < b and c != 1,
            ),
            (
                Case(first + "setp.lt.or.u32 {p}, {a}, {b}, !{q}; selp.u32 {d}, 1, 0, {p};", "u4"),
                lambda a, b, c: a < b or c == 1,
            ),
            (
                Case(
                    first
                    + "setp.lt.xor.u32 {p}|{q}, {a}, {b}, {q}; selp.u32 %t0, 1, 0, {p}; selp.u32 {d}, 2, 0, {q}; or.b32 {d}, {d}, %t0;",
                    "u4",
                ),
                lambda a, b, c: int((a < b) != (c != 1)) | int((a >= b) != (c != 1)) << 1,
            ),
            (
                Case(first + "and.pred {p}, {q}, {q}; not.pred {p}, {p}; selp.u32 {d}, {a}, {b}, {p};", "u4"),
                lambda a, b, c: a if c == 1 else b,
            ),
            (Case("sub.s32 %t0, {c}, 1; slct.u32.s32 {d}, {a}, {b}, %t0;", "u4"), lambda a, b, c: a if c >= 1 else b),
            (Case(first + "@{q} mov.u32 {d}, {a}; @!{q} mov.u32 {d}, {b};", "u4"), lambda a, b, c: a if c != 1 else b),
        ],
        {"a": a, "b": b, "c": c},
    )
