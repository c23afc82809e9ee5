"""The way from one block to the next: branches whose condition is the same for all lanes, lanes that part, and what phis take over.

Lanes are sent to a block by adding them to its pending mask; codegen.py says which block has its turn.
"""

from __future__ import annotations

from typing import Any

from farlane.backend.jit.lowering import families
from farlane.backend.jit.lowering.affine import Affine, operand
from farlane.backend.jit.lowering.emitter import Emitter
from farlane.backend.jit.lowering.ir import REGISTER_LLVM, Val, integer
from farlane.backend.jit.ssa.blocks import EXIT, Block
from farlane.backend.jit.ssa.ssa import Phi, Value


class Edges(Emitter):
    """What FunctionEmitter needs at the end of a block."""

    def _condition(self, block: Block) -> Val:
        condition = self.read(block.condition, "i1")
        return self.body.invert(condition) if block.negated else condition

    def _know(self, known: tuple[dict[Value, Val], dict[Value, Affine]]) -> None:
        """At the start of an edge's code: what the block has computed may be used, what other edges' code has may not."""
        self.local, self.forms = dict(known[0]), dict(known[1])

    def _uniform_branch(self, condition: Val, edges: list[tuple[int, Any]]) -> None:
        b = self.body
        labels = [b.new_label("yes"), b.new_label("no")]
        b.branch_if(condition, labels[0], labels[1])
        saved = self.local, self.forms
        for label, (target, jump) in zip(labels, edges, strict=True):
            self._know(saved)
            b.block(label)
            jump(target)

    def _uniform_switch(self, block: Block, selector: Val, jump: Any) -> None:
        b = self.body
        labels = {target: b.new_label("case") for target in block.targets}
        bad = b.new_label("default")
        cases = " ".join(f"i32 {number}, label %{labels[target]}" for number, target in enumerate(block.targets))
        b.line(f"switch {selector}, label %{bad} [ {cases} ]")
        b.block(bad)
        families.fault(self, 4)
        saved = self.local, self.forms
        for target, label in labels.items():
            self._know(saved)
            b.block(label)
            jump(target)

    def _cases(self, block: Block, selector: Val) -> list[tuple[int, Val]]:
        """(target, lanes) of a varying brx; an index beyond the table is an illegal instruction."""
        b = self.body
        wild = b.bin("and", self.mask_bits, b.bits(b.icmp("uge", selector, integer(len(block.targets), "i32"))))
        families.fault_if(self, b.icmp("ne", wild, integer(0, "i32")), 4)
        chosen: dict[int, Val] = {}
        for number, target in enumerate(block.targets):
            bits = b.bin("and", self.mask_bits, b.bits(b.icmp("eq", selector, integer(number, "i32"))))
            chosen[target] = b.bin("or", chosen[target], bits) if target in chosen else bits
        return list(chosen.items())

    def part(self, edges: list[tuple[int, Val]]) -> None:
        """Sends lanes to their targets' pending masks."""
        b = self.body
        self._copies([(target, bits) for target, bits in edges if target != EXIT])
        for target, bits in edges:
            if target == EXIT:
                self.leave(bits)
                continue
            slot = self.pending(target)
            b.store(b.bin("or", b.load("i32", False, slot), bits), slot)

    def leave(self, bits: Val) -> None:
        if self.entry and self.kernel.fibers:
            self.body.line(f"call void @farlane_leave(ptr %warp, {bits})")

    def _copies(self, edges: list[tuple[int, Val | None]]) -> None:
        """Phi assignments of some edges: all sources are read before any phi is written."""
        b = self.body
        moves: list[tuple[Phi, Value, Val | None]] = [
            (phi, phi.operands[self.block], bits) for target, bits in edges for phi in self.graph.blocks[target].phis
        ]
        masks: dict[str, Val] = {}
        shaped: list[tuple[str, Val, Val | None]] = []
        forms: list[tuple[Value, Affine]] = []
        for phi, value, bits in moves:
            if bits is None and self.is_affine(phi.value):
                forms.append((phi.value, operand(self, value, REGISTER_LLVM[value.type])))
                continue
            if phi.value in self.tiles.homes and self.tiles.homes.get(value) == self.tiles.homes[phi.value]:
                continue
            slot, source = self.value_slot(phi.value), self.value(value)
            if phi.value.varying:
                source = b.splat(source)
                if bits is not None:
                    mask = masks.get(bits.name) or masks.setdefault(bits.name, b.mask(bits))
                    shaped.append((slot, source, mask))
                    continue
            shaped.append((slot, source, None))
        for slot, source, lanes in shaped:
            self.blend(slot, source, lanes)
        for value, form in forms:
            self.store_form(value, form)
