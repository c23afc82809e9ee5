"""CUDA calls in called functions, judged there: on what their arguments and the branches around them depend, seen from
a loop that calls the function.

A called function is looked at as if all of it were one iteration of a loop: what varies in it are the variables of its
own loops, and what it is given is judged by the caller, at the call. So a call in a loop of a called function is known
when the loop around is entered if all branches on its way ask for such values.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from farlane.analyzer.externals import interface
from farlane.analyzer.flow.applying import seen_by_caller
from farlane.analyzer.flow.call import CudaCall
from farlane.analyzer.flow.function import Analysis
from farlane.analyzer.flow.result import END
from farlane.analyzer.flow.summary import Functions
from farlane.analyzer.graph.control_flow import LEAVING
from farlane.analyzer.graph.program import Program
from farlane.analyzer.graph.structure import Loop, Structure
from farlane.analyzer.loops.dependence.deciding import Deciding
from farlane.analyzer.loops.dependence.judging import LoopValues
from farlane.analyzer.loops.dependence.scope import INVARIANT, Dependence, Scope
from farlane.analyzer.loops.model import Kind
from farlane.analyzer.loops.shape.body import Body
from farlane.analyzer.machine.instruction import RSP
from farlane.analyzer.values.cells import GIVEN_STORES, GLOBAL_RANGES, MEMORY, OTHER_STORES, STACK_RANGES, STACK_STORES
from farlane.analyzer.values.expression import INITIAL, INSIDE, LOAD, PHI, Value, Values
from farlane.analyzer.values.parts import leaves
from farlane.analyzer.values.state import State

MAXIMUM_DEPTH = 6  # calls within calls
MAXIMUM_LEVELS = 60  # called functions looked at for one loop
MAXIMUM_RETURNS = 200  # values of called functions looked at for one loop
_VERSIONS = (MEMORY, STACK_STORES, STACK_RANGES, OTHER_STORES, GLOBAL_RANGES, GIVEN_STORES)


class _Whole(Structure):
    """A function's graph in which all blocks stand in a loop: the function itself."""

    def __init__(self, structure: Structure) -> None:
        self.flow, self.order, self.predecessors, self.loops = (
            structure.flow,
            structure.order,
            structure.predecessors,
            structure.loops,
        )
        self._whole = structure
        returns = tuple(sorted(b.start for b in self.flow.blocks.values() if b.end in LEAVING))
        self.loop = Loop(self.flow.entry, frozenset(self.flow.blocks), returns, (), (), None, 0, False)

    def dominates(self, first: int, second: int) -> bool:
        return self._whole.dominates(first, second)

    def immediate_dominator(self, block: int) -> int | None:
        return self._whole.immediate_dominator(block)

    def innermost(self, block: int) -> Loop | None:
        return self._whole.innermost(block) or self.loop


class _Given(LoopValues):
    """Judges values of a called function. What it was given is judged by its caller's judge, where it was called.

    Attributes:
        asked: what the caller's judge said so far.
    """

    def __init__(self, scope: Scope, before: State, outer: LoopValues, at: int) -> None:
        super().__init__(scope)
        self._before, self._outer, self._at, self._numbers = before, outer, at, scope.values
        self._translated: dict[Value, Value] = {}
        self.asked = INVARIANT

    def _by_caller(self, said: Dependence) -> Dependence:
        self.asked = self.asked.joined(said)
        return said

    def _before_call(self, address: Value, size: int) -> Dependence:
        """What the caller says of what stood at an address of its own."""
        return self._by_caller(self._outer.of(self._before.read(address, size), self._at))

    def _phi(self, phi: Value, block: int) -> Dependence:
        if phi.arguments[1] != END:
            return super()._phi(phi, block)
        found = self._all(self._result.phis.get(phi, {}).values(), block)
        blocks = self._structure.flow.blocks
        for each, flags in self._result.tests.items():  # which return it was, all branches tell
            if sum((each, edge.target) in self._result.executed for edge in blocks[each].edges) > 1:
                found = found.joined(self.of(flags, each))
        return found

    def _atom(self, atom: Value, block: int) -> Dependence:
        if atom.kind == INITIAL:
            if atom is self._numbers.stack_pointer:
                return INVARIANT
            return self._by_caller(self._outer.of(self._before.registers[atom.arguments[0]], self._at))
        if atom.kind == LOAD and all(version.kind == INITIAL for version in atom.arguments[2]):
            return self._given_memory(atom, block)
        return super()._atom(atom, block)

    def _given_memory(self, load: Value, block: int) -> Dependence:
        """What is read of memory that was not changed since the function was called."""
        address, size, _ = load.arguments
        if self._foreign(address):
            return self._before_call(self._numbers.substitute(address, self._leaf, self._translated), size)
        found = self._load(load, block)  # the address varies in the function
        objects = self._objects(address)
        versions = (
            [self._before.registers[key] for key in _VERSIONS]
            if objects is None
            else [self._before.registers[MEMORY], *map(self._before.version_of, objects)]
        )
        for version in versions:
            if not version.is_constant:
                found = found.joined(self._by_caller(self._outer.changed(version, self._at)))
        return found

    def _untouched_global(self, load: Value, block: int) -> bool:
        if not super()._untouched_global(load, block):
            return False
        address, size, _ = load.arguments
        if not address.is_constant:
            return False
        return not self._before_call(address, size).kinds

    def _filled(self, load: Value, block: int) -> Dependence | None:
        found, (address, size, _) = super()._filled(load, block), load.arguments
        if found is None or not address.is_constant:
            return found
        before = self._before_call(address, size)
        return None if Kind.UNKNOWN in before.kinds else found.joined(before)

    def _objects(self, address: Value) -> list[Value] | None:
        """The objects of their own into which an address of the function points, as its caller sees them; None: they
        are not known."""
        memory, values = self._before.memory, self._numbers
        own = memory.objects_of(values.base(address)[0]) if memory.separate else ()
        return (
            seen_by_caller(own, self._before, lambda value: values.substitute(value, self._leaf, self._translated))
            or None
        )

    def _foreign(self, value: Value) -> bool:
        """Whether a value is made of nothing but what the function was given."""
        work, seen = [value], {value}
        while work:
            for atom in leaves(work.pop()):
                if atom.kind == LOAD and all(version.kind == INITIAL for version in atom.arguments[2]):
                    if atom.arguments[0] not in seen:
                        seen.add(atom.arguments[0])
                        work.append(atom.arguments[0])
                elif atom.kind != INITIAL:
                    return False
        return True

    def _leaf(self, atom: Value) -> Value | None:
        if atom.kind == INITIAL:
            if atom is self._numbers.stack_pointer:
                return self._numbers.add(self._before.registers[RSP], -8)
            given: Value = self._before.registers[atom.arguments[0]]
            return given
        if atom.kind == LOAD:
            address = self._numbers.substitute(atom.arguments[0], self._leaf, self._translated)
            return self._before.read(address, atom.arguments[1])
        return None


class Level(NamedTuple):
    """A called function as a loop sees it through one call."""

    analysis: Analysis
    judge: LoopValues
    deciding: Deciding


class Wholes:
    """What is known of called functions by themselves, whichever way they are called."""

    def __init__(self, program: Program) -> None:
        self._known: dict[Analysis, tuple[Scope, Body] | None] = {}
        self.managed = program.image.imports("__cudaRegisterManagedVar")

    def forget(self, analysis: Analysis) -> None:
        """Its result was changed."""
        self._known.pop(analysis, None)

    def of(self, analysis: Analysis, values: Values) -> tuple[Scope, Body] | None:
        """The function as a loop; None where it cannot be looked at as one."""
        if analysis not in self._known:
            self._known[analysis] = self._made(analysis, values)
        return self._known[analysis]

    def _made(self, analysis: Analysis, values: Values) -> tuple[Scope, Body] | None:
        structure = analysis.structure
        if any(loop.irreducible or loop.header == structure.flow.entry for loop in structure.loops.values()):
            return None
        whole = _Whole(structure)
        body = Body(analysis, whole.loop)
        body.latches = set(whole.loop.latches)
        return Scope(whole, analysis.result, values, whole.loop, body, self.managed), body


class Called:
    """Answers for one loop."""

    def __init__(self, functions: Functions, wholes: Wholes, analysis: Analysis, judge: LoopValues) -> None:
        self._functions, self._wholes = functions, wholes
        self._own = analysis, judge
        self._levels: dict[tuple[int, tuple[int, ...]], Level | None] = {}
        self._returns = 0
        judge.returned = lambda atom, block: self._returned(analysis, judge, atom, block, 1)

    def _returned(self, caller: Analysis, judge: LoopValues, atom: Value, at: int, depth: int) -> Dependence | None:
        """On what a value depends that a called function computed, its loops and branches included; None when it is not
        known."""
        site, value = atom.arguments
        if not _chosen(value):
            return None
        analysis, before = self._functions.called(caller, site), caller.result.sites.get(site)
        if analysis is None or before is None or depth > MAXIMUM_DEPTH or self._returns >= MAXIMUM_RETURNS:
            return None
        self._returns += 1
        whole = self._wholes.of(analysis, self._functions.values)
        if whole is None or not whole[0].loop.latches:  # it never returns
            return None
        scope, _ = whole
        given = _Given(scope, before, judge, at)
        given.returned = lambda inner, block: self._returned(analysis, given, inner, block, depth + 1)
        kinds = given.of(value, scope.loop.latches[0]).kinds
        if Kind.UNKNOWN in kinds:
            return None
        # The function's own variables are gone; what varies is what it was given, and what CUDA gave it.
        varies = {Kind.INDUCTION} if given.asked.kinds else set()
        return given.asked.joined(Dependence(kinds & {Kind.RESULT} | varies))

    def known(self, call: CudaCall, block: int) -> bool:
        """Whether it is known, as far as the called functions decide, in which iterations a call runs and how often."""
        for depth in range(1, len(call.chain) + 1):
            level = self._level(block, call.chain[:depth])
            if level is None:
                return False
            inside = self._block(level, call, depth)
            if inside is None or not level.deciding.known(inside):
                return False
        return True

    def arguments(self, call: CudaCall, block: int) -> dict[str, Dependence]:
        """A call's arguments, judged in the function that makes it; those that are not known there are left out."""
        level = self._level(block, call.chain)
        inside = None if level is None else self._block(level, call, len(call.chain))
        if level is None or inside is None:
            return {}
        for each in level.analysis.result.calls.get(inside, ()):
            if each.site == call.site and not each.chain:
                for name, value in each.arguments:
                    if is_handle(each.name, name):
                        level.judge.handle(value)
                return {name: level.judge.of(value, inside) for name, value in each.arguments}
        return {}

    def _block(self, level: Level, call: CudaCall, depth: int) -> int | None:
        """The block of a called function with the next call on the way, or with the CUDA call itself."""
        way = call.launch or (*call.chain, call.site)  # a launch is made elsewhere than its push
        block = level.analysis.structure.flow.holding(way[depth]) if depth < len(way) else None
        return None if block is None else block.start

    def _level(self, block: int, chain: tuple[int, ...]) -> Level | None:
        key = (block, chain)
        if key not in self._levels:
            allowed = 0 < len(chain) <= MAXIMUM_DEPTH and len(self._levels) < MAXIMUM_LEVELS
            self._levels[key] = self._made(block, chain) if allowed else None
        return self._levels[key]

    def _made(self, block: int, chain: tuple[int, ...]) -> Level | None:
        *outer, site = chain
        caller, judge = self._own
        at: int | None = block
        if outer:
            around = self._level(block, tuple(outer))
            if around is None:
                return None
            caller, judge = around.analysis, around.judge
            holding = caller.structure.flow.holding(site)
            at = None if holding is None else holding.start
        analysis = self._functions.called(caller, site)
        before = caller.result.sites.get(site)
        if analysis is None or before is None or at is None:
            return None
        whole = self._wholes.of(analysis, self._functions.values)
        if whole is None:
            return None
        scope, body = whole
        given = _Given(scope, before, judge, at)
        given.returned = lambda inner, within: self._returned(analysis, given, inner, within, len(chain) + 1)
        return Level(analysis, given, Deciding(analysis.result, scope.loop, body, given))


def _chosen(value: Value) -> bool:
    """Whether a value that a function computed is one of several, by its branches or loops; what else arises there is
    told by its kind."""
    while value.kind == INSIDE:
        value = value.arguments[1]
    return value.kind == PHI


def arises(value: Value, site: int) -> bool:
    """Whether a part of a value arises in the function that a call instruction calls."""
    work, seen = [value], {value}
    while work:
        for atom in leaves(work.pop()):
            if atom.kind == INSIDE and atom.arguments[0] == site:
                return True
            if atom.kind == LOAD and atom.arguments[0] not in seen:
                seen.add(atom.arguments[0])
                work.append(atom.arguments[0])
    return False


@cache
def is_handle(call: str, argument: str) -> bool:
    """Whether an argument is a handle or a device's address, and no number or a kernel's parameter."""
    if call == interface.LAUNCH:
        return argument in ("stream", "function")
    roles, (what, _, index) = (interface.roles(call) or "").split(), argument.partition(" ")
    if what != "argument" or int(index) >= len(roles):
        return False
    return roles[int(index)] == "v" and int(index) not in interface.NUMBERS.get(call, ())
