"""Does the program end from here on, whatever way it takes?

It ends by a function of the C library that does not return, or by an exception where the program never catches one.
An endless loop is no end. Calls on the way must come back or end too: where the program catches exceptions or jumps,
that is known only of functions that are known.
"""

from __future__ import annotations

from farlane.analyzer.externals import library, names
from farlane.analyzer.externals.names import is_cuda
from farlane.analyzer.graph.control_flow import EXCEPTION, RETURN, STOP, TAIL, Block, ControlFlow
from farlane.analyzer.graph.program import Callee
from farlane.analyzer.machine.effects import writes
from farlane.analyzer.machine.instruction import CALLER_SAVED
from farlane.analyzer.permissions.abstract.operands import Refused
from farlane.analyzer.permissions.abstract.walk import Walker


class Endings:
    """Answers for the functions of one program."""

    def __init__(self, walker: Walker) -> None:
        self._walker, self._program = walker, walker.program
        self._stay: dict[int, bool] = {}
        self._changed: dict[int, frozenset[int]] = {}
        self._functions: dict[int, bool] = {}

    def clobbered(self, callee: Callee) -> frozenset[int]:
        """The registers that a call changes, of those that calls may change; callers of functions of this file know
        them."""
        if callee.address is None:
            return frozenset(CALLER_SAVED)
        start = self._program.owner.get(callee.address, callee.address)
        known = self._changed.get(start)
        if known is None:
            self._changed[start] = frozenset(CALLER_SAVED)  # of one that calls itself, nothing is known
            try:
                known = self._written(self._walker.structure(start).flow)
            except Refused:
                known = frozenset(CALLER_SAVED)
            self._changed[start] = known
        return known

    def _written(self, flow: ControlFlow) -> frozenset[int]:
        found: set[int] = set()
        for block in flow.blocks.values():
            for instruction in block.instructions:
                callee = flow.calls.get(instruction.address)
                if callee is not None or instruction.mnemonic == "call":
                    found |= self.clobbered(callee) if callee is not None else frozenset(CALLER_SAVED)
                    continue
                found |= writes(instruction)
        return frozenset(found & set(CALLER_SAVED))

    def ends(self, flow: ControlFlow, start: int) -> bool:
        """Whether from a block on, the program ends: no return, no way back, nothing that catches or jumps out."""
        reached, work = {start}, [start]
        stops: set[int] = set()
        sources: dict[int, set[int]] = {}
        while work:
            block = flow.blocks[work.pop()]
            if block.end in (RETURN, TAIL) or (block.end and block.end != STOP):
                return False
            if not self._safe(flow, block):
                return False
            edges = [edge for edge in block.edges if edge.kind != EXCEPTION]
            if not edges:
                if not self._stops(flow, block):
                    return False
                stops.add(block.start)
            for edge in edges:
                sources.setdefault(edge.target, set()).add(block.start)
                if edge.target not in reached:
                    reached.add(edge.target)
                    work.append(edge.target)
        good = set(stops)
        todo = list(stops)
        while todo:
            for source in sources.get(todo.pop(), ()):
                if source not in good:
                    good.add(source)
                    todo.append(source)
        return good == reached

    def _safe(self, flow: ControlFlow, block: Block) -> bool:
        """Whether the block's calls cannot leave the way by an exception or a jump."""
        jumps = self._walker.catches or bool(self._walker.imports & names.JUMPS)
        if not jumps:
            return True
        for instruction in block.instructions:
            callee = flow.calls.get(instruction.address)
            if callee is None and instruction.mnemonic != "call":
                continue
            if callee is None or not (callee.address or callee.name):
                if not self._walker.widens(flow, block):
                    return False
                continue
            if callee.address is not None:
                if not self._stays(self._program.owner.get(callee.address, callee.address)):
                    return False
            elif not (is_cuda(callee.name) or callee.name in library.TRUSTED or not self._program.returns(callee)):
                return False
        return True

    def _stays(self, start: int) -> bool:
        """Whether a function called on the way to the end calls only what is known."""
        known = self._stay.get(start)
        if known is None:
            self._stay[start] = False
            try:
                flow = self._walker.structure(start).flow
                blocks = flow.blocks.values()
                known = all(self._safe(flow, b) and (b.end != STOP or self._stops(flow, b)) for b in blocks)
            except Refused:
                known = False
            self._stay[start] = known
        return known

    def _stops(self, flow: ControlFlow, block: Block) -> bool:
        """Whether the block's last instruction ends the process."""
        last = block.instructions[-1]
        callee = flow.calls.get(last.address)
        if callee is None:
            return last.mnemonic in ("ud2", "hlt")
        if callee.address is not None:
            start = self._program.owner.get(callee.address, callee.address)
            if start not in self._program.never_returns:
                return False
            try:
                inner = self._walker.structure(start).flow
            except Refused:
                return False
            if start not in self._functions:
                self._functions[start] = False
                self._functions[start] = self.ends(inner, inner.entry)
            return self._functions[start]
        name = callee.name
        if name in names.ENDS | names.ENDS_WITH_HANDLERS | names.TERMINATES | {names.BAD_CAST}:
            return True
        thrown = not self._program.returns(callee) and name not in names.JUMPS and name != "pthread_exit"
        return thrown and not self._walker.catches
