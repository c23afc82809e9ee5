"""Which blocks of one iteration lead where: reachability and postdominance of all blocks at once, as sets of bits.

The end of an iteration is the end of a latch. Blocks from which none is reached lie on no way to the end and postdominate nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from farlane.analyzer.graph.reach import postorder


class Paths:
    """Answers for the paths through one iteration.

    Args:
        following: block -> the blocks that may run next in the same iteration.
        latches: the blocks behind which the iteration may end.
    """

    def __init__(self, header: int, following: Mapping[int, Sequence[int]], latches: Collection[int]) -> None:
        # Most stand behind those that follow them: so few rounds settle what hangs on these.
        order = postorder((header, *following), following)
        index = {block: place for place, block in enumerate(order)}
        targets = [[index[each] for each in following[block]] for block in order]
        ends = [block in latches for block in order]
        self._index = index
        self._reached = self._closure(targets)
        ending = sum(1 << place for place, is_end in enumerate(ends) if is_end)
        self._passed = self._postdominators(targets, ends, [bool(each & ending) for each in self._reached])
        self._branching = [
            (block, self._decided(targets[index[block]], ends[index[block]]))
            for block, after in following.items()
            if len(after) + ends[index[block]] > 1
        ]

    def avoidable(self, start: int, block: int) -> bool:
        """Whether from one block the iteration's end is reached, and not through another one."""
        return bool(self._avoided(self._index[start]) >> self._index[block] & 1)

    def deciders(self, block: int) -> list[int]:
        """The branches from which one way leads to a block, and one past it to the end of the iteration."""
        place = self._index[block]
        return [each for each, decided in self._branching if decided >> place & 1]

    def _decided(self, targets: Sequence[int], ends: bool) -> int:
        leads, past = 0, -1 if ends else 0
        for target in targets:
            leads |= self._reached[target]
            past |= self._avoided(target)
        return leads & past

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
