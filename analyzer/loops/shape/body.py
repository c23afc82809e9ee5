"""What runs in one iteration of a loop: which blocks always, which before which, where the loop is left."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from farlane.analyzer.flow.function import Analysis
from farlane.analyzer.graph.control_flow import TAKEN
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.loops.shape.paths import Paths, ways
from farlane.analyzer.machine.arithmetic import NEGATED
from farlane.analyzer.values.condition import Condition


class ExitTest(NamedTuple):
    """The loop goes on while `stays` holds.

    Attributes:
        sources: the blocks with the test: optimizers copy it onto several paths, of which each iteration takes one.
        once: whether every iteration makes it exactly once.
    """

    sources: frozenset[int]
    stays: Condition
    once: bool


class Body:
    """Paths through one iteration, along edges that may run as long as CUDA's calls succeed.

    Attributes:
        following: block -> blocks that may run next in the same iteration.
        latches: the sources of back edges that may run.
    """

    def __init__(self, analysis: Analysis, loop: Loop) -> None:
        self._structure, self._loop = analysis.structure, loop
        self._flow, self._executed = analysis.structure.flow, analysis.result.executed
        self._always: dict[int, bool] = {}
        self._conditions = analysis.result.conditions
        self._tests: tuple[list[ExitTest], list[int]] | None = None
        self._after: dict[tuple[int, frozenset[int]], bool] = {}
        self.following, self.latches = ways(self._flow, loop, self._executed)

    def own(self, block: int) -> bool:
        """Whether a block belongs to the loop and to no loop inside it."""
        innermost = self._structure.innermost(block)
        return innermost is not None and innermost.header == self._loop.header

    def reaches(self, start: int, goals: set[int] | frozenset[int], without: frozenset[int] = frozenset()) -> bool:
        """Whether, in one iteration, one of some blocks is reached from another, not through certain blocks."""
        if start in without:
            return False
        seen, work = {start}, [start]
        while work:
            block = work.pop()
            if block in goals:
                return True
            for target in self.following[block]:
                if target not in seen and target not in without:
                    seen.add(target)
                    work.append(target)
        return False

    def reached(self, start: int, without: frozenset[int]) -> set[int]:
        """What is reached from a block in one iteration, not through certain blocks."""
        if start in without:
            return set()
        found, work = {start}, [start]
        while work:
            for target in self.following[work.pop()]:
                if target not in found and target not in without:
                    found.add(target)
                    work.append(target)
        return found

    def always(self, block: int) -> bool:
        """Whether a block runs exactly once in every iteration that reaches a back edge."""
        if block not in self._always:
            self._always[block] = self.own(block) and not self.paths.avoidable(self._loop.header, block)
        return self._always[block]

    @cached_property
    def paths(self) -> Paths:
        """The paths through one iteration, along `following`, to the latches."""
        return Paths(self._loop.header, self.following, self.latches)

    def _avoidable(self, blocks: frozenset[int]) -> bool:
        return self.reaches(self._loop.header, self.latches, blocks)

    def _once(self, blocks: frozenset[int]) -> bool:
        """Whether every iteration that reaches a back edge runs exactly one of the blocks, and that once."""
        if not all(self.own(block) for block in blocks) or self._avoidable(blocks):
            return False
        if len(blocks) == 1:
            return True
        return not any(
            self.reaches(edge.target, blocks)
            for block in blocks
            for edge in self._flow.blocks[block].edges
            if edge.target in self._loop.blocks and edge.target != self._loop.header
        )

    def tests(self) -> tuple[list[ExitTest], list[int]]:
        """The exit tests that are comparisons, and the blocks of the others."""
        if self._tests is None:
            self._tests = self._found_tests()
        return self._tests

    def _found_tests(self) -> tuple[list[ExitTest], list[int]]:
        found: dict[Condition, set[int]] = {}
        others = []
        for source, target in self.exits():
            condition = self._conditions.get(source)
            if condition is None:
                others.append(source)
                continue
            taken = next(edge.target for edge in self._flow.blocks[source].edges if edge.kind == TAKEN)
            if taken == target:
                condition = condition._replace(relation=NEGATED[condition.relation])
            turned = condition.turned()  # copies of a test may compare the other way round
            found.setdefault(turned if turned in found else condition, set()).add(source)
        tests = []
        for condition, sources in found.items():
            together = frozenset(sources)
            tests.append(ExitTest(together, condition, self._once(together)))
        return tests, others

    def after(self, first: int, blocks: frozenset[int]) -> bool:
        """Whether the end of one of some blocks runs behind another block in the same iteration."""
        key = (first, blocks)
        if key not in self._after:
            self._after[key] = self.reaches(first, blocks)
        return self._after[key]

    def exits(self) -> list[tuple[int, int]]:
        """The edges by which the loop is left, but for errors' and exceptions'; a target of 0 is a return."""
        return [edge for edge in self._loop.exits if edge[1] == 0 or edge in self._executed]
