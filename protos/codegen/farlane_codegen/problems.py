"""Errors of the tables: always with the file and the row, never a traceback for the author of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class TableError(Exception):
    """A table says something the generator cannot accept; the message names file and row."""


def require_keys(where: str, row: Mapping[str, Any], required: set[str], optional: set[str]) -> None:
    """Refuses a row with missing or unknown keys (a misspelt key would otherwise be ignored)."""
    missing = required - row.keys()
    if missing:
        raise TableError(f"{where}: missing {', '.join(sorted(missing))}")
    unknown = row.keys() - required - optional
    if unknown:
        raise TableError(f"{where}: unknown key {', '.join(sorted(unknown))}")
