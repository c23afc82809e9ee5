"""The result of a check."""

from __future__ import annotations

from dataclasses import asdict, dataclass

OK, NOTE, FAILED = "ok", "note", "FAILED"


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        state: OK; NOTE: it works, but not as one may expect; FAILED: something does not work.
        check: the check's name, which stays the same from version to version.
        text: what is there, or what is wrong.
        advice: what to do. No finding of state FAILED is without it.
    """

    state: str
    check: str
    text: str
    advice: str = ""

    def json(self) -> dict[str, str]:
        return asdict(self) | {"state": self.state.lower()}
