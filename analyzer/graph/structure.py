"""Dominators, natural loops with their nesting and exits, irreducible regions.

A natural loop belongs to a header that dominates the source of a back edge; loops with one header are one loop. What is
cyclic without such a header is an irreducible region: it is reported as a loop of its own, marked, with its lowest
entry as header. Sources: Aho, Lam, Sethi, Ullman, Compilers, 9.6; Cooper, Harvey, Kennedy, A Simple, Fast Dominance
Algorithm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from farlane.analyzer.graph import control_flow
from farlane.analyzer.graph.control_flow import EXCEPTION, LEAVING, ControlFlow
from farlane.analyzer.graph.program import Program
from farlane.analyzer.graph.reach import circles, postorder, reached


@dataclass(frozen=True)
class Loop:
    """A loop of one function.

    Attributes:
        latches: sources of the back edges.
        exits: edges that leave it (source, target), towards a return of the function; where none does, those towards
            most code.
        error_exits: other edges that leave it towards blocks that only end the program or throw, and exceptions' edges.
        parent: the header of the loop around it.
        depth: 1 for an outermost loop.
        irreducible: whether it has several entries.
    """

    header: int
    blocks: frozenset[int]
    latches: tuple[int, ...]
    exits: tuple[tuple[int, int], ...]
    error_exits: tuple[tuple[int, int], ...]
    parent: int | None
    depth: int
    irreducible: bool


class Structure:
    """Dominators and loops of a control-flow graph.

    Attributes:
        order: blocks in reverse postorder.
        predecessors: block -> blocks with an edge to it.
        loops: header -> loop.
        tangles: cycles with several entries, without the back edges of the loops in them.
    """

    def __init__(self, flow: ControlFlow) -> None:
        self.flow = flow
        self._successors = {
            block.start: list(dict.fromkeys(edge.target for edge in block.edges)) for block in flow.blocks.values()
        }
        self.order: list[int] = postorder([self.flow.entry], self._successors)[::-1]
        self._index = {node: index for index, node in enumerate(self.order)}
        before: dict[int, list[int]] = {node: [] for node in flow.blocks}
        for node, targets in self._successors.items():
            for target in targets:
                before[target].append(node)
        self.predecessors: dict[int, list[int]] = {node: sorted(sources) for node, sources in before.items()}
        self._parents: dict[int, int] | None = None
        self._depths: dict[int, int] = {}
        index = self._index
        forward = all(index[node] < index[target] for node, targets in self._successors.items() for target in targets)
        self.tangles: tuple[frozenset[int], ...] = ()
        self.loops: dict[int, Loop] = {} if forward else self._loops()
        self._innermost: dict[int, Loop] = {}
        for loop in sorted(self.loops.values(), key=lambda loop: len(loop.blocks)):
            for block in loop.blocks:
                self._innermost.setdefault(block, loop)

    def dominates(self, first: int, second: int) -> bool:
        """Whether every path to the second block passes through the first."""
        parents = self._dominators()
        while self._depths[second] > self._depths[first]:
            second = parents[second]
        return first == second

    def immediate_dominator(self, block: int) -> int | None:
        """The last block that every path to a block passes before it; None for the entry."""
        return self._dominators().get(block)

    def _dominators(self) -> dict[int, int]:
        """Block -> its immediate dominator, found when it is asked for first: a function without loops seldom needs
        them."""
        if self._parents is None:
            self._parents = self._immediate_dominators()
            self._depths = self._dominator_depths(self._parents)
        return self._parents

    def innermost(self, block: int) -> Loop | None:
        """The innermost loop around a block."""
        return self._innermost.get(block)

    def leading_to(self, blocks: Iterable[int]) -> set[int]:
        """Some blocks, and those from which one of them is reached."""
        return reached(blocks, self.predecessors)

    def _immediate_dominators(self) -> dict[int, int]:
        """Block -> its immediate dominator; the entry has none."""
        index = self._index
        found: dict[int, int] = {self.flow.entry: self.flow.entry}
        changed = True
        while changed:
            changed = False
            for node in self.order[1:]:
                known = [source for source in self.predecessors[node] if source in found]
                common = known[0]
                for other in known[1:]:
                    while common != other:
                        if index[common] > index[other]:
                            common = found[common]
                        else:
                            other = found[other]
                if found.get(node) != common:
                    found[node] = common
                    changed = True
        del found[self.flow.entry]
        return found

    def _dominator_depths(self, parents: dict[int, int]) -> dict[int, int]:
        depths = {self.flow.entry: 0}
        for node in self.order:
            chain = []
            while node not in depths:
                chain.append(node)
                node = parents[node]
            for each in reversed(chain):
                depths[each] = depths[parents[each]] + 1
        return depths

    def _reaches_the_end(self) -> set[int]:
        """Blocks from which the function can be left by other means than an exception or the end of the program."""
        return self.leading_to(block.start for block in self.flow.blocks.values() if block.end in LEAVING)

    def _loops(self) -> dict[int, Loop]:
        self._leaving = self._reaches_the_end()
        back: dict[int, list[int]] = {}
        for block in self.flow.blocks.values():
            for edge in block.edges:
                if self.dominates(edge.target, block.start):
                    back.setdefault(edge.target, []).append(block.start)
        bodies = {header: self._body(header, latches) for header, latches in back.items()}
        irreducible = self._irreducible(back)
        self.tangles = tuple(frozenset(region) for region in irreducible)
        for region in irreducible:
            header = min(node for node in region if any(p not in region for p in self.predecessors[node]))
            if header not in bodies:
                bodies[header] = region
                back[header] = sorted(node for node in region if header in self._successors[node])
        marked = {header for header, body in bodies.items() if any(region <= body for region in irreducible)}
        loops: dict[int, Loop] = {}
        for header in sorted(bodies, key=lambda header: (-len(bodies[header]), header)):
            body = bodies[header]
            around = [
                loop for loop in loops.values() if header in loop.blocks and body <= loop.blocks and body != loop.blocks
            ]
            parent = min(around, key=lambda loop: len(loop.blocks), default=None)
            exits, errors = self._exits(body)
            loops[header] = Loop(
                header,
                frozenset(body),
                tuple(sorted(back[header])),
                exits,
                errors,
                parent.header if parent else None,
                parent.depth + 1 if parent else 1,
                header in marked,
            )
        return loops

    def _body(self, header: int, latches: list[int]) -> set[int]:
        return {header} | reached([latch for latch in latches if latch != header], self.predecessors, header)

    def _irreducible(self, back: dict[int, list[int]]) -> list[set[int]]:
        """Cycles that remain without the back edges."""
        removed = {(latch, header) for header, latches in back.items() for latch in latches}
        rest = {node: [t for t in targets if (node, t) not in removed] for node, targets in self._successors.items()}
        if all(self._index[node] < self._index[target] for node, targets in rest.items() for target in targets):
            return []
        return [set(circle) for circle in reversed(dict.fromkeys(circles(rest).values())) if len(circle) > 1]

    def _exits(self, body: set[int]) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        normal: list[tuple[int, int]] = []
        errors: list[tuple[int, int]] = []
        for source in sorted(body):
            for edge in self.flow.blocks[source].edges:
                if edge.target in body:
                    continue
                ends = edge.kind == EXCEPTION or edge.target not in self._leaving
                (errors if ends else normal).append((source, edge.target))
            if self.flow.blocks[source].end in LEAVING:
                normal.append((source, 0))
        if not normal:
            normal = self._onward(body, errors)
            errors = [edge for edge in errors if edge not in normal]
        return tuple(normal), tuple(errors)

    def _onward(self, body: set[int], errors: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Of the ways out of a loop from which the function does not return, as in a `main` that ends by `exit`: those
        behind which most of the code lies. What an error makes of the program is short."""
        pads = {edge.target for block in body for edge in self.flow.blocks[block].edges if edge.kind == EXCEPTION}
        sizes = {target: len(self._behind(target)) for _, target in errors if target not in pads}
        longest = max(sizes.values(), default=0)
        return [edge for edge in errors if sizes.get(edge[1]) == longest]

    def _behind(self, start: int) -> set[int]:
        """The blocks that are reached from a block."""
        return reached([start], self._successors)


def build(program: Program, start: int) -> Structure:
    """A function's graph with its structure; each is made once.

    Raises:
        AnalysisError: as `control_flow.build` does.
    """
    known = program.structures.get(start)
    if known is None:
        known = program.structures[start] = Structure(control_flow.build(program, start))
    assert isinstance(known, Structure)
    return known
