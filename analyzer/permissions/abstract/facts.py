"""What the abstract machine asks of a program and its functions: graphs, frames, what may throw; and `Regions`, what it
finds of one."""

from __future__ import annotations

from dataclasses import dataclass, field

from farlane.analyzer.externals import interface, names
from farlane.analyzer.graph import control_flow, structure
from farlane.analyzer.graph.control_flow import Block, ControlFlow
from farlane.analyzer.graph.program import Program
from farlane.analyzer.graph.structure import Structure
from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.machine.instruction import CALLEE_SAVED, NONE, RSP, Immediate, Memory, Register
from farlane.analyzer.permissions.abstract.domain import Objects
from farlane.analyzer.permissions.abstract.memory import Access, State
from farlane.analyzer.permissions.abstract.operands import Refused

PROGRAM = 400_000  # instructions executed for a program
TOTAL = (
    60_000  # for one analyzed function; each that takes too long halves it for those that follow, down to walk.LEAST
)


@dataclass
class Regions:
    """What was found of one function.

    Attributes:
        before: block -> the state before it; blocks that no execution reaches are missing.
        accesses: block -> what it and its callees touch.
        edges: edges that may run.
        sites: call instruction of this function -> the state before it; tails: the same of jumps to other functions.
        escaped: block -> what has escaped behind it.
        inner: call instruction -> the same of the function that it calls, as the last, most general of its executions
            found it. Offsets of the frame are this function's.
        expanded: call instructions in whose place what they call was put (`inlining`).
    """

    structure: Structure
    before: dict[int, State] = field(default_factory=dict)
    accesses: dict[int, list[Access]] = field(default_factory=dict)
    edges: dict[int, list[int]] = field(default_factory=dict)
    sites: dict[int, State] = field(default_factory=dict)
    tails: dict[int, State] = field(default_factory=dict)
    escaped: dict[int, Objects] = field(default_factory=dict)
    inner: dict[int, Regions] = field(default_factory=dict)
    expanded: frozenset[int] = frozenset()


class Facts:
    """Of one program; keeps its functions' graphs."""

    def __init__(self, program: Program) -> None:
        self.program, self.image = program, program.image
        self.imports = frozenset(self.image.slots.values()) | frozenset(self.image.stubs.values())
        # With a C++ library linked into the file, what it imports says nothing.
        pads = any(function.landing_pads for function in self.image.functions)
        self.catches = names.CATCHES in self.imports or (pads and not self.imports & names.UNWINDS)
        self.streams_throw = names.CLEAR in self.imports or not self.imports & names.UNWINDS
        self.apart = self._apart()
        self._structures: dict[int, Structure | str] = {}
        self._tops: dict[int, int | None] = {}
        self._positions: dict[int, dict[int, int]] = {}
        self._kept: dict[int, int] = {}
        self._left, self._all, self._total = 0, PROGRAM, TOTAL

    def _apart(self) -> bool:
        """Whether the code at hand alone can see what the device holds: a program that shares no memory with the device,
        starts no threads and handles no signals. An address in the device's memory comes back then by a copy of the code's
        own alone, or by an unknown function that it calls."""
        shares = interface.SHARES
        alone = not any(name.startswith(names.THREADS) or interface.plain(name) in shares for name in self.imports)
        return alone and self.image.entry != 0 and not self.imports & names.SIGNALS

    def structure(self, start: int) -> Structure:
        """A function's graph; raises Refused."""
        known = self._structures.get(start)
        if known is None:
            try:
                flow = control_flow.build(self.program, start)
                known = f"a computed jump in {flow.name}" if flow.unresolved else structure.build(self.program, start)
            except AnalysisError as error:
                known = str(error)
            self._structures[start] = known
        if isinstance(known, str):
            raise Refused(known)
        return known

    def widens(self, flow: ControlFlow, block: Block) -> bool:
        """Whether a computed call is std::endl's of a character type's do_widen, whose address was looked at just
        before."""
        before = [other for other in flow.blocks.values() if any(edge.target == block.start for edge in other.edges)]
        return bool(before) and all(self._names_widen(other) for other in before)

    def _names_widen(self, block: Block) -> bool:
        for instruction in block.instructions:
            for operand in instruction.operands:
                if isinstance(operand, Memory) and operand.base == NONE and operand.indexed == NONE:
                    function = self.program.ranges.get(operand.displacement)
                    named = function.name if function else self.image.slots.get(operand.displacement)
                    if named == names.WIDEN:
                        return True
        return False

    def spend(self, count: int) -> int:
        self._left -= count
        return self._left

    def position(self, start: int) -> dict[int, int]:
        """Block -> its place in the order of a function's blocks."""
        known = self._positions.get(start)
        if known is None:
            known = {block: index for index, block in enumerate(self.structure(start).order)}
            self._positions[start] = known
        return known

    def top(self, start: int) -> int | None:
        """How far below its return address a function's frame ends, the parts for arguments of calls left out."""
        if start not in self._tops:
            self._tops[start] = _top(self.structure(start))
        return self._tops[start]

    def saved(self, start: int) -> int:
        """The bytes in which a function keeps its caller's registers."""
        if start not in self._kept:
            self._kept[start] = _saved(self.structure(start))
        return self._kept[start]


def _saved(structure: Structure) -> int:
    """The bytes, from the return address downward, in which a function keeps its caller's registers: no object lies
    across them."""
    kept, found = set(CALLEE_SAVED), 0
    for instruction in structure.flow.blocks[structure.flow.entry].instructions:
        used = {operand.number for operand in instruction.operands if isinstance(operand, Register)}
        if instruction.mnemonic == "push" and used & kept:
            found += 8
        elif instruction.mnemonic in ("push", "pop", "call", "leave") or (
            instruction.mnemonic != "mov" and RSP in used
        ):
            break
        kept -= used
    return found


def _top(structure: Structure) -> int | None:
    """The highest stack pointer at a call; None when there is no call."""
    seen: dict[int, int] = {}
    work = [(structure.flow.entry, 0)]
    found: list[int] = []
    while work:
        start, depth = work.pop()
        if start in seen:
            continue
        seen[start] = depth
        block = structure.flow.blocks[start]
        for instruction in block.instructions:
            name, operands = instruction.mnemonic, instruction.operands
            if name == "push":
                depth -= 8
            elif name == "pop":
                depth += 8
            elif name in ("sub", "add") and isinstance(operands[0], Register) and operands[0].number == RSP:
                if isinstance(operands[1], Immediate):
                    depth += -operands[1].value if name == "sub" else operands[1].value
            elif name == "call":
                found.append(depth)
        work += [(edge.target, depth) for edge in block.edges]
    return max(found, default=None)
