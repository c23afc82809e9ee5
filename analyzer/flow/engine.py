"""Value numbering of one function: the state before every block, phis where values meet, CUDA calls with their
arguments.

An optimistic fixpoint: a block's state is the merge of its executed predecessors' states; where they differ there is a
phi, which stays. Branches on constants execute one edge only: in particular the edge past a launch that
`__cudaPushCallConfiguration` guards never runs. The result holds for the final states only: what the last execution of
each block found is collected in one more pass, in which those are executed again that something else has changed for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence, Set

from farlane.analyzer.externals.interface import GET_KERNEL, plain
from farlane.analyzer.externals.names import NEVER_RETURNS, is_cuda
from farlane.analyzer.flow.call import CudaCall
from farlane.analyzer.flow.computed import WIDEN_INIT
from farlane.analyzer.flow.effects import cuda_call, library_call, lose_registers, unknown_call, unknown_memory
from farlane.analyzer.flow.merging import Merging
from farlane.analyzer.flow.result import END, InnerCalls, Looked, PhiInputs, Record, Result
from farlane.analyzer.graph.control_flow import EXCEPTION, FALL, LEAVING, TABLE, TAKEN, UNRESOLVED, Block
from farlane.analyzer.graph.frame import lowest_taken
from farlane.analyzer.graph.program import UNKNOWN, Callee
from farlane.analyzer.graph.structure import Structure
from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.machine.instruction import RAX, RDI, RSP, Instruction
from farlane.analyzer.semantics.execute import HANDLERS, execute
from farlane.analyzer.semantics.operands import get
from farlane.analyzer.values.cells import FLAGS
from farlane.analyzer.values.condition import condition
from farlane.analyzer.values.expression import CALL, INSIDE, LOAD, OPERATION, PHI, Value
from farlane.analyzer.values.memory import Memory
from farlane.analyzer.values.state import State

VISITS = 400  # of one block
# Rounds that are given up at once when less than a part of the blocks has been executed and a phi is found to point
# elsewhere.
FALSE_STARTS, YOUNG = 4, 8
ROUNDS = 4  # in which phis are taken to point into allocations, before they are taken to point anywhere
TOTAL = 60, 2000  # of all blocks of a function: for each of them, and in addition

_ALWAYS = Looked((0, 0), 0)  # what a merge of one state looks at


# What a computed call calls: see computed.Computed.
Guesses = Callable[[Value, Value, Iterable[Value], bool], Callee]
# Applies a call of a function of this file, before which the state was the one given last, to be read only; returns its
# CUDA calls, or None when its effects are not known.
LocalCall = Callable[[State, Callee, int, State], InnerCalls | None]


class Engine(Merging):
    """Analyzes one function.

    Args:
        structure: its graph.
        memory: what all functions of the program share.
        local_call: applies calls of the program's own functions.
        guesses: what a computed call is taken to call, by the address, the first argument, what the address
            differs from, and whether a character type widens.
        quiet: whether such a function, whose effects are not known, makes no CUDA calls and comes back.
        codes: the registers in which the function is given CUDA's error codes.
        wanted: the blocks whose values are wanted: from all others these are not reached, and the function does not
            return. None: all.
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
        super().__init__(structure, memory, State.at_entry(memory, codes))
        self._local_call, self._quiet = local_call, quiet
        self._guesses, self._executing = guesses, structure.flow.blocks[structure.flow.entry]
        self._wanted: Set[int] = self._flow.blocks.keys() if wanted is None else wanted
        self._position = {block: index for index, block in enumerate(structure.order)}
        self._nests = {loop.parent for loop in structure.loops.values()}

    def _begin(self) -> None:
        """Forgets what was found, but for where the phis stand and what is known of them."""
        self._incoming: dict[int, dict[int, State]] = {block: {} for block in self._flow.blocks}
        self._before: dict[int, State] = {}
        self._entered: dict[int, dict[int, State]] = {}
        self._records: dict[int, Record] = {}
        # Block -> when it was merged last, what was looked at and its phis' inputs.
        self._met: dict[int, tuple[Looked, PhiInputs]] = {}
        self._epoch = 0
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
                if not self._converge(len(self._wanted) // YOUNG if false_starts < FALSE_STARTS else 0):
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

    def _converge(self, young: int) -> bool:
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
            state = self._state_before(start)
            if start in self._before and state.same(self._before[start]):
                continue
            visits[start] = visits.get(start, 0) + 1
            total += 1
            if total > TOTAL[0] * len(self._flow.blocks) + TOTAL[1]:
                raise AnalysisError(f"{self._flow.name}: over the budget for a function")
            self._memory.check_time()
            if visits[start] > VISITS:
                raise AnalysisError(f"{self._flow.name}: values do not converge")
            self._before[start] = state
            if visits[start] > 1 and start in self._nests:
                self._restart(start, entered=False)
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
        """A loop is entered with other values than before: what it made of the former ones is forgotten.

        Otherwise its back edge still brings the former values, which meet the new ones in phis that mean nothing.
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
            self._restart(header, entered=True)
        self._entered[header] = outside

    def _restart(self, header: int, entered: bool) -> None:
        """Forgets what a loop's blocks made of the state at its head; when the loop is `entered` anew, what its back
        edges brought there, too.

        The phis stay: less is known of the new values than of the former ones, so what differed then differs now. An
        inner loop that had to find its phis again would take twice as long for each loop around it. So the state at the
        head may be the same as before, and the head is executed all the same.
        """
        loop = self._structure.loops[header]
        for block in loop.blocks:
            if block != header:
                self._entered.pop(block, None)
            if block != header or entered:
                self._before.pop(block, None)
            if block != header or entered:
                self._met.pop(block, None)
                for source in [source for source in self._incoming[block] if source in loop.blocks]:
                    del self._incoming[block][source]

    def _collect(self) -> None:
        """Puts together what the last execution of each block found; those that no longer hold are made again."""
        result = self._result
        ends: dict[int, State] = {}
        for start in self._structure.order:
            if start not in self._before:
                continue
            looked, met = self._met.get(start, (None, {}))
            if looked is None or (looked is not _ALWAYS and not self._holds(looked)):
                self._state_before(start)
                _, met = self._met[start]
            result.phis.update(met)
            block = self._flow.blocks[start]
            record = self._records[start]
            if not self._holds(record.looked):
                record = self._execute(block, self._before[start].copy())
            if start in self._structure.loops:
                result.headers[start] = self._before[start]
            result.keep(start, record)
            if block.end in LEAVING:
                ends[start] = record.after
        result.add_left_out(self._flow, self._wanted)
        sources = [source for source, _ in result.executed]
        result.straight = len(ends) == 1 and len(sources) == len(set(sources)) and not self._structure.loops
        if ends:
            result.end = self._merged(END, ends, result.phis)

    def _looks(self) -> Looked:
        """A new record of what is looked at from now on."""
        looked = Looked((self._memory.epoch, self._epoch), len(self._memory.noted))
        self._memory.asked = looked.asked
        return looked

    def _holds(self, looked: Looked) -> bool:
        """Whether what was looked at is the same now."""
        memory = self._memory
        return looked.epochs == (memory.epoch, self._epoch) and looked.asked.isdisjoint(memory.noted[looked.noted :])

    def _state_before(self, start: int) -> State:
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
                    record.targets = [(edge.target, state.limited(test, edge.kind == TAKEN)) for edge in edges]
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


def _tailing(calls: InnerCalls, site: int) -> InnerCalls:
    """Calls of a function that another one jumps to in the end."""
    return calls._replace(
        made=lambda: [call if call.chain or call.site != site else call._replace(tail=True) for call in calls.made()]
    )
