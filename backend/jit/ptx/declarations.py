"""What a module declares: kernels and functions, their parameters, and variables; and the errors of its text.

Source: PTX ISA, "Kernel and Function Directives" and "Variable Declarations".
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

from farlane.backend.jit.ptx.model import Body, Storage
from farlane.demangle import demangled

SCALAR_BYTES = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f16x2": 4, "bf16x2": 4, "b128": 16, "tf32": 4,
}  # fmt: skip


class PtxError(Exception):
    """The PTX text is malformed, or asks for something that is not supported.

    Args:
        message: what is wrong, naming the instruction.
        line: line of the PTX text, 0 when unknown.
        kernel: the entry being compiled, "" outside of one.
    """

    def __init__(self, message: str, line: int = 0, kernel: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.kernel = kernel

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{demangled(self.kernel)}: {where}{self.message}" if self.kernel else f"{where}{self.message}"


class UnsupportedError(PtxError):
    """Correct PTX that this translator does not handle yet. Never a wrong result instead."""


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter in the parameter buffer."""

    name: str
    offset: int
    size: int
    align: int


@dataclass(frozen=True)
class Entry:
    """A kernel's signature, from its header and the .shared declarations of its module."""

    name: str
    parameters: tuple[Parameter, ...]
    parameter_bytes: int
    max_threads: tuple[int, int, int] | None = None  # .maxntid
    required_threads: tuple[int, int, int] | None = None  # .reqntid
    required_cluster: tuple[int, int, int] | None = None  # .reqnctapercluster
    most_cluster_blocks: int = 0  # .maxclusterrank; 0: not said
    explicit_cluster: bool = False  # .explicitcluster: it is launched with clusters only
    line: int = 0


@dataclass(frozen=True)
class Relocation:
    """`initial[offset : offset + size]` gets the address of `symbol` plus `addend`.

    generic: the initialiser said generic(symbol). For .global and .const both forms are the same here (identity map).
    """

    offset: int
    symbol: str
    addend: int
    generic: bool
    size: int = 8


@dataclass(frozen=True)
class Variable:
    """A module-scope variable. The caller gives global and const ones an address; `initial` is None for zeros."""

    name: str
    space: str  # "global" | "const" | "shared"
    size: int  # 0 for extern arrays of unknown size
    align: int
    initial: bytes | None = None
    relocations: tuple[Relocation, ...] = ()
    extern: bool = False
    managed: bool = False
    visible: bool = False
    line: int = 0


@dataclass(slots=True)
class Function:
    """A kernel or device function; `body` is None for a declaration. `parsed` is filled by parser.body_of."""

    name: str
    entry: bool
    parameters: tuple[Storage, ...]
    returns: tuple[Storage, ...]
    line: int
    body: tuple[int, int, int] | None = None  # offsets of the text between the braces, its first line
    noreturn: bool = False
    parsed: Body | None = None


_ADDRESS = re.compile(r"\bmov\.[bu]64\s+[^,;\s]+\s*,\s*([A-Za-z_$%][\w$]*)\s*;")


@dataclass(slots=True)
class Module:
    """The contents of one PTX text. `variables` is in order of appearance; its indices are the relocation table's."""

    text: str
    digest: bytes
    version: tuple[int, int] = (0, 0)
    target: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    variable_index: dict[str, int] = field(default_factory=dict)
    _held: frozenset[str] | None = None
    _numbers: dict[str, int] = field(default_factory=dict)

    def held_functions(self) -> frozenset[str]:
        """The functions whose addresses code or variables hold."""
        if self._held is None:
            names = {relocation.symbol for variable in self.variables for relocation in variable.relocations}
            names.update(_ADDRESS.findall(self.text))
            self._held = frozenset(name for name in names if name in self.functions)
        return self._held

    def function_number(self, name: str) -> int:
        """The value of a pointer to a function: not a mapped address, never 0."""
        if len(self._numbers) != len(self.functions):
            self._numbers = {known: 16 * (position + 1) for position, known in enumerate(self.functions)}
        if name not in self._numbers:
            raise PtxError(f"unknown function '{name}'")
        return self._numbers[name]

    def function_at(self, number: int) -> str | None:
        """The function that a pointer names."""
        position, rest = divmod(number, 16)
        if rest or not 0 < position <= len(self.functions):
            return None
        return next(itertools.islice(self.functions, position - 1, None))

    def variable(self, name: str) -> Variable | None:
        index = self.variable_index.get(name)
        return None if index is None else self.variables[index]
