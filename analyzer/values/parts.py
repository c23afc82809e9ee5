"""What a value is made of. Operations share operands, so a value with few of them may have very many ways down to its
parts: each part is looked at once."""

from __future__ import annotations

from farlane.analyzer.values.expression import OPERATION, Value


def leaves(value: Value) -> list[Value]:
    """The atoms of a value, operations taken apart."""
    found: dict[Value, None] = {}
    work, seen = [value], {value}
    while work:
        for atom, _ in work.pop().terms:
            if atom.kind != OPERATION:
                found[atom] = None
                continue
            inner = [each for each in atom.arguments[1:] if isinstance(each, Value) and each not in seen]
            seen.update(inner)
            work += inner
    return list(found)
