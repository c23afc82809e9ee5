"""The least that any scheme can move that never suffers from fragmentation: an exact bound, as a mixed integer program (scipy's HiGHS).

For every object and every pair of neighbouring accesses: is it kept on the device in between (x), and is it dirty when the pair begins (d)? In between it takes room in every
step that it does not take part in. Not kept, it costs a write-back if it is dirty and what it holds is needed, and a fetch if the next access reads. To evict right
behind an access and to fetch right before one is never worse than otherwise, so the optimum of the program is the optimum of the problem, not only below it.

scipy is imported here only and belongs to the extra `study`.
"""

from __future__ import annotations

from dataclasses import dataclass

from farlane.backend.memory.planner.trace import Trace

MOST_INTERVALS = 5000


@dataclass(frozen=True)
class Bound:
    """`bytes_moved`: the least. `proven`: whether the solver finished; otherwise it is what it has shown so far, a bound still."""

    bytes_moved: int
    proven: bool


def least_moved(trace: Trace, seconds: float = 30.0) -> Bound:
    """Raises ValueError for a trace of more than MOST_INTERVALS intervals, RuntimeError when scipy is not installed."""
    try:
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array
    except ImportError:
        raise RuntimeError("the exact bound needs scipy: pip install 'farlane[study]'") from None

    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    upper: list[float] = []
    objective: list[float] = []
    lower_variable: list[float] = []
    constant = 0
    room: dict[int, list[int]] = {}  # step -> variables of objects that may be kept over it
    size_of: list[int] = []

    def variable(cost: float, low: float = 0.0) -> int:
        objective.append(cost)
        lower_variable.append(low)
        size_of.append(0)
        return len(objective) - 1

    def at_most(terms: list[tuple[int, float]], limit: float) -> None:
        for column, value in terms:
            rows.append(len(upper))
            columns.append(column)
            values.append(value)
        upper.append(limit)

    intervals = sum(max(len(accesses) - 1, 0) for accesses in trace.accesses)
    if intervals > MOST_INTERVALS:
        raise ValueError(f"{intervals} intervals between accesses, at most {MOST_INTERVALS} are solved exactly")
    for number, accesses in enumerate(trace.accesses):
        size = trace.sizes[number]
        if not accesses:
            continue
        constant += size if accesses[0][1].reads else 0
        dirty_before: tuple[int, int] | None = None  # (dirty at the previous access, kept since)
        for index, (step, access) in enumerate(accesses):
            last = index + 1 == len(accesses)
            needed = number in trace.kept if last else accesses[index + 1][1].reads
            dirty = variable(0.0, 1.0 if access.writes else 0.0)
            if not access.writes and dirty_before is not None:
                at_most([(dirty_before[0], 1.0), (dirty_before[1], 1.0), (dirty, -1.0)], 1.0)
            if last:
                if needed:
                    objective[dirty] += size
                break
            reads = accesses[index + 1][1].reads
            kept = variable(-size if reads else 0.0)
            size_of[kept] = size
            constant += size if reads else 0
            for between in range(step + 1, accesses[index + 1][0]):
                room.setdefault(between, []).append(kept)
            if needed:
                written = variable(size)
                at_most([(dirty, 1.0), (kept, -1.0), (written, -1.0)], 0.0)
            dirty_before = (dirty, kept)
    for step, kept_over in room.items():
        used = sum(trace.sizes[access.object] for access in trace.steps[step])
        at_most([(kept, float(size_of[kept])) for kept in kept_over], float(trace.memory - used))
    if not objective:
        return Bound(constant, proven=True)
    constraints = []
    if upper:
        matrix = coo_array((values, (rows, columns)), shape=(len(upper), len(objective))).tocsr()
        constraints.append(LinearConstraint(matrix, -np.inf, np.array(upper)))
    solved = milp(
        np.array(objective),
        integrality=np.ones(len(objective)),
        bounds=Bounds(np.array(lower_variable), np.ones(len(objective))),
        constraints=constraints,
        options={"time_limit": seconds},
    )
    if solved.status == 0:
        return Bound(round(constant + solved.fun), proven=True)
    reached = (
        solved.mip_dual_bound if solved.mip_dual_bound is not None else min(0.0, sum(c for c in objective if c < 0))
    )
    return Bound(max(0, int(np.floor(constant + reached))), proven=False)
