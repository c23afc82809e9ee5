"""On what a value depends, seen from one loop: nothing that varies, induction variables, earlier results, or the
unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from farlane.analyzer.externals.interface import ANY_COPIES
from farlane.analyzer.externals.names import is_cuda
from farlane.analyzer.graph.control_flow import EXCEPTION
from farlane.analyzer.graph.reach import reached
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.loops.dependence.scope import INVARIANT, Dependence, Scope, stands_beside, unknown
from farlane.analyzer.loops.dependence.stored import Written
from farlane.analyzer.loops.model import Kind, Reason
from farlane.analyzer.loops.shape.paths import Paths, paths_of
from farlane.analyzer.values.expression import CALL, INSIDE, LOAD, OPAQUE, OPERATION, OUT, PHI, VERSION, Value
from farlane.analyzer.values.memory import ADDRESS, LAUNCH_SLOT, NUMBER, PART, Filled

MAXIMUM_QUESTIONS = 300_000  # about values of one loop
MAXIMUM_AT_ONCE = 10_000  # to answer one that is asked from outside; half as many after each that was not answered
MAXIMUM_DEEP = 70  # variables through which one depends on another
_NOTHING = 1 << 30


class _TooManyError(Exception):
    """Values depend on each other in too many ways: by which branches they were chosen is not followed to the end."""


class _TooDeepError(_TooManyError):
    """A value depends on others one by one, for too long."""


class LoopValues:
    """Judges values from inside one loop.

    Attributes:
        inductions: the loop's induction variables by their phis.
        returned: judges what a called function computed, as seen at its call (INSIDE), in a block; None: it is not
            known.
    """

    def __init__(self, scope: Scope) -> None:
        self._structure, self._result, self._values, self._loop = (
            scope.structure,
            scope.result,
            scope.values,
            scope.loop,
        )
        self._managed, self._addresses, self._memory = scope.managed, scope.addresses, scope.memory
        self._stores, self._body, self._ways = scope.stores, scope.body, scope.ways
        self.inductions = scope.inductions
        self._memo: dict[tuple[Value, int], Dependence] = {}
        # The same of values met on the way, where no phi that was being judged had a part in it; until another handle
        # is known.
        self._met: dict[tuple[Value, int], Dependence] = {}
        self._active: dict[Value, int] = {}  # phis being judged -> how many were before them
        self._hit = _NOTHING  # the first of those that had a part in what is being judged
        self._asked = self._allowed = self._unanswered = 0
        self._handles: set[Value] = set()
        self._paths: dict[int, Paths] = {}
        self.returned: Callable[[Value, int], Dependence | None] | None = None

    def handle(self, value: Value) -> None:
        """A value is a handle or a device's address: where it was loaded from there are only whole ones, none of the
        own frame."""
        if value.kind == LOAD and value.arguments[1] == 8 and value not in self._handles:
            self._handles.add(value)
            self._met.clear()

    def of(self, value: Value, block: int) -> Dependence:
        """The dependence of a value that is used in a block of the loop."""
        if value.is_constant:
            return INVARIANT
        key = (value, block)
        known = self._memo.get(key)
        depth = len(self._active)
        if known is None and depth:
            known = self._met.get(key)
        if known is not None:
            return known
        before, self._hit = self._hit if depth else _NOTHING, _NOTHING
        if not depth:
            self._allowed = min(self._asked + (MAXIMUM_AT_ONCE >> self._unanswered), MAXIMUM_QUESTIONS)
        try:
            known = INVARIANT
            for atom, _ in value.terms:
                known = known.joined(self._atom(atom, block))
        except _TooManyError as error:
            if depth:
                raise
            self._unanswered += not isinstance(error, _TooDeepError)
            known = unknown(Reason.CONTROL)
        if not depth:
            self._memo[key] = known
        elif self._hit >= depth:
            self._met[key] = known
        self._hit = min(self._hit, before)
        return known

    def step(self, value: Value) -> int | None:
        """By how much an affine value grows from one iteration to the next; None when it is no sum of this loop's
        variables."""
        total = 0
        for atom, coefficient in value.terms:
            inner, signed = atom, coefficient - 2**64 if coefficient >> 63 else coefficient
            while inner.kind == OPERATION and inner.arguments[0] in ("zx4", "sx4"):
                inner = inner.arguments[1]
            if inner is not atom and (len(inner.terms) != 1 or inner.terms[0][1] != 1):
                grown = self.step(inner)
                if grown is None:
                    return None
                total += signed * grown
            elif inner.terms and inner.terms[0][0] in self.inductions:
                total += signed * self.inductions[inner.terms[0][0]].step
            elif inner.kind == PHI and inner.arguments[1] in self._loop.blocks:
                return None
        return total or None

    def _all(self, values: Iterable[Value], block: int) -> Dependence:
        found = INVARIANT
        for value in values:
            found = found.joined(self.of(value, block))
        return found

    def _atom(self, atom: Value, block: int) -> Dependence:
        arguments = atom.arguments
        self._asked += 1
        if self._asked > self._allowed:
            raise _TooManyError
        if atom.kind == PHI:
            return self._phi(atom, block)
        if atom.kind in (CALL, OUT):
            return self._call(atom) if arguments[0] in self._addresses else INVARIANT
        if atom.kind == INSIDE:
            if arguments[0] not in self._addresses:
                return INVARIANT
            judged = self.returned(atom, block) if self.returned is not None else None
            return self._inside(arguments[1]) if judged is None else judged
        if atom.kind == OPAQUE:
            fixed = arguments[0] >= 0 and arguments[0] not in self._addresses
            return INVARIANT if fixed else unknown(Reason.INSTRUCTION)
        if atom.kind == VERSION:
            return unknown(Reason.MEMORY_CHANGED) if arguments[0] in self._addresses else INVARIANT
        if atom.kind == LOAD:
            return self._load(atom, block)
        if atom.kind == OPERATION:
            found = self._all((value for value in arguments[1:] if isinstance(value, Value)), block)
            if Kind.AFFINE in found.kinds and arguments[0] not in ("zx4", "sx4"):
                found = found.joined(Dependence(frozenset({Kind.INDUCTION})))
            return found
        return INVARIANT

    def _call(self, atom: Value) -> Dependence:
        name = atom.arguments[1]
        if not is_cuda(name):
            return unknown(Reason.HOST_CALL)
        if atom.kind == CALL:
            return unknown(Reason.RETURN_CODE)
        if name in ANY_COPIES:
            return unknown(Reason.DEVICE_DATA)
        return Dependence(frozenset({Kind.RESULT}))

    def _inside(self, atom: Value) -> Dependence:
        while atom.kind == INSIDE:
            atom = atom.arguments[1]
        if atom.kind in (CALL, OUT):
            return self._call(atom)
        if atom.kind == LOAD and self._memory.filler(atom) is not None:
            return Dependence(frozenset({Kind.RESULT}))
        return unknown(Reason.MEMORY_CHANGED if atom.kind == LOAD else Reason.CALLEE)

    def _load(self, atom: Value, block: int) -> Dependence:
        address, _, versions = atom.arguments
        if self._managed and address.is_constant:
            return unknown(Reason.DEVICE_DATA)
        if self.filler(atom) is not None:
            return self.of(address, block).joined(Dependence(frozenset({Kind.RESULT})))
        if self._untouched_frame(atom, block):
            # No version counts of what is surely in the frame; of what may lie elsewhere, that of everything.
            versions = () if (self._values.stack_pointer, 1) in address.terms else versions[:1]
        for version in versions:
            changed = self.changed(version, block)
            if changed.kinds:
                if self._untouched_global(atom, block) or self._untouched_elsewhere(atom, block):
                    break
                return self._filled(atom, block) or changed
        found = self.of(address, block)
        return found.joined(Dependence(frozenset({Kind.LOAD}))) if found.kinds else found

    def filler(self, load: Value) -> Filled | None:
        """The CUDA call of the loop that filled the structure of which a load reads a part."""
        filled = self._memory.filler(load)
        return None if filled is None or filled.site not in self._addresses else filled

    def changed(self, version: Value, block: int) -> Dependence:
        """What it makes of a value that memory of this version is read for it."""
        inside = version.kind == PHI and version.arguments[1] in self._loop.blocks
        return unknown(Reason.MEMORY_CHANGED) if inside or Kind.UNKNOWN in self.of(version, block).kinds else INVARIANT

    def _untouched_frame(self, load: Value, block: int) -> bool:
        """Whether a load is from the own frame and nothing that the loop stores there is within its reach."""
        return load.arguments[0].stack and not any(self._stores.in_frame(load, block, self._harmless(load)))

    def _untouched_global(self, load: Value, block: int) -> bool:
        """Whether a load is of global variables, and nothing that the loop stores is what is read."""
        address = load.arguments[0]
        if address.stack or not self._memory.image.spans(address.signed):
            return False
        return not any(True for _ in self._stores.in_globals(load, block, load in self._handles))

    def _untouched_elsewhere(self, load: Value, block: int) -> bool:
        """Whether a load is from an object of its own, and nothing that the loop stores there is what is read."""
        address, state = load.arguments[0], self._result.headers.get(self._loop.header) or self._result.end
        if address.stack or state is None or not state.memory.objects_of(self._values.base(address)[0]):
            return False
        if load in self._active:
            return False
        self._active[load] = len(self._active)
        try:
            return not any(True for _ in self._stores.elsewhere(load, state, self._steady(block)))
        finally:
            del self._active[load]

    def _steady(self, block: int) -> Callable[[Value], bool]:
        return lambda value: not self.of(value, block).kinds

    def _harmless(self, load: Value) -> set[int]:
        """Kinds of stores in the frame that are none where this is loaded from."""
        harmless = {LAUNCH_SLOT, ADDRESS, PART, NUMBER} if load in self._handles else {LAUNCH_SLOT}
        if self._result.separate and load.arguments[1] == 8:
            harmless.add(PART)
        return harmless

    def _filled(self, load: Value, block: int) -> Dependence | None:
        """On what it depends what is read of memory that the loop fills with results of CUDA calls and nothing else: a
        table of streams, of buffers. None: something else may be stored there, or when and where is not known when the
        loop is entered."""
        address, state = load.arguments[0], self._result.headers.get(self._loop.header) or self._result.end
        if state is None or self._loop.irreducible or load.arguments[1] != 8 or load in self._active:
            return None
        in_frame = address.stack
        if in_frame and address.low is None:
            return None
        stores = (
            self._stores.in_frame(load, block, self._harmless(load))
            if in_frame
            else self._stores.elsewhere(load, state, self._steady(block))
        )
        self._active[load] = len(self._active)
        try:
            found = INVARIANT
            asked: set[Written] = set()
            for store in stores:  # most are not looked for: the first one that is not known ends it
                if store in asked:
                    continue
                asked.add(store)
                if store.address is None or store.value is None:
                    return None
                if in_frame and stands_beside(store.value):
                    continue
                value = self.of(store.value, store.block)
                if not value.kinds <= {Kind.RESULT}:
                    return None
                found = found.joined(value).joined(self._when(store))
                if Kind.UNKNOWN in found.kinds:
                    return None
        finally:
            del self._active[load]
        return found.joined(self.of(address, block)) if Kind.RESULT in found.kinds else None

    def _when(self, store: Written) -> Dependence:
        """On what it depends where something is stored, and in which iterations."""
        assert store.address is not None
        found = self.of(store.address, store.block)
        for branch in self._body.paths.deciders(store.block):
            flags = self._result.tests.get(branch)
            found = found.joined(unknown(Reason.CONTROL) if flags is None else self.of(flags, branch))
        return found

    def _phi(self, phi: Value, block: int) -> Dependence:
        _, where, _ = phi.arguments
        if where not in self._loop.blocks:
            return INVARIANT
        if phi in self.inductions:
            return Dependence(frozenset({Kind.AFFINE}))
        place = self._active.get(phi)
        if place is not None:
            self._hit = min(self._hit, place)
            return Dependence(frozenset({Kind.INDUCTION}))
        if len(self._active) >= MAXIMUM_DEEP:
            raise _TooDeepError
        inputs = self._result.phis.get(phi, {})
        self._active[phi] = len(self._active)
        try:
            if where == self._loop.header and not self._loop.irreducible:
                return self._recurrence(inputs, block)
            inner = self._structure.loops.get(where)
            if inner is not None and block in inner.blocks and not inner.irreducible:
                variable = self._stores.variables(inner).get(phi)
                if variable is not None:
                    return self.of(variable.initial, block).joined(Dependence(frozenset({Kind.AFFINE})))
                return self._all(inputs.values(), block).joined(Dependence(frozenset({Kind.INDUCTION})))
            if inner is not None and not inner.irreducible:
                return self._left(inner, inputs)
            return self._chosen(where, inputs, block)
        finally:
            del self._active[phi]

    def _left(self, inner: Loop, inputs: dict[int, Value]) -> Dependence:
        """What a loop inside this one leaves in its variable: known when all is that it branches on, but for branches
        that tell neither how often it goes round nor what the variable is in the next iteration."""
        found = self._all(inputs.values(), inner.header)
        leaving, branching = set(), []
        for each in sorted(inner.blocks):
            edges = self._structure.flow.blocks[each].edges
            ways = [edge for edge in edges if edge.kind != EXCEPTION or edge.target in self._loop.blocks]
            targets = [edge.target for edge in ways if (each, edge.target) in self._result.executed]
            if len(targets) > 1:
                branching.append(each)
            if not all(target in inner.blocks for target in targets):
                leaving.add(each)
        if len({value for source, value in inputs.items() if source in inner.blocks}) == 1:
            paths = self._paths.get(inner.header) or paths_of(self._structure.flow, inner, self._result.executed)
            self._paths[inner.header] = paths
            telling = leaving.union(*(paths.deciders(each) for each in leaving))
            branching = [each for each in branching if each in telling]
        for each in branching:
            flags = self._result.tests.get(each)
            found = found.joined(unknown(Reason.CONTROL) if flags is None else self.of(flags, each))
        return found.joined(Dependence(frozenset({Kind.INDUCTION})))

    def _chosen(self, where: int, inputs: dict[int, Value], block: int) -> Dependence:
        """One of several values, by the way that led to a block: as known as the values and the branches on the way."""
        if where in self._structure.loops:
            return unknown(Reason.CONTROL)  # after a loop inside this one, or in one with several entries
        first = self._structure.immediate_dominator(where)
        if first is None or first not in self._loop.blocks:
            return unknown(Reason.CONTROL)
        found = self._all(inputs.values(), block)
        branches, inside = self._branches(where, first, tuple(inputs))
        for at, flags in branches:
            found = found.joined(unknown(Reason.CONTROL) if flags is None else self.of(flags, at))
        if not inside:
            return found.joined(unknown(Reason.CONTROL))
        return found.joined(Dependence(frozenset({Kind.INDUCTION}))) if found.kinds else found

    def _branches(
        self, where: int, first: int, sources: tuple[int, ...]
    ) -> tuple[list[tuple[int, Value | None]], bool]:
        """What the branches ask for that tell through which of certain blocks before it a block is reached, from the
        one that all ways to it pass (None: that is not known), each with its block; and whether they all stand in this
        loop. What leads past the block, an exception among it, does not count."""
        key = (where, sources)
        known = self._ways.get(key)
        if known is not None:
            return known
        inside = True
        seen, work = {first}, [first, *sources]
        while work:
            each = work.pop()
            innermost = self._structure.innermost(each)
            if innermost is None or innermost.irreducible or each not in self._loop.blocks:
                inside = False
                break
            if each not in seen:
                seen.add(each)
                work += [p for p in self._structure.predecessors[each] if (p, each) in self._result.executed]
        onto = {
            each: [p for p in self._structure.predecessors[each] if p in seen and (p, each) in self._result.executed]
            for each in seen
        }
        leading = Counter(each for source in set(sources) for each in reached([source], onto))
        asked: list[tuple[int, Value | None]] = []
        for each in sorted(each for each in seen if leading[each] > 1):
            targets = {
                edge.target
                for edge in self._structure.flow.blocks[each].edges
                if edge.target in seen or edge.target == where
            }
            if sum((each, target) in self._result.executed for target in targets) > 1:
                asked.append((each, self._result.tests.get(each)))
        self._ways[key] = asked, inside
        return self._ways[key]

    def _recurrence(self, inputs: dict[int, Value], block: int) -> Dependence:
        """A value carried from one iteration to the next; what it was at the loop's entry does not vary."""
        following = [value for source, value in inputs.items() if source in self._loop.blocks]
        found = self._all(following, block)
        if len(set(following)) != 1:
            # The branches of the iteration, all of them, say which of them comes.
            for each in sorted(self._loop.blocks & self._result.tests.keys()):
                edges = self._structure.flow.blocks[each].edges
                if sum((each, edge.target) in self._result.executed for edge in edges) > 1:
                    found = found.joined(self.of(self._result.tests[each], block))
        return found.joined(Dependence(frozenset({Kind.INDUCTION})))
