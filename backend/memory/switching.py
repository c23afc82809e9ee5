"""Rules of task switching: what leaves the device when another task gets it, and whose memory goes first.

Pure: a rule says what is to move, device/sim/memory/shared.py moves it. `DELAYED` is what hosts do. The others are what it is compared with
(benchmarks/memory/switching.py), on the same code.

Source: docs/explanation/systems.md, S2 point 5 and 6; for `PIPELINED`, PipeSwitch (Bai and others, OSDI 2020).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Rule(NamedTuple):
    """What a switch moves.

    Args:
        saves_all: everything of the task that is stopped leaves at once, not what is missing when it is missing.
        saves_unchanged: what leaves is copied even where the host's copy is still good.
        restores_all: everything that has left comes back as soon as its task runs, not what launches need.
    """

    name: str
    saves_all: bool = False
    saves_unchanged: bool = False
    restores_all: bool = False


DELAYED = Rule("delayed")
FULL = Rule("full", saves_all=True, saves_unchanged=True, restores_all=True)
#: The device is one task's alone: of the old one's memory only what has changed is saved, and the new one's comes group by group as it computes.
PIPELINED = Rule("pipelined", saves_all=True)

RULES = {rule.name: rule for rule in (DELAYED, FULL, PIPELINED)}


class Candidate(NamedTuple):
    """A task whose memory may leave the device."""

    number: int
    priority: int
    turn: int  # the number of the last turn that it had
    granules: int


def victims(candidates: Iterable[Candidate], missing: int) -> list[tuple[int, int]]:
    """(task, granules) that leave, `missing` in all or as many as there are: the lowest priority first, then whose turn is longest ago."""
    found = []
    for candidate in sorted(candidates, key=lambda each: (each.priority, each.turn, each.number)):
        granules = min(missing, candidate.granules)
        if granules > 0:
            found.append((candidate.number, granules))
            missing -= granules
    return found
