"""Conditions of branches, as comparisons of values."""

from __future__ import annotations

from typing import NamedTuple

from farlane.analyzer.flow.expression import OPERATION, Value, Values

# After a comparison of two values: mnemonic -> (relation, signed).
_RELATIONS = {
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
# After an operation whose result is compared with zero; the carry is not known then.
_WITH_ZERO = {
    "je": ("==", False),
    "jne": ("!=", False),
    "js": ("<", True),
    "jns": (">=", True),
    "jl": ("<", True),
    "jge": (">=", True),
    "jle": ("<=", True),
    "jg": (">", True),
}
TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", "<=": ">", ">": "<="}


class Condition(NamedTuple):
    """left relation right, as numbers of `size` bytes."""

    relation: str
    left: Value
    right: Value
    size: int
    signed: bool

    def turned(self) -> Condition:
        """The same with its sides exchanged."""
        return self._replace(relation=TURNED[self.relation], left=self.right, right=self.left)

    def constant(self) -> bool | None:
        """Whether it holds, when that is known."""
        if self.left is self.right:
            return self.relation in ("==", "<=", ">=")
        if not (self.left.is_constant and self.right.is_constant):
            return None
        first, second = (number(value.constant, self.size, self.signed) for value in (self.left, self.right))
        return compare(self.relation, first, second)


def number(value: int, size: int, signed: bool) -> int:
    """The low bytes of a 64-bit number, read as signed or not."""
    value &= (1 << 8 * size) - 1
    return value - (1 << 8 * size) if signed and value >> (8 * size - 1) else value


def compare(relation: str, first: int, second: int) -> bool:
    return {
        "==": first == second,
        "!=": first != second,
        "<": first < second,
        "<=": first <= second,
        ">": first > second,
        ">=": first >= second,
    }[relation]


def condition(values: Values, mnemonic: str, flags: Value) -> Condition | None:
    """The condition under which a branch is taken; None when it is no comparison of integers."""
    if flags.kind != OPERATION:
        return None
    name, *operands = flags.arguments
    if name.startswith("cmp") and name[3:].isdigit() and mnemonic in _RELATIONS:
        relation, signed = _RELATIONS[mnemonic]
        return Condition(relation, operands[0], operands[1], int(name[3:]), signed)
    if name.startswith("res") and mnemonic in ("je", "jne") and operands[0].kind == OPERATION:
        inner = operands[0]
        if inner.arguments[0] == "zx1":
            inner = inner.arguments[1]
        if inner.kind == OPERATION and inner.arguments[0] == "set":
            found = condition(values, f"j{inner.arguments[1][3:]}", inner.arguments[2])
            if found is not None and mnemonic == "je":
                found = found._replace(relation=NEGATED[found.relation])
            return found
    if name.startswith("res") and mnemonic in _WITH_ZERO:
        relation, signed = _WITH_ZERO[mnemonic]
        return Condition(relation, operands[0], values.zero, int(name[3:]), signed)
    return None
