"""Value numbering of one function: the state before every block, phis where values meet, CUDA calls with their arguments.

An optimistic fixpoint: a block's state is the merge of its executed predecessors' states; where they differ there is a
phi, which stays. Branches on constants execute one edge only: in particular the edge past a launch that
`__cudaPushCallConfiguration` guards never runs. The result holds for the final states only, so CUDA calls and the phis'
inputs are collected in one more pass over the blocks.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from farlane.analyzer.errors import AnalysisError
from farlane.analyzer.flow.condition import Condition, condition
from farlane.analyzer.flow.effects import CudaCall, cuda_call, library_call, lose_registers, unknown_call
from farlane.analyzer.flow.expression import CALL, PHI, Value
from farlane.analyzer.flow.semantics import execute
from farlane.analyzer.flow.state import FLAGS, KEYS, Memory, State, Store
from farlane.analyzer.graph.control_flow import FALL, RETURN, TAIL, TAKEN, Block
from farlane.analyzer.graph.names import NEVER_RETURNS, is_cuda
from farlane.analyzer.graph.program import UNKNOWN, Callee
from farlane.analyzer.graph.structure import Structure
from farlane.analyzer.machine.instruction import RSP, Instruction

VISITS = 400
END = -1  # the pseudo block in which all returns meet

PhiInputs = dict[Value, dict[int, Value]]


@dataclass
class Result:
    """What the analysis of a function found.

    Attributes:
        phis: phi -> predecessor block -> value.
        calls: block -> the CUDA calls made in it, in order, those of callees included.
        conditions: block -> the condition under which its conditional branch is taken.
        tests: block -> the flags that its conditional branch reads.
        headers: header of a loop -> the state when it is entered, from outside or by a back edge.
        executed: edges that may run, as long as CUDA's calls succeed.
        assumed: block -> the flags of its branch, which error codes decide and which goes the way of success.
        sites: call instruction that is a CUDA call or leads to one -> the state before it.
        end: the state in which all returns meet; None when the function never returns.
        stores: what is stored outside the own frame, callees' stores included, block by block.
        straight: whether there is only one path through the function.
        unknown_calls: block -> call instructions whose effects are not known.
    """

    phis: PhiInputs = field(default_factory=dict)
    calls: dict[int, list[CudaCall]] = field(default_factory=dict)
    conditions: dict[int, Condition] = field(default_factory=dict)
    tests: dict[int, Value] = field(default_factory=dict)
    headers: dict[int, State] = field(default_factory=dict)
    executed: set[tuple[int, int]] = field(default_factory=set)
    assumed: dict[int, Value] = field(default_factory=dict)
    sites: dict[int, State] = field(default_factory=dict)
    end: State | None = None
    stores: list[Store] = field(default_factory=list)
    straight: bool = False
    unknown_calls: dict[int, list[int]] = field(default_factory=dict)


# Applies a call of a function of this file; returns its CUDA calls, or None when its effects are not known.
LocalCall = Callable[[State, Callee, int], list[CudaCall] | None]


class Engine:
    """Analyzes one function.

    Args:
        structure: its graph.
        memory: what all functions of the program share.
        local_call: applies calls of the program's own functions.
        codes: the registers in which the function is given CUDA's error codes.
    """

    def __init__(
        self, structure: Structure, memory: Memory, local_call: LocalCall, codes: frozenset[int] = frozenset()
    ) -> None:
        self._structure, self._memory, self._local_call = structure, memory, local_call
        self._flow = structure.flow
        self._entry = State.at_entry(memory, codes)
        self._position = {block: index for index, block in enumerate(structure.order)}
        self._incoming: dict[int, dict[int, State]] = {block: {} for block in self._flow.blocks}
        self._before: dict[int, State] = {}
        self._phis: set[tuple[object, ...]] = set()
        self._result = Result()

    def run(self) -> Result:
        """Raises AnalysisError when the function is over its budget."""
        log, self._memory.log = self._memory.log, None
        try:
            self._settle()
            self._memory.log = self._result.stores
            self._collect()
        finally:
            self._memory.log = log
        return self._result

    def _settle(self) -> None:
        entry = self._flow.entry
        work = [self._position[entry]]
        queued = {entry}
        visits: dict[int, int] = {}
        while work:
            start = self._structure.order[heapq.heappop(work)]
            queued.discard(start)
            if not self._incoming[start] and start != entry:
                continue
            state = self._merged(start, self._incoming[start])
            if start in self._before and state.same(self._before[start]):
                continue
            visits[start] = visits.get(start, 0) + 1
            if visits[start] > VISITS:
                raise AnalysisError(f"{self._flow.name}: values do not settle")
            self._before[start] = state
            if visits[start] > 1:
                self._restart_inside(start)
            for target, after in self._execute(self._flow.blocks[start], state.copy(), None):
                self._incoming[target][start] = after
                if target not in queued:
                    queued.add(target)
                    heapq.heappush(work, self._position[target])

    def _restart_inside(self, header: int) -> None:
        """A loop's head changed: what the loops inside it made of its former state is forgotten.

        Otherwise an inner loop's back edge still brings the former values, which meet the new ones in a phi that means
        nothing. Terminates, because the head's own phis stay.
        """
        loop = self._structure.loops.get(header)
        if loop is None or not any(inner.parent == header for inner in self._structure.loops.values()):
            return
        for block in loop.blocks - {header}:
            self._before.pop(block, None)
            for source in [source for source in self._incoming[block] if source in loop.blocks]:
                del self._incoming[block][source]
        self._phis = {place for place in self._phis if place[0] not in loop.blocks or place[0] == header}

    def _collect(self) -> None:
        result = self._result
        ends: dict[int, State] = {}
        for start in self._structure.order:
            if start not in self._before:
                continue
            self._merged(start, self._incoming[start], result.phis)
            block = self._flow.blocks[start]
            state = self._before[start].copy()
            if start in self._structure.loops:
                result.headers[start] = self._before[start]
            for target, _ in self._execute(block, state, result):
                result.executed.add((start, target))
            if block.end in (RETURN, TAIL):
                ends[start] = state
        sources = [source for source, _ in result.executed]
        result.straight = len(ends) == 1 and len(sources) == len(set(sources)) and not self._structure.loops
        if ends:
            result.end = self._merged(END, ends)

    def _merged(self, block: int, incoming: dict[int, State], record: PhiInputs | None = None) -> State:
        states = dict(sorted(incoming.items()))
        if block == self._flow.entry:
            states[0] = self._entry
        if len(states) == 1 and block not in self._loops_headers():
            return next(iter(states.values())).copy()
        merged = State(self._memory)
        for key in KEYS:
            values = {source: state.registers[key] for source, state in states.items()}
            merged.registers[key] = self._meet(block, key, values, record)
        escaped = [state.escaped for state in states.values() if state.escaped is not None]
        merged.escaped = min(escaped, default=None)
        places = {(base, *key) for state in states.values() for base, cells in state.cells.items() for key in cells}
        address = self._memory.values
        for base, offset, size in sorted(places, key=lambda place: (place[0].serial, place[1], place[2])):
            where = address.add(base, offset)
            values = {source: state.read(where, size) for source, state in states.items()}
            met = self._meet(block, (base, offset, size), values, record)
            merged.cells.setdefault(base, {})[offset, size] = met
        return merged

    def _loops_headers(self) -> set[int]:
        return set(self._structure.loops)

    def _meet(self, block: int, key: object, values: dict[int, Value], record: PhiInputs | None) -> Value:
        distinct = set(values.values())
        place = (block, key)
        if len(distinct) == 1 and place not in self._phis:
            return distinct.pop()
        phi = self._memory.values.atom(PHI, self._flow.entry, block, key)
        others = distinct - {phi}
        if len(others) == 1 and place not in self._phis:
            return others.pop()
        self._phis.add(place)
        if record is not None:
            record[phi] = values
        return phi

    def _execute(self, block: Block, state: State, result: Result | None) -> list[tuple[int, State]]:
        calls: list[CudaCall] = []
        for instruction in block.instructions:
            callee = self._flow.calls.get(instruction.address)
            if callee is not None:
                calls += self._call(state, instruction, callee, block, result is not None)
            elif instruction.mnemonic == "call":
                calls += self._call(state, instruction, UNKNOWN, block, result is not None)
            else:
                execute(state, instruction)
        if result is not None and calls:
            result.calls[block.start] = calls
        return self._leave(block, state, result)

    def _leave(self, block: Block, state: State, result: Result | None) -> list[tuple[int, State]]:
        last = block.instructions[-1]
        edges = list(block.edges)
        kinds = {edge.kind for edge in edges}
        if TAKEN in kinds and len(edges) == 2:
            if result is not None:
                result.tests[block.start] = state.registers[FLAGS]
            flags = state.registers[FLAGS]
            test = condition(self._memory.values, last.mnemonic, flags)
            known = test.constant() if test is not None else None
            if known is None:
                known = self._memory.on_success(last.mnemonic, flags)
                if known is not None and result is not None:
                    result.assumed[block.start] = flags
            if known is not None:
                edges = [edge for edge in edges if edge.kind == (TAKEN if known else FALL)]
            elif result is not None and test is not None:
                result.conditions[block.start] = test
        return [(edge.target, state) for edge in edges]

    def _call(
        self, state: State, instruction: Instruction, callee: Callee, block: Block, collecting: bool
    ) -> list[CudaCall]:
        values = self._memory.values
        site = instruction.address
        tail = instruction.mnemonic != "call"
        if tail:
            # As if called and returned from: the return address is already there.
            state.registers[RSP] = values.add(state.registers[RSP], 8)
        calls: list[CudaCall] = []
        noted = len(self._memory.log or ())
        before = state.copy() if collecting and (callee.address is not None or is_cuda(callee.name)) else None
        if callee.address is not None:
            found = self._local_call(state, callee, site)
            if found is None:
                unknown_call(state, site)
            calls = found or []
            if before is not None and calls:
                self._result.sites[site] = before
        elif is_cuda(callee.name):
            if before is not None:
                self._result.sites[site] = before
            recorded = cuda_call(state, callee.name, site)
            calls = [recorded] if recorded is not None else []
        elif callee.name in NEVER_RETURNS:
            lose_registers(state, site, values.atom(CALL, site, callee.name))
        elif callee.name:
            library_call(state, callee.name, site)
        else:
            unknown_call(state, site)
        if tail:
            calls = [call if call.chain or call.site != site else replace(call, tail=True) for call in calls]
        self._note_unknown(site, block, noted)
        return calls

    def _note_unknown(self, site: int, block: Block, noted: int) -> None:
        log = self._memory.log
        if log is not None and any(store.address is None for store in log[noted:]):
            self._result.unknown_calls.setdefault(block.start, []).append(site)
