"""Is the site reached again before the destination is touched? As an expression over values at the site.

From the site the code is followed forwards, instruction by instruction, with expressions over what registers and frame
cells hold at the site. Where all ways lead back to the site without touching the destination, the answer is 1. Where
one leads elsewhere (out of the loop, to an access) the answer is that of the branches in between; a branch that is not
understood counts as if it went the worse way. So 1 is a promise, and 0 is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from farlane.analyzer.graph.control_flow import FALL, RETURN, TAIL, TAKEN, Block
from farlane.analyzer.graph.reach import reached
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.machine.instruction import CALLER_SAVED, RAX, RSP, Instruction
from farlane.analyzer.permissions.abstract.domain import EXACT
from farlane.analyzer.permissions.abstract.facts import Regions
from farlane.analyzer.permissions.abstract.memory import Access, State
from farlane.analyzer.permissions.reachability.expressions import ONE, ZERO, Expression, both, either, negated
from farlane.analyzer.permissions.reachability.following import Following, Known, condition, lose_registers

MAXIMUM_BLOCKS = 200


class Reachability(Following):
    """Answers the question for one site.

    Args:
        regions: of the site's function.
        loop: the loop; leaving it counts as touching.
        site: the call instruction.
        bad: accesses that touch the destination, or after which the program may go on anywhere.
        escapes: blocks after which the destination's address is known elsewhere.
    """

    def __init__(
        self, regions: Regions, loop: Loop, site: int, bad: Callable[[Access], bool], escapes: Iterable[int]
    ) -> None:
        super().__init__(regions, regions.sites[site])
        self._loop, self._site = loop, site
        self._blocks = regions.structure.flow.blocks
        start = regions.structure.flow.holding(site)
        assert start is not None
        self._start = start.start
        self._escapes = set(escapes)
        self._bad_blocks = {block for block in regions.before if self._is_bad(self._blocks[block], bad)}
        head = [i.address for i in self._blocks[self._start].instructions if i.address < site]
        tail = [i.address for i in self._blocks[self._start].instructions if i.address > site]
        accesses = [access for access in regions.accesses[self._start] if bad(access)]
        self._head_bad = any(access.at in head for access in accesses) or self._start in self._escapes
        self._tail_bad = any(access.at in tail for access in accesses)
        self._can_go_bad = self._backwards()
        self.stack = self._state.registers[RSP].number
        self._walked = 0

    def more(self) -> Expression:
        """1 in every execution in which it evaluates to 1."""
        if self._tail_bad or self._head_bad:
            return ZERO
        block = self._blocks[self._start]
        values = self._at_site(self._state)
        values.registers.update(dict.fromkeys(CALLER_SAVED))
        values.registers[RAX] = ZERO
        rest = [i for i in block.instructions if i.address > self._site]
        # What the site's own call writes is no longer as it was.
        self.lose(values, block, self._site)
        return self._run(block, rest, values, frozenset())

    def _is_bad(self, block: Block, bad: Callable[[Access], bool]) -> bool:
        if block.start in self._escapes or block.end in (RETURN, TAIL):
            return True
        return any(bad(access) for access in self._regions.accesses[block.start] if access.at != self._site)

    def _backwards(self) -> set[int]:
        """Blocks from which a bad one, or one outside the loop that does not end the program, is reached, not through
        the site."""
        sources: dict[int, list[int]] = {}
        for source, targets in self._regions.edges.items():
            for target in targets:
                sources.setdefault(target, []).append(source)
        outside = set(self._regions.before) - self._loop.blocks
        # Outside the loop: whatever does not only lead to the end of the program.
        found = {block for block in outside if block in self._bad_blocks}
        found |= {block for block in outside if any(t in self._loop.blocks for t in self._regions.edges.get(block, []))}
        found |= {block for block in self._bad_blocks if block != self._start}
        return reached(found, sources, self._start)

    def _at_site(self, state: State) -> Known:
        registers: dict[int, Expression | None] = {}
        for register in range(16):
            value = state.registers[register]
            registers[register] = ("frame", value.number) if value.kind == EXACT else ("register", register)
        return Known(registers)

    # Following the code

    def _reach(self, start: int, values: Known, path: frozenset[int]) -> Expression:
        if start == self._start:
            return ZERO if self._head_bad else ONE
        if start not in self._can_go_bad:
            return ONE
        if start in self._bad_blocks or start not in self._loop.blocks or start in path:
            return ZERO
        self._walked += 1
        if self._walked > MAXIMUM_BLOCKS:
            return ZERO
        inner = self._regions.structure.loops.get(start)
        if inner is not None and self._start not in inner.blocks:
            return self._past(inner, values, path | {start})
        block = self._blocks[start]
        return self._run(block, block.instructions, values, path | {start})

    def _past(self, inner: Loop, values: Known, path: frozenset[int]) -> Expression:
        """Behind an inner loop with one exit: what it changes is not known."""
        edges = self._regions.edges
        blocks = [block for block in inner.blocks if block in self._regions.before]
        targets = {target for block in blocks for target in edges.get(block, []) if target not in inner.blocks}
        if len(targets) != 1 or inner.irreducible or any(block in self._bad_blocks for block in blocks):
            return ZERO
        for start in blocks:
            block = self._blocks[start]
            for instruction in block.instructions:
                self.lose(values, block, instruction.address)
                lose_registers(values, instruction)
        values.flags = None
        return self._reach(targets.pop(), values, path)

    def _run(
        self, block: Block, instructions: Iterable[Instruction], values: Known, path: frozenset[int]
    ) -> Expression:
        for instruction in instructions:
            self.execute(block, instruction, values)
        targets = self._regions.edges.get(block.start, [])
        if not targets:
            return ONE  # the program ends here
        if len(targets) == 1:
            return self._reach(targets[0], values, path)
        kinds = {edge.kind: edge.target for edge in block.edges}
        answers = {target: self._reach(target, values.copy(), path) for target in set(targets)}
        if len(answers) == 1:
            return next(iter(answers.values()))
        if set(kinds) == {TAKEN, FALL} and len(block.edges) == 2:
            test = condition(block.instructions[-1].mnemonic, values.flags)
            taken, falls = answers[kinds[TAKEN]], answers[kinds[FALL]]
            if taken == falls:
                return taken
            if test is not None:
                return either(both(test, taken), both(negated(test), falls))
        result = ONE
        for answer in answers.values():
            result = both(result, answer)
        return result
