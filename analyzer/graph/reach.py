"""What is reached in a graph, along whichever edges are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def reached(starts: Iterable[int], onward: Mapping[int, Iterable[int]], without: int | None = None) -> set[int]:
    """The starts, and what is reached from them, not through the node `without`."""
    found = set(starts)
    work = list(found)
    while work:
        for each in onward.get(work.pop(), ()):
            if each not in found and each != without:
                found.add(each)
                work.append(each)
    return found
