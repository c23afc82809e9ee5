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
    """The starts and what is reached from them, depth first: each behind what it leads to, but for the edges that close
    a circle."""
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


def circles(onward: Mapping[int, Iterable[int]]) -> dict[int, tuple[int, ...]]:
    """Node -> the nodes that it leads to and that lead to it, itself included; for nodes that lead to themselves."""
    back: dict[int, list[int]] = {node: [] for node in onward}
    for node, targets in onward.items():
        for target in targets:
            back[target].append(node)
    found: dict[int, tuple[int, ...]] = {}
    seen: set[int] = set()
    for node in reversed(postorder(onward, onward)):
        if node in seen:
            continue
        members = [node]
        seen.add(node)
        for each in members:  # grows
            for source in back[each]:
                if source not in seen:
                    seen.add(source)
                    members.append(source)
        if len(members) > 1 or node in onward[node]:
            together = tuple(sorted(members))
            found.update(dict.fromkeys(together, together))
    return found
