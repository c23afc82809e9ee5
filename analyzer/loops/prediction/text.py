"""Values as text, for people."""

from __future__ import annotations

from collections.abc import Mapping

from farlane.analyzer.machine.instruction import NAMES
from farlane.analyzer.values.expression import CALL, INITIAL, INSIDE, LOAD, OPERATION, OUT, PHI, Value

DEPTH = 6
_OPERATORS = {"imul": "*", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>", "sar": ">>"}


def show(value: Value, names: Mapping[Value, str], depth: int = 0) -> str:
    """A value; `names` are for phis that are induction variables."""
    if depth > DEPTH:
        return "..."
    if value.terms == ((value, 1),):
        return names.get(value) or _atom(value, names, depth + 1)
    parts = []
    for atom, coefficient in value.terms:
        text = names.get(atom) or _atom(atom, names, depth + 1)
        signed = coefficient - 2**64 if coefficient >> 63 else coefficient
        if signed == 1:
            parts.append(f"+ {text}")
        elif signed == -1:
            parts.append(f"- {text}")
        else:
            parts.append(f"{'-' if signed < 0 else '+'} {abs(signed)}*{text}")
    if value.signed or not parts:
        number = abs(value.signed)
        parts.append(f"{'-' if value.signed < 0 else '+'} {number if number < 1 << 32 else hex(number)}")
    joined = " ".join(parts)
    return joined[2:] if joined.startswith("+ ") else joined.replace("- ", "-", 1)


def place(key: object) -> str:
    """A register, or a cell of memory by its address."""
    if isinstance(key, int):
        if key < 16:
            return NAMES[key]
        return f"xmm{(key - 16) // 2}" if key < 48 else f"state{key}"
    if isinstance(key, tuple) and len(key) == 3:
        base, offset, size = key
        if base.kind == INITIAL and base.arguments[0] == 4:
            return f"stack{offset:+d}:{size}"
        return f"memory[{show(base, {}, DEPTH - 1)}{offset:+d}]:{size}"
    return str(key)


def _atom(atom: Value, names: Mapping[Value, str], depth: int) -> str:
    arguments = atom.arguments
    if atom.kind == INITIAL:
        return "frame" if arguments[0] == 4 else f"{place(arguments[0])}@entry"
    if atom.kind == LOAD:
        return f"[{show(arguments[0], names, depth)}]"
    if atom.kind == CALL:
        return f"{arguments[1] or 'call'}@{arguments[0]:x}"
    if atom.kind == OUT:
        return f"{arguments[1]}@{arguments[0]:x}.{arguments[2]}"
    if atom.kind == PHI:
        return f"{place(arguments[2])}@{arguments[1]:x}"
    if atom.kind == INSIDE:
        return f"{_atom(arguments[1], {}, depth)}/{arguments[0]:x}"
    if atom.kind == OPERATION:
        name, *values = arguments
        inner = [show(value, names, depth) if isinstance(value, Value) else str(value) for value in values]
        if name in ("zx4", "sx4"):
            return inner[0] if len(values[0].terms) == 1 and not values[0].constant else f"({inner[0]})"
        symbol = _OPERATORS.get(name.rstrip("1248"))
        if symbol and len(inner) == 2:
            return f"({inner[0]} {symbol} {inner[1]})"
        return f"{name}({', '.join(inner)})"
    return f"{atom.kind}@{arguments[0]:x}" if isinstance(arguments[0], int) else atom.kind
