"""What a module declares: kernels, their parameters, and variables; and the errors of its text.

Source: PTX ISA, "Kernel and Function Directives" and "Variable Declarations".
"""

from __future__ import annotations

from dataclasses import dataclass


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
        return f"{self.kernel}: {where}{self.message}" if self.kernel else f"{where}{self.message}"


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
