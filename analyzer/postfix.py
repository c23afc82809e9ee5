"""The manifest's code: postfix operations on 64-bit numbers, evaluated when the program stands at a call instruction.

Owns the encoding of single operations (`instruction`), the check that a piece of code keeps the contract's bounds, and
the evaluation as the shim does it. Proofs (permissions/reachability) and predictions (manifest/formulas.py) write it.

Source: protos/manifest.md, "Code".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.machine.arithmetic import MASK, number, signed
from farlane.limits.generated import CODE_DEPTH, CODE_FRAME_BYTES, CODE_OPERATIONS

MAXIMUM_CODE_BYTES = 10 * CODE_OPERATIONS
REGISTERS = {3: "rbx", 4: "rsp", 5: "rbp", 12: "r12", 13: "r13", 14: "r14", 15: "r15"}
SIZES = (1, 2, 4, 8)

END, CONSTANT, REGISTER, FRAME, GLOBAL = 0x00, 0x01, 0x02, 0x03, 0x04
ZX, SX = 0x20, 0x21
BINARY = {
    "add": 0x10, "sub": 0x11, "mul": 0x12, "and": 0x13, "or": 0x14, "xor": 0x15, "shl": 0x16, "shr": 0x17, "sar": 0x18,
    "udiv": 0x19, "sdiv": 0x1A, "eq": 0x30, "ne": 0x31, "ult": 0x32, "ule": 0x33, "slt": 0x34, "sle": 0x35,
}  # fmt: skip
_NAMES = {code: name for name, code in BINARY.items()}
_OPERANDS = {END: "", CONSTANT: "<q", REGISTER: "<B", FRAME: "<IB", GLOBAL: "<QB", ZX: "<B", SX: "<B"}


class CodeError(AnalysisError):
    """Code that breaks a rule of the contract."""


class Operation(NamedTuple):
    code: int
    operands: tuple[int, ...]


def instruction(code: int, *operands: int) -> bytes:
    """One operation's bytes."""
    form = _OPERANDS.get(code, "")
    return bytes((code,)) + (struct.pack(form, *operands) if form else b"")


def parse(data: bytes, start: int = 0) -> tuple[list[Operation], int]:
    """The operations of the code at `start`, without its END, and where it ends.

    Raises:
        CodeError: it breaks a rule: unknown operation, operand out of bounds, too long, too deep, not one value left.
    """
    found: list[Operation] = []
    depth, at = 0, start
    for _ in range(CODE_OPERATIONS):
        if at >= len(data):
            raise CodeError("code without an END")
        code = data[at]
        if code not in _OPERANDS and code not in _NAMES:
            raise CodeError(f"unknown operation {code:#04x}")
        form = _OPERANDS.get(code, "")
        size = struct.calcsize(form) if form else 0
        if at + 1 + size > len(data):
            raise CodeError("a truncated operation")
        operands = struct.unpack_from(form, data, at + 1) if form else ()
        at += 1 + size
        if code == END:
            if depth != 1:
                raise CodeError(f"code that leaves {depth} values")
            return found, at
        _check(code, operands)
        taken = 2 if code in _NAMES else 1 if code in (ZX, SX) else 0
        if depth < taken:
            raise CodeError("an operation without its operands")
        depth += 1 - taken
        if depth > CODE_DEPTH:
            raise CodeError(f"more than {CODE_DEPTH} operands deep")
        found.append(Operation(code, operands))
    raise CodeError(f"more than {CODE_OPERATIONS} operations")


def _check(code: int, operands: tuple[int, ...]) -> None:
    if code == REGISTER and operands[0] not in REGISTERS:
        raise CodeError(f"register {operands[0]} is not at hand at a call")
    if code in (FRAME, GLOBAL, ZX, SX) and operands[-1] not in SIZES:
        raise CodeError(f"a size of {operands[-1]} bytes")
    if code == FRAME and operands[0] + operands[1] > CODE_FRAME_BYTES:
        raise CodeError(f"a frame offset of {operands[0]}")


def check(data: bytes) -> None:
    """Raises CodeError unless the bytes are one piece of code and nothing more."""
    if parse(data)[1] != len(data):
        raise CodeError("bytes behind the END")


def evaluate(
    data: bytes,
    registers: Mapping[str, int],
    frame: bytes,
    read_global: Callable[[int, int], bytes | None],
    start: int = 0,
) -> int | None:
    """What the code at `start` leaves; None when it cannot be evaluated.

    Args:
        registers: by name (rbx, rsp, rbp, r12 to r15), as they are at the call instruction.
        frame: memory from rsp upward; reading beyond it cannot be evaluated.
        read_global: (link-time address, size) -> the bytes there, None when they cannot be read.

    Raises:
        CodeError: it is no code.
    """
    stack: list[int] = []
    for code, operands in parse(data, start)[0]:
        value: int | None
        if code == CONSTANT:
            value = operands[0] & MASK
        elif code == REGISTER:
            value = registers.get(REGISTERS[operands[0]])
        elif code == FRAME:
            offset, size = operands
            value = _number(frame[offset : offset + size], size)
        elif code == GLOBAL:
            value = _number(read_global(*operands), operands[1])
        elif code in (ZX, SX):
            value = number(stack.pop(), operands[0], code == SX)
        else:
            second, first = stack.pop(), stack.pop()
            value = binary(_NAMES[code], first, second)
        if value is None:
            return None
        stack.append(value & MASK)
    return stack[0]


def _number(data: bytes | None, size: int) -> int | None:
    return int.from_bytes(data, "little") if data is not None and len(data) == size else None


def binary(name: str, first: int, second: int) -> int | None:
    """One operation on two 64-bit numbers, not yet cut to 64 bits; None: a division by zero."""
    shift = second & 63
    signed_first, signed_second = signed(first), signed(second)
    match name:
        case "add":
            return first + second
        case "sub":
            return first - second
        case "mul":
            return first * second
        case "and":
            return first & second
        case "or":
            return first | second
        case "xor":
            return first ^ second
        case "shl":
            return first << shift
        case "shr":
            return first >> shift
        case "sar":
            return signed_first >> shift
        case "udiv":
            return first // second if second else None
        case "sdiv":
            if not second:
                return None
            quotient = abs(signed_first) // abs(signed_second)
            return quotient if (signed_first < 0) == (signed_second < 0) else -quotient
        case "eq":
            return int(first == second)
        case "ne":
            return int(first != second)
        case "ult":
            return int(first < second)
        case "ule":
            return int(first <= second)
        case "slt":
            return int(signed_first < signed_second)
        case _:
            return int(signed_first <= signed_second)
