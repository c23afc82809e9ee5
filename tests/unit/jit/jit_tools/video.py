"""Video instructions of PTX on Python integers, for the random sequences. Source: PTX ISA, "Video Instructions"."""

from __future__ import annotations

from random import Random

from jit_tools.operations import COMPARE, Operation, clamped
from jit_tools.reference import signed


def video(random: Random) -> Operation:
    """Any of the video instructions: there are too many to list."""
    kinds = [random.choice("us") for _ in range(3)]
    name = random.choice(["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset"])
    packed = name not in ("vshl", "vshr") and random.random() < 0.4
    if packed:
        return _packed(random, random.choice([name, "vavrg"]), random.choice([2, 4]), kinds)
    select = tuple(random.choice(["", "", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1"]) for _ in range(2))
    second = random.choice(["", "add", "min", "max"])
    saturated = name != "vset" and random.random() < 0.4
    mode = random.choice(["clamp", "wrap"])
    comparison = random.choice([*COMPARE])

    def field(value: int, selector: str, kind: str) -> int:
        bits = {"": 32, "b": 8, "h": 16}[selector[1:2]]
        part = value >> (bits * int(selector[2]) if selector else 0) & (1 << bits) - 1
        return signed(part, bits) if kind == "s" else part

    if name in ("vshl", "vshr"):
        kinds[2] = "u"

    def value(a: int, b: int, c: int = 0) -> int:
        x, y = field(a, select[0], kinds[1]), field(b, select[1], kinds[2])
        if name in ("vshl", "vshr"):
            amount = min(y, 32) if mode == "clamp" else y & 31
            result = x << amount if name == "vshl" else x >> amount
        else:
            result = _elementary(name, x, y, comparison)
        if saturated:
            result = clamped(result, 32, kinds[0] == "s")
        if not second:
            return result
        sign = name != "vset" and kinds[0] == "s"
        left, right = (signed(result, 32), signed(c, 32)) if sign else (result & 0xFFFF_FFFF, c)
        return {"add": left + right, "min": min(left, right), "max": max(left, right)}[second]

    types = "".join(f".{kind}32" for kind in (kinds[1:] if name == "vset" else kinds))
    parts = [name + types]
    if name == "vset":
        parts.append(comparison)
    if saturated:
        parts.append("sat")
    if name in ("vshl", "vshr"):
        parts.append(mode)
    if second:
        parts.append(second)
    return Operation(".".join(parts), "r", ("r", "r", "r") if second else ("r", "r"), value, select=select)


def _elementary(name: str, x: int, y: int, comparison: str) -> int:
    if name == "vavrg":
        total = x + y
        return (total + (total >= 0)) >> 1
    return {
        "vadd": x + y, "vsub": x - y, "vabsdiff": abs(x - y), "vmin": min(x, y), "vmax": max(x, y),
        "vset": int(COMPARE[comparison](x, y)),
    }[name]  # fmt: skip


def _packed(random: Random, name: str, count: int, kinds: list[str]) -> Operation:
    added = random.random() < 0.4
    saturated = not added and name != "vset" and random.random() < 0.5
    comparison = random.choice([*COMPARE])
    bits = 32 // count

    def value(a: int, b: int, c: int) -> int:
        result = c if added else 0
        for k in range(count):
            x, y = (item >> bits * k & (1 << bits) - 1 for item in (a, b))
            x = signed(x, bits) if kinds[1] == "s" else x
            y = signed(y, bits) if kinds[2] == "s" else y
            part = _elementary(name, x, y, comparison)
            if saturated:
                part = clamped(part, bits, kinds[0] == "s")
            result += part if added else (part & (1 << bits) - 1) << bits * k
        return result

    types = "".join(f".{kind}32" for kind in (kinds[1:] if name == "vset" else kinds))
    text = f"{name}{count}{types}{'.' + comparison if name == 'vset' else ''}{'.sat' if saturated else ''}{'.add' if added else ''}"
    return Operation(text, "r", ("r", "r", "r"), value)
