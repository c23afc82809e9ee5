"""What holds where control flow meets: the merge of states, with a phi where their values differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from operator import is_not
from typing import cast

from farlane.analyzer.flow.result import PhiInputs
from farlane.analyzer.graph.structure import Loop, Structure
from farlane.analyzer.values.cells import KEYS
from farlane.analyzer.values.expression import INITIAL, LOAD, OPERATION, PHI, Value, lowest
from farlane.analyzer.values.memory import Memory
from farlane.analyzer.values.state import State

Held = dict[tuple[int, int], Value]  # a base's cells
_NO_PLACES: frozenset[int] = frozenset()
_NO_CELLS: frozenset[Value] = frozenset()
_NO_HELD: Held = {}


def _alike(first: Held, second: Held | None) -> bool:
    """Whether the same is known of memory at a base; mostly it is the same object, as copies of states share it."""
    return first is second or first == second


def _differing(held: Sequence[Held]) -> Iterable[tuple[int, int]]:
    """The places of which not the same is known in all states, in the order of the first one that knows of them."""
    first = held[0]
    if len(held) == 2:
        other = held[1]
        found = list(compress(first, map(is_not, first.values(), map(other.get, first))))
        return found + [key for key in other if key not in first] if len(other) + len(found) > len(first) else found
    gone = {key for other in held[1:] for key, value in first.items() if other.get(key) is not value}
    found = [key for key in first if key in gone]
    return [*found, *dict.fromkeys(key for other in held[1:] for key in other if key not in first)]


class Merging:
    """Merges the states before the blocks of one function.

    Args:
        structure: the function's graph.
        memory: what all functions of the program share.
        entry: the state at the function's entry.
    """

    def __init__(self, structure: Structure, memory: Memory, entry: State) -> None:
        self._structure, self._memory, self._flow, self._entry = structure, memory, structure.flow, entry
        self._doubted = True  # nothing is known yet
        self._epoch = 0  # changes with what is known of a phi that exists already
        # Where phis stand: (block, place); the same by block, for registers and for bases of cells.
        self._phis: set[tuple[object, ...]] = set()
        self._places: dict[int, set[int]] = {}
        self._cells_met: dict[int, set[Value]] = {}
        # For a loop's header: whether a value arises in the loop; the addresses of the loop's instructions.
        self._tangled = any(loop.irreducible for loop in structure.loops.values())
        self._varying: dict[int, dict[Value, bool]] = {}
        self._sites: dict[int, set[int]] = {}
        self._pointing: dict[Value, None] = {}  # phis that point into allocations
        self._made: dict[tuple[object, ...], Value] = {}  # phis by block and place

    def _merged(self, block: int, incoming: dict[int, State], record: PhiInputs | None = None) -> State:
        states = dict(sorted(incoming.items())) if len(incoming) > 1 else dict(incoming)
        states = self._still_there(block, states)
        if block == self._flow.entry:
            states[0] = self._entry
        if len(states) == 1 and block not in self._structure.loops:
            return next(iter(states.values()))
        merged = State(self._memory)
        merged.registers = self._merged_registers(block, states, record)
        escaped = [state.escaped for state in states.values() if state.escaped is not None]
        merged.escaped = min(escaped, default=None)
        self._merge_cells(merged, block, states, record)
        every = list(states.values())
        if every[0].limits:
            merged.limits = {
                phi: max(state.limits[phi] for state in every)
                for phi, limit in every[0].limits.items()
                if all(phi in state.limits and state.limits[phi][1] == limit[1] for state in every)
            }
        for own in dict.fromkeys([own for state in every for own in state.objects]):
            versions = {source: state.version_of(own) for source, state in states.items()}
            merged.objects[own] = self._meet(block, ("object", own), versions, record)
        for base in dict.fromkeys([base for state in every for base in state.kept]):
            pairs = {source: state.versions_at(base) for source, state in states.items()}
            first, second = (
                self._meet(
                    block, ("kept", (base, index)), {source: pair[index] for source, pair in pairs.items()}, record
                )
                for index in (0, 1)
            )
            merged.kept[base] = (first, second)
        return merged

    def _still_there(self, block: int, states: dict[int, State]) -> dict[int, State]:
        """The states without what is known of memory at addresses that mean others when a loop's head is reached
        again."""
        loop = self._structure.loops.get(block)
        if loop is None:
            inner = self._structure.innermost(block) if self._tangled and len(states) > 1 else None
            if inner is None or not inner.irreducible:
                return states
            loop = inner
        found = {}
        for source, state in states.items():
            if source in loop.blocks and len(state.cells) > 1:
                gone = {base for base in state.cells if base.terms and self._changes(base, loop)}
                state = state.without(gone) if gone else state
            found[source] = state
        return found

    def _changes(self, value: Value, loop: Loop) -> bool:
        """Whether a value arises in a loop, and so is another in each iteration."""
        known = self._varying.setdefault(loop.header, {})
        if value not in known:
            known[value] = any(self._atom_changes(atom, loop) for atom, _ in value.terms)
        return known[value]

    def _atom_changes(self, atom: Value, loop: Loop) -> bool:
        arguments = atom.arguments
        if atom.kind == INITIAL:
            return False
        if atom.kind == PHI:
            return arguments[1] in loop.blocks
        if atom.kind in (OPERATION, LOAD):
            inner = arguments[1:] if atom.kind == OPERATION else (arguments[0], *arguments[2])
            return any(self._changes(each, loop) for each in inner if isinstance(each, Value))
        site = arguments[0]
        if not isinstance(site, int) or site < 0:
            return True
        if loop.header not in self._sites:
            blocks = self._flow.blocks
            self._sites[loop.header] = {i.address for block in loop.blocks for i in blocks[block].instructions}
        return site in self._sites[loop.header]

    def _merged_registers(self, block: int, states: dict[int, State], record: PhiInputs | None) -> list[Value]:
        every = [state.registers for state in states.values()]
        registers = every[0].copy()
        places = self._places.get(block, _NO_PLACES)
        differing: set[int] = set()
        for other in every[1:]:
            differing.update(compress(KEYS, map(is_not, registers, other)))
        for key in sorted(differing | places) if places else sorted(differing):
            values = [held[key] for held in every]
            if key not in places and any(value.lost for value in values):
                registers[key] = self._memory.lost[key]
            else:
                registers[key] = self._meet(block, key, dict(zip(states, values, strict=True)), record)
        return registers

    def _merge_cells(self, merged: State, block: int, states: dict[int, State], record: PhiInputs | None) -> None:
        values = self._memory.values
        every, sources = list(states.values()), list(states)
        met, phis, frame = self._cells_met.get(block, _NO_CELLS), self._phis, values.stack_pointer
        for base in dict.fromkeys([base for state in every for base in state.cells]):
            first = every[0].cells.get(base)
            if (
                base not in met
                and first is not None
                and all(_alike(first, state.cells.get(base)) for state in every[1:])
            ):
                if every[0].own is not None:
                    every[0].own.discard(base)
                merged.cells[base] = first
                continue
            held = [state.cells.get(base, _NO_HELD) for state in every]
            mine = merged.cells[base] = held[0].copy()
            merged.make_own(base)
            for key in _differing(held) if base not in met else dict.fromkeys(key for cells in held for key in cells):
                found = [cells.get(key) for cells in held]
                value, place = found[0], (base, *key)
                if value is not None and found.count(value) == len(found) and (block, place) not in phis:
                    continue
                inputs = dict(zip(sources, found, strict=True))
                if None in found:
                    where, size = values.add(base, key[0]), key[1]
                    for source, state in states.items():
                        if inputs[source] is None:
                            inputs[source] = state.read_frame(where, key) if base is frame else state.read(where, size)
                mine[key] = self._meet(block, place, cast("dict[int, Value]", inputs), record)

    def _meet(self, block: int, key: object, values: dict[int, Value], record: PhiInputs | None) -> Value:
        place = (block, key)
        differing = set(values.values())  # values are equal when they are the same
        standing = place in self._phis
        if len(differing) == 1 and not standing:
            return differing.pop()
        phi, new = self._made.get(place), False
        if phi is None:
            made = self._memory.values.made
            phi = self._made[place] = self._memory.values.atom(PHI, self._flow.entry, block, key)
            new = made != self._memory.values.made
        others = [value for value in values.values() if value is not phi]
        if not standing:
            if len(differing) == 2 and phi in differing:
                return others[0]
            self._phis.add(place)
            if isinstance(key, int):
                self._places.setdefault(block, set()).add(key)
            elif isinstance(key, tuple) and len(key) == 3:
                self._cells_met.setdefault(block, set()).add(key[0])
        for value in others:
            if value.stack:
                if self._mark_address(phi, others) and not new:
                    self._epoch += 1
                break
        if phi.allocations != ():
            if self._memory.mark_allocations(phi, others, new):
                self._doubted = True
            if phi.allocations:
                self._pointing[phi] = None
        if record is not None:
            record[phi] = values
        return phi

    def _mark_address(self, phi: Value, inputs: list[Value]) -> bool:
        """A phi may be an address of the frame, as one of its inputs is one; in steps of its own it may only count up.

        Returns whether that was not known of it.
        """
        held = [value for value in inputs if value.stack]
        steady = [value for value in held if not any(atom is phi for atom, _ in value.terms)]
        upward = all(value.signed >= 0 for value in held if value not in steady)
        low = lowest(steady) if upward and steady else None
        if not phi.stack:
            phi.stack, phi.low = True, low
        elif phi.low is not None and (low is None or low < phi.low):
            phi.low = low
        else:
            return False
        return True
