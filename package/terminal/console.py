"""rich's console as Farlane uses it: colours where a terminal shows them and NO_COLOR is not set, no markup in texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console(*, error: bool = False) -> Console:
    """A console on standard output, or on standard error. rich reads NO_COLOR, FORCE_COLOR and TERM."""
    from rich.console import Console  # takes longer to import than many a command takes

    return Console(stderr=error, highlight=False, markup=False, emoji=False, soft_wrap=True)
