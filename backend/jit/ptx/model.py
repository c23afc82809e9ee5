"""The parsed form of PTX: operands, instructions, function bodies. Data only.

Operands are immutable; an `Instruction` is rewritten only by the SSA pass, which replaces registers by values.
Source: PTX ISA, "Instruction Statements" and "Operands".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

LANES = 32  # threads of a warp (WARP_SZ)


@dataclass(frozen=True, slots=True)
class Register:
    """A declared register; `type` is the .reg type without its dot ("b32", "f64", "pred")."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as %tid.x or %laneid."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """An integer (kind "i", any value that fits 64 bits), or the bits of a float ("f32", "f64")."""

    value: int
    kind: str = "i"


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, parameter or function, or a label."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """[base + offset]; base is a Register, a Symbol or None for an absolute address."""

    base: Any
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """{a, b, ...}; None stands for the sink "_"."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """!p as an operand."""

    operand: Any


@dataclass(slots=True)
class Instruction:
    """One instruction. `destinations` are registers (values after SSA) or None for the sink; `sources` is what is read.

    A source is Register | Special | Immediate | Symbol | Address | Vector | Negated; after SSA, registers are Values.
    """

    base: str  # "ld"
    modifiers: tuple[str, ...]  # ("global", "v2", "f32")
    destinations: list[Any]
    sources: list[Any]
    line: int
    guard: tuple[Any, bool] | None = None  # (predicate register, negated)
    labels: tuple[str, ...] = ()  # branch targets, call prototype

    @property
    def text(self) -> str:
        return ".".join((self.base, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Storage:
    """A .local, .shared or .param variable of a function, or one of its parameters."""

    name: str
    space: str  # "local" | "shared" | "param"
    size: int
    align: int
    element: str = "b8"  # scalar type, for parameters passed by value
    array: bool = False


@dataclass(slots=True)
class Body:
    """A function's statements: straight-line code with labels (label -> index of the instruction that follows)."""

    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)  # .branchtargets
    prototypes: dict[str, tuple[tuple[Storage, ...], tuple[Storage, ...]]] = field(default_factory=dict)
    storage: dict[str, Storage] = field(default_factory=dict)
    registers: int = 0  # declared registers that are used


def extends(instruction: Instruction) -> bool:
    """Whether the instruction widens a 32-bit integer to 64 bits."""
    modifiers = instruction.modifiers
    if instruction.base in ("mul", "mad"):
        return "wide" in modifiers and modifiers[-1] in ("s32", "u32")
    return (
        instruction.base == "cvt"
        and len(modifiers) == 2
        and modifiers[0] in ("u64", "s64")
        and modifiers[1] in ("u32", "s32")
    )


def registers_of(operand: Any) -> list[Any]:
    """The Registers (or SSA Values) that an operand reads."""
    if isinstance(operand, Address):
        return registers_of(operand.base)
    if isinstance(operand, Negated):
        return registers_of(operand.operand)
    if isinstance(operand, Vector):
        return [item for element in operand.items for item in registers_of(element)]
    if isinstance(operand, (Special, Immediate, Symbol)) or operand is None:
        return []
    return [operand]


def read_by(instruction: Instruction) -> list[Any]:
    """The Registers (or SSA Values) that an instruction reads, its guard's among them."""
    found = [register for source in instruction.sources for register in registers_of(source)]
    if instruction.guard is not None:
        found += registers_of(instruction.guard[0])
    return found
