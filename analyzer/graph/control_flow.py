"""The control-flow graph of one function: blocks and edges, by recursive descent from its entry.

A jump that leaves the function is a tail call. A call that never returns ends its block. A call inside a try region
ends its block too, with an edge to the landing pad. A computed jump whose targets are not known leaves the graph
incomplete, and says so.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from farlane.analyzer.graph import jump_tables
from farlane.analyzer.graph.program import Callee, Program
from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.machine.instruction import Immediate, Instruction, Memory

MAXIMUM_INSTRUCTIONS = 200_000
_ENDING = frozenset("cjrihu")  # first letters of what may end a block

FALL, TAKEN, JUMP, TABLE, EXCEPTION = "fall", "taken", "jump", "table", "exception"
RETURN, TAIL, STOP, UNRESOLVED, GOES_ON = "return", "tail", "stop", "unresolved", ""
LEAVING = frozenset({RETURN, TAIL, UNRESOLVED})  # ends by which the caller may go on


class Edge(NamedTuple):
    target: int
    kind: str


@dataclass(frozen=True)
class Block:
    """Instructions that run one after another.

    Attributes:
        end: how the function is left here: RETURN, TAIL (call), STOP (a call that never returns, ud2), UNRESOLVED (a
            computed jump), or GOES_ON.
    """

    start: int
    instructions: tuple[Instruction, ...]
    edges: tuple[Edge, ...]
    end: str = GOES_ON


@dataclass(frozen=True)
class ControlFlow:
    """The graph of one function.

    Attributes:
        blocks: start -> block, those reachable from the entry.
        calls: address of a call instruction (or a jump that is a tail call) -> what it calls.
        unresolved: addresses of computed jumps with unknown targets.
    """

    name: str
    entry: int
    blocks: dict[int, Block]
    calls: dict[int, Callee]
    unresolved: tuple[int, ...]

    def holding(self, address: int) -> Block | None:
        """The block with the instruction at an address."""
        start = self._starts.get(address)
        return None if start is None else self.blocks[start]

    @cached_property
    def _starts(self) -> dict[int, int]:
        """Address of an instruction -> its block."""
        return {i.address: start for start, block in reversed(self.blocks.items()) for i in block.instructions}


def build(program: Program, start: int) -> ControlFlow:
    """The control-flow graph of a function; each is made once.

    Raises:
        AnalysisError: it is too large, or a jump goes into the middle of an instruction.
    """
    known = program.graphs.get(start)
    if known is None:
        known = program.graphs[start] = _Builder(program, start).run()
    assert isinstance(known, ControlFlow)
    return known


class _Builder:
    def __init__(self, program: Program, start: int) -> None:
        self.program, self.start = program, start
        self.parts = program.parts(start)
        self.instructions: dict[int, Instruction] = {}
        self.order: list[Instruction] = []
        for part in self.parts:
            code = program.image.read(part.start, part.end - part.start) or b""
            decoded = program.decoder.decode(code, part.start)
            if len(decoded) + len(self.order) > MAXIMUM_INSTRUCTIONS:
                raise AnalysisError(f"{program.ranges[start].name}: more than {MAXIMUM_INSTRUCTIONS} instructions")
            self.order += decoded
            self.instructions.update((instruction.address, instruction) for instruction in decoded)
        self.calls: dict[int, Callee] = {}
        self.unresolved: list[int] = []
        # Address of an instruction that ends its block -> (edges, end).
        self.ends: dict[int, tuple[tuple[Edge, ...], str]] = {}
        self.bounds = [(part.start, part.end) for part in self.parts]
        self.tables = jump_tables.Finder(program.image, self.order, self.inside)
        # Where decoded code of the function ends without more of it following.
        self.outside = frozenset(part.end for part in self.parts if not self.inside(part.end))
        self.pads = _Pads([pad for part in self.parts for pad in part.landing_pads if self.inside(pad[2])])

    def inside(self, address: int) -> bool:
        return any(start <= address < end for start, end in self.bounds)

    def run(self) -> ControlFlow:
        leaders = {self.start}
        work = [self.start]
        seen: set[int] = set()
        while work:
            address = work.pop()
            while address not in seen:
                seen.add(address)
                instruction = self.instructions.get(address)
                if instruction is None:
                    raise AnalysisError(f"{self.program.ranges[self.start].name}: no instruction at {address:#x}")
                if instruction.mnemonic[0] not in _ENDING:
                    following = address + instruction.size
                    if following not in self.outside:
                        address = following
                        continue
                ending = self._ending(instruction)
                if ending is None:
                    address = instruction.end
                    continue
                self.ends[address] = ending
                for edge in ending[0]:
                    leaders.add(edge.target)
                    work.append(edge.target)
                break
        blocks = {leader: self._block(leader, leaders) for leader in sorted(leaders)}
        name = self.program.ranges[self.start].name
        return ControlFlow(name, self.start, blocks, self.calls, tuple(sorted(self.unresolved)))

    def _block(self, leader: int, leaders: set[int]) -> Block:
        instructions, ends = self.instructions, self.ends
        body: list[Instruction] = []
        address = leader
        while True:
            instruction = instructions[address]
            body.append(instruction)
            if address in ends:
                edges, end = ends[address]
                return Block(leader, tuple(body), edges, end)
            address += instruction.size
            if address in leaders:
                return Block(leader, tuple(body), (Edge(address, FALL),))

    def _ending(self, instruction: Instruction) -> tuple[tuple[Edge, ...], str] | None:
        mnemonic = instruction.mnemonic
        if mnemonic[0] not in _ENDING:
            return None if instruction.end not in self.outside else ((), STOP)
        if mnemonic == "call":
            return self._call(instruction)
        if mnemonic in ("ret", "retf", "iretq"):
            return (), RETURN
        if mnemonic in ("hlt", "ud2", "int3"):
            return (), STOP
        if not mnemonic.startswith("j"):
            return None if instruction.end not in self.outside else ((), STOP)
        target, slot = _target(instruction)
        if mnemonic != "jmp":
            edges = [Edge(instruction.end, FALL)] if self.inside(instruction.end) else []
            if target is not None and self.inside(target):
                edges.append(Edge(target, TAKEN))
                return tuple(edges), GOES_ON
            self.calls[instruction.address] = self.program.resolve(target, slot)
            return tuple(edges), TAIL
        if target is not None and self.inside(target):
            return (Edge(target, JUMP),), GOES_ON
        if target is None and slot is None:
            targets = self.tables.targets(instruction)
            if targets is not None:
                return tuple(Edge(each, TABLE) for each in targets), GOES_ON
            self.unresolved.append(instruction.address)
            return (), UNRESOLVED
        callee = self.program.resolve(target, slot)
        self.calls[instruction.address] = callee
        return (), TAIL if self.program.returns(callee) else STOP

    def _call(self, instruction: Instruction) -> tuple[tuple[Edge, ...], str] | None:
        callee = self.program.resolve(*_target(instruction))
        self.calls[instruction.address] = callee
        edges = tuple(Edge(pad, EXCEPTION) for pad in self.pads.at(instruction.address))
        if not self.program.returns(callee) or instruction.end in self.outside:
            return edges, GOES_ON if edges else STOP
        return ((Edge(instruction.end, FALL), *edges), GOES_ON) if edges else None


class _Pads:
    """Landing pads of a function: (start, end, address) of each, as the exception tables have them."""

    def __init__(self, pads: list[tuple[int, int, int]]) -> None:
        self._pads = sorted(pads)
        self._starts = [start for start, _, _ in self._pads]
        # Compilers' tables do not overlap; damaged ones may.
        self._disjoint = all(one[1] <= other[0] for one, other in pairwise(self._pads))

    def at(self, address: int) -> list[int]:
        """Where an exception from an instruction may go on."""
        if not self._disjoint:
            return sorted({pad for start, end, pad in self._pads if start <= address < end})
        index = bisect.bisect_right(self._starts, address) - 1
        return [self._pads[index][2]] if index >= 0 and address < self._pads[index][1] else []


def _target(instruction: Instruction) -> tuple[int | None, int | None]:
    operand = instruction.operands[0] if instruction.operands else None
    if isinstance(operand, Immediate):
        return operand.value, None
    if isinstance(operand, Memory) and operand.base < 0 and operand.indexed < 0 and not operand.thread:
        return None, operand.displacement
    return None, None
