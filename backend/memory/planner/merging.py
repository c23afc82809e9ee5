"""Fewer accesses and fewer objects, before planning (S4, point 2).

- Accesses of one object that are adjacent, with no other object accessed in between, become one.
- Objects smaller than a threshold whose accesses form an unbroken run become one merged object: it moves as a whole.

Both keep what a plan costs: the first exactly, the second as if the merged objects were one allocation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from farlane.backend.memory.planner.trace import Access, Trace


@dataclass(frozen=True)
class Merged:
    """`members`: for each object of `trace` the numbers that it stands for in the original."""

    trace: Trace
    members: tuple[tuple[int, ...], ...]


def merge_adjacent(trace: Trace) -> Trace:
    """Steps that touch one and the same object become one step."""
    steps: list[list[Access]] = []
    for step in trace.steps:
        if len(step) == 1 and steps and len(steps[-1]) == 1 and steps[-1][0].object == step[0].object:
            before = steps[-1][0]
            steps[-1] = [replace(before, writes=before.writes or step[0].writes)]  # what is read again was there
        elif step:
            steps.append(list(step))
    return replace(trace, steps=steps)


def merge_small(trace: Trace, threshold: int) -> Merged:
    """Objects of fewer than `threshold` bytes whose accesses form an unbroken run become one, if that fits the memory."""
    groups = _groups(trace, threshold)
    members: list[tuple[int, ...]] = []
    number_of: dict[int, int] = {}
    for number in range(len(trace.sizes)):
        if number not in number_of:
            group = groups.get(number, (number,))
            for each in group:
                number_of[each] = len(members)
            members.append(group)
    steps = []
    begun: set[int] = set()
    fetched = {n for n, group in enumerate(members) if any(_fetched(trace, each) for each in group)}
    for step in trace.steps:
        accesses: dict[int, Access] = {}
        for access in step:
            number = number_of[access.object]
            # A merged object is fetched as a whole for its first access if any member has content then, and never replaced as a whole later.
            reads = access.reads if len(members[number]) == 1 else number in begun or number in fetched
            before = accesses.get(number, Access(number, reads=False))
            accesses[number] = Access(number, before.reads or reads, before.writes or access.writes)
        begun.update(accesses)
        steps.append(list(accesses.values()))
    merged = Trace(
        [sum(trace.sizes[each] for each in group) for group in members],
        steps,
        trace.memory,
        frozenset(number_of[each] for each in trace.kept),
        [" + ".join(trace.name(each) for each in group) for group in members],
    )
    return Merged(merged, tuple(members))


def _fetched(trace: Trace, number: int) -> bool:
    return bool(trace.accesses[number]) and trace.accesses[number][0][1].reads


def _groups(trace: Trace, threshold: int) -> dict[int, tuple[int, ...]]:
    """Small object -> the objects of its group (two at least)."""
    small = {number for number, size in enumerate(trace.sizes) if size < threshold and trace.accesses[number]}
    found: dict[int, tuple[int, ...]] = {}
    group: list[int] = []
    size = 0

    def end() -> None:
        nonlocal group, size
        if len(group) > 1:
            found.update(dict.fromkeys(group, tuple(group)))
        group, size = [], 0

    first = {number: accesses[0][0] for number, accesses in enumerate(trace.accesses) if accesses}
    last = {number: accesses[-1][0] for number, accesses in enumerate(trace.accesses) if accesses}
    for begin, finish in _runs_of(trace, small):
        whole = {  # those whose accesses all lie in this run
            access.object
            for step in trace.steps[begin:finish]
            for access in step
            if first[access.object] >= begin and last[access.object] < finish
        }
        # Within the run an object that reaches out of it ends the group.
        for step in trace.steps[begin:finish]:
            for access in step:
                if access.object not in whole:
                    end()
                elif access.object not in group and access.object not in found:
                    if size + trace.sizes[access.object] > trace.memory // 2:
                        end()
                    group.append(access.object)
                    size += trace.sizes[access.object]
        end()
    return {number: members for number, members in found.items() if _unbroken(trace, members)}


def _runs_of(trace: Trace, small: set[int]) -> list[tuple[int, int]]:
    """Runs of steps that touch small objects only, as (begin, end)."""
    runs, begin = [], None
    for place, step in enumerate(trace.steps):
        if all(access.object in small for access in step):
            begin = place if begin is None else begin
        elif begin is not None:
            runs.append((begin, place))
            begin = None
    if begin is not None:
        runs.append((begin, len(trace.steps)))
    return runs


def _unbroken(trace: Trace, group: tuple[int, ...]) -> bool:
    """No other object is accessed between the group's first access and its last."""
    members = set(group)
    begin = min(trace.accesses[each][0][0] for each in group)
    end = max(trace.accesses[each][-1][0] for each in group)
    return all(access.object in members for step in trace.steps[begin : end + 1] for access in step)
