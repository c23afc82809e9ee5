"""One function: SSA blocks to LLVM IR over warps of 32 lanes.

Owns control flow and values; what an instruction computes is in families/. Each PTX block is emitted once or twice:

- masked (`m`): the blocks lie in scheduling order; each has a pending mask. Reaching block b with pending lanes runs it for those lanes
  and adds them to the pending masks of its successors; a back edge with lanes jumps back. So the waiting lanes in the lowest
  block always run first, and lanes that parted meet again. Correct for any graph.
- full (`f`): all 32 lanes are here, nothing is masked. A varying branch that really splits the lanes enters the masked version; the
  masked version returns here when a join or loop header has all lanes again.

Values and their slots are the base class's (emitter.py), edges between blocks edges.py's; only phis and exported values are blended under the mask.
In the conservative mode of divergence.py, lanes that reach a barrier park there while the warp's other lanes run on; and lanes that wait
in a loop for others (spins.py) let them go ahead after some iterations, up to instructions in which the waiting lanes take part.
Source: facts page "Divergence" and "Barriers".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.analysis import spins
from farlane.backend.jit.analysis.divergence import Divergence
from farlane.backend.jit.analysis.strides import row_length, stepping, stepping_specials
from farlane.backend.jit.lowering import families, touches
from farlane.backend.jit.lowering.emitter import ALL
from farlane.backend.jit.lowering.emitters import lane_fibers, resuming, serial_choice, tile_loops
from farlane.backend.jit.lowering.emitters.edges import Edges
from farlane.backend.jit.lowering.ir import Builder, Val, integer
from farlane.backend.jit.ptx.model import Instruction, Storage, read_by
from farlane.backend.jit.runtime import clusters
from farlane.backend.jit.ssa import liveness
from farlane.backend.jit.ssa.blocks import EXIT, Block
from farlane.backend.jit.ssa.cfg import Graph

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitters.group_codegen import GroupEmitter
    from farlane.backend.jit.lowering.emitters.serial_codegen import SerialEmitter
    from farlane.backend.jit.lowering.kernel import KernelContext

PATIENCE = 16  # iterations of a loop that waits, before lanes that are through it go ahead


class FunctionEmitter(Edges):
    """Emits one function; `body` is the builder that instruction families append to."""

    def __init__(
        self,
        kernel: KernelContext,
        name: str,
        graph: Graph,
        divergence: Divergence,
        storage: dict[str, Storage],
        entry: bool,
    ) -> None:
        super().__init__(kernel, name, graph, divergence, storage, entry)
        self.dual = (
            kernel.options.dual
            and entry
            and not divergence.conservative
            and not kernel.exits
            and kernel.dual_fits(graph, divergence)
        )
        self.left_by: GroupEmitter | None = None  # the warp group whose warps go on here
        self.regions: dict[int, SerialEmitter] = {}  # by first block
        self.parts_full = False  # whether lanes may part in the full version, and so meet again in the masked one
        # In a warp of one lane no lanes part.
        parts = divergence.conservative and not kernel.lane_fibers
        self.parks = parts and kernel.fibers
        self.waiting = divergence.waiting if parts else set()
        self.deferring = [
            index
            for index, block in enumerate(graph.blocks)
            if self.waiting and block.instructions and spins.warp_wide(block.instructions[0])
        ]

    # Function ----------------------------------------------------------------------------------------------------
    def emit(self) -> str:
        """The whole function as IR text."""
        families.layout_frame(self)
        blocks = self.graph.blocks
        live = self.once("live", self._live)
        tile_loops.plan(self)
        self.regions = {} if self.kernel.lane_fibers or self.tiles.at else serial_choice.plan(self)
        if self.dual:
            self.stepping = stepping(self.graph, self.is_affine, stepping_specials(row_length(self.kernel.block)))
            self.live_in, self.live_out = liveness.compute(self.graph, self.is_affine)
            for index, block in enumerate(blocks):
                self.leaves_full = False
                self._full(index, block)
                self.leave_block(index)
        for index, block in enumerate(blocks):
            self._masked(index, block)
            if index in self.regions:
                self.regions[index].emit()
        self._end(len(blocks))
        if self.left_by is not None:
            resuming.emit(self, self.left_by)
        self._start(live)
        signature, returning = families.signature(self)
        lines = [f"define internal {signature} #0 {{", "entry:", *self.allocas, *self.prologue.lines]
        lines += self.body.lines
        lines += ["done:", *returning, "}"]
        return "\n".join(lines) + "\n"

    def _live(self, b: Builder) -> Val:
        if not self.entry:
            return Val("%mask", "i32")
        return b.load("i32", False, families.warp_field(b, "mask"))

    def _start(self, live: Val) -> None:
        b = self.prologue
        families.enter(self, b)
        if self.left_by is not None:
            resuming.dispatch(self, self.left_by, b)
        if self.dual:
            full = b.op(f"icmp eq {live}, -1", "i1", False)
            b.branch_if(full, "f0", "start.masked")
            b.block("start.masked")
        b.store(live, self.pending(0))
        b.branch("m0.test")

    def _end(self, count: int) -> None:
        b = self.body
        b.block(f"m{count}.test")
        self._return_to_waiting()
        if not self.parks:
            b.branch("done")
            return
        sites = [index for index, block in enumerate(self.graph.blocks) if self._barrier(block)]
        ids = integer(0, "i32")
        for index in sites:
            parked = b.load("i32", False, self.slot(f"%parked{index}", "i32", False))
            some = b.icmp("ne", parked, integer(0, "i32"))
            bit = b.load("i32", False, self.slot(f"%id{index}", "i32", False))
            ids = b.bin("or", ids, b.select(some, bit, integer(0, "i32")))
        idle = b.icmp("eq", ids, integer(0, "i32"))
        b.branch_if(idle, "done", "parked")
        b.block("parked")
        released = self._wait(
            ids, [index for index in sites if clusters.is_barrier(self.graph.blocks[index].instructions[-1])]
        )
        for index in sites:
            families.resume(self, index, self.graph.blocks[index], released)
        b.branch("m0.test")

    def _wait(self, ids: Val, of_cluster: list[int]) -> Val:
        """Waits for one of these barriers; gives those that have completed. `of_cluster`: the blocks that end at the cluster's."""
        b = self.body
        if not of_cluster:
            return b.op(f"call i32 @farlane_wait(ptr %warp, {ids})", "i32", False)
        parked = integer(0, "i32")
        for index in of_cluster:
            parked = b.bin("or", parked, b.load("i32", False, self.slot(f"%parked{index}", "i32", False)))
        return b.op(f"call i32 @farlane_cluster_wait_parked(ptr %warp, {ids}, {parked})", "i32", False)

    def _return_to_waiting(self) -> None:
        """At the end: back to lanes that let others go ahead, the lowest first."""
        b = self.body
        for target in sorted(self.waiting | set(self.deferring)):
            left = b.load("i32", False, self.pending(target))
            again, onward = b.new_label("again"), b.new_label("onward")
            b.branch_if(b.icmp("ne", left, integer(0, "i32")), again, onward)
            b.block(again)
            if target in self.waiting:
                b.store(integer(0, "i32"), self.slot(f"%spun{target}", "i32", False))
                self._poll(target)
            b.branch(f"m{target}.test")
            b.block(onward)

    def _defer(self, index: int, block: Block, bits: Val) -> None:
        """Lanes stay in front of a warp-wide instruction while others of its member mask still wait in a loop."""
        b = self.body
        self.local, self.forms = {}, {}
        operand = spins.members(block.instructions[0])
        mask = ALL if operand is None else self.read(operand, "i32")
        if mask.vec:
            mask = b.lane(mask, b.call("cttz", "i32", [bits], "i1 false"))
        missing = integer(0, "i32")
        for target in sorted(self.waiting):
            missing = b.bin("or", missing, b.load("i32", False, self.pending(target)))
        later, now = b.new_label("later"), b.new_label("now")
        b.branch_if(b.icmp("ne", b.bin("and", missing, mask), integer(0, "i32")), later, now)
        b.block(later)
        b.store(bits, self.pending(index))
        b.branch(f"m{index + 1}.test")
        b.block(now)

    @staticmethod
    def _barrier(block: Block) -> Instruction | None:
        last = block.instructions[-1] if block.instructions else None
        waits = last is not None and last.base in ("bar", "barrier") and not {"warp", "arrive"} & set(last.modifiers)
        return last if waits else None

    # Blocks ------------------------------------------------------------------------------------------------------
    def _full(self, index: int, block: Block) -> None:
        self.block, self.mask, self.mask_bits = index, None, ALL
        self.body.block(f"f{index}")
        serial_choice.leave(self, index)
        if index in self.regions:
            serial_choice.choose(self, self.regions[index], ALL)
        self._code(block)
        if block.leaves != "trap":
            self.full_end(index, block)

    def full_end(self, index: int, block: Block) -> None:
        """The branch at the end of a block of the full version."""
        b = self.body
        if block.condition is None or len(set(block.targets)) == 1:
            self._full_jump(block.targets[0])
        elif block.switch:
            self._full_switch(index, block)
        else:
            condition = self._condition(block)
            yes, no = block.targets
            if not condition.vec:
                self._uniform_branch(condition, [(yes, self._full_jump), (no, self._full_jump)])
                return
            bits = b.bits(condition)
            labels = [b.new_label(hint) for hint in ("all", "some", "none", "mixed")]
            b.branch_if(b.icmp("eq", bits, ALL), labels[0], labels[1])
            b.block(labels[1])
            b.branch_if(b.icmp("eq", bits, integer(0, "i32")), labels[2], labels[3])
            saved = self.local, self.forms
            for label, target in ((labels[0], yes), (labels[2], no)):
                self._know(saved)
                b.block(label)
                self._full_jump(target)
            self._know(saved)
            b.block(labels[3])
            self.parts_full = True
            self.to_vectors(self.live_out[index])
            self.part([(yes, bits), (no, b.invert(bits))])
            first = min(target for target in block.targets if target != EXIT)
            if first <= index:
                self._poll(first)
            b.branch(f"m{first}.test")

    def _full_jump(self, target: int) -> None:
        if target == EXIT:
            self.leave(ALL)
            self.body.branch("done")
            return
        self._copies([(target, None)])
        if target <= self.block:
            self._poll(target)
        self.body.branch(f"f{target}")

    def _full_switch(self, index: int, block: Block) -> None:
        selector = self.read(block.condition, "i32")
        if selector.vec:
            self.parts_full = True
            self.to_vectors(self.live_out[index])
            self.part(self._cases(block, selector))
            first = min(target for target in block.targets if target != EXIT)
            self.body.branch(f"m{first}.test")
        else:
            self._uniform_switch(block, selector, self._full_jump)

    def _masked(self, index: int, block: Block) -> None:
        b = self.body
        self.block = index
        b.block(f"m{index}.test")
        serial_choice.leave(self, index)
        slot = self.pending(index)
        bits = b.load("i32", False, slot)
        run = f"m{index}.run"
        b.branch_if(b.icmp("eq", bits, integer(0, "i32")), f"m{index + 1}.test", run)
        b.block(run)
        b.store(integer(0, "i32"), slot)
        # Without that, lanes are in the masked version from the start, or because an affine form does not hold: to stay.
        if self.parts_full and (len(block.predecessors) > 1 or index in self.graph.loops):
            inside, whole = b.new_label("part"), b.new_label("whole")
            plain = b.load("i1", False, self.slot("%plain", "i1", False))
            b.branch_if(b.bin("and", b.icmp("eq", bits, ALL), b.invert(plain)), whole, inside)
            b.block(whole)
            self.to_forms(self.live_in[index])
            b.branch(f"f{index}")
            b.block(inside)
        self.mask, self.mask_bits = b.mask(bits), bits
        if index in self.deferring:
            self._defer(index, block, bits)
        if index in self.regions:
            serial_choice.choose(self, self.regions[index], bits)
        self._code(block)
        if block.leaves == "trap":
            return
        if block.leaves == "exit" and not self.entry:
            families.leave_kernel(self)
        if self.parks and self._barrier(block):
            b.branch(f"m{index + 1}.test")
        elif block.condition is None or len(set(block.targets)) == 1:
            self._masked_jump(block.targets[0])
        elif block.switch:
            selector = self.read(block.condition, "i32")
            if selector.vec:
                self.part(self._cases(block, selector))
                self._next([target for target in block.targets if target != EXIT and target <= index])
            else:
                self._uniform_switch(block, selector, self._masked_jump)
        else:
            condition = self._condition(block)
            yes, no = block.targets
            if not condition.vec:
                self._uniform_branch(condition, [(yes, self._masked_jump), (no, self._masked_jump)])
                return
            taken, here = b.bits(condition), self.mask_bits  # a call may have taken lanes away
            self.part([(yes, b.bin("and", here, taken)), (no, b.bin("and", here, b.invert(taken)))])
            self._next([target for target in block.targets if target != EXIT and target <= index])

    def _masked_jump(self, target: int) -> None:
        self.part([(target, self.mask_bits)])
        self._next([target] if target != EXIT and target <= self.block else [])

    def _next(self, back: list[int]) -> None:
        """On to the next block, or back to the lowest target that has lanes."""
        b = self.body
        for target in sorted(set(back)):
            waiting = b.load("i32", False, self.pending(target))
            onward, again = b.new_label("onward"), b.new_label("again")
            back_again = b.icmp("ne", waiting, integer(0, "i32"))
            if target in self.waiting:
                slot = self.slot(f"%spun{target}", "i32", False)
                spun = b.bin("add", b.load("i32", False, slot), integer(1, "i32"))
                b.store(spun, slot)
                back_again = b.bin("and", back_again, b.icmp("ult", spun, integer(PATIENCE, "i32")))
            b.branch_if(back_again, again, onward)
            b.block(again)
            self._poll(target)
            b.branch(f"m{target}.test")
            b.block(onward)
        b.branch(f"m{self.block + 1}.test")

    def _poll(self, target: int) -> None:
        """A back edge: leaves when the launch is aborted, lets other warps run when the loop waits."""
        families.poll(self)
        if target in self.divergence.waiting:
            self.body.line("call void @farlane_yield(ptr %warp)")

    def _code(self, block: Block) -> None:
        self.local, self.forms = {}, {}
        serial_choice.count(self, block)
        for phi in block.phis:
            if phi.value.exported:
                self.export(phi.value, self.value(phi.value))
        tile = tile_loops.TileLoops(self) if self.block in self.tiles.at else None
        for instruction in block.instructions:
            self.line = instruction.line
            if tile and tile.takes(instruction):
                continue
            touches.instruction(self, instruction)
            if instruction.guard is None:
                self._emit(instruction)
            else:
                self._guarded(instruction)
            if tile:
                tile.store(instruction.destinations)
        if block.leaves != "trap":
            touches.count(self)

    def _emit(self, instruction: Instruction) -> None:
        emit = lane_fibers.emit if self.kernel.lane_fibers and lane_fibers.collective(instruction) else families.emit
        emit(self, instruction)

    def _guarded(self, instruction: Instruction) -> None:
        """A memory access for the lanes for which its guard holds (predication.py). Without any of them it does not happen."""
        b = self.body
        assert instruction.guard is not None
        holds = self.read(instruction.guard[0], "i1")
        bits = b.bin("and", self.mask_bits, b.bits(b.invert(holds) if instruction.guard[1] else holds))
        before, kept = b.label, (self.mask, self.mask_bits)
        for value in read_by(instruction) if self.mask is None else ():
            self.value(value)  # as a vector, while it still has a form
        known = self.local, self.forms
        self._know(known)
        access, past = b.new_label("access"), b.new_label("past")
        b.branch_if(b.icmp("ne", bits, integer(0, "i32")), access, past)
        b.block(access)
        self.mask, self.mask_bits = b.mask(bits), bits
        self._emit(instruction)
        # The result of an atomic may be left out where nothing reads it.
        results = [(value, self.local[value]) for value in instruction.destinations if value in self.local]
        after = b.label
        b.branch(past)
        b.block(past)
        (self.mask, self.mask_bits), (self.local, self.forms) = kept, known
        for value, result in results:
            self.local[value] = b.phi(result, after, before)
