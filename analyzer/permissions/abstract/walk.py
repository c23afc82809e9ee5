"""Runs the abstract machine through one function, and through what it calls, to a fixpoint.

Calls of the program's own functions are executed in place, on the same stack, so that addresses of the caller's cells stay exact and
what a callee touches is known object by object. A function that calls itself, is too long, or does what is not followed is an
unknown function. Branches on error codes go the way of success: permissions hold as long as no CUDA call has failed.

Bounded: by the instructions executed for one analyzed function, and for one call.
"""

from __future__ import annotations

from farlane.analyzer.permissions.abstract.activation import Activation, Frame
from farlane.analyzer.permissions.abstract.facts import Facts, Regions
from farlane.analyzer.permissions.abstract.memory import State

LEAST = 8_000


class Walker(Facts):
    """Analyzes functions of one program; keeps their graphs."""

    def regions(self, start: int) -> Regions:
        """Raises Refused: something in the function itself is not followed, or it takes too long."""
        self._left = before = min(self._total, self._all)
        try:
            return self._regions(start)
        finally:
            self._all -= before - self._left
            if self._left < 0:
                self._total = max(self._total // 2, LEAST)

    def _regions(self, start: int) -> Regions:
        state = State.at_entry(self.image)
        regions = Regions(self.structure(start))
        Activation(self, start, Frame(0, (), (0,), (start,)), regions, None).run(state)
        return regions
