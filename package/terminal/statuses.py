"""The exit statuses of `farlane` and its commands. docs/reference/exit-statuses.md and the manual pages show this table."""

from __future__ import annotations

from typing import NamedTuple

DONE = 0
FAILED = 1
WRONG_CALL = 2
OUT_OF_TIME = 3
OUR_FAULT = 70
NOT_STARTED = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127
SIGNALLED = 128
INTERRUPTED = 130
BROKEN_PIPE = 141


class Status(NamedTuple):
    """A row of the table."""

    status: str
    command: str
    meaning: str


TABLE = (
    Status(str(DONE), "all", "The command did what it was asked to do."),
    Status(
        str(FAILED),
        "all",
        "The command failed, and a message says why. `farlane doctor` found a problem.",
    ),
    Status(str(WRONG_CALL), "all", "The call is wrong: an option, an argument, or a variable FARLANE_*."),
    Status(str(OUT_OF_TIME), "analyze", "The program was not analyzed within --seconds, and no manifest was written."),
    Status(str(OUR_FAULT), "analyze", "The analyzer failed with an error of its own, and shows a traceback."),
    Status(
        str(NOT_STARTED),
        "run, env, top, smi, setup",
        "Farlane cannot do its part: the shim is not built, the host does not answer. No program was started.",
    ),
    Status(
        str(NOT_EXECUTABLE),
        "run, sim run",
        "The program is there and cannot be run, or its CUDA calls cannot be intercepted.",
    ),
    Status(str(NOT_FOUND), "run, sim run", "There is no such program."),
    Status(f"{SIGNALLED} + N", "run, sim run", "Signal N ended the program."),
    Status(str(INTERRUPTED), "all", "Ctrl-C ended the command."),
    Status(str(BROKEN_PIPE), "all", "What read the command's output has ended, as `head` does after some lines."),
    Status("other", "run, sim run", "The program's own status, or --error-exitcode when --check found errors."),
)


def markdown() -> str:
    """The table for docs/reference/exit-statuses.md."""
    rows = [f"| {row.status} | {row.command} | {row.meaning} |" for row in TABLE]
    return "\n".join(["| status | commands | meaning |", "|---|---|---|", *rows])
