"""Arithmetic and comparisons of x86, on numbers: one place for all engines.

`AFTER_COMPARISON` and its fellows say what a conditional jump asks for, by what set the flags before it.
"""

from __future__ import annotations

MASK = 2**64 - 1

# After a comparison (cmp) of two values: mnemonic -> (relation, signed).
AFTER_COMPARISON = {
    "je": ("==", False),
    "jne": ("!=", False),
    "jl": ("<", True),
    "jge": (">=", True),
    "jle": ("<=", True),
    "jg": (">", True),
    "jb": ("<", False),
    "jae": (">=", False),
    "jbe": ("<=", False),
    "ja": (">", False),
}
# After and, or, xor and test, whose result is compared with zero: there is neither carry nor overflow.
AFTER_LOGIC = {
    "je": ("==", False),
    "jne": ("!=", False),
    "js": ("<", True),
    "jns": (">=", True),
    "jl": ("<", True),
    "jge": (">=", True),
    "jle": ("<=", True),
    "jg": (">", True),
}
# After other operations, which may overflow.
AFTER_RESULT = {mnemonic: AFTER_LOGIC[mnemonic] for mnemonic in ("je", "jne", "js", "jns")}
TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", "<=": ">", ">": "<="}


def low(value: int, size: int) -> int:
    """The low bytes of a number."""
    return value & ((1 << 8 * size) - 1)


def signed(value: int, size: int = 8) -> int:
    """The low bytes of a number, read as signed."""
    value &= (1 << 8 * size) - 1
    return value - (1 << 8 * size) if value >> (8 * size - 1) else value


def number(value: int, size: int, as_signed: bool) -> int:
    """The low bytes of a number, read as signed or not."""
    return signed(value, size) if as_signed else low(value, size)


def compare(relation: str, first: int, second: int) -> bool:
    """Whether a relation holds between two numbers."""
    return {
        "==": first == second,
        "!=": first != second,
        "<": first < second,
        "<=": first <= second,
        ">": first > second,
        ">=": first >= second,
    }[relation]


def fold(name: str, first: int, second: int, size: int) -> int | None:
    """An operation on numbers of `size` bytes; None: it is none of these."""
    first, mask = low(first, size), low(-1, size)
    count = second & (63 if size == 8 else 31)
    if name == "and":
        return first & second & mask
    if name == "or":
        return (first | second) & mask
    if name == "xor":
        return (first ^ second) & mask
    if name == "imul":
        return first * second & mask
    if name == "shl":
        return first << count & mask
    if name == "shr":
        return first >> count
    if name == "sar":
        return signed(first, size) >> count & mask
    return None
