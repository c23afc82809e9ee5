"""Basic blocks, of which graphs (cfg.py) are made, and which of them dominate which.

Source: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from farlane.backend.jit.ptx.model import Instruction

EXIT = -1


@dataclass(slots=True)
class Block:
    """A basic block. `targets` may hold EXIT. With a `condition`, targets = (when true, when false)."""

    instructions: list[Instruction] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    condition: Any = None  # predicate register, or the index register of a brx
    negated: bool = False
    switch: bool = False
    leaves: str = ""  # "ret" | "exit" | "trap" when control leaves the function here
    line: int = 0
    predecessors: list[int] = field(default_factory=list)
    phis: list[Any] = field(default_factory=list)

    @property
    def successors(self) -> list[int]:
        """Distinct targets without EXIT."""
        return [target for target in dict.fromkeys(self.targets) if target != EXIT]


def dominators(blocks: list[Block]) -> list[int]:
    """Immediate dominators; the blocks are in an order where a node's dominator precedes it."""
    return _dominance([block.predecessors for block in blocks])


def _dominance(predecessors: list[list[int]]) -> list[int]:
    idom = [-2] * len(predecessors)
    idom[0] = 0
    changed = True
    while changed:
        changed = False
        for node in range(1, len(predecessors)):
            new = -2
            for other in predecessors[node]:
                if idom[other] == -2:
                    continue
                if new == -2:
                    new = other
                    continue
                a, b = other, new
                while a != b:
                    while a > b:
                        a = idom[a]
                    while b > a:
                        b = idom[b]
                new = a
            if new != idom[node]:
                idom[node] = new
                changed = True
    return idom


def dominates(idom: list[int], a: int, b: int) -> bool:
    while b > a:
        b = idom[b]
    return a == b


def postdominators(blocks: list[Block]) -> list[int]:
    """Immediate post-dominators of lanes that stay: edges that only leave are ignored where there is another way."""
    count = len(blocks)
    leaving = {
        index
        for index, block in enumerate(blocks)
        if block.leaves and len(block.predecessors) == 1 and blocks[block.predecessors[0]].condition is not None
    }
    successors: list[list[int]] = []
    for block in blocks:
        stay = [target for target in block.successors if target not in leaving]
        successors.append(stay or block.successors)
    reverse: list[list[int]] = [[] for _ in range(count)]
    for index, targets in enumerate(successors):
        for target in targets:
            reverse[target].append(index)
    roots = [index for index in range(count) if not successors[index]]
    # Postorder of the reverse graph from a virtual root; loops without an exit are rooted at their last block.
    seen: set[int] = set()
    order: list[int] = []
    candidates = roots + list(range(count - 1, -1, -1))
    extra: list[int] = []
    for position, root in enumerate(candidates):
        if root in seen:
            continue
        if position >= len(roots):
            extra.append(root)
        seen.add(root)
        stack = [(root, list(reverse[root]))]
        while stack:
            node, rest = stack[-1]
            if rest:
                following = rest.pop()
                if following not in seen:
                    seen.add(following)
                    stack.append((following, list(reverse[following])))
            else:
                order.append(node)
                stack.pop()
    order.append(EXIT)
    order.reverse()
    number = {node: position for position, node in enumerate(order)}
    root_set = set(roots) | set(extra)
    predecessors: list[list[int]] = [[]]
    for node in order[1:]:
        links = [number[target] for target in successors[node]]
        if node in root_set:
            links.append(0)
        predecessors.append(links)
    dominance = _dominance(predecessors)
    return [order[dominance[number[index]]] for index in range(count)]
