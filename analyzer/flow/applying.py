"""What a call of one of the program's own functions does to its caller's state.

The values at the function's entry are replaced by the caller's. Values that arise inside the function stay distinct for
every call (INSIDE).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from farlane.analyzer.flow.call import CudaCall
from farlane.analyzer.flow.effects import lose_registers, unknown_call, unknown_memory
from farlane.analyzer.flow.function import Analysis
from farlane.analyzer.flow.given import mark, reachable
from farlane.analyzer.flow.launches import resolved
from farlane.analyzer.flow.result import InnerCalls, Result
from farlane.analyzer.graph.program import Program
from farlane.analyzer.machine.instruction import CALLER_SAVED, RAX, RDX, RSP, XMM0
from farlane.analyzer.values.cells import CONFIGURATION, PUSHED
from farlane.analyzer.values.expression import CALL, INITIAL, INSIDE, LOAD, OPERATION, PHI, Value
from farlane.analyzer.values.memory import Memory
from farlane.analyzer.values.state import State

_ENDS = frozenset({"_ZSt9terminatev", "__cxa_begin_catch", "abort", "exit", "_exit", "__assert_fail"})
_MAY_BE_LOST = (*CALLER_SAVED, *range(XMM0, XMM0 + 32))
_RESULTS = (RAX, RDX, XMM0, XMM0 + 2, *range(CONFIGURATION, PUSHED + 1))
MAXIMUM_PLACES = 4  # of the caller's frame, one of which a called function returns


class Applying:
    """Applies analyses of functions at their calls.

    Args:
        memory: what all functions of the program share.
    """

    def __init__(self, program: Program, memory: Memory) -> None:
        self.program, self.values, self.memory = program, memory.values, memory
        self._initial = State.at_entry(memory).registers

    def _ends_the_program(self, start: int) -> bool:
        """Whether a function ends the program without more ado, as what compilers call when a destructor throws."""
        callees = self.program.callees.get(start, ())
        return start in self.program.never_returns and all(
            each.name in _ENDS and each.address is None for each in callees
        )

    def apply(self, state: State, analysis: Analysis, site: int, before: State) -> InnerCalls:
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
        """What one of several values of a called function is for its caller, when each is a place of the caller's frame
        that it was given."""
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
        same place. Otherwise each place that it may have stored to becomes unknown, and then what certainly stands
        there at the end is put in.
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


def seen_by_caller(objects: Iterable[Value], before: State, translated: Callable[[Value], Value]) -> list[Value] | None:
    """The objects of a called function, as its caller sees them: one of those that it was given, or that pointers at
    some places point into, now or when the function was called. None: the function knows of none; empty: the caller
    does not know what it gave.

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
