"""Is it known, when a loop is entered, in which of its iterations a call runs, and how often?

It is when all branches that decide it, those of loops inside the loop among them, ask for what is known at the entry: induction
variables, what does not change, tables that the loop leaves alone. Where the loop itself ends is another question (`counting`).
Source: control dependence; Ferrante, Ottenstein, Warren, The Program Dependence Graph and Its Use in Optimization.
"""

from __future__ import annotations

from farlane.analyzer.flow.engine import Result
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.loops.body import Body
from farlane.analyzer.loops.dependence import LoopValues
from farlane.analyzer.loops.model import Kind

_KNOWN = frozenset({Kind.AFFINE, Kind.INDUCTION, Kind.LOAD})


class Deciding:
    """Answers for one loop."""

    def __init__(self, result: Result, loop: Loop, body: Body, values: LoopValues) -> None:
        self._tests, self._loop, self._body, self._values = result.tests, loop, body, values
        self._known: dict[int, bool] = {}

    def known(self, block: int) -> bool:
        """Whether it is known in which iterations a block runs, and how often."""
        if block not in self._known:
            self._known[block] = not self._loop.irreducible and all(
                map(self._computable, self._body.paths.deciders(block))
            )
        return self._known[block]

    def _computable(self, block: int) -> bool:
        flags = self._tests.get(block)
        return flags is not None and self._values.of(flags, block).kinds <= _KNOWN
