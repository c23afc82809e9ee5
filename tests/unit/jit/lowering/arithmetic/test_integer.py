"""Integer arithmetic against Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from jit_tools.device import TinyDevice
from jit_tools.instructions import Case, verify
from jit_tools.reference import signed

EDGES = [
    0,
    1,
    2,
    3,
    5,
    7,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0xFFFF_FFFE,
    12345,
    1 << 63,
    (1 << 64) - 1,
]


def operands(bits: int, count: int = 3) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(bits)
    kind = f"u{bits // 8}"
    edges = np.array([value & ((1 << bits) - 1) for value in EDGES], dtype=kind)
    result = {}
    for index, name in enumerate("abce"[:count]):
        rolled = np.concatenate([np.roll(edges, shift * (index + 1) + index) for shift in range(6)])
        wild = generator.integers(0, 1 << bits, 100, dtype=kind)
        result[name] = np.concatenate([rolled, wild])
    return result


def truncated_division(x: int, y: int) -> int:
    quotient = abs(x) // abs(y)
    return -quotient if (x < 0) != (y < 0) else quotient


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_basic(device: TinyDevice, bits: int) -> None:
    out = f"u{bits // 8}"
    mask = (1 << bits) - 1

    def s(value: int) -> int:
        return signed(value, bits)

    def case(text: str) -> Case:
        return Case(text.replace("U", f"u{bits}").replace("S", f"s{bits}"), out)

    def remainder(x: int, y: int) -> int:
        return x - y * truncated_division(x, y) if y else x

    verify(
        device,
        [
            (case("add.S {d}, {a}, {b};"), lambda a, b, c: a + b),
            (case("sub.S {d}, {a}, {b};"), lambda a, b, c: a - b),
            (case("mul.lo.S {d}, {a}, {b};"), lambda a, b, c: a * b),
            (case("mul.hi.S {d}, {a}, {b};"), lambda a, b, c: s(a) * s(b) >> bits),
            (case("mul.hi.U {d}, {a}, {b};"), lambda a, b, c: a * b >> bits),
            (case("mad.lo.S {d}, {a}, {b}, {c};"), lambda a, b, c: a * b + c),
            (case("mad.hi.U {d}, {a}, {b}, {c};"), lambda a, b, c: (a * b >> bits) + c),
            (case("mad.hi.S {d}, {a}, {b}, {c};"), lambda a, b, c: (s(a) * s(b) >> bits) + c),
            (case("div.S {d}, {a}, {b};"), lambda a, b, c: truncated_division(s(a), s(b)) if b else -1),
            (case("div.U {d}, {a}, {b};"), lambda a, b, c: a // b if b else -1),
            (case("rem.S {d}, {a}, {b};"), lambda a, b, c: remainder(s(a), s(b))),
            (case("rem.U {d}, {a}, {b};"), lambda a, b, c: a % b if b else a),
            (case("min.S {d}, {a}, {b};"), lambda a, b, c: min(s(a), s(b))),
            (case("max.S {d}, {a}, {b};"), lambda a, b, c: max(s(a), s(b))),
            (case("min.U {d}, {a}, {b};"), lambda a, b, c: min(a, b)),
            (case("max.U {d}, {a}, {b};"), lambda a, b, c: max(a, b)),
            (case("abs.S {d}, {a};"), lambda a, b, c: abs(s(a))),
            (case("neg.S {d}, {a};"), lambda a, b, c: -a),
            (case("sad.U {d}, {a}, {b}, {c};"), lambda a, b, c: abs(a - b) + c),
            (case("sad.S {d}, {a}, {b}, {c};"), lambda a, b, c: (abs(s(a) - s(b)) & mask) + c),
            (case("add.S {d}, {a}, -7;"), lambda a, b, c: a - 7),
        ],
        operands(bits),
    )


@pytest.mark.parametrize(("bits", "wide"), [(16, "u4"), (32, "u8")])
def test_wide(device: TinyDevice, bits: int, wide: str) -> None:
    inputs = operands(bits, 2)
    inputs["c"] = np.random.default_rng(1).integers(0, 1 << 2 * bits, len(inputs["a"]), dtype=wide)
    verify(
        device,
        [
            (Case(f"mul.wide.s{bits} {{d}}, {{a}}, {{b}};", wide), lambda a, b, c: signed(a, bits) * signed(b, bits)),
            (Case(f"mul.wide.u{bits} {{d}}, {{a}}, {{b}};", wide), lambda a, b, c: a * b),
            (
                Case(f"mad.wide.s{bits} {{d}}, {{a}}, {{b}}, {{c}};", wide),
                lambda a, b, c: signed(a, bits) * signed(b, bits) + c,
            ),
            (Case(f"mad.wide.u{bits} {{d}}, {{a}}, {{b}}, {{c}};", wide), lambda a, b, c: a * b + c),
            (Case(f"mul.wide.u{bits} {{d}}, {{a}}, 12;", wide), lambda a, b, c: a * 12),
        ],
        inputs,
    )


def test_saturating_and_24_bit(device: TinyDevice) -> None:
    def clamp(value: int) -> int:
        return max(-(1 << 31), min((1 << 31) - 1, value))

    def s24(value: int) -> int:
        return signed(value, 24)

    verify(
        device,
        [
            (Case("add.sat.s32 {d}, {a}, {b};", "u4"), lambda a, b, c: clamp(signed(a, 32) + signed(b, 32))),
            (Case("sub.sat.s32 {d}, {a}, {b};", "u4"), lambda a, b, c: clamp(signed(a, 32) - signed(b, 32))),
            (Case("mul24.lo.s32 {d}, {a}, {b};", "u4"), lambda a, b, c: s24(a) * s24(b)),
            (Case("mul24.hi.u32 {d}, {a}, {b};", "u4"), lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16),
            (Case("mad24.lo.u32 {d}, {a}, {b}, {c};", "u4"), lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
        ],
        operands(32),
    )


def test_carry_chains(device: TinyDevice) -> None:
    """128-bit addition, subtraction and product built from 32-bit steps."""
    add = (
        "mov.b64 {{%t0, %t1}}, {a}; mov.b64 {{%t2, %t3}}, {b}; mov.b64 {{%t4, %t5}}, {c};"
        "add.cc.u32 %t6, %t0, %t2; addc.cc.u32 %t7, %t1, %t3; addc.u32 %t0, %t4, %t5; mov.b64 {d}, {{%t7, %t0}};"
    )
    sub = (
        "mov.b64 {{%t0, %t1}}, {a}; mov.b64 {{%t2, %t3}}, {b}; mov.b64 {{%t4, %t5}}, {c};"
        "sub.cc.u32 %t6, %t0, %t2; subc.cc.u32 %t7, %t1, %t3; subc.u32 %t0, %t4, %t5; mov.b64 {d}, {{%t7, %t0}};"
    )
    # (a.lo * b.lo) + c, then the carry into hi products.
    mad = (
        "mov.b64 {{%t0, %t1}}, {a}; mov.b64 {{%t2, %t3}}, {b}; mov.b64 {{%t4, %t5}}, {c};"
        "mad.lo.cc.u32 %t6, %t0, %t2, %t4; madc.hi.cc.u32 %t7, %t0, %t2, %t5; addc.u32 %t3, 0, 0; mov.b64 {d}, {{%t6, %t7}};"
    )
    low = (1 << 32) - 1

    def add_reference(a: int, b: int, c: int) -> int:
        total = a + b
        return (total >> 32 & low) | ((c & low) + (c >> 32) + (total >> 64) & low) << 32

    def sub_reference(a: int, b: int, c: int) -> int:
        total = a - b
        return (total >> 32 & low) | ((c & low) - (c >> 32) - (total < 0) & low) << 32

    verify(
        device,
        [
            (Case(add, "u8"), add_reference),
            (Case(sub, "u8"), sub_reference),
            (Case(mad, "u8"), lambda a, b, c: (a & low) * (b & low) + c),
            (Case("add.cc.u64 {d}, {a}, {b}; addc.u64 {d}, {c}, 0;", "u8"), lambda a, b, c: c + (a + b >> 64)),
            (Case("sub.cc.u64 {d}, {a}, {b}; subc.u64 {d}, {c}, 0;", "u8"), lambda a, b, c: c - (a < b)),
            # What follows is another operation than the one before: CC is the adder's carry, which is no borrow.
            (Case("sub.cc.u64 {d}, {a}, {b}; addc.u64 {d}, {c}, 0;", "u8"), lambda a, b, c: c + (a >= b)),
            (Case("add.cc.u64 {d}, {a}, {b}; subc.u64 {d}, {c}, 0;", "u8"), lambda a, b, c: c - 1 + (a + b >> 64)),
            (
                Case("add.cc.u64 {d}, {a}, {b}; subc.cc.u64 {d}, {c}, {a}; addc.u64 {d}, 0, 0;", "u8"),
                lambda a, b, c: c + (a ^ (1 << 64) - 1) + (a + b >> 64) >> 64,
            ),
        ],
        operands(64),
    )


def test_dot_products_and_video(device: TinyDevice) -> None:
    def byte(value: int, index: int, sign: bool) -> int:
        part = value >> 8 * index & 255
        return signed(part, 8) if sign else part

    def half(value: int, index: int, sign: bool) -> int:
        part = value >> 16 * index & 0xFFFF
        return signed(part, 16) if sign else part

    def dp4a(first: bool, second: bool):  # type: ignore[no-untyped-def]
        return lambda a, b, c: c + sum(byte(a, index, first) * byte(b, index, second) for index in range(4))

    def dp2a(start: int):  # type: ignore[no-untyped-def]
        return lambda a, b, c: c + sum(half(a, index, True) * byte(b, start + index, False) for index in range(2))

    def differences(a: int, b: int, width: int) -> list[int]:
        return [abs((a >> at & (1 << width) - 1) - (b >> at & (1 << width) - 1)) for at in range(0, 32, width)]

    verify(
        device,
        [
            (Case("dp4a.s32.s32 {d}, {a}, {b}, {c};", "u4"), dp4a(True, True)),
            (Case("dp4a.u32.u32 {d}, {a}, {b}, {c};", "u4"), dp4a(False, False)),
            (Case("dp4a.s32.u32 {d}, {a}, {b}, {c};", "u4"), dp4a(True, False)),
            (Case("dp2a.lo.s32.u32 {d}, {a}, {b}, {c};", "u4"), dp2a(0)),
            (Case("dp2a.hi.s32.u32 {d}, {a}, {b}, {c};", "u4"), dp2a(2)),
            (
                Case("vabsdiff4.u32.u32.u32.add {d}, {a}, {b}, {c};", "u4"),
                lambda a, b, c: c + sum(differences(a, b, 8)),
            ),
            (
                Case("vabsdiff2.u32.u32.u32.add {d}, {a}, {b}, {c};", "u4"),
                lambda a, b, c: c + sum(differences(a, b, 16)),
            ),
            (
                Case("vabsdiff4.u32.u32.u32 {d}, {a}, {b}, {c};", "u4"),
                lambda a, b, c: sum(value << 8 * index for index, value in enumerate(differences(a, b, 8))),
            ),
        ],
        operands(32),
    )


def test_scalar_video(device: TinyDevice) -> None:
    """Whole words and fields of them, chosen by selectors."""

    def field(value: int, selector: str, sign: bool) -> int:
        bits = 8 if selector[0] == "b" else 16
        part = value >> int(selector[1]) * bits & (1 << bits) - 1
        return signed(part, bits) if sign else part

    def clamped(value: int) -> int:
        return max(-(1 << 31), min((1 << 31) - 1, value))

    verify(
        device,
        [
            (Case("vmad.u32.u32.u32 {d}, {a}, {b}, {c};", "u4"), lambda a, b, c: a * b + c),
            (
                Case("vmad.s32.s32.u32 {d}, {a}.b3, {b}.h1, {c};", "u4"),
                lambda a, b, c: field(a, "b3", True) * field(b, "h1", False) + c,
            ),
            (
                Case("vadd.u32.u32.u32 {d}, {a}.b0, {b}.b2;", "u4"),
                lambda a, b, c: field(a, "b0", False) + field(b, "b2", False),
            ),
            (
                Case("vsub.s32.s32.s32.sat.max {d}, {a}.h0, {b}, {c};", "u4"),
                lambda a, b, c: max(clamped(field(a, "h0", True) - signed(b, 32)), signed(c, 32)),
            ),
            (
                Case("vabsdiff.u32.s32.u32.add {d}, {a}.b1, {b}.h0, {c};", "u4"),
                lambda a, b, c: abs(field(a, "b1", True) - field(b, "h0", False)) + c,
            ),
            (
                Case("vshl.u32.u32.u32.clamp.add {d}, {a}, {b}.b3, {c};", "u4"),
                lambda a, b, c: (a << field(b, "b3", False) if b >> 24 < 32 else 0) + c,
            ),
            (
                Case("vshl.s32.u32.u32.sat.clamp {d}, {a}, {b};", "u4"),
                lambda a, b, c: min(a << min(b, 32), (1 << 31) - 1),
            ),
            (
                Case("vshl.s32.s32.u32.sat.clamp.min {d}, {a}, {b}.b3, {c};", "u4"),
                lambda a, b, c: min(clamped(signed(a, 32) << min(b >> 24, 32)), signed(c, 32)),
            ),
            (Case("vset.u32.s32.gt {d}, {a}, {b};", "u4"), lambda a, b, c: int(a > signed(b, 32))),
            (
                Case("vset.s32.u32.le.add {d}, {a}.b2, {b}.b2, {c};", "u4"),
                lambda a, b, c: int(field(a, "b2", True) <= field(b, "b2", False)) + c,
            ),
        ],
        operands(32),
    )
