"""Small formats and packed operands: fp8, tf32, 16-bit floats with their modifiers, pairs of f32 and of 16-bit integers, video instructions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
from jit_tools import reference
from jit_tools.device import TinyDevice
from jit_tools.instructions import Case, verify
from jit_tools.reference import signed
from jit_tools.singles import singles


@cache
def fp8_values(name: str) -> list[Fraction]:
    """The magnitudes of codes 0.. up to the largest number."""
    fraction, bias, largest = {"e4m3": (3, 7, 0x7E), "e5m2": (2, 15, 0x7B)}[name]
    values = []
    for code in range(largest + 1):
        exponent, low = code >> fraction, code & (1 << fraction) - 1
        whole = low + ((1 << fraction) if exponent else 0)
        values.append(Fraction(whole) * Fraction(2) ** (max(exponent, 1) - bias - fraction))
    return values


def fp8(bits: int, name: str, form: str = "f32", relu: bool = False) -> int:
    """The nearest code, ties to the even one."""
    kind = reference.kind_of(bits, form)
    values = fp8_values(name)
    if kind == "nan":
        return 0x7F
    negative = reference.is_negative(bits, form)
    if relu and negative:
        return 0
    if kind == "inf":
        return len(values) - 1 | negative << 7
    size = abs(reference.value_of(bits, form))
    above = bisect_left(values, size)  # the only two that can be nearest
    near = range(max(above - 1, 0), min(above + 1, len(values)))
    code = min(near, key=lambda item: (abs(values[item] - size), item & 1))
    return code | negative << 7


def test_fp8(device: TinyDevice) -> None:
    def narrow(name: str, relu: str = "") -> tuple[Case, Callable[..., int]]:
        text = f"cvt.rn.satfinite{relu}.{name}x2.f32 {{d}}, {{a}}, {{b}};"
        return Case(text, "u2"), lambda a, b: fp8(a, name, "f32", bool(relu)) << 8 | fp8(b, name, "f32", bool(relu))

    values = singles().view("f4")
    verify(
        device,
        [narrow("e4m3"), narrow("e5m2"), narrow("e4m3", ".relu")],
        {"a": values, "b": np.roll(values, 7)},
    )

    def wide(code: int, name: str) -> int:
        size = fp8_values(name)
        if code & 0x7F >= len(size):
            return (
                reference.infinity("f16", bool(code >> 7))
                if code & 0x7F == 0x7C and name == "e5m2"
                else reference.nan("f16")
            )
        return reference.rounded(size[code & 0x7F], "f16") | code >> 7 << 15

    def half(code: int, name: str) -> int:
        return wide(code, name)

    codes = np.arange(256, dtype="u2") | np.roll(np.arange(256, dtype="u2"), 3) << 8
    low = "{{ .reg .b32 %z; cvt.rn.f16x2.NAMEx2 %z, {a}; mov.b32 {{{{{d}, _}}}}, %z; }}"
    high = "{{ .reg .b32 %z; cvt.rn.f16x2.NAMEx2 %z, {a}; mov.b32 {{{{_, {d}}}}}, %z; }}"
    low, high = low.replace("{{{{", "{{").replace("}}}}", "}}"), high.replace("{{{{", "{{").replace("}}}}", "}}")
    verify(
        device,
        [
            (Case(low.replace("NAME", "e4m3"), "f2"), lambda a: half(a & 255, "e4m3")),
            (Case(high.replace("NAME", "e4m3"), "f2"), lambda a: half(a >> 8, "e4m3")),
            (Case(low.replace("NAME", "e5m2"), "f2"), lambda a: half(a & 255, "e5m2")),
        ],
        {"a": codes},
    )
    halves = np.random.default_rng(8).integers(0, 1 << 32, 200, dtype="u4")
    verify(
        device,
        [
            (Case("{{ .reg .b16 %z; cvt.rn.satfinite.e4m3x2.f16x2 %z, {a}; cvt.u32.u16 {d}, %z; }}", "u4"),
             lambda a: fp8(a >> 16, "e4m3", "f16") << 8 | fp8(a & 0xFFFF, "e4m3", "f16")),
        ],
        {"a": halves},
    )  # fmt: skip


def tf32(bits: int, mode: str, saturating: bool = False) -> int:
    kind = reference.kind_of(bits, "f32")
    if kind == "nan":
        return 0x7FFFFFFF
    sign, size = bits & 0x80000000, bits & 0x7FFFFFFF
    if mode == "rna":
        size = size + 0x1000 & ~0x1FFF
    elif mode == "rz":
        size &= ~0x1FFF
    else:
        low = size & 0x1FFF
        size = (size & ~0x1FFF) + (0x2000 if low > 0x1000 or (low == 0x1000 and size & 0x2000) else 0)
    return sign | (0x7F7FE000 if saturating and size >= 0x7F800000 else size)


def small(form: str, mode: str, relu: bool = False, finite: bool = False, sat: bool = False) -> Callable[[int], int]:
    """f32 to a 16-bit format under the clamps."""

    def convert(bits: int) -> int:
        kind = reference.kind_of(bits, "f32")
        if kind == "nan":
            return 0 if sat else reference.nan(form)
        negative = reference.is_negative(bits, "f32")
        if (relu or sat) and negative:
            return 0
        if sat and (kind == "inf" or reference.value_of(bits, "f32") >= 1):
            return reference.rounded(Fraction(1), form)
        result = (
            reference.infinity(form, negative)
            if kind == "inf"
            else reference.rounded(reference.value_of(bits, "f32"), form, mode, negative)
        )
        return result - 1 if finite and reference.kind_of(result, form) == "inf" else result

    return convert


def test_rounding_to_16_bits_and_tf32(device: TinyDevice) -> None:
    values = singles().view("f4")
    cases: dict[str, list[tuple[Case, Callable[..., int]]]] = {"f16": [], "bf16": []}
    for form, found in cases.items():
        modifiers: dict[str, dict[str, bool]] = {"": {}, ".relu": {"relu": True}}
        if form == "bf16":
            modifiers[".satfinite"] = {"finite": True}
        for mode in ("rn", "rz"):
            for suffix, options in modifiers.items():
                text = f"cvt.{mode}{suffix}.{form}.f32 {{d}}, {{a}};"
                found.append((Case(text, "f2" if form == "f16" else "u2"), small(form, mode, **options)))
    cases["f16"].append((Case("cvt.rn.sat.f16.f32 {d}, {a};", "f2"), small("f16", "rn", sat=True)))
    verify(device, cases["f16"], {"a": values})
    # Any NaN counts as any other only where the comparison knows the format.
    verify(device, cases["bf16"], {"a": values[~np.isnan(values)]})
    verify(
        device,
        [
            (Case("cvt.rna.tf32.f32 {d}, {a};", "u4"), lambda a: tf32(a, "rna")),
            (Case("cvt.rn.tf32.f32 {d}, {a};", "u4"), lambda a: tf32(a, "rn")),
            (Case("cvt.rz.tf32.f32 {d}, {a};", "u4"), lambda a: tf32(a, "rz")),
            (Case("cvt.rn.satfinite.tf32.f32 {d}, {a};", "u4"), lambda a: tf32(a, "rn", True)),
            (Case("cvt.rz.relu.tf32.f32 {d}, {a};", "u4"),
             lambda a: 0 if a >> 31 and reference.kind_of(a, "f32") != "nan" else tf32(a, "rz")),
        ],
        {"a": values},
    )  # fmt: skip


def test_16_bit_floats(device: TinyDevice) -> None:
    """.ftz, .sat, .relu and .xorsign.abs on f16; .relu propagates NaN."""
    generator = np.random.default_rng(6)
    edges = np.array(
        [0, 0x8000, 1, 0x8001, 0x3FF, 0x83FF, 0x400, 0x8400, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0x7BFF, 0x0200],
        "u2",
    )
    pool = np.concatenate([edges, generator.integers(0, 1 << 16, 40).astype("u2")])
    x, y, z = (generator.choice(pool, 400).view("f2") for _ in range(3))

    def flush(bits: int) -> int:
        return reference.flushed(bits, "f16")

    def clamp(bits: int) -> int:
        if reference.kind_of(bits, "f16") == "nan" or reference.is_negative(bits, "f16"):
            return 0
        return min(bits, 0x3C00)

    def relu(bits: int) -> int:
        return 0 if reference.is_negative(bits, "f16") and reference.kind_of(bits, "f16") != "nan" else bits

    def xorsign(a: int, b: int) -> int:
        kinds = reference.kind_of(a, "f16"), reference.kind_of(b, "f16")
        if kinds == ("nan", "nan"):
            return reference.nan("f16")
        sizes = [bits & 0x7FFF for bits, kind in zip((a, b), kinds, strict=True) if kind != "nan"]
        return min(sizes) | (a ^ b) & 0x8000

    verify(
        device,
        [
            (Case("add.rn.ftz.f16 {d}, {a}, {b};", "f2"), lambda a, b, c: flush(reference.add(flush(a), flush(b), "f16"))),
            (Case("mul.ftz.sat.f16 {d}, {a}, {b};", "f2"), lambda a, b, c: flush(clamp(reference.mul(flush(a), flush(b), "f16")))),
            (Case("sub.sat.f16 {d}, {a}, {b};", "f2"), lambda a, b, c: clamp(reference.add(a, b ^ 0x8000, "f16"))),
            (Case("fma.rn.relu.f16 {d}, {a}, {b}, {c};", "f2"), lambda a, b, c: relu(reference.fma(a, b, c, "f16"))),
            (Case("fma.rn.sat.f16 {d}, {a}, {b}, {c};", "f2"), lambda a, b, c: clamp(reference.fma(a, b, c, "f16"))),
            (Case("min.xorsign.abs.f16 {d}, {a}, {b};", "f2"), lambda a, b, c: xorsign(a, b)),
            (Case("abs.ftz.f16 {d}, {a};", "f2"), lambda a, b, c: flush(a) & 0x7FFF),
            (Case("set.lt.ftz.f16.f16 {d}, {a}, {b};", "f2"),
             lambda a, b, c: 0x3C00 if "nan" not in (reference.kind_of(a, "f16"), reference.kind_of(b, "f16"))
             and value(flush(a)) < value(flush(b)) else 0),
        ],
        {"a": x, "b": y, "c": z},
    )  # fmt: skip


def value(bits: int) -> Fraction:
    kind = reference.kind_of(bits, "f16")
    return Fraction(2) ** 20 * (-1 if bits >> 15 else 1) if kind == "inf" else reference.value_of(bits, "f16")


def test_pairs(device: TinyDevice) -> None:
    """f32x2 in 64 bits, 16-bit integers in 32, saturated packing, predicates of lop3."""
    generator = np.random.default_rng(4)
    finite = (generator.standard_normal((300, 6)) * 2.0 ** generator.integers(-140, 60, (300, 6))).astype("f4")
    x, y, z = (np.ascontiguousarray(finite[:, 2 * n : 2 * n + 2]).view("u8").reshape(-1) for n in range(3))

    def both(function: Callable[..., int]) -> Callable[..., int]:
        return lambda *bits: (
            function(*(item & 0xFFFFFFFF for item in bits)) | function(*(item >> 32 for item in bits)) << 32
        )

    def flushed(bits: int) -> int:
        return reference.flushed(bits, "f32")

    verify(
        device,
        [
            (Case("add.rm.f32x2 {d}, {a}, {b};", "u8"), both(lambda a, b, c: reference.add(a, b, "f32", "rm"))),
            (
                Case("mul.rn.ftz.f32x2 {d}, {a}, {b};", "u8"),
                both(lambda a, b, c: flushed(reference.mul(flushed(a), flushed(b), "f32"))),
            ),
            (Case("fma.rz.f32x2 {d}, {a}, {b}, {c};", "u8"), both(lambda a, b, c: reference.fma(a, b, c, "f32", "rz"))),
        ],
        {"a": x, "b": y, "c": z},
    )
    edges = np.array(
        [0, 1, 0xFFFF, 0x7FFF8000, 0x80007FFF, 0xFFFF0001, 0x12345678, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], "u4"
    )
    pool = np.concatenate([edges, generator.integers(0, 1 << 32, 60, dtype="u4")])
    a, b, c = (generator.choice(pool, 300) for _ in range(3))

    def pair(function: Callable[[int, int], int]) -> Callable[..., int]:
        return lambda a, b, c: function(a & 0xFFFF, b & 0xFFFF) & 0xFFFF | (function(a >> 16, b >> 16) & 0xFFFF) << 16

    def s16(bits: int) -> int:
        return signed(bits, 16)

    def clip(bits: int, low: int, high: int) -> int:
        return max(low, min(high, signed(bits, 32)))

    def sat32(number: int) -> int:
        return max(-(1 << 31), min((1 << 31) - 1, number))

    verify(
        device,
        [
            (Case("add.u16x2 {d}, {a}, {b};", "u4"), pair(lambda a, b: a + b)),
            (Case("min.s16x2 {d}, {a}, {b};", "u4"), pair(lambda a, b: min(s16(a), s16(b)))),
            (Case("max.u16x2 {d}, {a}, {b};", "u4"), pair(max)),
            (Case("max.relu.s16x2 {d}, {a}, {b};", "u4"), pair(lambda a, b: max(s16(a), s16(b), 0))),
            (Case("min.relu.s32 {d}, {a}, {b};", "u4"), lambda a, b, c: max(min(signed(a, 32), signed(b, 32)), 0)),
            (Case("mad.hi.sat.s32 {d}, {a}, {b}, {c};", "u4"),
             lambda a, b, c: sat32((signed(a, 32) * signed(b, 32) >> 32) + signed(c, 32))),
            (Case("cvt.pack.sat.u8.s32.b32 {d}, {a}, {b}, {c};", "u4"),
             lambda a, b, c: clip(b, 0, 255) | clip(a, 0, 255) << 8 | c << 16),
            (Case("cvt.pack.sat.s16.s32 {d}, {a}, {b};", "u4"),
             lambda a, b, c: clip(b, -32768, 32767) & 0xFFFF | (clip(a, -32768, 32767) & 0xFFFF) << 16),
            (Case("setp.lt.u32 {p}, {a}, {b}; lop3.and.b32 {d}|{q}, {a}, {b}, {c}, 0x80, {p}; selp.u32 {d}, 1, 0, {q};", "u4"),
             lambda a, b, c: int(bool(a & b & c) and a < b)),
        ],
        {"a": a, "b": b, "c": c},
    )  # fmt: skip


def fields(word: int, bits: int, sign: bool) -> list[int]:
    values = [word >> shift & (1 << bits) - 1 for shift in range(0, 32, bits)]
    return [signed(item, bits) for item in values] if sign else values


VIDEO: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vavrg": lambda a, b: a + b + (a + b >= 0) >> 1,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
}


def simd(name: str, count: int, types: tuple[str, str, str], mode: str) -> tuple[Case, Callable[..., int]]:
    bits = 32 // count
    function = VIDEO[name]

    def lanes(a: int, b: int) -> list[int]:
        return [
            function(x, y)
            for x, y in zip(fields(a, bits, types[1] == "s32"), fields(b, bits, types[2] == "s32"), strict=True)
        ]

    def expected(a: int, b: int, c: int) -> int:
        found = lanes(a, b)
        if mode == ".add":
            return c + sum(found)
        if mode == ".sat":
            low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if types[0] == "s32" else (0, (1 << bits) - 1)
            found = [max(low, min(high, item)) for item in found]
        return sum((item & (1 << bits) - 1) << bits * index for index, item in enumerate(found))

    text = (
        f"{name}{count if count > 1 else ''}.{'.'.join(types)}{mode} {{d}}, {{a}}, {{b}}{', {c}' if count > 1 else ''};"
    )
    return Case(text, "u4"), expected


def test_video(device: TinyDevice) -> None:
    generator = np.random.default_rng(2)
    words = {name: generator.integers(0, 1 << 32, 300, dtype="u4") for name in "abc"}
    types = [("u32", "u32", "u32"), ("s32", "s32", "s32"), ("s32", "u32", "s32"), ("u32", "s32", "u32")]
    cases = []
    for number, name in enumerate(VIDEO):
        for count in (2, 4):
            cases.append(simd(name, count, types[number % 4], ""))
            cases.append(simd(name, count, types[(number + count) % 4], ".add" if number % 2 else ".sat"))
        if name != "vavrg":
            cases.append(simd(name, 1, types[number % 4], ".sat"))
    cases = [
        case
        for case in cases
        if not any(f"{name}{n}" in case[0].text and ".sat" in case[0].text for name in ("vmin", "vavrg") for n in "24")
    ]
    cases.append((
        Case("vset4.u32.u32.gt {d}, {a}, {b}, {c};", "u4"),
        lambda a, b, c: sum((x > y) << 8 * n for n, (x, y) in enumerate(zip(fields(a, 8, False), fields(b, 8, False), strict=True))),
    ))  # fmt: skip
    cases.append((Case("vshl.u32.u32.u32.clamp {d}, {a}, {b};", "u4"), lambda a, b, c: 0 if b > 31 else a << b))
    cases.append((Case("vshr.s32.s32.u32.wrap {d}, {a}, {b};", "u4"), lambda a, b, c: signed(a, 32) >> (b & 31)))
    verify(device, cases, words)
