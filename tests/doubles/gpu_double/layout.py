"""The parameters of a kernel, from its PTX signature: what the driver tells of a loaded kernel."""

from __future__ import annotations

import re

_SIGNATURE = r"\.entry\s+{name}\s*(?:\((.*?)\))?\s*[\{{.]"
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.[a-z](\d+)\s+[\w$%]+(?:\[(\d+)\])?", re.DOTALL)


def layout_of(text: str, name: str) -> list[tuple[int, int]]:
    """(offset, size) of each parameter."""
    match = re.search(_SIGNATURE.format(name=re.escape(name)), text, re.DOTALL)
    assert match is not None, f"no kernel {name} in the PTX"
    at, found = 0, []
    for align, bits, count in _PARAMETER.findall(match[1] or ""):
        size = int(bits) // 8 * int(count or 1)
        alignment = int(align or int(bits) // 8)
        at = -(-at // alignment) * alignment
        found.append((at, size))
        at += size
    return found
