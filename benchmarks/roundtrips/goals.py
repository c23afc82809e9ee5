"""The goals, and by how much a record meets or misses them. Owns the numbers; the record is measure.py's."""

from __future__ import annotations

from dataclasses import dataclass

from farlane.roundtrips.measure import Record, Row
from farlane.roundtrips.programs import CG_LIKE, CLASS_1_2

AT = 500.0  # microseconds of injected round trip
TIMES_FASTER = {CLASS_1_2: 50.0, CG_LIKE: 10.0}  # mode none's wall time over mode loops', at least
NOT_SLOWER = 1.02  # mode loops' wall time over mode calls', at most, everywhere


@dataclass(frozen=True)
class Verdict:
    """One program's goal at `AT`."""

    program: str
    goal: str
    wanted: float
    reached: float
    met: bool
    bounds: tuple[float, ...] = ()  # of what was reached, where they are known (ratios.py)


def faster(row: Row, distance: float, mode: str = "loops") -> float:
    """How many times faster the program is in a mode than in mode none."""
    return row.point(distance, "none").wall / row.point(distance, mode).wall


def verdicts(record: Record) -> list[Verdict]:
    """Every goal of every program that was measured at `AT`."""
    found: list[Verdict] = []
    if AT not in record.distances:
        return found
    for row in record.rows:
        if row.family in TIMES_FASTER:
            wanted, reached = TIMES_FASTER[row.family], faster(row, AT)
            goal = f"times faster than none ({row.family})"
            found.append(Verdict(row.name, goal, wanted, reached, reached >= wanted))
    for row in record.rows:
        for distance in record.distances:
            point = row.point(distance, "loops")
            slower = point.against_calls
            goal = f"wall time over mode calls' at {distance:g} us"
            bounds = tuple(point.against_calls_bounds)
            found.append(Verdict(row.name, goal, NOT_SLOWER, slower, slower <= NOT_SLOWER, bounds))
    return found
