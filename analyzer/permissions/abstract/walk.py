"""Runs the abstract machine through one function, and through what it calls, to a fixpoint.

Calls of the program's own functions are executed in place, on the same stack, so that addresses of the caller's cells
stay exact and what a callee touches is known object by object. A function that calls itself, is too long, or does what
is not followed is an unknown function. Branches on error codes go the way of success: permissions hold as long as no
CUDA call has failed.

Bounded: by the instructions executed for one analyzed function, and for one call.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from farlane.analyzer.externals import names
from farlane.analyzer.externals.names import is_cuda
from farlane.analyzer.graph import kernels
from farlane.analyzer.graph.control_flow import EXCEPTION, FALL, RETURN, STOP, TAIL, TAKEN, UNRESOLVED, Block
from farlane.analyzer.graph.program import UNKNOWN, Callee
from farlane.analyzer.machine.arithmetic import AFTER_COMPARISON, compare, signed
from farlane.analyzer.machine.instruction import CALLEE_SAVED, CALLER_SAVED, REGISTERS, RSP, XMM0, Instruction, Memory
from farlane.analyzer.permissions.abstract.calls import Call
from farlane.analyzer.permissions.abstract.domain import CONSTANT, EXACT, IN_OUTSIDE, NUMBER, WILD, add, constant, frame
from farlane.analyzer.permissions.abstract.facts import TOTAL, Facts, Regions
from farlane.analyzer.permissions.abstract.instructions import Step
from farlane.analyzer.permissions.abstract.memory import READ, Access, Flags, State
from farlane.analyzer.permissions.abstract.operands import Refused

LEAST = 8_000  # instructions that an analyzed function may take after others took too long
ONE_CALL = 20_000
VISITS = 60
WIDEN_AFTER = 3
MAXIMUM_DEPTH = 24
MAXIMUM_BYTES = 16384  # of a callee


@dataclass(frozen=True)
class Frame:
    """An activation: where its return address stands, the calls that lead to it, and the bounds of `calls.Call`."""

    entry: int
    chain: tuple[int, ...]
    bounds: tuple[int, ...]
    active: tuple[int, ...]


class Activation:
    """One activation."""

    def __init__(self, walker: Facts, start: int, frame_: Frame, regions: Regions, limit: int = TOTAL) -> None:
        self._walker, self._start, self._frame, self._regions = walker, start, frame_, regions
        self._structure = regions.structure
        self._flow = self._structure.flow
        self._position = walker.position(start)
        self._incoming: dict[int, dict[int, State]] = {}
        self._ends: dict[int, State] = {}
        self._memo: dict[int, tuple[State, State | None, list[Access]]] = {}
        self._left = limit
        top = walker.top(start)
        self._top = None if top is None else frame_.entry + top
        saved = frame_.entry - walker.saved(start)
        self._bounds = tuple(sorted({*frame_.bounds, saved, *(() if self._top is None else (self._top,))}))
        self.throws = False

    def run(self, entry: State) -> State | None:
        """The state after the function has returned; None: it does not."""
        flow, regions = self._flow, self._regions
        work, queued = [self._position[flow.entry]], {flow.entry}
        visits: dict[int, int] = {}
        while work:
            start = self._structure.order[heapq.heappop(work)]
            queued.discard(start)
            visits[start] = visits.get(start, 0) + 1
            if visits[start] > VISITS:
                raise Refused(f"{flow.name}: values do not converge")
            states = [*self._incoming.get(start, {}).values()]
            if start == flow.entry:
                states.append(entry)
            old = regions.before.get(start)
            merged = states[0]  # states are changed only while their block is executed, on a copy
            for other in states[1:]:
                merged = merged.joined(other, False)
            if old is not None:
                merged = old.joined(merged, visits[start] > WIDEN_AFTER)
                if merged.same(old):
                    continue
            regions.before[start] = merged
            block = flow.blocks[start]
            self._left -= len(block.instructions)
            if self._walker.spend(len(block.instructions)) < 0 or self._left < 0:
                raise Refused(f"{flow.name}: takes too long")
            targets = self._execute(block, merged.copy())
            regions.edges[start] = [target for target, _ in targets]
            for target, after in targets:
                self._incoming.setdefault(target, {})[start] = after
                if target not in queued:
                    queued.add(target)
                    heapq.heappush(work, self._position[target])
        result: State | None = None
        for state in self._ends.values():
            result = state if result is None else result.joined(state, False)
        return result

    def _execute(self, block: Block, state: State) -> list[tuple[int, State]]:
        records: list[Access] = []
        step = Step(state, records)
        pads: list[tuple[int, State]] = []
        for instruction in block.instructions:
            callee = self._flow.calls.get(instruction.address)
            if callee is None and instruction.mnemonic == "call":
                callee = UNKNOWN
            if callee is None:
                step.execute(instruction)
                continue
            tail = instruction.mnemonic != "call"
            if tail and instruction.mnemonic != "jmp":
                raise Refused(f"a conditional jump to another function at {instruction.address:#x}")
            if instruction.operands and isinstance(instruction.operands[0], Memory) and callee == UNKNOWN:
                step.get(instruction.operands[0], instruction)
            exceptional = [edge for edge in block.edges if edge.kind == EXCEPTION] if self._walker.catches else []
            before = state.copy() if exceptional else state
            throws = self._call(state, block, instruction, callee, records, tail)
            if throws and exceptional:
                pads = [(edge.target, self._pad(before)) for edge in exceptional]
        self._regions.accesses[block.start] = records
        self._regions.escaped[block.start] = state.escaped
        return self._leave(block, state) + pads

    def _pad(self, before: State) -> State:
        """The state at a landing pad: the registers that calls keep are restored, memory may be anything."""
        state = before
        state.forget()
        for number in (*CALLER_SAVED, *range(XMM0, REGISTERS)):
            state.registers[number] = WILD
        if self._top is not None:
            state.registers[RSP] = frame(self._top)
        state.flags = None
        return state

    def _leave(self, block: Block, state: State) -> list[tuple[int, State]]:
        if block.end == UNRESOLVED:
            raise Refused(f"a computed jump in {self._flow.name}")
        if block.end == RETURN and block.instructions[-1].operands:
            raise Refused(f"{self._flow.name}: a return that takes arguments away")
        if block.end in (RETURN, TAIL):
            stack = state.registers[RSP]
            if stack.kind != EXACT or stack.number != self._frame.entry:
                raise Refused(f"{self._flow.name}: the stack pointer at the return is not known")
            state.registers[RSP] = add(stack, constant(8))
            state.drop_below(self._frame.entry + 8)
            state.flags = None
            self._ends[block.start] = state
            return []
        if block.end == STOP and not block.edges:
            return []
        edges = [edge for edge in block.edges if edge.kind != EXCEPTION]
        if len(edges) == 2 and {edge.kind for edge in edges} == {TAKEN, FALL}:
            taken = decide(block.instructions[-1].mnemonic, state.flags)
            if taken is not None:
                edges = [edge for edge in edges if edge.kind == (TAKEN if taken else FALL)]
        return [(edge.target, state) for edge in edges]

    # Calls

    def _call(
        self,
        state: State,
        block: Block,
        instruction: Instruction,
        callee: Callee,
        records: list[Access],
        tail: bool,
    ) -> bool:
        """Applies a call; whether it may throw."""
        at = instruction.address
        chain = (*self._frame.chain, at)
        stack = state.registers[RSP]
        if stack.kind != EXACT:
            raise Refused(f"the stack pointer is not known at {instruction.address:#x}")
        state.drop_below(stack.number)  # the call overwrites what lies there
        (self._regions.tails if tail else self._regions.sites)[at] = state.copy()
        if tail:
            state.registers[RSP] = stack = add(stack, constant(8))
        program, walker = self._walker.program, self._walker
        bounds = self._bounds
        pushed = self._top is not None and stack.number < self._top
        if callee == UNKNOWN and walker.widens(self._flow, block):
            callee = Callee(names.WIDEN, None)
        call = Call(state, records, at, chain, bounds, pushed, callee.name, kernels.of(program).sizes, walker.apart)
        throws = False
        if callee.name in names.RETURNS_TWICE:
            raise Refused(f"{callee.name} at {instruction.address:#x}")
        if callee.address is not None:
            throws = self._inside(call, program.owner.get(callee.address, callee.address), bounds)
        elif is_cuda(callee.name):
            known = len(records)
            call.cuda()
            throws = any(access.kind == "leaves" for access in records[known:])
        elif callee.name in names.ENDS:
            pass
        elif not program.returns(callee):
            self._ending(call, callee.name)
            throws = True
        elif call.library():
            throws = names.may_throw(callee.name, walker.streams_throw)
            if throws and walker.catches:
                call.leaves()
        else:
            call.unknown()
            throws = True
        if tail:
            state.registers[RSP] = add(state.registers[RSP], constant(-8))
        self.throws = self.throws or throws
        return throws

    def _ending(self, call: Call, name: str) -> None:
        """A function that does not return: the process ends, through handlers of the program's, or something else
        happens."""
        if name == names.BAD_CAST:
            return
        if name not in names.ENDS_WITH_HANDLERS | names.TERMINATES:
            call.leaves()  # an exception, which somebody may catch, a jump, the end of a thread
            return
        call.touch(READ, WILD._replace(objects=IN_OUTSIDE), None)

    def _inside(self, call: Call, start: int, bounds: tuple[int, ...]) -> bool:
        """A function of the program's: executed in place, or unknown."""
        state = call.state
        kept = [(number, state.registers[number]) for number in CALLEE_SAVED]
        throws = self._executed(call, start, bounds)
        for number, value in kept:
            state.registers[number] = value  # by the calling convention, whatever may have happened to the frame
        return throws

    def _executed(self, call: Call, start: int, bounds: tuple[int, ...]) -> bool:
        state, site = call.state, call.chain[-1]
        known = self._memo.get(site)
        if known is not None and known[0].same(state):
            before, after, records = known
            call.records += records
            if after is not None:
                _assign(state, after)
            return any(access.kind == "leaves" for access in records)
        before = state.copy()
        records = []
        self._regions.inner.pop(site, None)
        try:
            after = self._run(call, start, bounds, records)
        except Refused as refusal:
            _assign(state, before)
            unknown = Call(state, records := [], call.at, call.chain, bounds, call.pushed, f"a function ({refusal})")
            unknown.unknown(own=True)
            after = state.copy()
        self._memo[site] = (before, after, records)
        call.records += records
        if after is not None:
            _assign(state, after)
            state.recent = frozenset()
        return any(access.kind == "leaves" for access in records)

    def _run(self, call: Call, start: int, bounds: tuple[int, ...], records: list[Access]) -> State | None:
        walker, state = self._walker, call.state.copy()
        program = walker.program
        if start in self._frame.active:
            raise Refused("it calls itself")
        if len(call.chain) > MAXIMUM_DEPTH or start not in program.ranges:
            raise Refused("too deep" if start in program.ranges else "not known")
        if sum(part.end - part.start for part in program.parts(start)) > MAXIMUM_BYTES:
            raise Refused("too long")
        entry = state.registers[RSP].number - 8
        state.registers[RSP] = frame(entry)
        state.write(frame(entry), 8, NUMBER)
        regions = Regions(walker.structure(start))
        inner = Frame(entry, call.chain, tuple(sorted({*bounds, entry})), (*self._frame.active, start))
        after = Activation(walker, start, inner, regions, min(ONE_CALL, self._left)).run(state)
        for accesses in regions.accesses.values():
            records += [access._replace(at=call.at) for access in accesses]
        self._regions.inner[call.chain[-1]] = regions
        return after


def _assign(state: State, other: State) -> None:
    for name in State.__slots__:
        value = getattr(other, name)
        setattr(state, name, value.copy() if isinstance(value, (list, dict)) else value)


def decide(mnemonic: str, flags: Flags | None) -> bool | None:
    """Whether a branch on two constants is taken."""
    if flags is None:
        return None
    first, second = flags.first, flags.second
    if first.kind != CONSTANT or second.kind != CONSTANT or first.objects or second.objects or flags.size > 8:
        return None
    mask = (1 << 8 * flags.size) - 1
    left, right = first.number & mask, second.number & mask
    if flags.name == "test":
        left, right = left & right, 0
    if mnemonic in ("js", "jns") and flags.name == "test":
        return bool(left >> (8 * flags.size - 1)) == (mnemonic == "js")
    if mnemonic not in AFTER_COMPARISON:
        return None
    relation, is_signed = AFTER_COMPARISON[mnemonic]
    if is_signed:
        left, right = signed(left, flags.size), signed(right, flags.size)
    return compare(relation, left, right)


class Walker(Facts):
    """Analyzes functions of one program; keeps their graphs."""

    def regions(self, start: int) -> Regions:
        """Raises Refused: something in the function itself is not followed, or it takes too long."""
        self._left = before = min(self._total, self._all)
        try:
            return self._regions(start)
        finally:
            self._all -= before - self._left
            if self._left < 0:
                self._total = max(self._total // 2, LEAST)

    def _regions(self, start: int) -> Regions:
        state = State.at_entry(self.image)
        regions = Regions(self.structure(start))
        Activation(self, start, Frame(0, (), (0,), (start,)), regions).run(state)
        return regions
