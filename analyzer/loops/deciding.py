"""Is it known, when a loop is entered, in which of its iterations a call runs, and how often?

It is when all branches that decide it, those of loops inside the loop among them, ask for what is known at the entry: induction
variables, what does not change, tables that the loop leaves alone. Where the loop itself ends is another question (`counting`).
Source: control dependence; Ferrante, Ottenstein, Warren, The Program Dependence Graph and Its Use in Optimization.
"""

from __future__ import annotations

from collections.abc import Iterable

from farlane.analyzer.flow.engine import Result
from farlane.analyzer.graph.reach import reached
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.loops.body import Body
from farlane.analyzer.loops.dependence import LoopValues
from farlane.analyzer.loops.model import Kind

_KNOWN = frozenset({Kind.AFFINE, Kind.INDUCTION, Kind.LOAD})


class Deciding:
    """Answers for one loop."""

    def __init__(self, result: Result, loop: Loop, body: Body, values: LoopValues) -> None:
        self._tests, self._loop, self._values = result.tests, loop, values
        self._following, self._latches = body.following, body.latches
        self._before: dict[int, list[int]] = {}
        for block, targets in self._following.items():
            for target in targets:
                self._before.setdefault(target, []).append(block)
        self._branching = [
            (block, targets)
            for block, targets in self._following.items()
            if len(targets) + (block in self._latches) > 1
        ]
        self._known: dict[int, bool] = {}

    def known(self, block: int) -> bool:
        """Whether it is known in which iterations a block runs, and how often."""
        if block not in self._known:
            self._known[block] = not self._loop.irreducible and all(map(self._computable, self.deciders(block)))
        return self._known[block]

    def deciders(self, block: int) -> Iterable[int]:
        """The branches from which one way leads to the block, and one past it to the end of the iteration."""
        towards = reached([block], self._before)
        leading = [(each, targets) for each, targets in self._branching if not towards.isdisjoint(targets)]
        past = reached(self._latches - {block}, self._before, block) if leading else set()
        return [each for each, targets in leading if each in self._latches or not past.isdisjoint(targets)]

    def _computable(self, block: int) -> bool:
        flags = self._tests.get(block)
        return flags is not None and self._values.of(flags, block).kinds <= _KNOWN
