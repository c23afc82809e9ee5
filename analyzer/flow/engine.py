"""Value numbering of one function: the state before every block, phis where values meet, CUDA calls with their arguments.

An optimistic fixpoint: a block's state is the merge of its executed predecessors' states; where they differ there is a
phi, which stays. Branches on constants execute one edge only: in particular the edge past a launch that
`__cudaPushCallConfiguration` guards never runs. The result holds for the final states only: what the last execution of each
block found is collected in one more pass, in which those are executed again that something else has changed for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from itertools import compress
from operator import is_not
from typing import cast

from farlane.analyzer.errors import AnalysisError
from farlane.analyzer.flow.call import CudaCall
from farlane.analyzer.flow.computed import WIDEN_INIT
from farlane.analyzer.flow.condition import NEGATED, Condition, condition, number
from farlane.analyzer.flow.effects import (
    cuda_call,
    library_call,
    lose_registers,
    unknown_call,
    unknown_memory,
)
from farlane.analyzer.flow.expression import CALL, INITIAL, INSIDE, LOAD, OPERATION, PHI, Value, lowest
from farlane.analyzer.flow.interface import GET_KERNEL, plain
from farlane.analyzer.flow.memory import Extents, FrameStore, Memory, Store
from farlane.analyzer.flow.operands import get
from farlane.analyzer.flow.record import InnerCalls, Looked, Record
from farlane.analyzer.flow.semantics import HANDLERS, execute
from farlane.analyzer.flow.state import FLAGS, KEYS, State
from farlane.analyzer.graph.control_flow import EXCEPTION, FALL, LEAVING, TABLE, TAKEN, UNRESOLVED, Block
from farlane.analyzer.graph.frame import lowest_taken
from farlane.analyzer.graph.names import NEVER_RETURNS, is_cuda
from farlane.analyzer.graph.program import UNKNOWN, Callee
from farlane.analyzer.graph.structure import Loop, Structure
from farlane.analyzer.machine.instruction import RAX, RDI, RSP, Instruction

VISITS = 400  # of one block
# Rounds that are given up at once when less than a part of the blocks has been executed and a phi is found to point elsewhere.
FALSE_STARTS, YOUNG = 4, 8
ROUNDS = 4  # in which phis are taken to point into allocations, before they are taken to point anywhere
TOTAL = 60, 2000  # of all blocks of a function: for each of them, and in addition
END = -1  # the pseudo block in which all returns meet

PhiInputs = dict[Value, dict[int, Value]]
_ALWAYS = Looked((0, 0), 0)  # what a merge of one state looks at
Held = dict[tuple[int, int], Value]  # a base's cells
_NO_PLACES: frozenset[int] = frozenset()
_NO_CELLS: frozenset[Value] = frozenset()
_NO_HELD: Held = {}


@dataclass
class Result:
    """What the analysis of a function found.

    Attributes:
        memory: what it shares with those of other functions.
        phis: phi -> predecessor block -> value.
        calls: block -> the CUDA calls made in it, in order, those of callees included.
        conditions: block -> the condition under which its conditional branch is taken.
        tests: block -> the flags that its conditional branch reads, or the address that its jump through a table takes.
        headers: header of a loop -> the state when it is entered, from outside or by a back edge.
        executed: edges that may run, as long as CUDA's calls succeed.
        assumed: block -> the flags of its branch, which error codes decide and which goes the way of success.
        sites: call instruction that is a CUDA call, leads to one, or returns what its function computed -> the state before it.
        before: call instruction that calls a function of this file -> the state before it.
        end: the state in which all returns meet; None when the function never returns.
        stores: what is stored outside the own frame, callees' stores included, block by block.
        stores_in: the same by block.
        frame_stores: block -> what is stored in the own frame.
        straight: whether there is only one path through the function.
        unknown_calls: block -> call instructions whose effects are not known.
        cut: whether blocks were left out, here or in a called function, that may store before an exception leaves the function.
        used: what the function was given, as registers, through which it accesses memory, when `separate`, and where from there.
        separate: whether pointers that were read from memory were taken to point into objects of their own (`Memory.separate`).
        bottom: as `Memory.bottom`.
    """

    memory: Memory
    phis: PhiInputs = field(default_factory=dict)
    calls: dict[int, list[CudaCall]] = field(default_factory=dict)
    conditions: dict[int, Condition] = field(default_factory=dict)
    tests: dict[int, Value] = field(default_factory=dict)
    headers: dict[int, State] = field(default_factory=dict)
    executed: set[tuple[int, int]] = field(default_factory=set)
    assumed: dict[int, Value] = field(default_factory=dict)
    sites: dict[int, State] = field(default_factory=dict)
    before: dict[int, State] = field(default_factory=dict)
    end: State | None = None
    stores: list[Store] = field(default_factory=list)
    stores_in: dict[int, list[Store]] = field(default_factory=dict)
    frame_stores: dict[int, list[FrameStore]] = field(default_factory=dict)
    straight: bool = False
    unknown_calls: dict[int, list[int]] = field(default_factory=dict)
    cut: bool = False
    used: Extents = field(default_factory=dict)
    separate: bool = False
    bottom: int | None = None


# What a computed call calls: see computed.Computed.
Guesses = Callable[[Value, Value, Iterable[Value], bool], Callee]
# Applies a call of a function of this file, before which the state was the one given last, to be read only; returns its CUDA calls, or
# None when its effects are not known.
LocalCall = Callable[[State, Callee, int, State], InnerCalls | None]


class Engine:
    """Analyzes one function.

    Args:
        structure: its graph.
        memory: what all functions of the program share.
        local_call: applies calls of the program's own functions.
        guesses: what a computed call is taken to call, by the address, the first argument, what the address
            differs from, and whether a character type widens.
        quiet: whether such a function, whose effects are not known, makes no CUDA calls and comes back.
        codes: the registers in which the function is given CUDA's error codes.
        wanted: the blocks whose values are wanted: from all others these are not reached, and the function does not return. None: all.
    """

    def __init__(
        self,
        structure: Structure,
        memory: Memory,
        local_call: LocalCall,
        quiet: Callable[[Callee], bool],
        guesses: Guesses,
        codes: frozenset[int] = frozenset(),
        wanted: Set[int] | None = None,
    ) -> None:
        self._structure, self._memory, self._local_call, self._quiet = structure, memory, local_call, quiet
        self._guesses, self._executing = guesses, structure.flow.blocks[structure.flow.entry]
        self._flow = structure.flow
        self._wanted: Set[int] = self._flow.blocks.keys() if wanted is None else wanted
        self._entry = State.at_entry(memory, codes)
        self._position = {block: index for index, block in enumerate(structure.order)}
        self._doubted = True  # nothing is known yet
        self._nests = {loop.parent for loop in structure.loops.values()}
        # For a loop's header: whether a value arises in the loop; the addresses of the loop's instructions.
        self._tangled = any(loop.irreducible for loop in structure.loops.values())
        self._varying: dict[int, dict[Value, bool]] = {}
        self._sites: dict[int, set[int]] = {}
        self._pointing: dict[Value, None] = {}  # phis that point into allocations
        self._made: dict[tuple[object, ...], Value] = {}  # phis by block and place

    def _begin(self) -> None:
        """Forgets what was found, but for what is known of the phis."""
        self._incoming: dict[int, dict[int, State]] = {block: {} for block in self._flow.blocks}
        self._before: dict[int, State] = {}
        # Where phis stand: (block, place); the same by block, for registers and for bases of cells.
        self._phis: set[tuple[object, ...]] = set()
        self._places: dict[int, set[int]] = {}
        self._cells_met: dict[int, set[Value]] = {}
        self._entered: dict[int, dict[int, State]] = {}
        self._records: dict[int, Record] = {}
        # Block -> when it was merged last, what was looked at and its phis' inputs.
        self._met: dict[int, tuple[Looked, PhiInputs]] = {}
        self._epoch = 0  # changes with what is known of a phi that exists already
        # Whether a phi was found to point elsewhere than where blocks were executed with.
        self._doubted = False
        self._result = Result(self._memory, separate=self._memory.separate)

    def run(self) -> Result:
        """Raises AnalysisError when the function is over its budget."""
        log, frames, asked, cut = self._memory.log, self._memory.frame_log, self._memory.asked, self._memory.cut
        outer, self._memory.in_stub = self._memory.in_stub, self._asks_for_kernel()
        used, self._memory.used = self._memory.used, {}
        bottom, self._memory.bottom = self._memory.bottom, self._result_bottom()
        try:
            rounds = false_starts = 0
            while self._doubted:
                self._begin()
                if rounds >= ROUNDS:
                    for phi in self._pointing:
                        self._memory.forget_allocations(phi)
                if not self._settle(len(self._wanted) // YOUNG if false_starts < FALSE_STARTS else 0):
                    false_starts += 1
                    continue
                self._collect()
                rounds += 1
        finally:
            self._memory.log, self._memory.in_stub, self._memory.frame_log = log, outer, frames
            self._memory.asked, self._memory.cut = asked, cut
            self._result.used, self._memory.used = self._memory.used, used
            self._result.bottom, self._memory.bottom = self._memory.bottom, bottom
        return self._result

    def _result_bottom(self) -> int | None:
        return lowest_taken(self._flow) if self._memory.separate else None

    def _asks_for_kernel(self) -> bool:
        return any(plain(callee.name) == GET_KERNEL for callee in self._flow.calls.values())

    def _settle(self, young: int) -> bool:
        """False, and given up, when it is in doubt before `young` executions of blocks what the phis point to."""
        entry = self._flow.entry
        work = [self._position[entry]]
        queued = {entry}
        visits: dict[int, int] = {}
        total = 0
        while work:
            start = self._structure.order[heapq.heappop(work)]
            queued.discard(start)
            if not self._incoming[start] and start != entry:
                continue
            self._enter(start)
            state = self._settled(start)
            if start in self._before and state.same(self._before[start]):
                continue
            visits[start] = visits.get(start, 0) + 1
            total += 1
            if total > TOTAL[0] * len(self._flow.blocks) + TOTAL[1]:
                raise AnalysisError(f"{self._flow.name}: over the budget for a function")
            self._memory.check_time()
            if visits[start] > VISITS:
                raise AnalysisError(f"{self._flow.name}: values do not settle")
            self._before[start] = state
            if visits[start] > 1 and start in self._nests:
                self._restart(start, {start})
            record = self._execute(self._flow.blocks[start], state.copy())
            if self._doubted and total <= young:
                return False
            for target, after in record.targets:
                if target not in self._wanted:
                    continue
                self._incoming[target][start] = after
                if target not in queued:
                    queued.add(target)
                    heapq.heappush(work, self._position[target])
        return True

    def _enter(self, header: int) -> None:
        """A loop is entered with other values than before: what it made of the former ones is forgotten, its phis too.

        Otherwise its back edge still brings the former values, which meet the new ones in phis that mean nothing.
        Terminates, because the loops around it keep their own phis.
        """
        loop = self._structure.loops.get(header)
        if loop is None:
            return
        outside = {source: state for source, state in self._incoming[header].items() if source not in loop.blocks}
        known = self._entered.get(header)
        if known is not None and (
            known.keys() != outside.keys()
            or any(state is not known[source] and not state.same(known[source]) for source, state in outside.items())
        ):
            self._restart(header, set())
        self._entered[header] = outside

    def _restart(self, header: int, kept: set[int]) -> None:
        """Forgets what a loop's blocks made of the state at its head, and the phis in all its blocks but some."""
        loop = self._structure.loops[header]
        for block in loop.blocks:
            if block != header:
                self._before.pop(block, None)
                self._entered.pop(block, None)
            if block != header or not kept:
                self._met.pop(block, None)
                for source in [source for source in self._incoming[block] if source in loop.blocks]:
                    del self._incoming[block][source]
        inside = loop.blocks - kept
        self._phis = {place for place in self._phis if place[0] not in inside}
        for block in inside:
            self._places.pop(block, None)
            self._cells_met.pop(block, None)

    def _collect(self) -> None:
        """Puts together what the last execution of each block found; those that no longer hold are made again."""
        result = self._result
        ends: dict[int, State] = {}
        for start in self._structure.order:
            if start not in self._before:
                continue
            looked, met = self._met.get(start, (None, {}))
            if looked is None or (looked is not _ALWAYS and not self._holds(looked)):
                self._settled(start)
                _, met = self._met[start]
            result.phis.update(met)
            block = self._flow.blocks[start]
            record = self._records[start]
            if not self._holds(record.looked):
                record = self._execute(block, self._before[start].copy())
            if start in self._structure.loops:
                result.headers[start] = self._before[start]
            self._keep(start, record)
            if block.end in LEAVING:
                ends[start] = record.after
        self._add_left_out()
        sources = [source for source, _ in result.executed]
        result.straight = len(ends) == 1 and len(sources) == len(set(sources)) and not self._structure.loops
        if ends:
            result.end = self._merged(END, ends, result.phis)

    def _add_left_out(self) -> None:
        """Of the blocks that were left out, all edges may run behind one that does."""
        result = self._result
        work = [target for _, target in result.executed if target not in self._wanted]
        result.cut = result.cut or bool(work)
        seen = set(work)
        while work:
            start = work.pop()
            for edge in self._flow.blocks[start].edges:
                result.executed.add((start, edge.target))
                if edge.target not in seen:
                    seen.add(edge.target)
                    work.append(edge.target)

    def _keep(self, start: int, record: Record) -> None:
        result = self._result
        result.cut = result.cut or record.cut
        result.frame_stores.setdefault(start, []).extend(record.frame_stores)
        result.stores += record.stores
        result.stores_in.setdefault(start, []).extend(record.stores)
        if record.handlers:
            result.stores += record.thrown
        for handler in record.handlers:
            result.frame_stores.setdefault(handler, []).extend(record.thrown_frame)
            result.stores_in.setdefault(handler, []).extend(record.thrown)
        result.sites.update(record.sites)
        result.before.update(record.before)
        for target, _ in record.targets:
            result.executed.add((start, target))
        if record.calls:
            result.calls[start] = record.all_calls()
        if record.unknown:
            result.unknown_calls[start] = record.unknown
        if record.test is not None:
            result.tests[start] = record.test
        if record.assumed is not None:
            result.assumed[start] = record.assumed
        if record.condition is not None:
            result.conditions[start] = record.condition

    def _looks(self) -> Looked:
        """A new record of what is looked at from now on."""
        looked = Looked((self._memory.epoch, self._epoch), len(self._memory.noted))
        self._memory.asked = looked.asked
        return looked

    def _holds(self, looked: Looked) -> bool:
        """Whether what was looked at is the same now."""
        memory = self._memory
        return looked.epochs == (memory.epoch, self._epoch) and looked.asked.isdisjoint(memory.noted[looked.noted :])

    def _settled(self, start: int) -> State:
        """The state before a block, to be read only; its phis' inputs are kept."""
        incoming = self._incoming[start]
        if len(incoming) == 1 and start not in self._structure.loops and start != self._flow.entry:
            self._met[start] = _ALWAYS, {}
            return next(iter(incoming.values()))
        looked = self._looks()
        inputs: PhiInputs = {}
        state = self._merged(start, self._incoming[start], inputs)
        self._met[start] = looked, inputs
        return state

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
        """The states without what is known of memory at addresses that mean others when a loop's head is reached again."""
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

    def _execute(self, block: Block, state: State) -> Record:
        record = self._records[block.start] = Record(self._looks(), state)
        self._memory.log, self._memory.frame_log = record.stores, record.frame_stores
        self._executing = block
        self._memory.cut = False
        memory, calls = self._memory, self._flow.calls
        for instruction in block.instructions:
            handler = HANDLERS.get(instruction.mnemonic)
            if handler is not None:  # no call, nor a jump
                memory.at = instruction.address
                handler(state, instruction)
                continue
            callee = calls.get(instruction.address)
            if callee is not None:
                record.calls += self._call(state, instruction, callee, record)
            elif instruction.mnemonic == "call":
                record.calls += self._call(state, instruction, UNKNOWN, record)
            elif block.end == UNRESOLVED and instruction is block.instructions[-1]:
                if state.registers[RSP] is not self._memory.values.stack_pointer:
                    raise AnalysisError(
                        f"{self._flow.name}: a computed jump at {instruction.address:#x} with unknown targets"
                    )
                record.calls += self._call(state, instruction, UNKNOWN, record)  # the frame is gone: a call in the end
            else:
                execute(state, instruction)
        record.cut = self._memory.cut
        self._leave(block, state, record)
        return record

    def _leave(self, block: Block, state: State, record: Record) -> None:
        last = block.instructions[-1]
        edges = list(block.edges)
        if len(edges) == 2 and TAKEN in (edges[0].kind, edges[1].kind):
            record.test = flags = state.registers[FLAGS]
            test = condition(self._memory.values, last.mnemonic, flags)
            known = test.constant() if test is not None else None
            if known is None:
                known = self._memory.on_success(last.mnemonic, flags)
                if known is not None:
                    record.assumed = flags
            if known is not None:
                edges = [edge for edge in edges if edge.kind == (TAKEN if known else FALL)]
            else:
                record.condition = test
                if test is not None and test.right.is_constant:
                    record.targets = [(edge.target, _limited(state, test, edge.kind == TAKEN)) for edge in edges]
                    return
        elif len(edges) > 1 and edges[0].kind == TABLE:
            record.test = get(state, last.operands[0])
        elif record.cut and any(edge.kind == EXCEPTION and edge.target in self._wanted for edge in edges):
            thrown = state.copy()
            # What is changed on the way to the handler is changed there, not for what goes on here.
            memory = self._memory
            logs, memory.log, memory.frame_log = (memory.log, memory.frame_log), record.thrown, record.thrown_frame
            unknown_memory(thrown, last.address, True)
            memory.log, memory.frame_log = logs
            record.handlers = [edge.target for edge in edges if edge.kind == EXCEPTION]
            record.targets = [(edge.target, thrown if edge.kind == EXCEPTION else state) for edge in edges]
            return
        record.targets = [(edge.target, state) for edge in edges]

    def _guessed(self, state: State, instruction: Instruction, site: int) -> Callee:
        """What a computed call is taken to call; UNKNOWN when there is no saying."""
        block = self._executing
        target = get(state, instruction.operands[0])
        compared = []
        for source in self._structure.predecessors[block.start]:
            test = self._records[source].condition if source in self._records else None
            if test is not None and test.relation in ("==", "!=") and test.size == 8:
                met = (
                    target.kind == PHI and target.arguments[1] == block.start
                )  # each way here has looked at an address of its own
                sides = ((test.left, test.right), (test.right, test.left))
                compared += [right for left, right in sides if left is target or (met and left.kind == LOAD)]
        before = (self._flow.calls.get(each.address) for each in block.instructions if each.address < site)
        widens = any(callee is not None and callee.name == WIDEN_INIT for callee in before)
        return self._guesses(target, state.registers[RDI], compared, widens)

    def _call(
        self, state: State, instruction: Instruction, callee: Callee, record: Record
    ) -> Sequence[CudaCall | InnerCalls]:
        values = self._memory.values
        site = instruction.address
        tail = instruction.mnemonic != "call"
        if callee == UNKNOWN:
            callee = self._guessed(state, instruction, site)
        if tail:
            # As if called and returned from: the return address is already there.
            state.registers[RSP] = values.add(state.registers[RSP], 8)
        calls: Sequence[CudaCall | InnerCalls] = ()
        noted = len(record.stores)
        if callee.address is not None:
            before = record.before[site] = state.copy()
            found = self._local_call(state, callee, site, before)
            if found is None:
                unknown_call(state, site, self._quiet(callee))
            elif found.some:
                calls = (_tailing(found, site) if tail else found,)
            if calls or any(atom.kind in (INSIDE, OPERATION) for atom, _ in state.registers[RAX].terms):
                record.sites[site] = before
        elif is_cuda(callee.name):
            record.sites[site] = state.copy()
            recorded = cuda_call(state, callee.name, site)
            if recorded is not None:
                calls = (recorded._replace(tail=True) if tail and recorded.site == site else recorded,)
        elif callee.name in NEVER_RETURNS:
            lose_registers(state, site, values.atom(CALL, site, callee.name))
        elif callee.name:
            library_call(state, callee.name, site)
        else:
            unknown_call(state, site)
        if any(store.address is None and not store.quiet for store in record.stores[noted:]):
            record.unknown.append(site)
        return calls


def _alike(first: Held, second: Held | None) -> bool:
    """Whether the same is known of memory at a base; mostly it is the same object, as copies of states share it."""
    return first is second or first == second


def _differing(held: Sequence[Held]) -> Iterable[tuple[int, int]]:
    """The places of which not the same is known in all states, in the order of the first one that knows of them."""
    first = held[0]
    if len(held) == 2:
        other = held[1]
        found = [key for key, value in first.items() if other.get(key) is not value]
        return found + [key for key in other if key not in first] if len(other) + len(found) > len(first) else found
    gone = {key for other in held[1:] for key, value in first.items() if other.get(key) is not value}
    found = [key for key in first if key in gone]
    return [*found, *dict.fromkeys(key for other in held[1:] for key in other if key not in first)]


def _tailing(calls: InnerCalls, site: int) -> InnerCalls:
    """Calls of a function that another one jumps to in the end."""
    return calls._replace(
        made=lambda: [call if call.chain or call.site != site else call._replace(tail=True) for call in calls.made()]
    )


def _limited(state: State, test: Condition, taken: bool) -> State:
    """The state behind a comparison of a phi with a constant, in which the phi has an upper limit or not."""
    relation = test.relation if taken else NEGATED[test.relation]
    if relation not in ("<", "<=", "==") or len(test.left.terms) != 1:
        return state
    atom, coefficient = test.left.terms[0]
    largest = number(test.right.constant, test.size, True) - test.left.signed - (relation == "<")
    while atom.kind == OPERATION and atom.arguments[0] in ("zx4", "sx4") and test.size <= 4:
        inner = atom.arguments[1]
        if len(inner.terms) != 1 or coefficient != 1:
            return state
        (atom, coefficient), largest = inner.terms[0], largest - inner.signed
    if atom.kind != PHI or coefficient != 1 or test.size < 4 or not 0 <= largest < 2**20:
        return state
    return state.limit(atom, largest, test.size)
