"""Which values are the same for all lanes of a warp, and where lanes part.

Owns the classification uniform / varying of SSA values, the loops that lanes leave at different iterations, and the choice
between two sets of rules:

- ordinary: lanes that part at a branch meet again at its post-dominator (the block order guarantees it; checked here). A value is
  varying when an operand is, when the operation depends on the lane, when it is a phi where parted lanes meet, or when it is read
  outside a loop that lanes leave at different iterations ("exported").
- conservative: the order does not guarantee that, or lanes part round a barrier. Only values computed from constants, parameters
  and launch-wide special registers are uniform; every value that crosses blocks is kept per lane.

Between uniform and varying lie the affine values of strides.py (ordinary rules only).
Source: facts page "Divergence"; Rosemann, Moll, Hack, "An Abstract Interpretation for SPMD Divergence on Reducible CFGs".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from farlane.backend.jit.analysis import strides
from farlane.backend.jit.analysis.strides import varying_axes
from farlane.backend.jit.ptx.instructions import Trait, having
from farlane.backend.jit.ptx.model import Address, Instruction, Special, Symbol, extends, read_by, registers_of
from farlane.backend.jit.ssa.blocks import EXIT
from farlane.backend.jit.ssa.cfg import EFFECTS, Graph
from farlane.backend.jit.ssa.ssa import Phi, Value

LANE_SPECIALS = {"laneid", "lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt"}
_VARYING_OPERATIONS = having(Trait.VARYING)
_TIMED = having(Trait.TIMED)
_TIMED_SPECIALS = {"clock", "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi", "smid", "warpid"}


@dataclass(slots=True)
class Divergence:
    """What the emitter needs to know beside the values' own flags."""

    conservative: bool = False
    loops: set[int] = field(default_factory=set)  # headers of loops left at different iterations
    branches: set[int] = field(default_factory=set)  # blocks that end in a varying branch
    parted: set[int] = field(default_factory=set)  # blocks where some lanes may wait elsewhere
    waiting: set[int] = field(default_factory=set)  # headers of loops that wait for other threads (spins.py)


def analyse(
    graph: Graph, values: list[Value], block: tuple[int, int, int], entry: bool, parameters: set[str]
) -> Divergence:
    """Sets `varying`, `crosses`, `used` and `exported` of every value.

    Args:
        block: the block's shape, which decides what %tid is.
        entry: whether it is a kernel; a device function's arguments are varying.
        parameters: the kernel's parameters; other .param variables hold what calls return.
    """
    analysis = _Analysis(graph, values, block, entry, parameters)
    return analysis.run()


def conservative(
    graph: Graph, values: list[Value], block: tuple[int, int, int], entry: bool, parameters: set[str]
) -> Divergence:
    """The same under the conservative rules, whatever the graph."""
    analysis = _Analysis(graph, values, block, entry, parameters)
    analysis.result.conservative = True
    return analysis.run()


def warp_group(
    graph: Graph, values: list[Value], block: tuple[int, int, int], steps: dict[str, int], parameters: set[str]
) -> Divergence:
    """The same for a warp group of warps (warp_groups.py), whose lanes never part. `steps`: WarpGroup.steps."""
    return _GroupAnalysis(graph, values, block, steps, parameters).run()


class _Analysis:
    def __init__(
        self, graph: Graph, values: list[Value], block: tuple[int, int, int], entry: bool, parameters: set[str]
    ) -> None:
        self.graph, self.values, self.block, self.entry = graph, values, block, entry
        self.axes = varying_axes(block)
        self.parameters = parameters if entry else set()
        self.result = Divergence()
        self.joins: set[int] = set()
        self.successors = [block.successors for block in graph.blocks]

    def run(self) -> Divergence:
        while not self.result.conservative and self._pass():
            pass
        if not self.result.conservative and self._barrier_in_parted():
            self.result.conservative = True
        if self.result.conservative:
            self._conservative()
        self._uses()
        return self.result

    # Ordinary rules ----------------------------------------------------------------------------------------------
    def _pass(self) -> bool:
        changed = False
        for index, block in enumerate(self.graph.blocks):
            for phi in block.phis:
                changed |= self._raise(phi.value, self._phi_class(index, phi))
            dirty = False
            for instruction in block.instructions:
                found = self._class(index, instruction, dirty)
                for value in instruction.destinations:
                    if value is not None:
                        changed |= self._raise(value, found)
                dirty = dirty or instruction.base in EFFECTS
            if index not in self.result.branches and any(
                self._reads_varying(value, index) for value in registers_of(block.condition)
            ):
                self.result.branches.add(index)
                self._part(index)
                if self.result.conservative:
                    return False
                changed = True
        return changed

    @staticmethod
    def _raise(value: Value, found: int | None) -> bool:
        """Moves a value up the lattice uniform < affine < varying; returns whether it moved."""
        if not value.visited:
            value.visited = True
            value.varying, value.stride = found != strides.UNIFORM, None if found == strides.UNIFORM else found
            return True
        if value.varying and value.stride is None:
            return False
        if found == strides.UNIFORM or (value.varying and found == value.stride):
            return False
        value.stride = None if value.varying else found
        value.varying = True
        return True

    def _value_class(self, value: Value, block: int) -> int | None:
        if not self._reads_varying(value, block):
            return strides.UNIFORM
        return value.stride if value.varying and not self._left_loop(value, block) else None

    def _operand_class(self, operand: Any, block: int) -> int | None:
        if isinstance(operand, Value):
            return self._value_class(operand, block)
        if isinstance(operand, Special):
            if not self.entry:
                return None if operand.name.split(".")[0] in LANE_SPECIALS | {"tid"} else strides.UNIFORM
            return strides.special_stride(operand.name, self.block)
        varying = any(self._reads_varying(value, block) for value in registers_of(operand))
        return None if varying else strides.UNIFORM

    def _class(self, index: int, instruction: Instruction, dirty: bool) -> int | None:
        """The class of an instruction's results."""
        if self.depends_on_lane(instruction) and instruction.base in _VARYING_OPERATIONS | {"ld", "ldu"}:
            return None
        classes = [self._operand_class(operand, index) for operand in instruction.sources]
        if all(item == strides.UNIFORM for item in classes):
            return strides.UNIFORM
        if dirty and extends(instruction):
            return None
        return strides.transfer(instruction, classes)

    def _phi_class(self, index: int, phi: Phi) -> int | None:
        known = [(source, value) for source, value in phi.operands.items() if value.visited or value.definition is None]
        classes = [self._value_class(value, source) for source, value in known]
        if index in self.joins or None in classes:
            return None
        if all(item == strides.UNIFORM for item in classes):
            return strides.UNIFORM
        found = {0 if item == strides.UNIFORM else item for item in classes}
        return found.pop() if len(found) == 1 else None

    def _reads_varying(self, value: Value, block: int) -> bool:
        return value.varying or self._left_loop(value, block)

    def _left_loop(self, value: Value, block: int) -> bool:
        """Whether `block` lies outside of a loop that lanes leave at different iterations and that defines the value."""
        return any(
            value.block in self.graph.loops[header] and block not in self.graph.loops[header]
            for header in self.result.loops
        )

    def depends_on_lane(self, instruction: Instruction) -> bool:
        """Whether the result may differ between lanes although the operands do not."""
        base, modifiers = instruction.base, instruction.modifiers
        if base in _VARYING_OPERATIONS:
            return True
        if base in ("ld", "ldu"):
            if "param" in modifiers and instruction.sources:
                operand = instruction.sources[0]
                base = operand.base if isinstance(operand, Address) else operand
                return isinstance(base, Symbol) and base.name not in self.parameters
            return not any(space in modifiers for space in ("global", "shared", "const"))
        for source in instruction.sources:
            if isinstance(source, Special):
                name, _, axis = source.name.partition(".")
                if name in LANE_SPECIALS or (name == "tid" and (not self.entry or axis in self.axes)):
                    return True
        return False

    def _part(self, index: int) -> None:
        """Lanes part at the end of block `index`."""
        graph = self.graph
        targets = self.successors[index]
        if len(targets) < 2:
            return
        meeting = graph.ipdom[index]
        # From which targets each block is reached: two of them say that lanes meet there.
        region: dict[int, set[int]] = {}
        stack = [(target, target) for target in targets]
        while stack:
            node, target = stack.pop()
            sources = region.setdefault(node, set())
            if target in sources or len(sources) == 2:
                continue
            sources.add(target)
            if node != meeting:
                stack.extend((following, target) for following in self.successors[node])
        self.joins.update(node for node, sources in region.items() if len(sources) == 2)
        inside = region.keys() - {meeting}
        self.result.parted |= inside
        if meeting != EXIT and any(node > meeting and self.successors[node] for node in inside):
            self.result.conservative = True
        for header, members in graph.loops.items():
            if index in members and (meeting not in members or any(target not in members for target in targets)):
                self.result.loops.add(header)

    def _barrier_in_parted(self) -> bool:
        return any(
            instruction.base in ("bar", "barrier") and "warp" not in instruction.modifiers
            for index in self.result.parted
            for instruction in self.graph.blocks[index].instructions
        )

    # Conservative rules ------------------------------------------------------------------------------------------
    def _conservative(self) -> None:
        for value in self.values:
            value.varying, value.stride = True, None
        for block in self.graph.blocks:
            for instruction in block.instructions:
                if self._invariant(instruction):
                    for value in instruction.destinations:
                        if value is not None:
                            value.varying = False
        self.result.branches = {
            index
            for index, block in enumerate(self.graph.blocks)
            if any(value.varying for value in registers_of(block.condition))
        }
        self.result.parted = set(range(len(self.graph.blocks)))
        self.result.loops = set(self.graph.loops)

    def _invariant(self, instruction: Instruction) -> bool:
        if self.depends_on_lane(instruction):
            return False
        if instruction.base in _TIMED and "param" not in instruction.modifiers:
            return False
        for source in instruction.sources:
            if isinstance(source, Special) and source.name.split(".")[0] in _TIMED_SPECIALS:
                return False
            if any(value.varying for value in registers_of(source)):
                return False
        return True

    # Uses --------------------------------------------------------------------------------------------------------
    def _uses(self) -> None:
        for index, block in enumerate(self.graph.blocks):
            for instruction in block.instructions:
                for value in read_by(instruction):
                    self._use(value, index)
            self._use(block.condition, index)
            for phi in block.phis:
                for source_block, value in phi.operands.items():
                    self._use(value, source_block)
                    # Lanes that have parked at a barrier take the edge behind it when others have run in between.
                    if self.result.conservative and value.block == source_block and self._parks(source_block):
                        value.crosses = True
                        value.exported |= value.varying

    def _parks(self, block: int) -> bool:
        instructions = self.graph.blocks[block].instructions
        return bool(instructions) and instructions[-1].base in ("bar", "barrier")

    def _use(self, operand: Any, block: int) -> None:
        for value in registers_of(operand):
            value.used = True
            if value.block == block and not isinstance(value.definition, Phi):
                continue
            value.crosses = True
            if value.block == EXIT:
                continue
            if self.result.conservative:
                value.exported |= value.varying
            elif any(
                value.block in self.graph.loops[header] and block not in self.graph.loops[header]
                for header in self.result.loops
            ):
                value.exported = True


class _GroupAnalysis(_Analysis):
    def __init__(
        self,
        graph: Graph,
        values: list[Value],
        block: tuple[int, int, int],
        steps: dict[str, int],
        parameters: set[str],
    ) -> None:
        super().__init__(graph, values, block, True, parameters)
        self.axes = {"x", *steps}

    def _operand_class(self, operand: Any, block: int) -> int | None:
        if isinstance(operand, Special) and operand.name.startswith("tid."):
            axis = operand.name[4:]
            return strides.UNIFORM if axis not in self.axes else 1 if axis == "x" else 0
        return super()._operand_class(operand, block)

    def _part(self, index: int) -> None:
        """They do not: warps whose lanes disagree leave the warp group."""
