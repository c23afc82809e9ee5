"""Calls of the program's own functions: each is analyzed once, and its result is expressed by the values at its entry.

At a call the entry values are replaced by the caller's, so what the callee writes through its parameters, returns, and
passes to CUDA is known in the caller's terms. Values that arise inside the callee stay distinct for every call (INSIDE).
What functions that call themselves store is found by a fixed point (recursion.py). One that calls itself and CUDA, is over its budget, or
whose control flow is not known, is an unknown function: it may change what it can reach. Whether it may make CUDA calls is known from what it calls.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

from farlane.analyzer.budget import Budget
from farlane.analyzer.errors import AnalysisError
from farlane.analyzer.flow import library
from farlane.analyzer.flow.call import CudaCall
from farlane.analyzer.flow.computed import Computed
from farlane.analyzer.flow.effects import library_call, lose_registers, unknown_call, unknown_memory
from farlane.analyzer.flow.engine import Engine, Result
from farlane.analyzer.flow.expression import CALL, INITIAL, INSIDE, LOAD, OPERATION, PHI, Value, Values
from farlane.analyzer.flow.given import Origins, mark, origins, reachable, stays_inside
from farlane.analyzer.flow.launches import resolved
from farlane.analyzer.flow.memory import Extents, Memory, extend
from farlane.analyzer.flow.record import NO_CALLS, InnerCalls
from farlane.analyzer.flow.recursion import Circles
from farlane.analyzer.flow.state import CONFIGURATION, PUSHED, State
from farlane.analyzer.flow.success import is_code
from farlane.analyzer.graph import kernels
from farlane.analyzer.graph.control_flow import LEAVING, ControlFlow
from farlane.analyzer.graph.names import NEVER_RETURNS, is_cuda
from farlane.analyzer.graph.program import UNKNOWN, Callee, Program
from farlane.analyzer.graph.splitting import build
from farlane.analyzer.graph.structure import Structure
from farlane.analyzer.graph.structure import build as build_plain
from farlane.analyzer.machine.instruction import CALLER_SAVED, RAX, RDI, RDX, RSI, RSP, XMM0

MAXIMUM_DEPTH = 12
CODES = (RDI, RSI)  # where error codes are looked for
_ENDS = frozenset({"_ZSt9terminatev", "__cxa_begin_catch", "abort", "exit", "_exit", "__assert_fail"})
_MAY_BE_LOST = (*CALLER_SAVED, *range(XMM0, XMM0 + 32))
_RESULTS = (RAX, RDX, XMM0, XMM0 + 2, *range(CONFIGURATION, PUSHED + 1))
MAXIMUM_PLACES = 4  # of the caller's frame, one of which a called function returns
MAXIMUM_BYTES = 4096  # of a callee that contains no CUDA calls: larger ones are unknown functions


_Stored = tuple[Value, Value | None, Value | None]  # address, value, length
_Cell = tuple[Value, int, int, Value]  # base, offset, size, value


class Analysis:
    """A function's graph and its values.

    Attributes:
        untouched: the registers that calls may change and this function leaves alone; None: not yet looked for.
    """

    def __init__(self, structure: Structure, result: Result) -> None:
        self.structure, self.result = structure, result
        self.untouched: list[int] | None = None
        self._seen: list[tuple[int, bool, bool]] | None = None
        self._arguments: dict[int, dict[str, Value]] | None = None
        self._stored: tuple[list[_Stored], list[_Cell]] | None = None
        self._made_of: dict[Value, Origins] = {}
        self._reaches: bool | None = None
        self._through: Extents | None = None
        self._owned: dict[Value, bool] = {}

    def made_of(self, value: Value, memory: Memory) -> Origins:
        """Of what a value is made as an address."""
        known = self._made_of.get(value)
        if known is None:
            known = self._made_of[value] = origins(value, self.result, memory)
        return known

    def stored_through(self, memory: Memory) -> Extents:
        """What the function was given through which it stores, as registers, and where from there; None: anywhere."""
        if self._through is None:
            self._through = {}
            for store in self.result.stores:
                if store.address is None:
                    continue
                base, offset = memory.values.base(store.address)
                for own in memory.objects_of(base):
                    if own.kind == INITIAL:
                        extend(self._through, own, base, offset, store.size)
        return self._through

    def stores_anywhere(self, memory: Memory) -> bool:
        """Whether it stores through pointers that may be any it reaches."""
        if self._reaches is None:
            addresses = (store.address for store in self.result.stores if store.address is not None)
            self._reaches = any(self.made_of(address, memory).anything for address in addresses)
        return self._reaches

    def forget(self) -> None:
        """The result was changed: what was looked up in its calls is looked up anew."""
        self._arguments = None

    def arguments(self, site: int) -> dict[str, Value]:
        """What a CUDA call of the function's own is given, whoever calls that; nothing where there is none at `site`."""
        if self._arguments is None:
            self._arguments = {}
            for made in self.result.calls.values():
                for call in made:
                    if not call.chain and call.site not in self._arguments:
                        self._arguments[call.site] = dict(call.arguments)
        return self._arguments.get(site, {})

    def seen(self) -> list[tuple[int, bool, bool]]:
        """The blocks whose CUDA calls a caller sees, each with whether it is in a loop, and whether it can be avoided."""
        if self._seen is None:
            structure = self.structure
            returning = self.returning()
            # A block beside some way to a return can be avoided; only those on it have to be looked at.
            way = self._way(returning)
            # Calls on the way to the end of the program are not seen again by the caller.
            self._seen = [
                (
                    block,
                    structure.innermost(block) is not None,
                    (bool(way) and block not in way) or structure.flow.entry in self.returning(without=block),
                )
                for block in sorted(returning & self.result.calls.keys())
            ]
        return self._seen

    def stored(self, memory: Memory) -> tuple[list[_Stored], list[_Cell]]:
        """What the function stored outside its frame, each address with each value and length once, as most places are stored to often;
        and what certainly stands there at the end."""
        if self._stored is None:
            end, values = self.result.end, memory.values
            assert end is not None
            stores = [
                (store.address, store.value, store.length if store.size is None else values.constant(store.size))
                for store in self.result.stores
                if store.address is not None and not (memory.separate and self._own(store.address, memory))
            ]
            cells = [
                (base, offset, size, value)
                for base, held in sorted(end.cells.items(), key=_by_serial)
                for (offset, size), value in sorted(held.items(), key=_by_place)
                if not end.in_own_frame(values.add(base, offset), size)
            ]
            self._stored = list(dict.fromkeys(stores)), cells
        return self._stored

    def _own(self, address: Value, memory: Memory) -> bool:
        """Whether an address that is chosen in the function lies in what its caller does not know of."""
        base, _ = memory.values.base(address)
        if base not in self._owned:
            self._owned[base] = any(atom.kind == PHI for atom, _ in base.terms) and stays_inside(
                base, self.result, memory
            )
        return self._owned[base]

    def _way(self, returning: set[int]) -> set[int]:
        """The blocks on one way from the entry to a return; none when there is no such way."""
        flow, executed = self.structure.flow, self.result.executed
        before: dict[int, int | None] = {flow.entry: None} if flow.entry in returning else {}
        work = list(before)
        for start in work:  # grows
            block = flow.blocks[start]
            if block.end in LEAVING:
                found: set[int] = set()
                at: int | None = start
                while at is not None:
                    found.add(at)
                    at = before[at]
                return found
            for edge in block.edges:
                if edge.target in returning and edge.target not in before and (start, edge.target) in executed:
                    before[edge.target] = start
                    work.append(edge.target)
        return set()

    def returning(self, without: int | None = None) -> set[int]:
        """The blocks from which the function returns along edges that may run and do not touch the block `without`."""
        flow = self.structure.flow
        found = {start for start, block in flow.blocks.items() if block.end in LEAVING and start != without}
        work = list(found)
        while work:
            target = work.pop()
            for source in self.structure.predecessors[target]:
                runs = (source, target) in self.result.executed
                if runs and source != without and source not in found:
                    found.add(source)
                    work.append(source)
        return found


class Functions:
    """Analyses of a program's functions, made on demand.

    Attributes:
        failed: start of a function -> why it has no analysis.

    Args:
        separate, most: see `Memory`.
    """

    def __init__(
        self, program: Program, budget: Budget | None = None, separate: bool = False, most: int | None = None
    ) -> None:
        self.program = program
        self.values = Values()
        self.memory = Memory(self.values, program.image, budget, separate, most)
        self.memory.passed = kernels.of(program).sizes
        self.cuda = program.cuda
        self.failed: dict[int, str] = {}
        self._known: dict[tuple[int, frozenset[int]], Analysis | None] = {}
        self._computed = Computed(program, self.values, self._returned)
        self._active: list[int] = []
        self._quiet: dict[Callee, bool] = {}
        self._initial = State.at_entry(self.memory).registers
        self._holding: dict[int, int | None] = {}
        self._circles = Circles(self.values, program.circles, self._anew, self._callee)

    def analysis(self, start: int, codes: frozenset[int] = frozenset()) -> Analysis | None:
        """The analysis of a function; None when there is none, and `failed` says why.

        Args:
            codes: the registers in which it is given CUDA's error codes: each set of them is analyzed for itself.
        """
        key = (start, codes)
        if key in self._known:
            return self._known[key]
        if start in self._active or len(self._active) >= MAXIMUM_DEPTH:
            return None
        self._active.append(start)
        try:
            self._known[key] = self._analyze(start, codes)
        except AnalysisError as error:
            self.failed[start] = str(error)
            self._known[key] = None
        finally:
            self._active.pop()
        return self._known[key]

    def holding(self, site: int) -> int | None:
        """The function with an instruction."""
        if site not in self._holding:
            around = self.program.image.function_at(site)
            self._holding[site] = None if around is None else self.program.owner.get(around.start, around.start)
        return self._holding[site]

    def structure(self, start: int) -> Structure:
        """A function's graph; raises AnalysisError where there is none."""
        return build(self.program, start)

    def calling(self, flow: ControlFlow) -> set[int]:
        """The blocks from which CUDA may be called: the engine finds calls in no others."""
        starts = list(flow.blocks)  # in order
        return {
            starts[bisect_right(starts, address) - 1] for address, callee in flow.calls.items() if self._reaches(callee)
        }

    def _reaches(self, callee: Callee) -> bool:
        if callee.address is None:
            return is_cuda(callee.name)
        return self.program.owner.get(callee.address, callee.address) in self.cuda

    def _analyze(self, start: int, codes: frozenset[int]) -> Analysis:
        structure, plain = self.structure(start), build_plain(self.program, start)
        try:
            return self._run(structure, codes)
        except AnalysisError:
            if structure is plain:
                raise
        return self._run(plain, codes)  # copies may be too much where the loops with several entries were not

    def _run(self, structure: Structure, codes: frozenset[int]) -> Analysis:
        wanted = self._wanted(structure)
        return Analysis(
            structure, Engine(structure, self.memory, self.call, self.quiet, self.guessed, codes, wanted).run()
        )

    def _wanted(self, structure: Structure) -> set[int]:
        """The blocks from which a function returns, or comes to a loop with CUDA calls: not what only cleans up before an exception
        goes on, or before the program ends. In a large C++ program that is a quarter of the code.
        """
        flow = structure.flow
        calling = self.calling(flow) if structure.loops else set()
        wanted = {start for start, block in flow.blocks.items() if block.end in LEAVING}
        for loop in structure.loops.values():
            if not loop.blocks.isdisjoint(calling):
                wanted |= loop.blocks
        return structure.leading_to({flow.entry, *wanted})

    def call(self, state: State, callee: Callee, site: int, before: State) -> InnerCalls | None:
        """Applies a call; its CUDA calls, or None (and the state as it was) when it is an unknown function.

        Args:
            before: a copy of the state, which stays as it is.
        """
        if self.memory.separate and (name := self._of_library(callee)):
            library_call(state, name, site)
            return NO_CALLS
        start = None if callee.address is None else self.program.owner.get(callee.address, callee.address)
        if start is not None and start in self._circles:
            return NO_CALLS if self._circles.apply(state, start, self._active[-1], site) else None
        analysis = self._callee(state, callee)
        if analysis is None or (self.memory.separate and self._meet(state, analysis)):
            return None
        return self._apply(state, analysis, site, before)

    def _meet(self, state: State, analysis: Analysis) -> bool:
        """Whether a function stores through one of its arguments where it looks through another one as well: then what it was given lies not apart."""
        base = self.values.base
        for own, written in analysis.stored_through(self.memory).items():
            place, offset = base(state.registers[own.arguments[0]])
            if not place.terms:
                continue
            for other, accessed in analysis.result.used.items():
                if other is own or other is self.values.stack_pointer:
                    continue
                where, at = base(state.registers[other.arguments[0]])
                if where is not place:
                    continue
                if place.stack or written is None or accessed is None:
                    if at == offset or not place.stack:
                        return True
                elif offset + written[0] < at + accessed[1] and at + accessed[0] < offset + written[1]:
                    return True
        return False

    def _anew(self, start: int) -> Analysis:
        """An analysis of a function that calls itself, which holds for what is known of it now."""
        if start in self._active or len(self._active) >= MAXIMUM_DEPTH:
            raise AnalysisError(f"{self.program.ranges[start].name}: calls are nested too deep")
        self._active.append(start)
        try:
            return self._analyze(start, frozenset())
        finally:
            self._active.pop()

    def _of_library(self, callee: Callee) -> str:
        """The name of a function in this file that the library's headers define, as those of strings, and whose effect is known."""
        start = None if callee.address is None else self.program.owner.get(callee.address, callee.address)
        if start is None or start in self.cuda or start not in self.program.ranges:
            return ""
        name = self.program.ranges[start].name
        return name if name.startswith("_Z") and library.effect(name) is not None else ""

    def guessed(self, target: Value, first: Value, compared: Iterable[Value], widens: bool) -> Callee:
        """What a computed call is taken to call: one function, or one of several that do nothing to memory; else UNKNOWN."""
        found = self._computed.callees(target, first, compared, widens)
        return found[0] if len(found) == 1 or (found and all(map(self._touches_nothing, found))) else UNKNOWN

    def _returned(self, start: int) -> list[Value]:
        """What a function may return, as one of some values each of which is known; none when that is not known."""
        analysis = self.analysis(start) if start in self.program.ranges else None
        if analysis is None or analysis.result.end is None:
            return []
        found: dict[Value, None] = {}
        seen, work = set(), [analysis.result.end.registers[RAX]]
        while work:
            value = work.pop()
            if value in seen:
                continue
            seen.add(value)
            if value.kind == PHI:
                work += analysis.result.phis.get(value, {}).values()
            elif value.kind == OPERATION and value.arguments[0] == "choose":
                work += value.arguments[-2:]
            else:
                found[value] = None
        return list(found)

    def _touches_nothing(self, callee: Callee) -> bool:
        if callee.address is None:
            return library.effect(callee.name) == library.NOTHING
        start = self.program.owner.get(callee.address, callee.address)
        analysis = None if start in self.cuda else self.analysis(start)
        return analysis is not None and analysis.result.end is not None and not analysis.result.stores

    def quiet(self, callee: Callee) -> bool:
        """Whether a function of this file, and all that it calls, makes no CUDA calls and calls nothing unknown."""
        if callee.address is None:
            return False
        if callee not in self._quiet:
            self._quiet[callee] = self._makes_known_calls(self.program.owner.get(callee.address, callee.address))
        return self._quiet[callee]

    def _makes_known_calls(self, start: int) -> bool:
        seen, work = {start}, [start]
        while work:
            each = work.pop()
            if each in self.cuda or each not in self.program.callees or self.program.jumps_anywhere(each):
                return False
            for callee in self.program.callees[each]:
                if callee.address is None:
                    if callee.name not in NEVER_RETURNS and library.effect(callee.name) is None:
                        return False
                    continue
                inner = self.program.owner.get(callee.address, callee.address)
                if inner not in seen:
                    seen.add(inner)
                    work.append(inner)
        return True

    def _ends_the_program(self, start: int) -> bool:
        """Whether a function ends the program without more ado, as what compilers call when a destructor throws."""
        callees = self.program.callees.get(start, ())
        return start in self.program.never_returns and all(
            each.name in _ENDS and each.address is None for each in callees
        )

    def called(self, caller: Analysis, site: int) -> Analysis | None:
        """The analysis that was applied at a call instruction which leads to CUDA calls."""
        state, callee = caller.result.sites.get(site), caller.structure.flow.calls.get(site)
        return None if state is None or callee is None else self._callee(state, callee)

    def _callee(self, state: State, callee: Callee) -> Analysis | None:
        start = callee.address
        if start is None:
            return None
        start = self.program.owner.get(start, start)
        if start not in self.program.ranges:
            return None
        size = sum(part.end - part.start for part in self.program.parts(start))
        if start not in self.cuda and size > MAXIMUM_BYTES:
            return None
        return self.analysis(start, frozenset(key for key in CODES if is_code(state.registers[key])))

    def _apply(self, state: State, analysis: Analysis, site: int, before: State) -> InnerCalls:
        values, result = self.values, analysis.result
        memo: dict[Value, Value] = {}
        looking: set[Value] = set()
        asking: set[Value] = set()

        def leaf(atom: Value) -> Value | None:
            if atom.kind == INITIAL:
                if atom is values.stack_pointer:
                    return values.add(before.registers[RSP], -8)
                entry: Value = before.registers[atom.arguments[0]]
                return entry
            if atom.kind == LOAD and all(version.kind == INITIAL for version in atom.arguments[2]):
                return before.read(values.substitute(atom.arguments[0], leaf, memo), atom.arguments[1])
            if atom.kind == OPERATION:
                return None
            made = values.made
            inside = values.atom(INSIDE, site, atom)
            if self.memory.separate and atom.kind in (PHI, LOAD) and atom not in looking:
                looking.add(atom)  # a pointer that is read through itself, as a list is followed
                inner = [each for each in self.memory.objects_of(atom) if each is not self.memory.arrays]
                own = seen_by_caller(inner, before, lambda value: values.substitute(value, leaf, memo))
                if own is not None:
                    self.memory.seen_from_outside(inside, own)
            if atom.kind == PHI and (places := self._places(result.phis.get(atom, {}).values(), before)):
                chosen = places[0]
                for place in places[1:]:
                    chosen = values.atom(OPERATION, "choose", "", inside, chosen, place)
                return chosen
            if atom.kind in (PHI, INSIDE) and atom not in asking:
                asking.add(atom)  # what is loaded by way of itself
                made_of = analysis.made_of(atom, self.memory)
                if made_of.found or made_of.anything:
                    mark(inside, made_of, before, seen, values, made < values.made)
            return inside

        def seen(value: Value) -> Value:
            return memo.get(value) or values.substitute(value, leaf, memo)

        def made() -> list[CudaCall]:
            found = []
            for block, repeated, optional in analysis.seen():
                for call in result.calls[block]:
                    moved = call.seen_from(site, seen, repeated, optional)
                    found.append(resolved(before, moved) if moved.handle or moved.array or moved.references else moved)
            return found

        calls = InnerCalls(bool(analysis.seen()), made)
        end = result.end
        if end is None:
            self.memory.cut = self.memory.cut or result.cut
            if self._ends_the_program(analysis.structure.flow.entry):
                lose_registers(state, site, values.atom(CALL, site, ""))
            else:
                unknown_call(state, site)
            return calls
        unknown = [store for store in result.stores if store.address is None]
        if unknown:
            unknown_memory(state, site, all(store.quiet for store in unknown))
        self._store(state, analysis, site, before, leaf, memo)
        self.memory.cut = self.memory.cut or result.cut
        # The compiler knows which registers a function of the same file leaves alone, and may rely on it.
        if analysis.untouched is None:
            analysis.untouched = [key for key in _MAY_BE_LOST if end.registers[key] is self._initial[key]]
        after = {}
        for key in _RESULTS:
            value = end.registers[key]
            after[key] = value if value.lost else seen(value)
        lose_registers(state, site, after[RAX])
        for key in analysis.untouched:
            state.registers[key] = before.registers[key]
        for key, value in after.items():
            state.registers[key] = value
        return calls

    def _places(self, chosen: Iterable[Value], before: State) -> list[Value]:
        """What one of several values of a called function is for its caller, when each is a place of the caller's frame that it was given."""
        found: dict[Value, None] = {}
        for value in chosen:
            if len(value.terms) != 1 or value.terms[0][1] != 1 or value.terms[0][0].kind != INITIAL:
                return []
            given: Value = before.registers[value.terms[0][0].arguments[0]]
            own = value.terms[0][0] is self.values.stack_pointer
            if own or self.values.base(given)[0] is not self.values.stack_pointer:
                return []
            found[self.values.add(given, value.signed)] = None
        return list(found) if len(found) <= MAXIMUM_PLACES else []

    def _store(
        self,
        state: State,
        analysis: Analysis,
        site: int,
        before: State,
        leaf: Callable[[Value], Value | None],
        memo: dict[Value, Value],
    ) -> None:
        """What a callee stored outside its frame.

        On a single path the stores are repeated in their order, which is right even if two of its addresses are the
        same place. Otherwise each place that it may have stored to becomes unknown, and then what certainly stands there
        at the end is put in.
        """
        values = self.values
        if not self.memory.separate and analysis.stores_anywhere(self.memory):
            low = reachable(before, values)
            if low is not None:
                state.frame_changed(low, site)
        if analysis.result.straight:
            self._repeat(state, analysis.result, site, leaf, memo)
            return
        places: dict[tuple[Value, Value | None], None] = {}
        escaping: dict[Value, None] = {}
        stores, cells = analysis.stored(self.memory)
        for address, value, length in stores:
            where = values.substitute(address, leaf, memo)
            places[where, None if length is None else values.substitute(length, leaf, memo)] = None
            if value is not None:
                stored = values.substitute(value, leaf, memo)
                if stored.stack and values.base(where)[0] is not values.stack_pointer:
                    escaping[stored] = None
        kept = []
        for base, offset, size, value in cells:
            where = values.add(values.substitute(base, leaf, memo), offset)
            kept.append((where, size, values.substitute(value, leaf, memo)))
        for value in escaping:
            state.escape(value)
        known = {(where, size) for where, size, _ in kept}
        for where, length in places:
            if length is None or not length.is_constant or (where, length.constant) not in known:
                state.write_range(where, length, site)
        for where, size, value in kept:
            state.write(where, size, value, site)

    def _repeat(
        self, state: State, result: Result, site: int, leaf: Callable[[Value], Value | None], memo: dict[Value, Value]
    ) -> None:
        """What a callee stored on its single path."""
        values = self.values
        stores = []
        for store in result.stores:
            if store.address is not None:
                value = None if store.value is None else values.substitute(store.value, leaf, memo)
                length = store.length if store.size is None else values.constant(store.size)
                length = None if length is None else values.substitute(length, leaf, memo)
                stores.append((values.substitute(store.address, leaf, memo), length, value))
        for address, length, value in stores:
            count = length.constant if length is not None and length.is_constant else None
            if value is not None and count in (1, 2, 4, 8):
                state.write(address, count, value, site)
                continue
            if value is not None and value.stack and values.base(address)[0] is not values.stack_pointer:
                state.escape(value)
            state.write_range(address, length, site)


def _by_place(item: tuple[tuple[int, int], Value]) -> tuple[int, int]:
    return item[0]


def _by_serial(item: tuple[Value, object]) -> int:
    return item[0].serial


def seen_by_caller(objects: Iterable[Value], before: State, translated: Callable[[Value], Value]) -> list[Value] | None:
    """The objects of a called function, as its caller sees them: one of those that it was given, or that pointers at some places point
    into, now or when the function was called. None: the function knows of none; empty: the caller does not know what it gave.

    Args:
        before: the caller's state at the call.
        translated: what a value of the function is for the caller.
    """
    memory, base = before.memory, before.memory.values.base
    found: list[Value] = []
    for each in objects:
        if each.kind == INITIAL:
            given: Value = before.registers[each.arguments[0]]
        elif each.kind == LOAD:
            place = translated(each.arguments[0])
            found.append(memory.pointer_at(place))
            given = before.read(place, 8)
        else:
            return None
        theirs = memory.objects_of(base(given)[0]) if given.terms else ()
        if not theirs and each.kind == INITIAL:
            return []
        found += theirs
    return found or None
