"""The code of a warp group: warps of a block that run as one (warp_groups.py).

`GroupEmitter` emits the function @farlane_group once over the kernel's graph, with the same values as FunctionEmitter (emitter.py), but classes of its own: uniform is
what is the same in the whole warp group, affine what is so over all its rows. Vectors are per warp (group_values.py).

A block is emitted in segments, each in two steps. First what all warps share, among it the checks of accesses at uniform and affine addresses;
then, warp by warp, what differs. So a value that every warp loads from the same place is loaded once (LLVM sees to that, as no call
lies between), and no more of one warp's vectors are alive than its instructions need. A segment ends where a load follows a store, at
barriers. Checks come before the accesses of others, so that no page may be taken away by a check: sessions that have more memory than is there run without warp groups.

Source: warp_groups.py says when; "Leaving" below is what codegen.py takes up again (FunctionEmitter.resume).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from farlane.backend.jit.analysis import divergence, warp_groups
from farlane.backend.jit.analysis.warp_groups import FIRST_ENTRY, place_offset
from farlane.backend.jit.lowering import families, processors, support
from farlane.backend.jit.lowering.emitter import ALL
from farlane.backend.jit.lowering.emitters import agreement, guarding
from farlane.backend.jit.lowering.emitters.codegen import FunctionEmitter
from farlane.backend.jit.lowering.emitters.group_values import GroupValues
from farlane.backend.jit.lowering.families.accesses import addresses, memory
from farlane.backend.jit.lowering.ir import BITS, REGISTER_LLVM, Val, integer
from farlane.backend.jit.ptx.model import LANES, Address, Body, Instruction, Symbol, read_by, registers_of
from farlane.backend.jit.ssa.blocks import EXIT, Block
from farlane.backend.jit.ssa.cfg import Graph
from farlane.backend.jit.ssa.ssa import Value

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.kernel import KernelContext

EARLY = 1 << 16  # in the result: the warp group has not been worth it


class Unfit(Exception):
    """The kernel turns out to have no warp group."""


@dataclass
class Segment:
    """Instructions of a block between which no warp has to wait for another.

    Attributes:
        apart: whether it begins with a barrier, or where a load follows a store.
    """

    instructions: list[Instruction] = field(default_factory=list)
    apart: bool = False
    loads: bool = False
    stores: bool = False


def plan(kernel: KernelContext, body: Body, alone: FunctionEmitter) -> GroupEmitter | None:
    """What emits the warp group's code of a kernel that gets one."""
    options = kernel.options
    if (
        options.tier == 1
        or not options.warp_groups
        or options.checks
        or options.touches
        or not alone.dual
        or kernel.waits
    ):
        return None
    if len(kernel.bodies) > 1:
        return None
    if any(block.leaves == "trap" for block in alone.graph.blocks):
        return None
    for shape in warp_groups.shapes(kernel.block, kernel.fibers):
        looped = shape.warps > warp_groups.MOST
        if len(body.instructions) > (warp_groups.MOST_INSTRUCTIONS_LOOPED if looped else warp_groups.MOST_INSTRUCTIONS):
            return None
        graph, values, _ = kernel.prepare_again(body)
        if not all(warp_groups.accepts(item) for block in graph.blocks for item in block.instructions):
            return None
        found = divergence.warp_group(graph, values, kernel.block, shape.steps, set(kernel.parameter_offsets))
        if found.conservative or not warp_groups.coherent(graph, functools.partial(guarded, kernel, graph, looped)):
            return None
        emitter = GroupEmitter(kernel, alone, graph, found, shape)
        if emitter.fits():
            return emitter
    return None


def guarded(kernel: KernelContext, graph: Graph, looped: bool, index: int) -> bool:
    """Whether each warp does what is behind a branch for the lanes that want it."""
    return kernel.fibers and guarding.guards(graph, index, looped)


class GroupEmitter(GroupValues):
    def __init__(
        self,
        kernel: KernelContext,
        alone: FunctionEmitter,
        graph: Graph,
        found: divergence.Divergence,
        shape: warp_groups.WarpGroup,
    ) -> None:
        super().__init__(kernel, alone, graph, found, shape)
        self.entries: dict[int, list[Value]] = {}  # of the kernel's own code: what it goes on with
        self.done: set[int] = set()  # blocks that are emitted
        if self.looped:
            self._cross_segments()

    def fits(self) -> bool:
        """Whether what all warps need at once is no more than the processor has room for."""
        assert self.group is not None
        if self.looped:
            across = sum(BITS[REGISTER_LLVM[value.type]] * LANES // 8 for value in self._across)
            return across * self.warps <= warp_groups.AREA_BYTES and warp_groups.barriers_in_all_loops(self.graph)
        vectors = self.group.warps * warp_groups.vectors_in_loops(self.graph, self.live_in)
        features = self.kernel.options.features
        some, many = warp_groups.room(processors.host()[1] if features is None else features)
        most = many if self.kernel.fibers else some
        return vectors <= most and self.group.warps * warp_groups.copies(self.graph) <= warp_groups.MOST_COPIES

    # Function ----------------------------------------------------------------------------------------------------
    def emit(self) -> str:
        """The whole function as IR text.

        Raises:
            Unfit: more values live where the warp group may end than there is room for.
        """
        families.layout_frame(self)
        for index, block in enumerate(self.graph.blocks):
            if index not in self.done:
                self._blocks(index, block)
        self.prologue.branch("f0")
        lines = ["define internal i32 @farlane_group(ptr %warp, ptr %areas) #0 {", "entry:"]
        lines += [*self.allocas, "  %lsp = add i64 0, 0", *self.prologue.lines, *self.body.lines]
        return "\n".join([*lines, "done:", "  ret i32 0", "}"]) + "\n"

    def _blocks(self, index: int, block: Block) -> None:
        """A block, and those behind it to which the only way is from it."""
        self.body.block(f"f{index}")
        self._forget()
        leaving = []
        following: int | None = index
        while following is not None:
            self.block, self.leaves_full = following, False
            self.done.add(following)
            onward = self._block(following, self.graph.blocks[following])
            leaving += [following] if self.leaves_full else []
            following = onward
        self.leaves_full = True
        for each in leaving:
            self.leave_block(each)

    def _block(self, index: int, block: Block) -> int | None:
        """Returns the block that is to follow in the same code, if one is."""
        b = self.body
        for segment in self._segments(block):
            self._segment(segment)
        if block.condition is None or len(set(block.targets)) == 1:
            self._take_turns()
            self._full_jump(block.targets[0])
            return None
        if block.switch:
            self._take_turns()
            self._full_switch(index, block)
            return None
        yes, no = block.targets
        if not any(self._differs(value) for value in registers_of(block.condition)):
            self._take_turns()
            self._uniform_branch(self._condition(block), [(yes, self._full_jump), (no, self._full_jump)])
            return None
        inside = guarding.inner(self.graph, index, self.looped) if self.kernel.fibers else None
        if inside is not None and guarded(self.kernel, self.graph, self.looped, index):
            self.done.update(inside.blocks)
            return self._mixed(block, inside, onward=True)
        labels = [b.new_label(hint) for hint in ("all", "none", "mixed")]
        agreed = agreement.found(self, block.condition)
        if agreed is not None:
            self._take_turns()
            self._three_ways(*((agreed.none, agreed.every) if block.negated else (agreed.every, agreed.none)), labels)
        known = self._known()
        if agreed is None or not agreed.whole:
            # What is computed for that is not known on the ways that do without.
            self._three_ways(*self._look(block), labels)
            known = known if agreed is not None else self._known()
        b.branch(labels[2])
        for label, target in ((labels[0], yes), (labels[1], no)):
            self._recall(known)
            b.block(label)
            self._full_jump(target)
        self._recall(known)
        b.block(labels[2])
        if inside is not None:
            self._mixed(block, inside, onward=False)
            return None
        wanted = set(self.live_out[index]) | set(registers_of(block.condition))
        self._leave_at(FIRST_ENTRY + 2 * index + 1, sorted(wanted, key=lambda value: value.number))
        return None

    def _three_ways(self, every: Val, none: Val, labels: list[str]) -> None:
        """To the labels for all lanes and for none, and on here otherwise."""
        b = self.body
        not_all, neither = b.new_label("some"), b.new_label("neither")
        b.branch_if(every, labels[0], not_all)
        b.block(not_all)
        b.branch_if(none, labels[1], neither)
        b.block(neither)

    def _mixed(self, block: Block, inside: guarding.Region, onward: bool) -> int | None:
        """Blocks for the lanes that want them, and on to what is behind it, which may follow in the same code if no other way leads there (`onward`)."""
        b, index, graph = self.body, self.block, self.graph
        behind = inside.behind
        if behind != EXIT:
            self._move([(phi.value, phi.operands[index]) for phi in graph.blocks[behind].phis])

        def guarded() -> None:
            bits = b.bits(self._condition(block))
            guarding.emit(self, inside, bits if block.targets[0] == inside.steps[0].block else b.invert(bits))

        bases = inside.bases(graph)
        self._for_each(guarded, "ld" in bases, "st" in bases)
        if (
            onward
            and self.looped
            and index < behind
            and set(graph.blocks[behind].predecessors) == {index, *inside.last}
        ):
            return behind
        self._take_turns()
        if EXIT != behind <= index:
            self._poll(behind)
        b.branch("done" if behind == EXIT else f"f{behind}")
        return None

    def _look(self, block: Block) -> tuple[Val, Val]:
        """Whether a branch's condition holds for all lanes, and whether it does for none."""
        b = self.body
        every, some = self.slot("%every", "i32", False), self.slot("%some", "i32", False)
        b.store(ALL, every)
        b.store(integer(0, "i32"), some)

        def look() -> None:
            bits = b.bits(self._condition(block))
            b.store(b.bin("and", b.load("i32", False, every), bits), every)
            b.store(b.bin("or", b.load("i32", False, some), bits), some)

        self._for_each(look)
        self._take_turns()
        found_every, found_some = b.load("i32", False, every), b.load("i32", False, some)
        return b.icmp("eq", found_every, ALL), b.icmp("eq", found_some, integer(0, "i32"))

    # Segments ----------------------------------------------------------------------------------------------------
    def _cross_segments(self) -> None:
        """A turn is a segment: what others read of a warp's values lies in memory."""
        self._across: set[Value] = set()
        for block in self.graph.blocks:
            made: dict[Value, int] = {}
            read: list[tuple[Value, int]] = [(value, -1) for value in registers_of(block.condition)]
            for number, segment in enumerate(self._segments(block)):
                for instruction in segment.instructions:
                    read += [(value, number) for value in read_by(instruction)]
                    made.update((value, number) for value in instruction.destinations if value is not None)
            for target in block.successors:
                phis = self.graph.blocks[target].phis if target != EXIT else ()
                read += [(value, -1) for phi in phis for value in phi.operands.values()]
            for value, number in read:
                if made.get(value, number) != number:
                    value.crosses = True
            self._across.update(
                value
                for value in (*made, *(phi.value for phi in block.phis))
                if value.crosses and warp_groups.differs(value)
            )

    def _segments(self, block: Block) -> list[Segment]:
        found = [Segment()]
        for instruction in block.instructions:
            if warp_groups.waits(instruction):
                found.append(Segment(apart=True))
                continue
            if instruction.base in ("ld", "st") and "param" not in instruction.modifiers:
                if found[-1].stores and instruction.base == "ld":
                    found.append(Segment(apart=True))
                found[-1].loads |= instruction.base == "ld"
                found[-1].stores |= instruction.base == "st"
            found[-1].instructions.append(instruction)
        return [segment for segment in found if segment.instructions or segment.apart]

    def _placeable(self, instruction: Instruction) -> bool:
        """Whether the address is uniform, or affine and as good as that for an access of this size."""
        operand = instruction.sources[0]
        if not isinstance(operand, Address) or not isinstance(operand.base, Value):
            return isinstance(operand, Address | Symbol)
        if not operand.base.varying:
            return True
        size = memory.access_bytes(self, instruction)
        return operand.base.stride is not None and operand.base.stride % size == 0

    def _segment(self, segment: Segment) -> None:
        if segment.apart or (segment.loads and self._stored):
            self._take_turns()
        places: dict[int, addresses.Place] = {}
        rest: list[tuple[int, Instruction]] = []
        for number, instruction in enumerate(segment.instructions):
            self.line, self.access = instruction.line, id(instruction)
            access = instruction.base in ("ld", "st") and "param" not in instruction.modifiers
            results = [value for value in instruction.destinations if value is not None]
            differs = instruction.base == "st" or any(warp_groups.differs(value) for value in results)
            if not differs:
                families.emit(self, instruction)
                continue
            if access and self._placeable(instruction):
                places[number] = memory.placed(self, instruction)
            rest.append((number, instruction))
        if not rest:
            return

        def work() -> None:
            for number, instruction in rest:
                self.line, self.access, self.placed = instruction.line, id(instruction), places.get(number)
                families.emit(self, instruction)
            self.placed = None

        self._for_each(work, segment.loads, segment.stores)

    @contextlib.contextmanager
    def reporting(self) -> Iterator[None]:
        if self.instance == 0:
            yield
            return
        b = self.body
        index = support.warp_field(b, "index")
        first = self.once("first.warp", lambda p: p.load("i32", False, support.warp_field(p, "index")))
        ahead = self.instance if isinstance(self.instance, Val) else integer(self.instance, "i32")
        b.store(b.bin("add", first, ahead), index)
        yield
        b.store(first, index)

    # Leaving -----------------------------------------------------------------------------------------------------
    def leave_block(self, index: int) -> None:
        """An affine form does not hold: the block again from its start, each warp by itself."""
        if not self.leaves_full:
            return
        self.body.block(f"leave{index}")
        self._forget()
        self._leave_at(FIRST_ENTRY + 2 * index, self.live_in[index])

    def _leave_at(self, entry: int, values: list[Value]) -> None:
        """Ends the warp group: what lives goes to the area as vectors, the result says where each warp goes on."""
        b = self.body
        self.entries[entry] = values
        assert self.group is not None
        if place_offset(len(values), self.warps) > warp_groups.AREA_BYTES:
            raise Unfit
        for warp in self._warps():
            area = b.gep("%areas", 256 * warp)
            if isinstance(self.instance, Val):
                area = b.gep("%areas", b.bin("mul", self.instance, integer(256, "i32")))
            for number, value in enumerate(values):
                place = b.gep(area, place_offset(number, self.warps))
                b.store(b.splat(self.value(value)), place, ", align 64")
        early = 0 if warp_groups.late(self.graph, (entry - FIRST_ENTRY) // 2) else EARLY
        b.line(f"ret i32 {entry | early}")
