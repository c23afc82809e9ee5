"""Which blocks of one iteration lead where: reachability and postdominance of all blocks at once, as sets of bits.

The end of an iteration is the end of a latch. Blocks from which none is reached lie on no way to the end and
postdominate nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from farlane.analyzer.graph.control_flow import ControlFlow
from farlane.analyzer.graph.reach import postorder
from farlane.analyzer.graph.structure import Loop

Following = Mapping[int, Sequence[int]]


class Paths:
    """Answers for the paths through one iteration.

    Args:
        following: block -> the blocks that may run next in the same iteration.
        latches: the blocks behind which the iteration may end.
    """

    def __init__(self, header: int, following: Following, latches: Collection[int]) -> None:
        # Most stand behind those that follow them: so few rounds complete what depends on these.
        order = postorder((header, *following), following)
        index = {block: place for place, block in enumerate(order)}
        targets = [[index[each] for each in following[block]] for block in order]
        ends = [block in latches for block in order]
        self._index = index
        self._reached = self._closure(targets)
        ending = sum(1 << place for place, is_end in enumerate(ends) if is_end)
        self._passed = self._postdominators(targets, ends, [bool(each & ending) for each in self._reached])
        self._branching = [block for block, after in following.items() if len(after) + ends[index[block]] > 1]
        self._dependent = [self._controlled(targets[index[block]], ends[index[block]]) for block in self._branching]
        self._known: dict[int, list[int]] = {}

    def avoidable(self, start: int, block: int) -> bool:
        """Whether from one block the iteration's end is reached, and not through another one."""
        return bool(self._avoided(self._index[start]) >> self._index[block] & 1)

    def deciders(self, block: int) -> list[int]:
        """The branches that tell whether, and how often, an iteration which comes to its end runs a block: those that
        it depends on, those that these depend on, and so on."""
        known = self._known.get(block)
        if known is None:
            found = [False] * len(self._branching)
            work = [block]
            while work:
                place = self._index[work.pop()]
                for number, dependent in enumerate(self._dependent):
                    if dependent >> place & 1 and not found[number]:
                        found[number] = True
                        work.append(self._branching[number])
            known = self._known[block] = [each for each, is_one in zip(self._branching, found, strict=True) if is_one]
        return known

    def _controlled(self, targets: Sequence[int], ends: bool) -> int:
        """The blocks that depend on a branch: that surely run behind one of its ways, and not behind each. What is
        reached on a way from which the end is not reached depends on it, too."""
        some, each = 0, 0 if ends else -1
        for target in targets:
            passed = self._passed[target]
            if passed is None:
                some |= self._reached[target]
            else:
                some |= passed
                each &= passed
        return some & ~each

    def _avoided(self, place: int) -> int:
        """The blocks that some way from a block to the iteration's end does not pass."""
        passed = self._passed[place]
        return 0 if passed is None else ~passed

    @staticmethod
    def _closure(targets: Sequence[Sequence[int]]) -> list[int]:
        """By block, what is reached from it, itself included."""
        reached = [1 << place for place in range(len(targets))]
        changed = True
        while changed:
            changed = False
            for place, after in enumerate(targets):
                known = found = reached[place]
                for each in after:
                    found |= reached[each]
                if found != known:
                    reached[place], changed = found, True
        return reached

    @staticmethod
    def _postdominators(
        targets: Sequence[Sequence[int]], ends: Sequence[bool], ending: Sequence[bool]
    ) -> list[int | None]:
        """By block, what all ways from it to the iteration's end pass, itself included; None: there is no such way."""
        passed: list[int | None] = [-1 if leads else None for leads in ending]
        changed = True
        while changed:
            changed = False
            for place, after in enumerate(targets):
                known = passed[place]
                if known is None:
                    continue
                common = 0 if ends[place] else -1
                for each in after:
                    beyond = passed[each]
                    if beyond is not None:
                        common &= beyond
                common |= 1 << place
                if common != known:
                    passed[place], changed = common, True
        return passed


def ways(flow: ControlFlow, loop: Loop, executed: Collection[tuple[int, int]]) -> tuple[Following, set[int]]:
    """Along edges that may run: by block of a loop, the blocks that may run next in the same iteration; and the sources
    of its back edges."""
    following = {
        block: tuple(
            edge.target
            for edge in flow.blocks[block].edges
            if edge.target in loop.blocks and edge.target != loop.header and (block, edge.target) in executed
        )
        for block in loop.blocks
    }
    return following, {latch for latch in loop.latches if (latch, loop.header) in executed}


def paths_of(flow: ControlFlow, loop: Loop, executed: Collection[tuple[int, int]]) -> Paths:
    """The paths through one iteration of a loop, along edges that may run."""
    return Paths(loop.header, *ways(flow, loop, executed))
