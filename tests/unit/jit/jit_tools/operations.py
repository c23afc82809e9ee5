"""Integer instructions of PTX on Python integers, as the manual's pseudocode has them: the model of the random sequences.

Independent of the translator, of which nothing is used here. An operation takes its operands as unsigned numbers and gives a number
that the sequence cuts to its register. Source: PTX ISA, "Integer Arithmetic Instructions" to "Data Movement and Conversion Instructions".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jit_tools.reference import signed

WIDTHS = {"h": 16, "r": 32, "w": 64, "p": 1}
OF_BITS = {16: "h", 32: "r", 64: "w"}
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
UNSIGNED_COMPARE = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


@dataclass(frozen=True)
class Operation:
    """An instruction.

    Args:
        text: its text before the operands.
        result: the destination's register class.
        operands: register classes, or "i" and a bound for a number of the instruction ("i255").
        value: from the operands' unsigned values (and the carry before, for carry chains) to the result (and the carry after).
        carries: whether `value` takes and gives the carry.
        select: suffixes of operands (".b1"), for video instructions.
    """

    text: str
    result: str
    operands: tuple[str, ...]
    value: Callable[..., int | tuple[int, int]]
    carries: bool = False
    select: tuple[str, ...] = ()


def quotient(x: int, y: int) -> int:
    result = abs(x) // abs(y)
    return -result if (x < 0) != (y < 0) else result


def clamped(value: int, bits: int, sign: bool) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if sign else (0, (1 << bits) - 1)
    return max(low, min(high, value))


def arithmetic() -> Iterator[Operation]:
    for bits in (16, 32, 64):
        for kind in "us":
            yield from _arithmetic(bits, kind)
    for name, change in (("add", operator.add), ("sub", operator.sub)):
        yield Operation(
            f"{name}.sat.s32",
            "r",
            ("r", "r"),
            lambda a, b, f=change: clamped(f(signed(a, 32), signed(b, 32)), 32, True),
        )
    yield Operation(
        "mad.hi.sat.s32", "r", ("r", "r", "r"),
        lambda a, b, c: clamped((signed(a, 32) * signed(b, 32) >> 32) + signed(c, 32), 32, True),
    )  # fmt: skip
    for kind in "us":

        def part(value: int, kind: str = kind) -> int:
            return signed(value, 24) if kind == "s" else value & 0xFF_FFFF

        yield Operation(f"mul24.lo.{kind}32", "r", ("r", "r"), lambda a, b, f=part: f(a) * f(b))
        yield Operation(f"mul24.hi.{kind}32", "r", ("r", "r"), lambda a, b, f=part: f(a) * f(b) >> 16)
        yield Operation(f"mad24.lo.{kind}32", "r", ("r", "r", "r"), lambda a, b, c, f=part: f(a) * f(b) + c)
        yield Operation(f"mad24.hi.{kind}32", "r", ("r", "r", "r"), lambda a, b, c, f=part: (f(a) * f(b) >> 16) + c)


def _arithmetic(bits: int, kind: str) -> Iterator[Operation]:
    own, name = OF_BITS[bits], f"{kind}{bits}"
    two, three = (own, own), (own, own, own)

    def s(value: int) -> int:
        return signed(value, bits) if kind == "s" else value

    yield Operation(f"add.{name}", own, two, lambda a, b: a + b)
    yield Operation(f"sub.{name}", own, two, lambda a, b: a - b)
    yield Operation(f"mul.lo.{name}", own, two, lambda a, b: a * b)
    yield Operation(f"mul.hi.{name}", own, two, lambda a, b: s(a) * s(b) >> bits)
    yield Operation(f"mad.lo.{name}", own, three, lambda a, b, c: a * b + c)
    yield Operation(f"mad.hi.{name}", own, three, lambda a, b, c: (s(a) * s(b) >> bits) + c)
    yield Operation(f"min.{name}", own, two, lambda a, b: min(s(a), s(b)))
    yield Operation(f"max.{name}", own, two, lambda a, b: max(s(a), s(b)))
    yield Operation(f"sad.{name}", own, three, lambda a, b, c: abs(s(a) - s(b)) + c)
    # A divisor of 0 gives a value that the manual leaves open: made odd, it is none.
    yield Operation(f"div.{name}", own, (own, f"odd {own}"), lambda a, b: quotient(s(a), s(b)))
    yield Operation(f"rem.{name}", own, (own, f"odd {own}"), lambda a, b: s(a) - s(b) * quotient(s(a), s(b)))
    if kind == "s":
        yield Operation(f"neg.{name}", own, (own,), lambda a: -a)
        yield Operation(f"abs.{name}", own, (own,), lambda a: abs(s(a)))
    if bits < 64:
        wide = OF_BITS[2 * bits]
        yield Operation(f"mul.wide.{name}", wide, two, lambda a, b: s(a) * s(b))
        yield Operation(f"mad.wide.{name}", wide, (own, own, wide), lambda a, b, c: s(a) * s(b) + c)


def carried() -> Iterator[Operation]:
    """CC is the adder's carry, after subtractions too."""
    for bits in (32, 64):
        own, full = OF_BITS[bits], (1 << bits) - 1

        def total(x: int, y: int, carry: int, full: int = full, bits: int = bits) -> tuple[int, int]:
            value = (x & full) + (y & full) + carry
            return value & full, value >> bits

        for out in ("", ".cc"):
            keep = not out

            def kept(result: tuple[int, int], carry: int, keep: bool = keep) -> tuple[int, int]:
                return (result[0], carry) if keep else result

            if out:
                yield Operation(f"add.cc.u{bits}", own, (own, own), lambda a, b, cc, t=total: t(a, b, 0), True)
                yield Operation(f"sub.cc.u{bits}", own, (own, own), lambda a, b, cc, t=total: t(a, ~b, 1), True)
            yield Operation(
                f"addc{out}.u{bits}", own, (own, own), lambda a, b, cc, t=total, k=kept: k(t(a, b, cc), cc), True
            )
            yield Operation(
                f"subc{out}.s{bits}", own, (own, own), lambda a, b, cc, t=total, k=kept: k(t(a, ~b, cc), cc), True
            )
            for half in ("lo", "hi"):
                for kind in "us":

                    def product(a: int, b: int, half: str = half, kind: str = kind, bits: int = bits) -> int:
                        x, y = (signed(a, bits), signed(b, bits)) if kind == "s" else (a, b)
                        return x * y >> bits if half == "hi" else x * y

                    if out:
                        yield Operation(
                            f"mad.{half}.cc.{kind}{bits}", own, (own, own, own),
                            lambda a, b, c, cc, t=total, p=product: t(p(a, b), c, 0), True,
                        )  # fmt: skip
                    yield Operation(
                        f"madc.{half}{out}.{kind}{bits}", own, (own, own, own),
                        lambda a, b, c, cc, t=total, p=product, k=kept: k(t(p(a, b), c, cc), cc), True,
                    )  # fmt: skip


def bits_and_shifts() -> Iterator[Operation]:
    for bits in (16, 32, 64):
        own, full = OF_BITS[bits], (1 << bits) - 1
        yield Operation(f"and.b{bits}", own, (own, own), operator.and_)
        yield Operation(f"or.b{bits}", own, (own, own), operator.or_)
        yield Operation(f"xor.b{bits}", own, (own, own), operator.xor)
        yield Operation(f"not.b{bits}", own, (own,), operator.invert)
        yield Operation(f"cnot.b{bits}", own, (own,), lambda a: int(a == 0))
        yield Operation(f"shl.b{bits}", own, (own, "r"), lambda a, n, m=bits: a << min(n, m))
        yield Operation(f"shr.u{bits}", own, (own, "r"), lambda a, n, m=bits: a >> min(n, m))
        yield Operation(f"shr.s{bits}", own, (own, "r"), lambda a, n, m=bits: signed(a, m) >> min(n, m))
        if bits == 16:
            continue
        yield Operation(f"popc.b{bits}", "r", (own,), int.bit_count)
        yield Operation(f"clz.b{bits}", "r", (own,), lambda a, m=bits: m - a.bit_length())
        yield Operation(f"brev.b{bits}", own, (own,), lambda a, m=bits: int(f"{a:0{m}b}"[::-1], 2))
        for kind in "us":

            def top(a: int, kind: str = kind, full: int = full, bits: int = bits) -> int:
                return ((a ^ full) if kind == "s" and a >> bits - 1 else a).bit_length() - 1

            yield Operation(f"bfind.{kind}{bits}", "r", (own,), top)
            yield Operation(
                f"bfind.shiftamt.{kind}{bits}", "r", (own,), lambda a, t=top, m=bits: m - 1 - t(a) if t(a) >= 0 else -1
            )
            yield Operation(f"bfe.{kind}{bits}", own, (own, "r", "r"), _extract(bits, kind))
        yield Operation(f"bfi.b{bits}", own, (own, own, "r", "r"), _insert(bits))
    for name, function in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
        yield Operation(f"{name}.pred", "p", ("p", "p"), function)
    yield Operation("not.pred", "p", ("p",), lambda a: 1 - a)
    yield Operation("lop3.b32", "r", ("r", "r", "r", "i255"), lop3)
    for mode in ("clamp", "wrap"):

        def by(n: int, mode: str = mode) -> int:
            return min(n, 32) if mode == "clamp" else n & 31

        yield Operation(f"shf.l.{mode}.b32", "r", ("r", "r", "r"), lambda a, b, n, f=by: (b << 32 | a) << f(n) >> 32)
        yield Operation(f"shf.r.{mode}.b32", "r", ("r", "r", "r"), lambda a, b, n, f=by: (b << 32 | a) >> f(n))
        yield Operation(f"bmsk.{mode}.b32", "r", ("r", "r"), lambda a, b, f=by: _mask(f(a), f(b)))
        for kind in "us":
            yield Operation(f"szext.{mode}.{kind}32", "r", ("r", "r"), lambda a, n, f=by, k=kind: _extended(a, f(n), k))
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        yield Operation(f"prmt.b32{mode}", "r", ("r", "r", "r"), lambda a, b, c, m=mode[1:]: permuted(a, b, c, m))


def _mask(first: int, count: int) -> int:
    return (1 << count) - 1 << first if first < 32 else 0


def _extended(a: int, count: int, kind: str) -> int:
    if count == 0:
        return 0
    low = a & (1 << count) - 1
    return signed(low, count) if kind == "s" else low


def _extract(bits: int, kind: str) -> Callable[[int, int, int], int]:
    def value(a: int, at: int, count: int) -> int:
        at, count, top = at & 255, count & 255, bits - 1
        fill = 0 if kind == "u" or count == 0 else a >> min(at + count - 1, top) & 1
        return sum((a >> at + k & 1 if k < count and at + k <= top else fill) << k for k in range(bits))

    return value


def _insert(bits: int) -> Callable[[int, int, int, int], int]:
    def value(a: int, b: int, at: int, count: int) -> int:
        at, count = at & 255, count & 255
        for k in range(count):
            if at + k < bits:
                b = b & ~(1 << at + k) | (a >> k & 1) << at + k
        return b

    return value


def lop3(a: int, b: int, c: int, table: int) -> int:
    result = 0
    for k in range(32):
        rows = (a >> k & 1) << 2 | (b >> k & 1) << 1 | c >> k & 1
        result |= (table >> rows & 1) << k
    return result


def permuted(a: int, b: int, c: int, mode: str) -> int:
    """The manual's tables: bytes 0 to 3 of a, 4 to 7 of b; selectors from the lowest byte of the result."""
    data = [(b << 32 | a) >> 8 * k & 255 for k in range(8)]
    if not mode:
        chosen = []
        for k in range(4):
            selector = c >> 4 * k & 15
            byte = data[selector & 7]
            chosen.append((255 if byte & 128 else 0) if selector & 8 else byte)
        return sum(byte << 8 * k for k, byte in enumerate(chosen))
    n = c & 3
    rows = {
        "f4e": [n, n + 1, n + 2, n + 3], "b4e": [n, n - 1 & 7, n - 2 & 7, n - 3 & 7], "rc8": [n] * 4,
        "ecl": [max(n, k) for k in range(4)], "ecr": [min(n, k) for k in range(4)],
        "rc16": [0, 1, 0, 1] if n in (0, 2) else [2, 3, 2, 3],
    }  # fmt: skip
    return sum(data[index] << 8 * k for k, index in enumerate(rows[mode]))


def dots() -> Iterator[Operation]:
    for first in "us":
        for second in "us":

            def part(value: int, at: int, bits: int, kind: str) -> int:
                field = value >> at & (1 << bits) - 1
                return signed(field, bits) if kind == "s" else field

            def four(a: int, b: int, c: int, x: str = first, y: str = second) -> int:
                return c + sum(part(a, 8 * k, 8, x) * part(b, 8 * k, 8, y) for k in range(4))

            yield Operation(f"dp4a.{first}32.{second}32", "r", ("r", "r", "r"), four)
            for half in ("lo", "hi"):

                def two(a: int, b: int, c: int, x: str = first, y: str = second, up: int = 16 * (half == "hi")) -> int:
                    return c + sum(part(a, 16 * k, 16, x) * part(b, up + 8 * k, 8, y) for k in range(2))

                yield Operation(f"dp2a.{half}.{first}32.{second}32", "r", ("r", "r", "r"), two)


def choices() -> Iterator[Operation]:
    for bits in (16, 32, 64):
        own = OF_BITS[bits]
        yield Operation(f"selp.b{bits}", own, (own, own, "p"), lambda a, b, p: a if p else b)
        yield Operation(f"slct.b{bits}.s32", own, (own, own, "r"), lambda a, b, c: a if signed(c, 32) >= 0 else b)
        for kind in "us":

            def holds(a: int, b: int, name: str, kind: str = kind, bits: int = bits) -> bool:
                x, y = (signed(a, bits), signed(b, bits)) if kind == "s" else (a, b)
                return COMPARE[UNSIGNED_COMPARE.get(name, name)](x, y)

            for name in [*COMPARE, *(UNSIGNED_COMPARE if kind == "u" else ())]:
                yield Operation(
                    f"setp.{name}.{kind}{bits}", "p", (own, own), lambda a, b, n=name, f=holds: int(f(a, b, n))
                )
                yield Operation(
                    f"set.{name}.u32.{kind}{bits}",
                    "r",
                    (own, own),
                    lambda a, b, n=name, f=holds: -1 if f(a, b, n) else 0,
                )
                for joined, join in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
                    yield Operation(
                        f"setp.{name}.{joined}.{kind}{bits}", "p", (own, own, "p"),
                        lambda a, b, p, n=name, f=holds, j=join: j(int(f(a, b, n)), p),
                    )  # fmt: skip


def conversions() -> Iterator[Operation]:
    names = [f"{kind}{bits}" for kind in "us" for bits in (8, 16, 32, 64)]
    for source in names:
        for target in names:
            for saturated in ("", ".sat"):

                def value(a: int, source: str = source, target: str = target, saturated: str = saturated) -> int:
                    had, has = int(source[1:]), int(target[1:])
                    x = signed(a, had) if source[0] == "s" else a & (1 << had) - 1
                    if saturated:
                        return clamped(x, has, target[0] == "s")
                    return signed(x, has) if target[0] == "s" else x & (1 << has) - 1

                register = {name: OF_BITS[max(int(name[1:]), 16)] for name in (source, target)}
                yield Operation(f"cvt{saturated}.{target}.{source}", register[target], (register[source],), value)


FAMILIES: dict[str, tuple[float, list[Operation]]] = {
    "arithmetic": (4.0, list(arithmetic())),
    "carried": (2.0, list(carried())),
    "bits": (4.0, list(bits_and_shifts())),
    "dots": (0.7, list(dots())),
    "choices": (1.5, list(choices())),
    "conversions": (2.0, list(conversions())),
}
