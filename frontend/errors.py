"""Errors that a user of the command line meets: one sentence that says what is wrong, and one that says what to do."""

from __future__ import annotations

from farlane.terminal import statuses


class UserError(Exception):
    """Printed as `farlane: <message>` without a traceback; the command ends with `status`.

    Args:
        message: what is wrong.
        advice: what to do about it.
        status: exit status; 2 for a wrong call, 125 when the program was never started (as env and docker do).
    """

    def __init__(self, message: str, advice: str = "", status: int = statuses.NOT_STARTED) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.status = status

    def __str__(self) -> str:
        return f"{self.message}\n  {self.advice}" if self.advice else self.message
