"""What the page shows of a program beside its loops: functions as graphs of blocks with their instructions.

Owns which functions are shown: those with a loop that calls CUDA first, then the others that reach CUDA, until the page
has `MAXIMUM_INSTRUCTIONS`; what is left out is counted. Everything here is text and addresses: nothing is markup yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from farlane.analyzer.api.program import Executable
from farlane.analyzer.externals.names import is_cuda
from farlane.analyzer.graph import control_flow
from farlane.analyzer.graph.control_flow import ControlFlow
from farlane.analyzer.graph.program import Program
from farlane.analyzer.graph.splitting import split
from farlane.analyzer.graph.structure import Structure
from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.loops.model import Call, LoopReport
from farlane.analyzer.report.sources import Place, Sources
from farlane.demangle import readable

MAXIMUM_INSTRUCTIONS = 40_000
MAXIMUM_BLOCKS = 600  # of one function's drawing


@dataclass(frozen=True)
class Line:
    """An instruction, what is called there (a CUDA call as the analysis describes it, or a name), and its source line."""

    address: int
    text: str
    calls: tuple[Call, ...] = ()
    callee: str = ""
    place: Place | None = None


@dataclass(frozen=True)
class Block:
    """A block: its instructions, where it goes, and the innermost loop around it that calls CUDA."""

    start: int
    lines: tuple[Line, ...]
    targets: tuple[tuple[int, str], ...]
    end: str
    loop: LoopReport | None

    @property
    def touches_cuda(self) -> bool:
        """Whether a CUDA call is made in it, or a function called that makes one."""
        return any(line.calls or is_cuda(line.callee) for line in self.lines)


@dataclass(frozen=True)
class Function:
    """A function; `order` lists its blocks in reverse postorder, `back` its loops' back edges."""

    name: str
    entry: int
    blocks: dict[int, Block]
    order: tuple[int, ...]
    back: frozenset[tuple[int, int]]
    loops: tuple[LoopReport, ...]


@dataclass(frozen=True)
class Listing:
    """The functions shown, and the names of those left out."""

    functions: tuple[Function, ...]
    left_out: tuple[str, ...]


def read(executable: Executable) -> Listing:
    """The functions of an executable that reach CUDA."""
    program, sources = executable.program, Sources(executable.path)
    loops: dict[int, list[LoopReport]] = defaultdict(list)
    for loop in executable.loops:
        loops[loop.entry].append(loop)
    functions = [function for function in executable.functions if function.reaches_cuda]
    functions.sort(key=lambda function: (function.address not in loops, function.address))
    shown: list[Function] = []
    left_out: list[str] = []
    instructions = 0
    for function in functions:
        name, entry = function.name, function.address
        try:
            flow = control_flow.build(program, entry)
        except AnalysisError:
            left_out.append(name)
            continue
        size = sum(len(block.instructions) for block in flow.blocks.values())
        if instructions + size > MAXIMUM_INSTRUCTIONS or len(flow.blocks) > MAXIMUM_BLOCKS:
            left_out.append(name)
            continue
        instructions += size
        shown.append(_function(program, flow, function.disassembly, loops.get(entry, ()), sources))
    return Listing(tuple(shown), tuple(left_out))


def _function(
    program: Program, flow: ControlFlow, texts: Mapping[int, str], loops: Iterable[LoopReport], sources: Sources
) -> Function:
    structure = split(program, Structure(flow))
    described: dict[int, list[Call]] = defaultdict(list)
    by_header = {loop.header: loop for loop in loops}
    # The innermost loop's description of a call is the one that says most about it.
    for loop in sorted(by_header.values(), key=lambda loop: -loop.depth):
        for call in loop.calls:
            site = call.chain[0] if call.chain else call.site
            if not any(known.site == call.site and known.chain == call.chain for known in described[site]):
                described[site].append(call)
    blocks = {}
    for block in flow.blocks.values():
        lines = []
        for instruction in block.instructions:
            callee = flow.calls.get(instruction.address)
            name = readable(callee.name) if callee is not None else ""
            if callee is not None and callee.address is None and is_cuda(callee.name):
                name = callee.name
            text = texts.get(instruction.address, instruction.mnemonic)
            calls = tuple(described.get(instruction.address, ()))
            lines.append(Line(instruction.address, text, calls, name, sources.at(instruction.address)))
        targets = tuple((edge.target, edge.kind) for edge in block.edges)
        blocks[block.start] = Block(
            block.start, tuple(lines), targets, block.end, _around(structure, by_header, block.start)
        )
    back = frozenset((latch, loop.header) for loop in structure.loops.values() for latch in loop.latches)
    order = tuple(start for start in structure.order if start in blocks)
    ordered = tuple(sorted(by_header.values(), key=lambda loop: (loop.header, loop.depth)))
    return Function(flow.name, flow.entry, blocks, order, back, ordered)


def _around(structure: Structure, by_header: dict[int, LoopReport], block: int) -> LoopReport | None:
    loop = structure.innermost(block)
    while loop is not None and loop.header not in by_header:
        loop = structure.loops[loop.parent] if loop.parent is not None else None
    return by_header[loop.header] if loop is not None else None
