"""Types of random values, and literals of them. A random generator decides; nothing here knows of statements."""

from __future__ import annotations

import random

WIDTHS = {
    "u8": 8, "s8": 8, "u16": 16, "s16": 16, "u32": 32, "s32": 32, "u64": 64, "s64": 64, "u128": 128, "s128": 128,
}  # fmt: skip
INTEGERS = [*WIDTHS]
FLOATS = ["f32", "f64"]
COMMON = [*["u32"] * 5, *["s32"] * 4, *["u64"] * 3, *["s64"] * 3, "u8", "s8", "u16", "s16", "u128", "s128"]
SIZES = {**{name: width // 8 for name, width in WIDTHS.items()}, "f16": 2, "f32": 4, "f64": 8}


def any_kind(chance: random.Random, floats: float = 0.25) -> str:
    if chance.random() < floats:
        return chance.choice(["f32", "f32", "f64", "f64", "f16"])
    return chance.choice(COMMON)


def number(chance: random.Random, width: int) -> int:
    """A number of so many bits: small, at an edge, or any."""
    kind = chance.randrange(6)
    if kind < 2:
        return chance.randrange(0, 12)
    if kind == 2:
        return ((1 << width) - 1) - chance.randrange(0, 3)
    if kind == 3:
        return ((1 << chance.randrange(width)) + chance.choice([-1, 0, 0, 1])) & ((1 << width) - 1)
    return chance.getrandbits(width)


def literal(chance: random.Random, kind: str) -> str:
    if kind == "f16":
        return f"half_of({chance.choice([0x3C00, 0xC000, 0x7BFF, 0x0001, 0x03FF, 0x8000, chance.getrandbits(16)])})"
    if kind in FLOATS:
        plain = chance.choice(["0.0", "1.0", "-1.0", "0.5", "3.0", "-7.25", "1e9", "-1e-9", "0.1", "65504.0", "1e38"])
        return f"{kind}({plain})"
    width = WIDTHS[kind]
    value = number(chance, width)
    if width == 128:
        return f"wide<{kind}>({value >> 64:#x}ull, {value & (1 << 64) - 1:#x}ull)"
    if kind == "u32":
        return f"{value}u"
    if kind[0] == "s" and value >> (width - 1):
        # The least number has no literal of its own: -2147483648 is minus a number that an int does not hold.
        value -= 1 << width
        suffix = "ll" if width == 64 else ""
        return f"{kind}({value + 1}{suffix} - 1)"
    return f"{kind}({value}{'ull' if width == 64 else ''})"
