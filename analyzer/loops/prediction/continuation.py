"""Whether a loop goes on, told at its CUDA calls: the exit tests that follow a call, in terms of what is at hand there.

A test that runs behind the call in the same iteration is taken as it is; one that ran before it is the next
iteration's, so the values that meet at the loop's head are replaced by what the back edge brings. Machine arithmetic is
kept as it is, so a test is right even where a variable overflows; only `count` assumes that none does.
"""

from __future__ import annotations

from collections.abc import Sequence

from farlane.analyzer.flow.call import CudaCall
from farlane.analyzer.flow.function import Analysis
from farlane.analyzer.flow.summary import Functions
from farlane.analyzer.graph.control_flow import EXCEPTION
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.loops.dependence.judging import LoopValues
from farlane.analyzer.loops.model import Continuation, Formula, Location, Place, Test
from farlane.analyzer.loops.prediction.formula import comparison, constant, extended, operation, progress, term, total
from farlane.analyzer.loops.prediction.location import Holders, Locator
from farlane.analyzer.loops.shape.body import Body, ExitTest
from farlane.analyzer.loops.shape.leaving import Leaving
from farlane.analyzer.loops.shape.variables import progress as progression
from farlane.analyzer.machine.instruction import NONE, Memory
from farlane.analyzer.values.condition import Condition
from farlane.analyzer.values.expression import CALL, INSIDE, LOAD, OPAQUE, OUT, PHI, VERSION, Value
from farlane.analyzer.values.state import State


class Continuations:
    """Makes the continuations of one loop's calls."""

    def __init__(self, functions: Functions, analysis: Analysis, loop: Loop, values: LoopValues, body: Body) -> None:
        self._functions, self._analysis, self._loop, self._loop_values = functions, analysis, loop, values
        self._body = body
        self._jumps_out = Leaving(functions).may_leave(analysis, loop)
        self._values = functions.values
        self._next = self._following()
        # By exit test, whether it is the next iteration's: its sides there, and its step; None when they are not known.
        self._sides: dict[tuple[Condition, bool], tuple[Value, Value] | None] = {}
        self._steps: dict[Condition, int | None] = {}
        self._holders: dict[int, Holders] = {}  # by call instruction of this function
        self._order = {each: index for index, each in enumerate(analysis.structure.order)}
        flow, executed = analysis.structure.flow, analysis.result.executed
        self._blocks = {
            instruction.address: start for start in loop.blocks for instruction in flow.blocks[start].instructions
        }
        # Addresses in the file that this function computes.
        self._named = {
            operand.displacement
            for block in flow.blocks.values()
            for instruction in block.instructions
            if instruction.mnemonic == "lea"
            for operand in instruction.operands[1:]
            if isinstance(operand, Memory) and operand.base == NONE and operand.indexed == NONE
        }
        self._may_throw = any(
            edge.kind == EXCEPTION and edge.target not in loop.blocks and (block, edge.target) in executed
            for block in loop.blocks
            for edge in flow.blocks[block].edges
        )

    def of(self, call: CudaCall, block: int) -> Continuation | None:
        """The continuation at a call in a block of the loop; None when the call is inside an inner loop."""
        if call.repeated or not self._body.own(block) or self._loop.irreducible:
            return None
        locator = self.locator(call)
        if locator is None:
            return None
        place = self._block_of(call.chain[0] if call.chain else call.site, block)
        tests: list[tuple[bool, int, Test]] = []
        candidates, others = self._body.tests()
        for candidate in candidates:
            after = self._body.after(place, candidate.sources)
            test = self._test(locator, candidate, after)
            if test is not None:
                tests.append((not after, min(self._order[source] for source in candidate.sources), test))
        found = tuple(test for *_, test in sorted(tests, key=lambda entry: entry[:2]))
        complete = bool(found) and len(found) == len(candidates) and not others
        again = self._again(found) if complete else None
        count = self._count(found) if complete else None
        return Continuation(call.site, call.chain, found, complete, self._may_throw, again, count, self._jumps_out)

    def locator(self, call: CudaCall) -> Locator | None:
        """Finds values at a call; None when its state is not known."""
        states = self._states(call)
        if states is None:
            return None
        first = call.chain[0] if call.chain else call.site
        holders = self._holders.get(first)
        if holders is None:
            holders = self._holders[first] = Holders(self._values, states[0])
        return Locator(self._values, states, holders)

    def may_move(self, number: int, chain: Sequence[int]) -> bool:
        """Whether a number in what a call is passed may be an address in a file that is loaded anywhere: this function
        computes it, or another one may, on the way to the call."""
        image = self._functions.program.image
        return image.moves and (number in self._named or (bool(chain) and number > 0 and image.spans(number)))

    def _block_of(self, site: int, block: int) -> int:
        """The block with the call instruction; a launch's push may be in an earlier one than the launch."""
        return self._blocks.get(site, block)

    def _states(self, call: CudaCall) -> list[State] | None:
        analysis: Analysis | None = self._analysis
        states = []
        for position, site in enumerate((*call.chain, call.site)):
            state = analysis.result.sites.get(site) if analysis is not None else None
            if state is None or analysis is None:
                return None
            states.append(state)
            if position < len(call.chain):
                analysis = self._functions.called(analysis, site)
        return states

    def _following(self) -> dict[Value, Value]:
        """phi of the head -> its value in the next iteration, where all back edges bring the same."""
        found = {}
        for phi, inputs in self._analysis.result.phis.items():
            if phi.arguments[1] == self._loop.header:
                inside = {value for source, value in inputs.items() if source in self._loop.blocks}
                if len(inside) == 1:
                    found[phi] = inside.pop()
        return found

    def _advanced(self, value: Value) -> Value | None:
        """A value in the next iteration; None when it is not known."""
        blocked = False

        def leaf(atom: Value) -> Value | None:
            nonlocal blocked
            if atom.kind == PHI and atom.arguments[1] in self._loop.blocks:
                following = self._next.get(atom)
                blocked = blocked or following is None
                return following or atom
            if atom.kind in (CALL, OUT, OPAQUE, INSIDE) and atom.arguments[0] in self._blocks:
                blocked = True  # made anew in each iteration
                return atom
            if atom.kind == LOAD:
                address, size, versions = atom.arguments
                moved = self._values.substitute(address, leaf, {})
                return self._values.atom(LOAD, moved, size, tuple(self._version(version) for version in versions))
            return None

        result = self._values.substitute(value, leaf, {})
        return None if blocked else result

    def _version(self, version: Value) -> Value:
        if version.kind == PHI and version.arguments[1] in self._loop.blocks:
            return self._next.get(version) or self._values.atom(VERSION, -1)
        if version.kind == VERSION and version.arguments[0] in self._blocks:
            return self._values.atom(VERSION, -1)  # stored anew in each iteration
        return version

    def _test(self, locator: Locator, candidate: ExitTest, after: bool) -> Test | None:
        if not candidate.once:
            return None
        condition = candidate.stays
        key = (condition, after)
        if key not in self._sides:
            self._sides[key] = self._compared(condition, after)
        sides = self._sides[key]
        if sides is None:
            return None
        first, second = locator.find(sides[0], condition.size), locator.find(sides[1], condition.size)
        if first is None or second is None:
            return None
        left = self._loaded(first.formula, sides[0], condition.right, condition.size)
        right = self._loaded(second.formula, sides[1], condition.left, condition.size)
        if left is None or right is None:
            return None
        return Test(
            min(candidate.sources),
            condition.relation,
            left,
            right,
            condition.size,
            condition.signed,
            self._step(condition),
            first.exact and second.exact,
        )

    def _loaded(self, formula: Formula, side: Value, beside: Value, size: int) -> Formula | None:
        """A side of a test as it is when the program runs: a number is an address in the file where what it is compared
        with begins at one; None when it is not known whether it is."""
        image = self._functions.program.image
        if size < 8 or not side.is_constant or not image.moves:
            return formula
        may_be = image.spans(side.constant) or side.constant in self._named
        begun = [self._loop_values.inductions.get(atom) for atom, _ in beside.terms]
        if any(each is None or not each.initial.is_constant for each in begun):
            return None if may_be else formula
        if not any(each is not None and each.initial.constant in self._named for each in begun):
            return None if begun and side.constant in self._named else formula
        slot = image.anchor()
        if slot is None or len(begun) > 1:
            return None
        place = term(Location(Place.GLOBAL, 0, slot, 8))
        return total([(1, place), (1, constant(side.constant - image.pointers[slot]))])

    def _compared(self, condition: Condition, after: bool) -> tuple[Value, Value] | None:
        """The sides of a test that follows in the same iteration (`after`) or in the next one; None when they are not
        known."""
        if after:
            return condition.left, condition.right
        left, right = self._advanced(condition.left), self._advanced(condition.right)
        return None if left is None or right is None else (left, right)

    def _step(self, condition: Condition) -> int | None:
        if condition not in self._steps:
            moves = progression(self._values, condition, self._loop_values.inductions)
            self._steps[condition] = None if moves is None else moves.step
        return self._steps[condition]

    def _again(self, tests: Sequence[Test]) -> Formula:
        held = [comparison(test.relation, test.left, test.right, test.size, test.signed) for test in tests]
        result = held[0]
        for each in held[1:]:
            result = operation("and", result, each)
        return result

    def _count(self, tests: Sequence[Test]) -> Formula | None:
        counts = []
        for test in tests:
            if test.step is None:
                return None
            with_sign = test.signed
            left, right = (extended(side, test.size, with_sign) for side in (test.left, test.right))
            count = progress(test.relation, total([(1, left), (-1, right)]), test.step, test.size)
            if count is None:
                return None
            counts.append(count)
        result = counts[0]
        for each in counts[1:]:
            result = operation("min", result, each)
        return result
