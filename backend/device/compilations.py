"""What a session has waited for code: counts, and when, for a timeline."""

from __future__ import annotations

_MOST_SPANS = 4096


class Compilations:
    """How often and for how long a session has waited for a kernel's code, new or from the cache of an earlier run."""

    def __init__(self) -> None:
        self._number = self._nanoseconds = 0
        self.spans: list[tuple[str, int, int]] = []  # the first ones: name, begin, end

    def add(self, name: str, began: int, ended: int) -> None:
        """By the session's thread."""
        self._number += 1
        self._nanoseconds += ended - began
        if len(self.spans) < _MOST_SPANS:
            self.spans.append((name, began, ended))

    def counts(self) -> dict[str, int]:
        return {"compilations": self._number, "compilation_nanoseconds": self._nanoseconds}
