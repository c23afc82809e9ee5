"""How often a loop's CUDA calls run, from all its exit tests; what stands in the way otherwise.

Owns putting several tests together and recurrences that are not arithmetic progressions (`s >>= 1`, `n = (n + 1) / 2`,
floating point): those with constants are followed step by step, the others are given as the recurrence itself, which
can be computed when the loop is entered.
"""

from __future__ import annotations

from collections.abc import Iterable

from farlane.analyzer.flow.function import Analysis
from farlane.analyzer.flow.summary import Functions
from farlane.analyzer.graph.control_flow import TAKEN
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.loops.dependence.deciding import Deciding
from farlane.analyzer.loops.dependence.judging import LoopValues
from farlane.analyzer.loops.model import Kind, Reason, TripCount
from farlane.analyzer.loops.prediction.text import place, show
from farlane.analyzer.loops.prediction.trips import places, trip_count
from farlane.analyzer.loops.shape.body import Body, ExitTest
from farlane.analyzer.loops.shape.variables import progress
from farlane.analyzer.values.condition import Condition
from farlane.analyzer.values.expression import INSIDE, OPERATION, PHI, Value
from farlane.analyzer.values.parts import leaves

MAXIMUM_STEPS = 4096
_COMPUTABLE = frozenset({Kind.AFFINE, Kind.INDUCTION})


class Counting:
    """Counts one loop.

    Attributes:
        reasons: why there is no count, or what of it is worth knowing.
    """

    def __init__(
        self, functions: Functions, analysis: Analysis, loop: Loop, judge: LoopValues, body: Body, calls: Iterable[int]
    ) -> None:
        self._values, self._analysis, self._loop, self._judge, self._body = (
            functions.values,
            analysis,
            loop,
            judge,
            body,
        )
        self._calls = list(calls)
        self._deciding = Deciding(analysis.result, loop, body, judge)
        self.reasons: set[Reason] = set()
        self._entered: dict[Value, Value] = {}
        self._following: dict[Value, Value] = {}
        for phi, inputs in analysis.result.phis.items():
            if phi.arguments[1] != loop.header:
                continue
            outside = {value for source, value in inputs.items() if source not in loop.blocks}
            inside = {value for source, value in inputs.items() if source in loop.blocks}
            if len(outside) == 1:
                self._entered[phi] = outside.pop()
            if len(inside) == 1:
                self._following[phi] = inside.pop()

    def count(self) -> TripCount | None:
        """The count; None when it is not known, and `reasons` says why."""
        if not self._body.exits():
            self.reasons.add(Reason.NO_EXIT)
            return None
        if self._loop.irreducible:
            self.reasons.add(Reason.TRIP_COUNT)
            return None
        tests, others = self._body.tests()
        found = [self._one(test) for test in tests] + [self._other(source) for source in others]
        counts = [count for count in found if count is not None]
        if len(counts) == len(found):
            return counts[0] if len(counts) == 1 else _least(counts)
        by_branches = self._by_branches(tests, others)
        if by_branches is not None:
            return by_branches
        if len(found) > 1:
            self.reasons.add(Reason.SEVERAL_EXITS)
        elif Reason.EXIT_ON_DEVICE_DATA not in self.reasons:
            self.reasons.add(Reason.TRIP_COUNT)
        return None

    def _extra(self, sources: frozenset[int]) -> int:
        """1 when the calls run before the test in an iteration, and so once more than it lets the loop go on."""
        header = self._loop.header
        first = self._body.reached(header, sources)
        before = [each for each in self._calls if each in sources or each in first]
        return 1 if before and len(before) == len(self._calls) else 0

    def _one(self, test: ExitTest) -> TripCount | None:
        source = min(test.sources)
        if self._on_device_data(source) or not test.once:
            return None
        extra = self._extra(test.sources)
        moves = progress(self._values, test.stays, self._judge.inductions)
        if moves is not None and not self._judge.of(moves.start, source).kinds:
            entry = self._analysis.result.headers[self._loop.header]
            found = trip_count(self._values, moves, extra, entry, self._entered)
            if found is not None and self._computed_anew(moves.start):
                # A function tells it in each iteration, the same each time: its result stands nowhere yet.
                return TripCount(None, f"while {_text(test.stays)}")
            if found is not None and not all(where for _, where in found.places):
                # What it is computed from stands somewhere, where the whole does not; or what the test compares does.
                parts = leaves(moves.start)
                where = tuple((show(p, {}), places(p, entry, self._entered)) for p in parts)
                compared = (
                    None if all(each for _, each in where) else self._standing((test.stays.left, test.stays.right))
                )
                return TripCount(None, found.text, where if compared is None else compared)
            if found is not None:
                return found
        return self._recurrence(test.stays, extra, source)

    def _computed_anew(self, value: Value) -> bool:
        """Whether a part of a value is what a function computes that the loop calls."""
        flow = self._analysis.structure.flow
        calls = (atom.arguments[0] for atom in leaves(value) if atom.kind == INSIDE)
        blocks = (flow.holding(site) for site in calls)
        return any(block is not None and block.start in self._loop.blocks for block in blocks)

    def _on_device_data(self, source: int) -> bool:
        flags = self._analysis.result.tests.get(source)
        found = flags is not None and Reason.DEVICE_DATA in self._judge.of(flags, source).reasons
        if found:
            self.reasons.add(Reason.EXIT_ON_DEVICE_DATA)
        return found

    def _recurrence(self, stays: Condition, extra: int, source: int) -> TripCount | None:
        sides = (stays.left, stays.right)
        depends = self._judge.of(stays.left, source).joined(self._judge.of(stays.right, source))
        if not depends.kinds or not depends.kinds <= _COMPUTABLE:
            return None
        count = self._followed(stays)
        if count is not None:
            return TripCount(count + extra, str(count + extra))
        text = _text(stays)
        return self._described(text, sides)

    def _other(self, source: int) -> TripCount | None:
        """A test that is no comparison of integers."""
        flags = self._analysis.result.tests.get(source)
        if all(edge.kind != TAKEN for edge in self._analysis.structure.flow.blocks[source].edges):
            return None  # a jump table
        if self._on_device_data(source) or flags is None or not self._body.always(source):
            return None
        kinds = self._judge.of(flags, source).kinds
        return self._described(show(flags, {}), (flags,)) if kinds and kinds <= _COMPUTABLE else None

    def _by_branches(self, tests: list[ExitTest], others: list[int]) -> TripCount | None:
        """The count of a loop whose exit tests do not all run once in each iteration, or whose variables are chosen by
        branches: when all that decides is known at the entry, it can be followed from there, branch by branch."""
        flags = self._analysis.result.tests
        sources = [source for test in tests for source in test.sources] + others
        asked = dict.fromkeys(sources)
        for source in sources:
            if not self._deciding.known(source):
                return None
            asked.update(dict.fromkeys(self._body.paths.deciders(source)))
        if not all(source in flags for source in asked):
            return None
        values = {flags[source]: source for source in asked}
        kinds = [self._judge.of(value, source).kinds for value, source in values.items()]
        if not any(kinds) or not all(each <= _COMPUTABLE for each in kinds):
            return None
        entry = self._analysis.result.headers[self._loop.header]
        where = tuple((show(atom, {}), places(atom, entry, self._entered)) for atom in self._given(values))
        if not all(each for _, each in where):
            where = self._standing(values) or where
        text = " and ".join(_text(test.stays) for test in tests)
        return TripCount(None, f"while {text or show(next(iter(values)), {})}, as {len(asked)} branches tell", where)

    def _standing(self, values: Iterable[Value]) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
        """Where what values are made of stands when the loop is entered: sums that are kept whole, the loop's variables
        where they begin.
        None: some of it stands nowhere."""
        entry, base = self._analysis.result.headers[self._loop.header], self._values.base
        found: dict[Value, tuple[str, ...]] = {}
        work = list(values)
        seen = set(work)
        while work:
            value = work.pop()
            if value.is_constant:
                continue
            where = places(value, entry, self._entered)
            if not where and base(value)[0] is not value:
                value = base(value)[0]
                where = places(value, entry, self._entered)
            inner: list[Value] = []
            if where:
                found[value] = where
            elif len(value.terms) > 1 or value.terms[0][1] != 1:
                inner = [atom for atom, _ in value.terms]
            elif value.kind == PHI and value.arguments[1] == self._loop.header:
                found[value] = (place(value.arguments[2]),)
                inner = self._following_of(value)
            elif value.kind == PHI and value.arguments[1] in self._loop.blocks:
                inner = list(self._analysis.result.phis.get(value, {}).values())
            elif value.kind == OPERATION:
                inner = [each for each in value.arguments[1:] if isinstance(each, Value)]
            else:
                return None
            for each in inner:
                if each not in seen:
                    seen.add(each)
                    work.append(each)
        return tuple((show(value, {}), where) for value, where in found.items())

    def _following_of(self, phi: Value) -> list[Value]:
        """What a variable of the loop's head may be in the next iteration."""
        inputs = self._analysis.result.phis.get(phi, {})
        return [value for source, value in inputs.items() if source in self._loop.blocks]

    def _given(self, values: Iterable[Value]) -> list[Value]:
        """What values are made of that is there when the loop is entered."""
        found: dict[Value, None] = {}
        seen: set[Value] = set()
        work = [atom for value in values for atom in leaves(value)]
        while work:
            atom = work.pop()
            if atom in seen:
                continue
            seen.add(atom)
            if atom.kind == PHI and atom.arguments[1] in self._loop.blocks:
                inputs = self._analysis.result.phis.get(atom, {}).values()
                work += [each for value in inputs for each in leaves(value)]
            else:
                found[atom] = None
        return list(found)

    def _described(self, test: str, of: Iterable[Value]) -> TripCount | None:
        """The count as a recurrence: first values, next values, and while which test holds."""
        carried = self._carried(of)
        if carried is None:
            return None
        steps = [
            f"{show(phi, {})} = {show(self._entered[phi], {})}, then {show(self._following[phi], {})}"
            for phi in carried
        ]
        needed = dict.fromkeys(
            atom
            for value in (*of, *(self._entered[phi] for phi in carried))
            for atom in leaves(value)
            if atom not in carried
        )
        entry = self._analysis.result.headers[self._loop.header]
        where = tuple((show(atom, {}), places(atom, entry, self._entered)) for atom in needed)
        return TripCount(None, f"while {test}; {'; '.join(steps)}", where)

    def _carried(self, of: Iterable[Value]) -> list[Value] | None:
        """The values carried from iteration to iteration that some values come from; None where one has no single
        next."""
        found: dict[Value, None] = {}
        work = [atom for value in of for atom in leaves(value)]
        while work:
            atom = work.pop()
            if atom.kind != PHI or atom.arguments[1] not in self._loop.blocks or atom in found:
                continue
            if atom not in self._entered or atom not in self._following:
                return None
            found[atom] = None
            work += leaves(self._following[atom])
        return list(found)

    def _followed(self, stays: Condition) -> int | None:
        """The number of passes, by doing them, when all values are constants."""
        carried = self._carried((stays.left, stays.right))
        if not carried or any(not self._entered[phi].is_constant for phi in carried):
            return None
        now = {phi: self._entered[phi] for phi in carried}
        for passed in range(MAXIMUM_STEPS):
            memo: dict[Value, Value] = dict(now)
            left, right = (self._values.substitute(side, now.get, memo) for side in (stays.left, stays.right))
            holds = stays._replace(left=left, right=right).constant()
            if holds is None:
                return None
            if not holds:
                return passed
            now = {phi: self._values.substitute(self._following[phi], now.get, memo) for phi in carried}
            if any(not value.is_constant for value in now.values()):
                return None
        return None


def _text(condition: Condition) -> str:
    return f"{show(condition.left, {})} {condition.relation} {show(condition.right, {})}"


def _least(counts: list[TripCount]) -> TripCount:
    constants = [count.constant for count in counts if count.constant is not None]
    if len(constants) == len(counts):
        return TripCount(min(constants), str(min(constants)))
    places_ = dict.fromkeys(each for count in counts for each in count.places)
    return TripCount(None, f"min({', '.join(count.text for count in counts)})", tuple(places_))
