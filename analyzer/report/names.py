"""Names of C++ functions for people: the qualified name out of a mangled one, without types.

Not a demangler: what it does not understand stays as it is. Source: the Itanium C++ ABI, 5.1.
"""

from __future__ import annotations

import re

_NESTED = re.compile(r"[KVrRO]*")
MAXIMUM_PARTS = 16


def readable(symbol: str) -> str:
    """`_ZN4grid6Solver4stepEif` -> `grid::Solver::step`; other names unchanged."""
    symbol, _, suffix = symbol.partition(".")
    found = _qualified(symbol) or symbol
    return f"{found}.{suffix}" if suffix else found


def _qualified(symbol: str) -> str | None:
    if not symbol.startswith("_Z"):
        return None
    at = 2
    nested = symbol[at : at + 1] == "N"
    if nested:
        match = _NESTED.match(symbol, at + 1)
        at = match.end() if match else at + 1
    parts: list[str] = []
    while len(parts) < MAXIMUM_PARTS:
        if symbol.startswith("St", at):
            parts.append("std")
            at += 2
            nested = nested or symbol[at : at + 1].isdigit()
            continue
        if symbol[at : at + 1] == "L":
            at += 1
        length = re.match(r"\d+", symbol[at : at + 5])
        if length is None:
            break
        at += length.end()
        size = int(length[0])
        name = symbol[at : at + size]
        if len(name) != size:
            return None
        parts.append("(anonymous)" if name.startswith("_GLOBAL__N") else name)
        at += size
        if not nested:
            break
    if nested and parts and symbol[at : at + 2] in ("C1", "C2", "D0", "D1", "D2"):
        parts.append(("~" if symbol[at] == "D" else "") + parts[-1])
    return "::".join(parts) if parts and parts != ["std"] else None
