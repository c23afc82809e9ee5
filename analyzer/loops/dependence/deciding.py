"""Is it known, when a loop is entered, in which of its iterations a call runs, and how often?

It is when all branches that decide it, those of loops inside the loop among them, ask for what is known at the entry:
induction variables, what does not change, tables that the loop leaves alone, and answers of CUDA that never change (a
device's attributes), which are such tables in all but form. Where the loop itself ends is another question
(`counting`).
Source: control dependence; Ferrante, Ottenstein, Warren, The Program Dependence Graph and Its Use in Optimization.
"""

from __future__ import annotations

from farlane.analyzer.externals.interface import CONSTANT_ANSWERS
from farlane.analyzer.flow.result import Result
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.loops.dependence.judging import LoopValues
from farlane.analyzer.loops.model import Kind
from farlane.analyzer.loops.shape.body import Body
from farlane.analyzer.values.expression import LOAD, OPERATION, OUT, Value

_KNOWN = frozenset({Kind.AFFINE, Kind.INDUCTION, Kind.LOAD})
_WITH_ANSWERS = _KNOWN | {Kind.RESULT}


class Deciding:
    """Answers for one loop."""

    def __init__(self, result: Result, loop: Loop, body: Body, values: LoopValues) -> None:
        self._tests, self._calls, self._loop, self._body, self._values = result.tests, result.calls, loop, body, values
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
        if flags is None:
            return False
        kinds = self._values.of(flags, block).kinds
        return kinds <= _KNOWN or (kinds <= _WITH_ANSWERS and self._answered(flags, block))

    def _answered(self, value: Value, block: int) -> bool:
        """Whether all results of the loop's CUDA calls in a value are answers that never change, to questions that are
        known."""
        work, seen = [value], {value}
        while work:
            for atom, _ in work.pop().terms:
                if Kind.RESULT not in self._values.of(atom, block).kinds:
                    continue
                if atom.kind == OUT:
                    if not self._constant(*atom.arguments[:2]):
                        return False
                elif atom.kind == LOAD and (filled := self._values.filler(atom)) is not None:
                    if not self._constant(filled.site, filled.name):
                        return False
                elif atom.kind == OPERATION:
                    inner = {each for each in atom.arguments[1:] if isinstance(each, Value)} - seen
                    seen |= inner
                    work += inner
                else:
                    return False
        return True

    def _constant(self, site: int, name: str) -> bool:
        asked = [
            (block, call) for block in self._loop.blocks for call in self._calls.get(block, ()) if call.site == site
        ]
        return name in CONSTANT_ANSWERS and all(
            not call.chain and self._values.of(value, block).kinds <= _KNOWN
            for block, call in asked
            for _, value in call.arguments
        )
