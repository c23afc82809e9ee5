"""Static single assignment: every register becomes values that are defined once.

Owns value numbering and the placing of phis (pruned: only where the register is live). Most registers of compiler-made PTX have one
definition that dominates every use; they are only renamed.
A register that may be read before it is written reads an undefined value (definition None), emitted as zero.
Source: Cytron et al., "Efficiently Computing Static Single Assignment Form".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from farlane.backend.jit.ptx.model import Address, Instruction, Negated, Register, Vector, read_by, registers_of
from farlane.backend.jit.ssa.blocks import EXIT
from farlane.backend.jit.ssa.cfg import Graph


@dataclass(slots=True, eq=False)
class Value:
    """One definition of a register."""

    number: int
    type: str
    block: int
    definition: Instruction | Phi | None = field(
        repr=False
    )  # values are shown in errors: not with all that they depend on
    varying: bool = False
    stride: int | None = None  # of a varying value that is affine (strides.py)
    visited: bool = False
    # Blocks (or predecessors' ends, for phis) outside the defining block that read it.
    crosses: bool = False
    used: bool = False
    exported: bool = False  # read outside a divergent loop that defines it: kept per lane


@dataclass(slots=True, eq=False)
class Phi:
    """The value that a block's entry selects by predecessor."""

    value: Value
    operands: dict[int, Value] = field(default_factory=dict)


def build(graph: Graph) -> list[Value]:
    """Rewrites the graph's instructions in place; returns all values."""
    return _Builder(graph).run()


class _Builder:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values: list[Value] = []
        self.single: dict[str, Value] = {}
        self.undefined: dict[str, Value] = {}

    def new(self, register: Register, block: int, definition: Instruction | Phi | None) -> Value:
        value = Value(len(self.values), register.type, block, definition)
        self.values.append(value)
        return value

    def run(self) -> list[Value]:
        definitions, exposed = self._survey()
        multiple = self._multiple(definitions)
        self._place(multiple, definitions, exposed)
        self._rename(multiple)
        return self.values

    def _survey(self) -> tuple[dict[str, list[int]], dict[str, set[int]]]:
        """Blocks that define each register, and blocks that read it before defining it."""
        definitions: dict[str, list[int]] = {}
        exposed: dict[str, set[int]] = {}
        self.types: dict[str, Register] = {}
        for index, block in enumerate(self.graph.blocks):
            own: set[str] = set()
            for instruction in block.instructions:
                for register in read_by(instruction):
                    if register.name not in own:
                        exposed.setdefault(register.name, set()).add(index)
                        self.types[register.name] = register
                for register in instruction.destinations:
                    if register is not None:
                        own.add(register.name)
                        definitions.setdefault(register.name, []).append(index)
                        self.types[register.name] = register
            for register in registers_of(block.condition):
                if register.name not in own:
                    exposed.setdefault(register.name, set()).add(index)
                    self.types[register.name] = register
        self.exposed = exposed
        return definitions, exposed

    def _multiple(self, definitions: dict[str, list[int]]) -> set[str]:
        """Registers that need renaming by position."""
        multiple: set[str] = set()
        for name, users in self.exposed.items():
            where = definitions.get(name)
            if where is None or (
                len(where) == 1 and any(user == where[0] or not self.graph.dominates(where[0], user) for user in users)
            ):
                multiple.add(name)
        multiple.update(name for name, where in definitions.items() if len(where) > 1)
        return multiple

    def _place(self, multiple: set[str], definitions: dict[str, list[int]], exposed: dict[str, set[int]]) -> None:
        blocks = self.graph.blocks
        frontier: list[set[int]] = [set() for _ in blocks]
        for index, block in enumerate(blocks):
            if len(block.predecessors) > 1:
                for source in block.predecessors:
                    runner = source
                    while runner != self.graph.idom[index]:
                        frontier[runner].add(index)
                        if runner == 0:
                            break
                        runner = self.graph.idom[runner]
        self.phi_names: dict[int, list[str]] = {}
        for name in sorted(multiple):
            where = set(definitions.get(name, ()))
            if not where:
                continue
            live = self._live_in(exposed.get(name, set()), where)
            work, placed = list(where), set()
            while work:
                for index in frontier[work.pop()]:
                    if index not in placed and index in live:
                        placed.add(index)
                        work.append(index)
                        register = self.types[name]
                        phi = Phi(self.new(register, index, None))
                        phi.value.definition = phi
                        blocks[index].phis.append(phi)
                        self.phi_names.setdefault(index, []).append(name)

    def _live_in(self, users: set[int], where: set[int]) -> set[int]:
        live = set(users)
        work = list(users)
        while work:
            for source in self.graph.blocks[work.pop()].predecessors:
                if source not in live and source not in where:
                    live.add(source)
                    work.append(source)
        return live

    def _rename(self, multiple: set[str]) -> None:
        graph = self.graph
        children: list[list[int]] = [[] for _ in graph.blocks]
        for index in range(1, len(graph.blocks)):
            children[graph.idom[index]].append(index)
        # First all single definitions, so that uses may be visited before them.
        for index, block in enumerate(graph.blocks):
            for instruction in block.instructions:
                for register in instruction.destinations:
                    if register is not None and register.name not in multiple:
                        self.single[register.name] = self.new(register, index, instruction)
        current = _Names(self)
        stack: list[tuple[int, bool]] = [(0, False)]
        marks: list[int] = []
        while stack:
            index, done = stack.pop()
            if done:
                current.undo(marks.pop())
                continue
            marks.append(len(current.trail))
            stack.append((index, True))
            self._rename_block(index, current, multiple)
            stack.extend((child, False) for child in reversed(children[index]))

    def _rename_block(self, index: int, current: _Names, multiple: set[str]) -> None:
        block = self.graph.blocks[index]
        for phi, name in zip(block.phis, self.phi_names.get(index, ()), strict=True):
            current.set(name, phi.value)
        for instruction in block.instructions:
            instruction.sources = [rewrite(source, current) for source in instruction.sources]
            if instruction.guard is not None:
                instruction.guard = rewrite(instruction.guard[0], current), instruction.guard[1]
            for position, register in enumerate(instruction.destinations):
                if register is None:
                    continue
                if register.name in multiple:
                    value = self.new(register, index, instruction)
                    current.set(register.name, value)
                else:
                    value = self.single[register.name]
                instruction.destinations[position] = value
        block.condition = rewrite(block.condition, current)
        for target in block.successors:
            for phi, name in zip(self.graph.blocks[target].phis, self.phi_names.get(target, ()), strict=True):
                phi.operands[index] = current[name]


class _Names(dict[str, Value]):
    """Register name -> current value, with an undo trail for the dominator-tree walk."""

    def __init__(self, builder: _Builder) -> None:
        super().__init__()
        self.builder = builder
        self.trail: list[tuple[str, Value | None]] = []

    def __missing__(self, name: str) -> Value:
        single = self.builder.single.get(name)
        if single is not None:
            return single
        undefined = self.builder.undefined.get(name)
        if undefined is None:
            undefined = self.builder.undefined[name] = self.builder.new(self.builder.types[name], EXIT, None)
        return undefined

    def set(self, name: str, value: Value) -> None:
        self.trail.append((name, self.get(name)))
        self[name] = value

    def undo(self, mark: int) -> None:
        while len(self.trail) > mark:
            name, value = self.trail.pop()
            if value is None:
                del self[name]
            else:
                self[name] = value


def rewrite(operand: Any, replace: dict[str, Value]) -> Any:
    """The operand with each register replaced by its current SSA value."""
    if isinstance(operand, Register):
        return replace[operand.name]
    if isinstance(operand, Address):
        return Address(rewrite(operand.base, replace), operand.offset)
    if isinstance(operand, Negated):
        return Negated(rewrite(operand.operand, replace))
    if isinstance(operand, Vector):
        return Vector(tuple(rewrite(item, replace) for item in operand.items))
    return operand
