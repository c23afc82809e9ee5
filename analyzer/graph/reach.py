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


def postorder(starts: Iterable[int], onward: Mapping[int, Iterable[int]]) -> list[int]:
    """The starts and what is reached from them, depth first: each behind what it leads to, but for the edges that close a circle."""
    order: list[int] = []
    seen: set[int] = set()
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        work = [(start, iter(onward[start]))]
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in seen:
                    seen.add(target)
                    work.append((target, iter(onward[target])))
                    break
            else:
                order.append(node)
                work.pop()
    return order
