"""What the code of a warp group knows of its values, and what it does for each of its warps.

Vectors are per warp. Where few warps stand side by side, each has names of its own; where they take turns in one code, what one turn leaves to another lies in memory, an
array over the warps. There, what is to be done for each warp is put off as long as no warp has to wait for another: all of it is one loop, and one turn's values stay in registers.

Owns slots, forms and phis of a warp group, and the turns. What is emitted for each warp, and when warps wait, is group_codegen.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from farlane.backend.jit.analysis import divergence, warp_groups
from farlane.backend.jit.analysis.strides import stepping
from farlane.backend.jit.lowering import affine, streaming, support
from farlane.backend.jit.lowering.emitters.codegen import FunctionEmitter
from farlane.backend.jit.lowering.ir import REGISTER_LLVM, Val, integer
from farlane.backend.jit.ptx.model import LANES, Special
from farlane.backend.jit.ssa import liveness
from farlane.backend.jit.ssa.cfg import Graph
from farlane.backend.jit.ssa.ssa import Value

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.kernel import KernelContext


class GroupValues(FunctionEmitter):
    def __init__(
        self,
        kernel: KernelContext,
        alone: FunctionEmitter,
        graph: Graph,
        found: divergence.Divergence,
        shape: warp_groups.WarpGroup,
    ) -> None:
        super().__init__(kernel, alone.name, graph, found, alone.storage, True)
        self.group, self.dual = shape, True
        self.shared: dict[Value, Val] = {}
        self.looped = (
            shape.warps > warp_groups.MOST
        )  # the warps take turns in one code: `instance` is known when it runs
        self.each: list[dict[Value, Val]] = [{} for _ in range(1 if self.looped else shape.warps)]
        self.stepping = stepping(graph, self.is_affine, {f"tid.{axis}" for axis in shape.steps})
        self.live_in, self.live_out = liveness.compute(graph, lambda value: value.definition is not None)
        self.streams = streaming.Streams(graph, kernel.block)
        self.access = 0  # which of the function's loads and stores is being emitted
        self._sites: dict[int, int] = {}
        self._turns: list[tuple[int, Callable[[], None]]] = []  # what is yet to be done for each warp, by block
        self._stored = False  # whether stores are among it

    # Turns -------------------------------------------------------------------------------------------------------
    def _for_each(self, work: Callable[[], None], loads: bool = False, stores: bool = False) -> None:
        """What is to be done for each warp. Where warps take turns it is put off, to be done with what else there is, but no load to behind the others' stores."""
        if not self.looped:
            for _ in self._warps():
                work()
            return
        if loads and self._stored:
            self._take_turns()
        self._turns.append((self.block, work))
        self._stored |= stores

    def _take_turns(self) -> None:
        """Does what has been put off, all of it for one warp before the next one."""
        if not self._turns:
            return
        turns, self._turns, self._stored = self._turns, [], False
        block = self.block
        for _ in self._warps():
            for self.block, work in turns:
                work()
        self.block = block

    def leave_full(self, condition: Val) -> None:
        self._take_turns()  # what belongs to an earlier block
        super().leave_full(condition)

    # Values ------------------------------------------------------------------------------------------------------
    def _forget(self) -> None:
        assert self.group is not None
        self.shared, self.each, self.forms = {}, [{} for _ in range(self.group.warps)], {}
        self.local = self.shared

    def _known(self) -> Any:
        return dict(self.shared), [dict(each) for each in self.each], dict(self.forms)

    def _recall(self, known: Any) -> None:
        self.shared, self.each, self.forms = dict(known[0]), [dict(each) for each in known[1]], dict(known[2])
        self.local = self.shared

    def _warps(self) -> Iterator[int]:
        """Makes each warp the current one in turn."""
        if self.looped:
            yield from self._in_turn()
            return
        for number in range(self.warps):
            self.instance, self.local = number, self.each[number]
            self.local.update(self.shared)
            yield number
        self.instance, self.local = 0, self.shared

    def _in_turn(self) -> Iterator[int]:
        """The same as a loop of the code itself."""
        with support.counted(self, "%turn", integer(self.warps, "i32")) as turn:
            self.instance = turn
            self.each = [dict(self.shared)]
            self.local = self.each[0]
            yield 0
        self.instance, self.local = 0, self.shared

    def _differs(self, value: Any) -> bool:
        """Whether it is a vector: one for each warp."""
        return isinstance(value, Value) and value.varying

    def define(self, value: Value | None, result: Val) -> None:
        pattern = self.pattern(value) if value is not None and value.varying else None
        if value is not None and pattern is not None and pattern.known:
            self.local[value] = result  # read elsewhere as the constant that it is
            return
        super().define(value, result)

    def value_slot(self, value: Value) -> str:
        if self.looped and value.varying:
            assert isinstance(self.instance, Val)
            name, shown = f"%x{value.number}", f"<{LANES} x {REGISTER_LLVM[value.type]}>"
            if name not in self.slots:
                self.slots.add(name)
                self.allocas.append(f"  {name} = alloca [{self.warps} x {shown}], align 128")
            place = self.body.name("p")
            self.body.line(f"{place} = getelementptr {shown}, ptr {name}, {self.instance}")
            return place
        number = f".{self.instance}" if value.varying else ""
        return self.slot(f"%x{value.number}{number}", REGISTER_LLVM[value.type], value.varying)

    def read(self, operand: Any, kind: str) -> Val:
        if isinstance(operand, Special) and (form := affine.affine_special(self, operand.name)) is not None:
            return affine.materialise(self, form)
        return super().read(operand, kind)

    def site(self) -> int:
        """One for all warps."""
        if self.access not in self._sites:
            self._sites[self.access] = self.kernel.site()
        return self._sites[self.access]

    def leave(self, bits: Val) -> None:
        """Does nothing: no lane waits for those of a warp group."""

    def _full_jump(self, target: int) -> None:
        known = self._known()
        super()._full_jump(target)
        self._recall(known)

    def _copies(self, edges: list[tuple[int, Val | None]]) -> None:
        b = self.body
        stores: list[tuple[Val, str]] = []
        forms: list[tuple[Value, affine.Affine]] = []
        moves = [(phi.value, phi.operands[self.block]) for target, _ in edges for phi in self.graph.blocks[target].phis]
        for target, source in moves:
            if self.is_affine(target):
                forms.append((target, affine.operand(self, source, REGISTER_LLVM[source.type])))
            elif not target.varying:
                stores.append((self.value(source), self.value_slot(target)))
        self._move([(target, source) for target, source in moves if target.varying and not self.is_affine(target)])
        self._take_turns()
        for value, slot in stores:
            b.store(value, slot)
        for target, form in forms:
            self.store_form(target, form)

    def _move(self, moves: list[tuple[Value, Value]]) -> None:
        """What phis of vectors take over."""

        def move() -> None:
            b = self.body
            for value, slot in [(b.splat(self.value(source)), self.value_slot(target)) for target, source in moves]:
                b.store(value, slot)

        if moves:
            self._for_each(move)
