"""Calls of the program's own functions: each is analyzed once, and its result is expressed by the values at its entry.

At a call the entry values are replaced by the caller's, so what the callee writes through its parameters, returns, and
passes to CUDA is known in the caller's terms. Values that arise inside the callee stay distinct for every call
(INSIDE). What functions that call themselves store is found by a fixed point (recursion.py). One that calls itself and
CUDA, is over its budget, or whose control flow is not known, is an unknown function: it may change what it can reach.
Whether it may make CUDA calls is known from what it calls.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from farlane.analyzer.externals import library
from farlane.analyzer.externals.names import NEVER_RETURNS, is_cuda
from farlane.analyzer.flow.applying import Applying
from farlane.analyzer.flow.computed import Computed
from farlane.analyzer.flow.effects import library_call
from farlane.analyzer.flow.engine import Engine
from farlane.analyzer.flow.function import Analysis
from farlane.analyzer.flow.recursion import Circles
from farlane.analyzer.flow.result import NO_CALLS, InnerCalls
from farlane.analyzer.graph import kernels
from farlane.analyzer.graph.control_flow import LEAVING, ControlFlow
from farlane.analyzer.graph.program import UNKNOWN, Callee, Program
from farlane.analyzer.graph.splitting import build
from farlane.analyzer.graph.structure import Structure
from farlane.analyzer.graph.structure import build as build_plain
from farlane.analyzer.limits import AnalysisError, Budget
from farlane.analyzer.machine.instruction import RAX, RDI, RSI
from farlane.analyzer.values.condition import is_code
from farlane.analyzer.values.expression import OPERATION, PHI, Value, Values
from farlane.analyzer.values.memory import Memory
from farlane.analyzer.values.state import State

MAXIMUM_DEPTH = 12
CODES = (RDI, RSI)  # where error codes are looked for
MAXIMUM_BYTES = 4096  # of a callee that contains no CUDA calls: larger ones are unknown functions


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
        self._known: dict[tuple[int, frozenset[int], frozenset[int] | None], Analysis | None] = {}
        self._computed = Computed(program, self.values, self._returned)
        self._active: list[int] = []
        self._quiet: dict[Callee, bool] = {}
        self._applying = Applying(program, self.memory)
        self._holding: dict[int, int | None] = {}
        self._circles = Circles(self.values, program.circles, self._anew, self._callee)

    def analysis(
        self, start: int, codes: frozenset[int] = frozenset(), headers: frozenset[int] | None = None
    ) -> Analysis | None:
        """The analysis of a function; None when there is none, and `failed` says why.

        Args:
            codes: the registers in which it is given CUDA's error codes: each set of them is analyzed for itself.
            headers: of the loops that alone are wanted; None: all that a caller wants to know, too.
        """
        key = (start, codes, headers)
        if key in self._known:
            return self._known[key]
        if start in self._active or len(self._active) >= MAXIMUM_DEPTH:
            return None
        self._active.append(start)
        try:
            self._known[key] = self._analyze(start, codes, headers)
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

    def _analyze(self, start: int, codes: frozenset[int], headers: frozenset[int] | None = None) -> Analysis:
        structure, plain = self.structure(start), build_plain(self.program, start)
        try:
            return self._run(structure, codes, headers)
        except AnalysisError:
            if structure is plain:
                raise
        return self._run(plain, codes, headers)  # copies may be too much where the loops with several entries were not

    def _run(self, structure: Structure, codes: frozenset[int], headers: frozenset[int] | None) -> Analysis:
        wanted = self._wanted(structure, headers)
        return Analysis(
            structure, Engine(structure, self.memory, self.call, self.quiet, self.guessed, codes, wanted).run()
        )

    def _wanted(self, structure: Structure, headers: frozenset[int] | None) -> set[int]:
        """The blocks from which a function returns, or comes to a loop with CUDA calls: not what only cleans up before
        an exception goes on, or before the program ends. In a large C++ program that is a quarter of the code. Where
        some loops alone are wanted, the blocks that lead to these.
        """
        flow, loops = structure.flow, self.loops(structure)
        wanted = {flow.entry}
        if headers is None:
            wanted.update(start for start, block in flow.blocks.items() if block.end in LEAVING)
        elif headers <= loops.keys():  # else they are of the graph with copies of blocks
            loops = {header: loops[header] for header in headers}
        return structure.leading_to(wanted.union(*loops.values()))

    def loops(self, structure: Structure) -> dict[int, frozenset[int]]:
        """Header -> blocks, of a function's loops from which CUDA may be called."""
        calling = self.calling(structure.flow) if structure.loops else set()
        return {header: loop.blocks for header, loop in structure.loops.items() if not loop.blocks.isdisjoint(calling)}

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
        return self._applying.apply(state, analysis, site, before)

    def _meet(self, state: State, analysis: Analysis) -> bool:
        """Whether a function stores through one of its arguments where it looks through another one as well: then what
        it was given lies not apart."""
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
        """The name of a function in this file that the library's headers define, as those of strings, and whose effect
        is known."""
        start = None if callee.address is None else self.program.owner.get(callee.address, callee.address)
        if start is None or start in self.cuda or start not in self.program.ranges:
            return ""
        name = self.program.ranges[start].name
        return name if name.startswith("_Z") and library.effect(name) is not None else ""

    def guessed(self, target: Value, first: Value, compared: Iterable[Value], widens: bool) -> Callee:
        """What a computed call is taken to call: one function, or one of several that do nothing to memory; else
        UNKNOWN."""
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
