"""Functions that call themselves, directly or through each other: what a call of one may change, by a bounded fixed
point.

The summary of any other function repeats its stores one by one; here that would never end, as each depth stores at
addresses of its own. What the analysis says instead is through which of the pointers that the function is given, or finds in
memory at its entry, it may store at all. It is found for all functions of a circle of calls together: at first none of
them is taken to store anything, then each is analyzed with what is known of the others, until nothing is added. What
holds then for a call if it holds for the calls inside holds at every depth.

Only circles that make no CUDA calls are followed. A store through any other pointer, or a call of an unknown function,
makes all functions of the circle unknown ones; so do circles of many functions, or that take many rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from farlane.analyzer.flow.effects import given_away, lose_registers
from farlane.analyzer.flow.result import Result
from farlane.analyzer.graph.program import Callee
from farlane.analyzer.graph.structure import Structure
from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.machine.instruction import RSP
from farlane.analyzer.values.expression import CALL, INITIAL, INSIDE, LOAD, OPERATION, PHI, POINTERS, Value, Values
from farlane.analyzer.values.memory import allocated
from farlane.analyzer.values.state import State

MAXIMUM_MEMBERS = 8  # of a circle
MAXIMUM_ROUNDS = 5
MAXIMUM_POINTERS = 16  # through which one function stores


class Touched(NamedTuple):
    """What a call of a function may change.

    Attributes:
        pointers: the values, as they are at the function's entry, through which it may store any number of bytes, there
            or beside.
        cut: as in `engine.Result`.
    """

    pointers: frozenset[Value] = frozenset()
    cut: bool = False


class Analyzed(Protocol):
    """An analysis of a function."""

    structure: Structure
    result: Result


class Circles:
    """The functions of a program that call themselves.

    Args:
        circles: function -> the functions that it calls and that call it, itself included; for those that call
            themselves.
        analyze: analyzes a function anew. Raises AnalysisError where there is no analysis.
        called: the analysis that is applied where a state comes to a call; None: it is an unknown function.
    """

    def __init__(
        self,
        values: Values,
        circles: Mapping[int, Sequence[int]],
        analyze: Callable[[int], Analyzed],
        called: Callable[[State, Callee], Analyzed | None],
    ) -> None:
        self._values, self._circles, self._analyze, self._called = values, circles, analyze, called
        self._known: dict[int, Touched | None] = {}
        self._settling: list[Sequence[int]] = []  # the circles that are being analyzed, the last one now

    def __contains__(self, start: int) -> bool:
        return start in self._circles

    def apply(self, state: State, start: int, caller: int, site: int) -> bool:
        """Applies a call of such a function, made in the function `caller`; False, and the state as it was: it is an
        unknown function."""
        touched = self._touched(start, caller)
        if touched is None:
            return False
        before = state.copy()
        given_away(state)
        for pointer in sorted(touched.pointers, key=_by_serial):
            value = entered(self._values, before, pointer)
            if value.stack:  # anywhere in the frame: the function may go downward from there
                value = self._values.atom(INSIDE, site, pointer)
                value.stack = True
                state.escape(value)
            state.write_range(value, None, site)
        state.memory.cut = state.memory.cut or touched.cut
        lose_registers(state, site, self._values.atom(CALL, site, ""))
        return True

    def _touched(self, start: int, caller: int) -> Touched | None:
        circle = self._circles[start]
        if any(circle is each for each in self._settling):
            # What is known so far is for the circle's own functions; others would keep what they made of it.
            return self._known[start] if circle is self._settling[-1] and caller in circle else None
        if start not in self._known:
            self._converge(circle)
        return self._known[start]

    def _converge(self, circle: Sequence[int]) -> None:
        self._known.update(dict.fromkeys(circle, Touched() if len(circle) <= MAXIMUM_MEMBERS else None))
        if len(circle) > MAXIMUM_MEMBERS:
            return
        self._settling.append(circle)
        try:
            for _ in range(MAXIMUM_ROUNDS):
                found = {start: self._found(start) for start in circle}
                if None in found.values():
                    break
                if all(found[start] == self._known[start] for start in circle):
                    return
                self._known.update(found)
        except AnalysisError:
            pass  # unknown functions
        finally:
            self._settling.pop()
        self._known.update(dict.fromkeys(circle))

    def _found(self, start: int) -> Touched | None:
        """What a function touches, if the circle's functions touch what is known of them now."""
        analysis, known = self._analyze(start), self._known[start]
        if analysis.result.end is None or known is None:
            return None
        pointers = set(known.pointers)
        for store in analysis.result.stores:
            origins = None if store.address is None else self._origins(analysis, store.address)
            if origins is None:
                return None
            pointers |= origins
        if len(pointers) > MAXIMUM_POINTERS:
            return None
        return Touched(frozenset(pointers), known.cut or analysis.result.cut)

    def _origins(self, analysis: Analyzed, address: Value) -> set[Value] | None:
        """The values at a function's entry of which an address may be made; None: it may be made of others.

        The function's own frame and what it allocated belong to it alone, so they are none of them.
        """
        found: set[Value] = set()
        seen: set[Value] = set()
        work = [address]
        while work:
            value = work.pop()
            if value in seen:
                continue
            seen.add(value)
            whole = [atom for atom, factor in value.terms if factor == 1]
            if not whole:
                found.add(self._values.zero)  # a variable of the program, at an index or not
            for atom in whole:
                if allocated(atom) or atom is self._values.stack_pointer:
                    continue
                if self._at_entry(atom):
                    found.add(atom)
                    continue
                parts = self._made_of(analysis, atom)
                if parts is None:
                    return None
                work += parts
        return found

    def _at_entry(self, atom: Value) -> bool:
        """Whether an atom is what a register or memory held when the function was entered, at an address of which that
        holds as well."""
        if atom.kind != LOAD:
            return atom.kind == INITIAL
        address, _, versions = atom.arguments
        kept = all(version.kind == INITIAL for version in versions)
        return kept and all(self._at_entry(each) for each, _ in address.terms)

    def _made_of(self, analysis: Analyzed, atom: Value) -> Iterable[Value] | None:
        """The values of which an address is made that is not the function's entry's; None: not known."""
        if atom.kind == PHI:
            inputs = analysis.result.phis.get(atom)
            return None if inputs is None else [each for each in inputs.values() if each is not self._values.zero]
        if atom.kind == OPERATION and atom.arguments[0] in POINTERS:
            return [each for each in atom.arguments[1:] if isinstance(each, Value) and each.terms]
        if atom.kind != INSIDE:
            return None
        site, inner = atom.arguments
        before, callee = analysis.result.before.get(site), analysis.structure.flow.calls.get(site)
        if before is None or callee is None:
            return None
        origins: Iterable[Value] | None = [inner]
        if not atom.stack or not self._at_entry(inner):
            called = self._called(before, callee)
            origins = None if called is None else self._origins(called, inner)
        return None if origins is None else [entered(self._values, before, each) for each in origins]


def entered(values: Values, before: State, value: Value) -> Value:
    """A value at a function's entry, as its caller sees it in the state before the call."""

    def leaf(atom: Value) -> Value | None:
        if atom is values.stack_pointer:
            return values.add(before.registers[RSP], -8)
        if atom.kind == INITIAL:
            register: Value = before.registers[atom.arguments[0]]
            return register
        if atom.kind == LOAD:
            return before.read(values.substitute(atom.arguments[0], leaf, {}), atom.arguments[1])
        return None

    return values.substitute(value, leaf, {})


def _by_serial(value: Value) -> int:
    return value.serial
