"""Byte counts as people write them."""

from __future__ import annotations

import re

from farlane.frontend.errors import UserError
from farlane.terminal import statuses

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(text: str) -> int:
    """512M, 2G, 1GiB, 4096 -> bytes (powers of two). Raises UserError."""
    match = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise UserError(f"{text!r} is no size", "Write it as 4096, 512M or 2G.", status=statuses.WRONG_CALL)
    return int(match[1]) * UNITS[match[2].upper()]
