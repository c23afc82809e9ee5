"""Expressions over what registers and frame cells hold at a call site, with exact widths, and their postfix code.

An expression is a tuple; None is what is not known. 64-bit operands, wrapping, as in protos/manifest.md ("Code"):
("constant", n), ("register", r), ("frame", offset): an address in the frame, ("cell", offset, size): frame memory,
zero-extended, ("global", address, size): memory at a link-time address of the file, (operation, a, b), ("zx" or "sx",
a, size). Offsets are from the stack pointer at the function's entry.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from farlane.analyzer.loader.image import Image
from farlane.analyzer.machine.arithmetic import MASK, signed
from farlane.analyzer.machine.instruction import CALLEE_SAVED, NAMES, RSP
from farlane.analyzer.postfix import (
    BINARY,
    CONSTANT,
    END,
    FRAME,
    GLOBAL,
    REGISTER,
    SX,
    ZX,
    binary,
    instruction,
)
from farlane.limits.generated import CODE_DEPTH, CODE_FRAME_BYTES, CODE_OPERATIONS

Expression: TypeAlias = tuple[Any, ...]

_SIGNS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
    "sar": ">>",
    "eq": "==",
    "ne": "!=",
    "ult": "<u",
    "ule": "<=u",
    "slt": "<",
    "sle": "<=",
}
_COMPARISONS = frozenset({"eq", "ne", "ult", "ule", "slt", "sle"})
ZERO: Expression = ("constant", 0)
ONE: Expression = ("constant", 1)


def number(value: int) -> Expression:
    return ("constant", value & MASK)


def placed(image: Image, address: int) -> Expression | None:
    """An address in the file as it is when the program runs; None where nothing tells it."""
    slot = image.anchor()
    if slot is not None:
        return ("add", ("global", slot, 8), number(address - image.pointers[slot]))
    return None if image.moves else number(address)


def operation(name: str, first: Expression | None, second: Expression | None) -> Expression | None:
    if first is None or second is None:
        return None
    if first[0] == "constant" and second[0] == "constant":
        return number(binary(name, first[1], second[1]) or 0)
    if name in ("add", "sub") and second[0] == "constant":
        amount = second[1] if name == "add" else -second[1]
        if first[0] == "frame":
            return ("frame", first[1] + signed(amount))
        if amount & MASK == 0:
            return first
        if first[0] == "add" and first[2][0] == "constant":
            return operation("add", first[1], number(first[2][1] + amount))
        return ("add", first, number(amount))
    if name == "add" and first[0] == "constant":
        return operation("add", second, first)
    return (name, first, second)


def extended(value: Expression | None, size: int, sign: bool = False) -> Expression | None:
    """The low bytes of a value, zero- or sign-extended."""
    if value is None or size >= 8:
        return value
    if value[0] == "constant":
        return number(signed(value[1], size) if sign else value[1] & ((1 << 8 * size) - 1))
    if not sign and value[0] == "zx" and value[2] <= size:
        return value
    if not sign and value[0] == "cell" and value[2] <= size:
        return value
    if value[0] in ("zx", "sx") and value[2] >= size:
        return extended(value[1], size, sign)
    if not sign and value[0] in _COMPARISONS:
        return value
    return ("sx" if sign else "zx", value, size)


def negated(condition: Expression) -> Expression:
    """The opposite of a 0-or-1 expression."""
    opposite = {"eq": "ne", "ne": "eq"}
    if condition[0] == "constant":
        return ONE if condition[1] == 0 else ZERO
    if condition[0] in opposite:
        return (opposite[condition[0]], condition[1], condition[2])
    swapped = {"ult": "ule", "ule": "ult", "slt": "sle", "sle": "slt"}
    if condition[0] in swapped:
        return (swapped[condition[0]], condition[2], condition[1])
    return ("eq", condition, ZERO)


def both(first: Expression, second: Expression) -> Expression:
    """The and of two 0-or-1 expressions."""
    if first == ZERO or second == ZERO:
        return ZERO
    if first in (ONE, second):
        return second
    return first if second == ONE else ("and", first, second)


def either(first: Expression, second: Expression) -> Expression:
    """The or of two 0-or-1 expressions."""
    if first == ONE or second == ONE:
        return ONE
    if first in (ZERO, second):
        return second
    return first if second == ZERO else ("or", first, second)


def moved(value: Expression, stack: int) -> Expression:
    """The expression with offsets counted from a stack pointer that stands at `stack`."""
    if value[0] == "frame":
        return ("frame", value[1] - stack)
    if value[0] == "cell":
        return ("cell", value[1] - stack, value[2])
    return tuple(moved(part, stack) if isinstance(part, tuple) else part for part in value)


def encode(value: Expression, stack: int) -> bytes | None:
    """Postfix code; None when it cannot be expressed. `stack` is the stack pointer's offset at the site."""
    out: list[bytes] = []
    deepest = _emit(value, stack, out, 0)
    if deepest is None or deepest > CODE_DEPTH or len(out) + 1 > CODE_OPERATIONS:
        return None
    return b"".join(out) + instruction(END)


def _emit(value: Expression, stack: int, out: list[bytes], depth: int) -> int | None:
    """Appends code for a value above `depth` operands; how deep the operands get."""
    kind = value[0]
    if len(out) > CODE_OPERATIONS:
        return None
    if kind == "constant":
        out.append(instruction(CONSTANT, signed(value[1])))
        return depth + 1
    if kind == "register":
        if value[1] not in (*CALLEE_SAVED, RSP):
            return None
        out.append(instruction(REGISTER, value[1]))
        return depth + 1
    if kind == "frame":
        return _emit(("add", ("register", RSP), number(value[1] - stack)), stack, out, depth)
    if kind == "cell":
        offset, size = value[1] - stack, value[2]
        if offset < 0 or offset + size > CODE_FRAME_BYTES:
            return None
        out.append(instruction(FRAME, offset, size))
        return depth + 1
    if kind == "global":
        out.append(instruction(GLOBAL, value[1], value[2]))
        return depth + 1
    deepest = _emit(value[1], stack, out, depth)
    if deepest is None:
        return None
    if kind in ("zx", "sx"):
        out.append(instruction(ZX if kind == "zx" else SX, value[2]))
        return deepest
    second = _emit(value[2], stack, out, depth + 1)
    if second is None:
        return None
    out.append(instruction(BINARY[kind]))
    return max(deepest, second)


def show(value: Expression, stack: int) -> str:
    """The expression for people."""
    kind = value[0]
    if kind == "constant":
        return str(signed(value[1]))
    if kind == "register":
        return NAMES[value[1]]
    if kind == "frame":
        return f"rsp+{value[1] - stack:#x}"
    if kind == "cell":
        return f"[rsp+{value[1] - stack:#x}]:{value[2]}"
    if kind == "global":
        return f"[{value[1]:#x}]:{value[2]}"
    if kind in ("zx", "sx"):
        return f"{kind}{value[2]}({show(value[1], stack)})"
    return f"({show(value[1], stack)} {_SIGNS[kind]} {show(value[2], stack)})"
