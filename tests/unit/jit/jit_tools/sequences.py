"""Random sequences of integer instructions, and what they leave in each thread by the model of `operations.py`.

A kernel's registers begin as words of memory that differ between threads, as parameters, as multiples of the thread's index and as
numbers, so that results are per lane, uniform and affine, and the compiler knows some of them. Instructions have guards now and then, and
some stand in regions that some threads jump over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np

from jit_tools.operations import FAMILIES, WIDTHS, Operation
from jit_tools.video import video

HEADER = ".version 8.5\n.target sm_90\n.address_size 64\n"
POOLS = {"h": 6, "r": 10, "w": 6, "p": 4}
REGISTERS = [f"%{pool}{number}" for pool, count in POOLS.items() for number in range(count)]
UNIFORM = 3  # parameters of 64 bits
SOURCES = 8  # words of 64 bits in memory, of each thread


@dataclass
class Step:
    """An instruction: with a guard (register, negated), or a region's begin (operation None) that is left where the guard holds."""

    operation: Operation | None
    result: str = ""
    operands: tuple[str | int, ...] = ()
    guard: tuple[str, bool] | None = None
    length: int = 0  # of a region, in steps


@dataclass
class Sequence:
    """A kernel, and where its registers begin: ("source", n), ("uniform", n), ("thread", factor, sum) or ("number", n)."""

    begin: dict[str, tuple[str | int, ...]]
    steps: list[Step] = field(default_factory=list)

    def text(self) -> str:
        lines = [HEADER, ".visible .entry k(.param .u64 out, .param .u64 in"]
        lines += [f", .param .u64 u{number}" for number in range(UNIFORM)]
        lines += [
            ")\n{\n.reg .pred %p<8>;\n.reg .b16 %h<8>, %th;\n.reg .b32 %r<12>, %tr, %thread;\n.reg .b64 %w<8>, %tw, %at;"
        ]
        lines.append("mov.u32 %thread, %tid.x;")
        lines += [self._begin(register, *how) for register, how in self.begin.items()]
        ends: dict[int, list[str]] = {}
        for number, step in enumerate(self.steps):
            lines += ends.get(number, [])
            lines += self._lines(step, number)
            if step.operation is None:
                ends.setdefault(number + 1 + step.length, []).append(f"L{number}:")
        for number in range(len(self.steps), len(self.steps) + 20):
            lines += ends.get(number, [])
        lines.append(f"ld.param.u64 %at, [out];\nmad.wide.u32 %at, %thread, {8 * len(REGISTERS)}, %at;")
        for number, register in enumerate(REGISTERS):
            wide = {
                "h": f"cvt.u64.u16 %tw, {register};",
                "r": f"cvt.u64.u32 %tw, {register};",
                "w": f"mov.b64 %tw, {register};",
                "p": f"selp.u64 %tw, 1, 0, {register};",
            }
            lines.append(wide[register[1]])
            lines.append(f"st.global.u64 [%at+{8 * number}], %tw;")
        return "\n".join([*lines, "ret;\n}\n"])

    @staticmethod
    def _begin(register: str, how: str, *numbers: int) -> str:
        pool = register[1]
        if how == "source":
            read = f"ld.param.u64 %at, [in];\nmad.wide.u32 %at, %thread, {8 * SOURCES}, %at;\nld.global.u64 %tw, [%at+{8 * numbers[0]}];"
        elif how == "uniform":
            read = f"ld.param.u64 %tw, [u{numbers[0]}];"
        elif how == "thread":
            read = f"mad.lo.u32 %tr, %thread, {numbers[0]}, {numbers[1]};\ncvt.u64.u32 %tw, %tr;"
            if pool == "r":
                return f"mad.lo.u32 {register}, %thread, {numbers[0]}, {numbers[1]};"
        else:
            read = f"mov.u64 %tw, {numbers[0]};"
        cut = {
            "h": f"cvt.u16.u64 {register}, %tw;",
            "r": f"cvt.u32.u64 {register}, %tw;",
            "w": f"mov.b64 {register}, %tw;",
            "p": f"and.b64 %tw, %tw, 1;\nsetp.ne.u64 {register}, %tw, 0;",
        }
        return f"{read}\n{cut[pool]}"

    @staticmethod
    def _lines(step: Step, number: int) -> list[str]:
        guard = f"@{'!' if step.guard[1] else ''}{step.guard[0]} " if step.guard else ""
        if step.operation is None:
            return [f"{guard}bra L{number};"]
        before, shown = [], []
        for index, (kind, operand) in enumerate(zip(step.operation.operands, step.operands, strict=True)):
            text = str(operand)
            if kind.startswith("odd") and isinstance(operand, str):
                temporary = f"%t{operand[1]}"
                before.append(f"or.b{WIDTHS[operand[1]]} {temporary}, {operand}, 1;")
                text = temporary
            shown.append(text + (step.operation.select[index] if index < len(step.operation.select) else ""))
        return [*before, f"{guard}{step.operation.text} {step.result}, {', '.join(shown)};"]

    def run(self, thread: int, sources: np.ndarray, uniform: tuple[int, ...]) -> list[int]:
        """What one thread's registers are in the end."""
        state = {
            register: self._started(how, thread, sources, uniform) & mask(register)
            for register, how in self.begin.items()
        }
        carry = number = 0
        while number < len(self.steps):
            step = self.steps[number]
            number += 1
            holds = step.guard is None or bool(state[step.guard[0]]) != step.guard[1]
            if step.operation is None:
                number += step.length if holds else 0
                continue
            if not holds:
                continue
            values = [
                self._value(kind, operand, state)
                for kind, operand in zip(step.operation.operands, step.operands, strict=True)
            ]
            if step.operation.carries:
                result, carry = step.operation.value(*values, carry)  # type: ignore[misc]
            else:
                result = step.operation.value(*values)  # type: ignore[assignment]
            state[step.result] = result & mask(step.result)
        return [state[register] for register in REGISTERS]

    @staticmethod
    def _started(how: tuple[str | int, ...], thread: int, sources: np.ndarray, uniform: tuple[int, ...]) -> int:
        kind, first, *rest = how
        if kind == "source":
            return int(sources[thread, first])
        if kind == "uniform":
            return uniform[int(first)]
        return (thread * int(first) + int(rest[0])) & 0xFFFF_FFFF if kind == "thread" else int(first)

    @staticmethod
    def _value(kind: str, operand: str | int, state: dict[str, int]) -> int:
        if isinstance(operand, str):
            return state[operand] | 1 if kind.startswith("odd") else state[operand]
        return operand if kind[0] == "i" else operand & (1 << WIDTHS[kind[-1]]) - 1


def mask(register: str) -> int:
    return (1 << WIDTHS[register[1]]) - 1


def draw(random: Random) -> Operation:
    """Any operation; families as often as their weights say."""
    name = random.choices([*FAMILIES, "video"], [*(weight for weight, _ in FAMILIES.values()), 1.0])[0]
    return video(random) if name == "video" else random.choice(FAMILIES[name][1])


def number_of(random: Random, bits: int) -> int:
    """A number: small, at an edge or any."""
    kind = random.randrange(4)
    if kind == 0:
        return random.randrange(70) & (1 << bits) - 1
    if kind == 1:
        return (1 << random.randrange(bits)) - random.randrange(2)
    return (1 << bits) - 1 - random.randrange(3) if kind == 2 else random.getrandbits(bits)


def sequence(random: Random, length: int = 60) -> Sequence:
    begin: dict[str, tuple[str | int, ...]] = {}
    for register in REGISTERS:
        how = random.choice(["source", "source", "uniform", "thread", "number"])
        begin[register] = {
            "source": ("source", random.randrange(SOURCES)),
            "uniform": ("uniform", random.randrange(UNIFORM)),
            "thread": ("thread", random.choice([1, 1, 2, 4, 3, 0xFFFF_FFFF, 0x1000_0000]), random.choice([0, 0, 5, 0x7FFF_FFF0, 0xFFFF_FFF0])),
            "number": ("number", number_of(random, 64)),
        }[how]  # fmt: skip
    result = Sequence(begin)
    while len(result.steps) < length:
        guard = (f"%p{random.randrange(POOLS['p'])}", random.random() < 0.5) if random.random() < 0.12 else None
        if random.random() < 0.04:
            condition = (f"%p{random.randrange(POOLS['p'])}", random.random() < 0.5)
            result.steps.append(Step(None, guard=condition, length=random.randint(1, 8)))
            continue
        operation = draw(random)
        operands = tuple(_operand(random, kind, index, operation) for index, kind in enumerate(operation.operands))
        target = f"%{operation.result}{random.randrange(POOLS[operation.result])}"
        result.steps.append(Step(operation, target, operands, guard))
        if operation.carries and random.random() < 0.7:
            for _ in range(random.randint(1, 3)):
                following = draw(random)
                while not following.carries or following.result != operation.result:
                    following = draw(random)
                operands = tuple(_operand(random, kind, 0, following) for kind in following.operands)
                result.steps.append(
                    Step(following, f"%{following.result}{random.randrange(POOLS[following.result])}", operands)
                )
    # Regions end where the sequence does, and do not overlap.
    inside = 0
    for number, step in enumerate(result.steps):
        if step.operation is None:
            step.length = 0 if number < inside else min(step.length, len(result.steps) - number - 1)
            inside = max(inside, number + 1 + step.length)
    return result


def _operand(random: Random, kind: str, index: int, operation: Operation) -> str | int:
    if kind[0] == "i":
        return random.randint(0, int(kind[1:]))
    pool = kind[-1]
    if pool != "p" and not operation.select and not operation.text.startswith("cvt") and random.random() < 0.2:
        value = number_of(random, WIDTHS[pool])
        return value | 1 if kind.startswith("odd") else value
    return f"%{pool}{random.randrange(POOLS[pool])}"
