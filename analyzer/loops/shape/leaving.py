"""Whether a loop may be left in ways that no exit test tells: code that throws an exception or calls longjmp.

Owns the search for such code, in the loop, behind its branches to code that never comes back, and in the functions of
the file that are called from there. Where the analysis of a function knows which of its blocks run as long as CUDA's
calls succeed, only those count. The library's own errors (std::length_error, std::bad_alloc and the like) are errors,
as `exit` is.
"""

from __future__ import annotations

from collections.abc import Iterable

from farlane.analyzer.flow.function import Analysis
from farlane.analyzer.flow.summary import Functions
from farlane.analyzer.graph.control_flow import EXCEPTION
from farlane.analyzer.graph.program import Callee
from farlane.analyzer.graph.structure import Loop

_LEAVES = frozenset({"__cxa_throw", "__cxa_rethrow", "longjmp", "_longjmp", "siglongjmp", "__longjmp_chk"})


class Leaving:
    """Answers for one program."""

    def __init__(self, functions: Functions) -> None:
        self._functions, self._program = functions, functions.program

    def may_leave(self, analysis: Analysis, loop: Loop) -> bool:
        """Whether the loop may be left by an exception or a jump, its own or one of the functions that it calls."""
        if not self._anywhere():
            return False
        executed, blocks = analysis.result.executed, analysis.structure.flow.blocks
        seen = {
            loop.header,
            *(
                block
                for block in loop.blocks
                if any((p, block) in executed for p in analysis.structure.predecessors[block])
            ),
        }
        work = [
            edge.target
            for block in seen
            for edge in blocks[block].edges
            if (block, edge.target) in loop.error_exits and (block, edge.target) in executed and edge.kind != EXCEPTION
        ]
        while work:
            start = work.pop()
            if start not in seen:
                seen.add(start)
                edges = blocks[start].edges
                work += [e.target for e in edges if e.kind != EXCEPTION and (start, e.target) in executed]
        return any(self._leaves(callee, set()) for callee in self._called(analysis, seen))

    def _anywhere(self) -> bool:
        return any(self._program.image.imports(name) for name in _LEAVES)

    def _called(self, analysis: Analysis, blocks: Iterable[int]) -> set[Callee]:
        flow = analysis.structure.flow
        return {
            flow.calls[instruction.address]
            for start in blocks
            for instruction in flow.blocks[start].instructions
            if instruction.address in flow.calls
        }

    def _leaves(self, callee: Callee, asked: set[int]) -> bool:
        if callee.address is None:
            return callee.name in _LEAVES
        start = self._program.owner.get(callee.address, callee.address)
        if start in asked or start not in self._program.callees:
            return False
        asked.add(start)
        if not self._reaches(start):
            return False
        analysis = self._functions.analysis(start)
        if analysis is None:
            return True
        runs = {analysis.structure.flow.entry, *(target for _, target in analysis.result.executed)}
        return any(self._leaves(each, asked) for each in self._called(analysis, runs))

    def _reaches(self, start: int) -> bool:
        """Whether such a call stands in a function or in what it calls, whether it may run or not."""
        seen, work = {start}, [start]
        while work:
            for callee in self._program.callees.get(work.pop(), ()):
                if callee.address is None:
                    if callee.name in _LEAVES:
                        return True
                    continue
                inner = self._program.owner.get(callee.address, callee.address)
                if inner not in seen:
                    seen.add(inner)
                    work.append(inner)
        return False
