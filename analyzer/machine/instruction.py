"""Instructions and operands as plain tuples, the same whichever disassembler decoded them.

A general register is its number 0..15 (rax rcx rdx rbx rsp rbp rsi rdi r8..r15) with the size and byte offset of the
part that is meant; a vector register is 16 + its number. `writes` lists the registers that an instruction changes,
explicit or not, so that a consumer that does not know the mnemonic still knows what is lost.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI = range(8)
R8, R9, R10, R11, R12, R13, R14, R15 = range(8, 16)
XMM0 = 16
NONE = -1
# Scalar arithmetic and conversions: the decoder reads them in full, the data flow gives them an opaque result.
SCALAR_FLOATING = (
    *(f"{operation}{width}" for operation in ("add", "sub", "mul", "div", "sqrt") for width in ("ss", "sd")),
    *("cvtsi2sd", "cvtsi2ss", "cvtss2sd", "cvtsd2ss", "cvttsd2si", "cvttss2si"),
)

NAMES = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{number}" for number in range(8, 16)))

# A state of registers: the general ones, then two halves of each vector register.
REGISTERS = XMM0 + 32
ARGUMENTS = (RDI, RSI, RDX, RCX, R8, R9)
CALLER_SAVED = (RAX, RCX, RDX, RSI, RDI, R8, R9, R10, R11)
CALLEE_SAVED = (RBX, RBP, R12, R13, R14, R15)


class Register(NamedTuple):
    number: int
    size: int
    offset: int = 0


class Immediate(NamedTuple):
    value: int
    size: int


class Memory(NamedTuple):
    """A memory operand; a base of RIP is already resolved into the displacement. `thread` marks fs: and gs:."""

    base: int
    indexed: int
    scale: int
    displacement: int
    size: int
    thread: bool = False


Operand: TypeAlias = Register | Immediate | Memory


class Instruction(NamedTuple):
    address: int
    size: int
    mnemonic: str
    operands: tuple[Operand, ...]
    writes: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        return self.address + self.size


class Flow(NamedTuple):
    """What the sweep keeps of an instruction that may leave the straight line.

    Attributes:
        kind: "call", "jump", "branch" (conditional), "return" or "stop" (hlt, ud2).
        target: the direct target; None when it is computed.
        slot: the address of the memory the target is read from, when that is fixed.
    """

    address: int
    size: int
    kind: str
    target: int | None
    slot: int | None


def lane(register: int, half: int = 0) -> int:
    """Where a half of a vector register stands in a state of registers."""
    return XMM0 + 2 * (register - XMM0) + half
