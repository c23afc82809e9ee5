"""The evaluator's floating-point operations beside the processor's own (processor.c), bit for bit; its integers beside Python's."""

from __future__ import annotations

import random
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.machine.arithmetic import low, signed
from farlane.analyzer.slices.arithmetic import StuckError, compute
from farlane.analyzer.slices.form import SHAPES, Code

PROCESSOR = Path(__file__).with_name("processor.c")
FLOATS = [code for code in Code if code >= Code.F_ADD]
SPECIAL = {
    4: [0, 1, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0xFF812345,
        0x7F7FFFFF, 0x00800000, 0x007FFFFF, 0x4F000000, 0xCF000000, 0x5F000000, 0x3F000000, 0x3FC00000, 0x40200000, 0x7FFFFFFF],
    8: [0, 1, 1 << 63, 0x3FF << 52, 0xBFF << 52, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 0xFFF80000_00000001,
        0x7FF00000_00000001, 0xFFF12345_6789ABCD, 0x7FEFFFFF_FFFFFFFF, 1 << 52, (1 << 52) - 1, 0x41E << 52, 0xC1E << 52,
        0x43E << 52, 0x3FE << 52, 0x3FF8 << 48, 0x4004 << 48, 0x47EFFFFF_F0000000, 0x36A00000_00000000, 0x47EFFFFF_EFFFFFFF],
}  # fmt: skip


def numbers(width: int, count: int, draw: random.Random) -> list[int]:
    found = list(SPECIAL[width])
    exponent = 127 if width == 4 else 1023
    digits = 23 if width == 4 else 52
    while len(found) < count:
        kind = draw.randrange(3)
        if kind == 0:
            found.append(draw.getrandbits(8 * width))
        elif kind == 1:
            near = exponent + draw.randrange(-40, 70)
            found.append(draw.getrandbits(1) << (8 * width - 1) | near << digits | draw.getrandbits(digits))
        else:
            found.append(draw.getrandbits(1) << (8 * width - 1) | draw.getrandbits(digits))  # denormal
    return found


def test_floating_point_is_the_processors(build: Callable[..., Path]) -> None:
    program = build(PROCESSOR.read_text(), "-O1", language="c")
    draw = random.Random(23)
    asked: list[tuple[Code, int, int, int]] = []
    for code in FLOATS:
        for width in sorted(SHAPES[code][1]):
            pool = numbers(width, 200, draw)
            special = [(a, b) for a in SPECIAL[width] for b in SPECIAL[width]]
            drawn = [(draw.choice(pool), draw.choice(pool)) for _ in range(1500)]
            if code in (Code.FROM_4, Code.FROM_8):
                drawn += [(draw.getrandbits(64) >> draw.randrange(64), 0) for _ in range(1500)]
            asked += [(code, width, a, b) for a, b in special + drawn]
    given = b"".join(struct.pack("<4Q", *each) for each in asked)
    answer = subprocess.run([program], input=given, capture_output=True, check=True).stdout
    results = struct.unpack(f"<{len(asked)}Q", answer)
    wrong = []
    for (code, width, a, b), expected in zip(asked, results, strict=True):
        size = {Code.WIDEN: 8, Code.NARROW: 4, Code.TO_8: 8, Code.NEAREST_8: 8, Code.TO_4: 4, Code.NEAREST_4: 4}.get(
            code, width
        )
        found = compute(code, [a, b][: SHAPES[code][0]], width)
        if found != low(expected, size):
            wrong.append((code.name, width, hex(a), hex(b), hex(found), hex(low(expected, size))))
    assert wrong == []
    assert len(asked) > 40_000


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_integers_wrap(width: int) -> None:
    draw = random.Random(width)
    for _ in range(2000):
        a, b = draw.getrandbits(64), draw.getrandbits(64) >> draw.randrange(64)
        one, other = low(a, width), low(b, width)
        left, right = signed(a, width), signed(b, width)
        count = b % (64 if width == 8 else 32)
        for code, expected in (
            (Code.ADD, one + other),
            (Code.SUBTRACT, one - other),
            (Code.MULTIPLY, left * right),
            (Code.HIGH, one * other >> 8 * width),
            (Code.HIGH_SIGNED, left * right >> 8 * width),
            (Code.SHIFT_LEFT, one << count),
            (Code.SHIFT_RIGHT, one >> count),
            (Code.SHIFT_ARITHMETIC, left >> count),
            (Code.LESS, left < right),
            (Code.BELOW, one < other),
            (Code.XOR, one ^ other),
        ):
            assert compute(code, [a, b], width) == low(int(expected), width), (code, hex(a), hex(b))
        assert compute(Code.SIGN, [a], width) == low(left, 8)
        assert compute(Code.INSERT, [a, b], width) == low(a >> 8 * width << 8 * width | other, 8)
        if other:
            assert compute(Code.DIVIDE, [a, b], width) == one // other
            assert compute(Code.REMAINDER, [a, b], width) == one % other
        if right and not (right == -1 and left == -(1 << (8 * width - 1))):
            quotient = compute(Code.DIVIDE_SIGNED, [a, b], width)
            rest = compute(Code.REMAINDER_SIGNED, [a, b], width)
            assert low(signed(quotient, width) * right + signed(rest, width), width) == one
            assert abs(signed(rest, width)) < abs(right)
            assert not signed(rest, width) or (signed(rest, width) < 0) == (left < 0)


def test_what_has_no_quotient_is_stuck() -> None:
    for code in (Code.DIVIDE, Code.REMAINDER, Code.DIVIDE_SIGNED, Code.REMAINDER_SIGNED):
        with pytest.raises(StuckError):
            compute(code, [7, 1 << 32], 4)
    with pytest.raises(StuckError):
        compute(Code.DIVIDE_SIGNED, [1 << 31, 2**32 - 1], 4)
