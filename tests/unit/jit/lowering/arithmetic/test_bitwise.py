"""Logic, shifts and bit fields against the manual's definitions on Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from jit_tools.device import TinyDevice
from jit_tools.instructions import Case, verify
from jit_tools.reference import signed


def values(bits: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    edges = [0, (1 << bits) - 1, 1, 1 << bits - 1, (1 << bits - 1) - 1, 0x80]
    return np.array(
        edges + [int(value) for value in generator.integers(0, 1 << bits, 194, dtype=f"u{bits // 8}")],
        dtype=f"u{bits // 8}",
    )


def amounts(seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.array([0, 31, 32, 33, 64, 0xFFFF_FFFF, *generator.integers(0, 80, 194)], dtype="u4")


def shl(value: int, amount: int, bits: int) -> int:
    return value << amount if amount < bits else 0


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic_and_shifts(device: TinyDevice, bits: int) -> None:
    out = f"u{bits // 8}"

    def case(text: str) -> Case:
        return Case(text.replace("B", f"b{bits}").replace("U", f"u{bits}").replace("S", f"s{bits}"), out)

    verify(
        device,
        [
            (case("and.B {d}, {a}, {b};"), lambda a, b, c: a & b),
            (case("or.B {d}, {a}, {b};"), lambda a, b, c: a | b),
            (case("xor.B {d}, {a}, {b};"), lambda a, b, c: a ^ b),
            (case("not.B {d}, {a};"), lambda a, b, c: ~a),
            (case("cnot.B {d}, {a};"), lambda a, b, c: a == 0),
            (case("shl.B {d}, {a}, {c};"), lambda a, b, c: shl(a, c, bits)),
            (case("shr.U {d}, {a}, {c};"), lambda a, b, c: a >> c),
            (case("shr.S {d}, {a}, {c};"), lambda a, b, c: signed(a, bits) >> min(c, bits)),
            (case("shl.B {d}, {a}, 5;"), lambda a, b, c: a << 5),
        ],
        {"a": values(bits, 1), "b": values(bits, 2)[::-1].copy(), "c": amounts(3)},
    )


@pytest.mark.parametrize("bits", [32, 64])
def test_counting(device: TinyDevice, bits: int) -> None:
    def bfind(value: int, sign: bool) -> int:
        if sign and value >> bits - 1:
            value = ~value & (1 << bits) - 1
        return value.bit_length() - 1

    verify(
        device,
        [
            (Case(f"clz.b{bits} {{d}}, {{a}};", "u4"), lambda a: bits - a.bit_length()),
            (Case(f"popc.b{bits} {{d}}, {{a}};", "u4"), lambda a: bin(a).count("1")),
            (Case(f"brev.b{bits} {{d}}, {{a}};", f"u{bits // 8}"), lambda a: int(f"{a:0{bits}b}"[::-1], 2)),
            (Case(f"bfind.u{bits} {{d}}, {{a}};", "u4"), lambda a: bfind(a, False)),
            (Case(f"bfind.s{bits} {{d}}, {{a}};", "u4"), lambda a: bfind(a, True)),
            (
                Case(f"bfind.shiftamt.u{bits} {{d}}, {{a}};", "u4"),
                lambda a: bits - 1 - bfind(a, False) if bfind(a, False) >= 0 else -1,
            ),
        ],
        {"a": values(bits, 5)},
    )


@pytest.mark.parametrize("bits", [32, 64])
def test_fields(device: TinyDevice, bits: int) -> None:
    out = f"u{bits // 8}"

    def bfe(value: int, position: int, length: int, sign: bool) -> int:
        """The manual's loop."""
        position, length = position & 255, length & 255
        top = bits - 1
        fill = 0 if not sign or length == 0 else value >> min(position + length - 1, top) & 1
        result = 0
        for index in range(bits):
            taken = index < length and position + index <= top
            result |= (value >> position + index & 1 if taken else fill) << index
        return result

    def bfi(field: int, into: int, position: int, length: int) -> int:
        position, length = position & 255, length & 255
        for index in range(length):
            if position + index < bits:
                into = into & ~(1 << position + index) | (field >> index & 1) << position + index
        return into

    small = np.concatenate([amounts(7)[:6], np.random.default_rng(8).integers(0, 70, 194).astype("u4")])
    verify(
        device,
        [
            (Case(f"bfe.u{bits} {{d}}, {{a}}, {{c}}, {{e}};", out), lambda a, b, c, e: bfe(a, c, e, False)),
            (Case(f"bfe.s{bits} {{d}}, {{a}}, {{c}}, {{e}};", out), lambda a, b, c, e: bfe(a, c, e, True)),
            (Case(f"bfe.u{bits} {{d}}, {{a}}, 8, 8;", out), lambda a, b, c, e: a >> 8 & 255),
            (Case(f"bfi.b{bits} {{d}}, {{a}}, {{b}}, {{c}}, {{e}};", out), lambda a, b, c, e: bfi(a, b, c, e)),
        ],
        {"a": values(bits, 1), "b": values(bits, 2)[::-1].copy(), "c": small, "e": small[::-1].copy()},
    )


def test_permutes_and_funnels(device: TinyDevice) -> None:
    def prmt(a: int, b: int, selector: int) -> int:
        data = a | b << 32
        result = 0
        for index in range(4):
            choice = selector >> 4 * index & 15
            byte = data >> 8 * (choice & 7) & 255
            if choice & 8:
                byte = 255 if byte & 128 else 0
            result |= byte << 8 * index
        return result

    def lop3(a: int, b: int, c: int, table: int) -> int:
        result = 0
        for index in range(32):
            row = (a >> index & 1) << 2 | (b >> index & 1) << 1 | c >> index & 1
            result |= (table >> row & 1) << index
        return result

    def wide(a: int, b: int) -> int:
        return b << 32 | a

    verify(
        device,
        [
            (Case("prmt.b32 {d}, {a}, {b}, {c};", "u4"), prmt),
            (Case("prmt.b32 {d}, {a}, {b}, 0x5410;", "u4"), lambda a, b, c: prmt(a, b, 0x5410)),
            (Case("prmt.b32 {d}, {a}, {b}, 30212;", "u4"), lambda a, b, c: prmt(a, b, 30212)),
            (Case("prmt.b32.f4e {d}, {a}, {b}, {c};", "u4"), lambda a, b, c: wide(a, b) >> 8 * (c & 3)),
            (Case("prmt.b32.rc8 {d}, {a}, {b}, {c};", "u4"), lambda a, b, c: (a >> 8 * (c & 3) & 255) * 0x01010101),
            (
                Case("prmt.b32.rc16 {d}, {a}, {b}, {c};", "u4"),
                lambda a, b, c: (a >> 16 * (c & 1) & 0xFFFF) * 0x00010001,
            ),
            (Case("lop3.b32 {d}, {a}, {b}, {c}, 0x96;", "u4"), lambda a, b, c: a ^ b ^ c),
            (Case("lop3.b32 {d}, {a}, {b}, {c}, 0xe2;", "u4"), lambda a, b, c: lop3(a, b, c, 0xE2)),
            (Case("shf.l.wrap.b32 {d}, {a}, {b}, {c};", "u4"), lambda a, b, c: wide(a, b) << (c & 31) >> 32),
            (Case("shf.r.wrap.b32 {d}, {a}, {b}, {c};", "u4"), lambda a, b, c: wide(a, b) >> (c & 31)),
            (Case("shf.l.clamp.b32 {d}, {a}, {b}, {c};", "u4"), lambda a, b, c: wide(a, b) << min(c, 32) >> 32),
            (Case("shf.r.clamp.b32 {d}, {a}, {b}, {c};", "u4"), lambda a, b, c: wide(a, b) >> min(c, 32)),
            (Case("bmsk.clamp.b32 {d}, {c}, {a};", "u4"), lambda a, b, c: shl(~(-1 << min(a, 32)) & 0xFFFFFFFF, c, 32)),
            (
                Case("szext.clamp.s32 {d}, {a}, {c};", "u4"),
                lambda a, b, c: signed(a << 32 - min(c, 32), 32) >> 32 - min(c, 32) if c else 0,
            ),
        ],
        {"a": values(32, 1), "b": values(32, 2)[::-1].copy(), "c": amounts(3)},
    )


def test_find_nth_set(device: TinyDevice) -> None:
    def fns(mask: int, base: int, offset: int) -> int:
        order = range(base, 32) if offset >= 0 else range(base, -1, -1)
        places = [place for place in order if mask >> place & 1]
        if offset == 0:
            return base if mask >> base & 1 else 0xFFFFFFFF
        return places[abs(offset) - 1] if abs(offset) <= len(places) else 0xFFFFFFFF

    generator = np.random.default_rng(9)
    verify(
        device,
        [(Case("fns.b32 {d}, {a}, {b}, {c};", "u4"), lambda a, b, c: fns(a, b, signed(c, 32)))],
        {
            "a": values(32, 5),
            "b": generator.integers(0, 32, 200, dtype="u4"),
            "c": generator.integers(-20, 21, 200).astype("i4").view("u4"),
        },
    )
