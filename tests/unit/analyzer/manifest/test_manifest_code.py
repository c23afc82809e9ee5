"""The manifest's code: evaluation by the letter of protos/manifest.md, bounds, and compilation of formulas."""

from __future__ import annotations

import random

import pytest
from farlane.analyzer import postfix as code
from farlane.analyzer.loops.model import Formula, Location, Place
from farlane.analyzer.loops.prediction import formula as formulas
from farlane.analyzer.manifest.formulas import compiled
from farlane.analyzer.postfix import BINARY, CodeError, evaluate, instruction

MASK = 2**64 - 1
END = instruction(code.END)


def number(value: int) -> bytes:
    return instruction(code.CONSTANT, value)


def run(data: bytes, frame: bytes = b"", **registers: int) -> int | None:
    return evaluate(data, registers, frame, lambda address, size: address.to_bytes(size, "little"))


@pytest.mark.parametrize(
    ("name", "first", "second", "expected"),
    [
        ("add", -1, 3, 2),
        ("sub", 1, 3, MASK - 1),
        ("mul", -2, 3, MASK - 5),
        ("and", 0b1100, 0b1010, 0b1000),
        ("or", 0b1100, 0b1010, 0b1110),
        ("xor", 0b1100, 0b1010, 0b0110),
        ("shl", 1, 63, 1 << 63),
        ("shl", 1, 64, 1),
        ("shr", -1, 60, 15),
        ("sar", -16, 2, MASK - 3),
        ("sar", -16, 66, MASK - 3),
        ("udiv", -1, 2, MASK >> 1),
        ("udiv", 1, 0, None),
        ("sdiv", -7, 2, MASK - 2),
        ("sdiv", 7, -2, MASK - 2),
        ("sdiv", -(2**63), -1, 1 << 63),
        ("sdiv", 1, 0, None),
        ("eq", 5, 5, 1),
        ("ne", 5, 5, 0),
        ("ult", -1, 1, 0),
        ("ule", 1, 1, 1),
        ("slt", -1, 1, 1),
        ("sle", 2, 1, 0),
    ],
)
def test_operations(name: str, first: int, second: int, expected: int | None) -> None:
    assert run(number(first) + number(second) + instruction(BINARY[name]) + END) == expected


def test_every_operation_is_tested() -> None:
    tested = {mark.args[1][index][0] for mark in test_operations.pytestmark for index in range(len(mark.args[1]))}
    assert tested == set(BINARY)


def test_what_is_read() -> None:
    frame = bytes(range(16))
    assert run(instruction(code.REGISTER, 12) + END, r12=2**70 - 1) == MASK
    assert run(instruction(code.FRAME, 3, 2) + END, frame) == 0x0403
    assert run(instruction(code.FRAME, 14, 4) + END, frame) is None
    assert run(instruction(code.REGISTER, 3) + END) is None
    assert run(instruction(code.GLOBAL, 0x1234, 4) + END) == 0x1234
    assert evaluate(instruction(code.GLOBAL, 1, 8) + END, {}, b"", lambda *_: None) is None
    assert run(number(0x1FF) + instruction(code.ZX, 1) + END) == 0xFF
    assert run(number(0x80) + instruction(code.SX, 1) + END) == MASK - 0x7F
    assert run(number(-5) + instruction(code.SX, 8) + END) == MASK - 4


@pytest.mark.parametrize(
    "data",
    [
        b"",
        END,
        number(1),
        number(1) + number(2) + END,
        number(1)[:-1],
        bytes([0x0F]),
        instruction(BINARY["add"]) + END,
        number(1) + instruction(BINARY["add"]) + END,
        instruction(code.ZX, 4) + END,
        number(1) + instruction(code.ZX, 3) + END,
        instruction(code.REGISTER, 0) + END,
        instruction(code.FRAME, 65535, 2) + END,
        instruction(code.FRAME, 0, 5) + END,
        instruction(code.GLOBAL, 0, 0) + END,
        number(1) * 17 + instruction(BINARY["add"]) * 16 + END,
        number(1) + (number(1) + instruction(BINARY["add"])) * 48 + END,
        number(1) + END + END,
    ],
)
def test_code_out_of_bounds_is_refused(data: bytes) -> None:
    with pytest.raises(CodeError):
        code.check(data)


def test_the_bounds_are_reached() -> None:
    code.check(number(1) * 16 + instruction(BINARY["add"]) * 15 + END)
    longest = number(1) + (number(1) + instruction(BINARY["add"])) * 47 + END
    code.check(longest)
    assert run(longest) == 48


def test_noise_is_refused_or_evaluated() -> None:
    chance = random.Random(7)
    valid = 0
    for _ in range(3000):
        data = number(1) * chance.randint(0, 2) + b"".join(
            chance.choice([number(chance.getrandbits(63)), instruction(chance.choice(list(BINARY.values()))), END])
            if chance.random() < 0.9
            else chance.randbytes(3)
            for _ in range(chance.randint(0, 6))
        )
        try:
            run(data, bytes(100), rbx=1)
            valid += 1
        except CodeError:
            pass
    assert valid > 300


def places() -> list[Location]:
    return [
        Location(Place.REGISTER, 3),
        Location(Place.REGISTER, 15),
        Location(Place.FRAME, 4, 8, 4),
        Location(Place.FRAME, 4, 16, 8),
        Location(Place.GLOBAL, 0, 0x4010, 2),
    ]


def random_formula(chance: random.Random, depth: int) -> Formula:
    if depth == 0 or chance.random() < 0.2:
        return chance.choice([formulas.constant(chance.getrandbits(64)), formulas.term(chance.choice(places()))])
    name = chance.choice([*BINARY, "min", "zx1", "zx2", "zx4", "sx1", "sx2", "sx4", "sum", "sum", "sum"])
    if name == "sum":
        parts = [
            (chance.choice([1, -1, 3, -7, -(2**40)]), random_formula(chance, depth - 1))
            for _ in range(chance.randint(1, 3))
        ]
        return formulas.total(parts)
    if name == "add":
        name = "mul"
    if name == "sub":
        name = "xor"
    count = 1 if name[:2] in ("zx", "sx") else 2
    return formulas.operation(name, *(random_formula(chance, depth - 1) for _ in range(count)))


def test_compiled_formulas_have_the_formulas_values() -> None:
    chance = random.Random(11)
    compared = divided = 0
    for _ in range(3000):
        formula = random_formula(chance, chance.randint(0, 3))
        data = compiled(formula)
        if data is None:
            continue
        code.check(data)
        registers = {name: chance.getrandbits(chance.choice([2, 33, 64])) for name in ("rbx", "r15")}
        frame, held = chance.randbytes(24), chance.randbytes(2)

        def read(
            location: Location, registers: dict[str, int] = registers, frame: bytes = frame, held: bytes = held
        ) -> int:
            if location.kind == Place.REGISTER:
                return registers[code.REGISTERS[location.register]]
            start, size = location.displacement, location.size
            return int.from_bytes(held if location.kind == Place.GLOBAL else frame[start : start + size], "little")

        expected = formulas.evaluate(formula, read)
        found = evaluate(data, registers, frame, lambda address, size, held=held: held if address == 0x4010 else None)
        assert found == expected
        compared += 1
        divided += expected is None
    assert compared > 2000
    assert divided > 10


def test_what_does_not_fit_is_not_known() -> None:
    assert compiled(None) is None
    assert compiled(formulas.term(Location(Place.REGISTER, 0))) is None
    assert compiled(formulas.term(Location(Place.FRAME, 4, -8, 8))) is None
    assert compiled(formulas.term(Location(Place.FRAME, 4, 65536, 8))) is None
    deep = formulas.term(places()[0])
    for _ in range(40):
        deep = formulas.operation("min", deep, formulas.term(places()[1]))  # twice as long every time
    assert compiled(deep) is None
