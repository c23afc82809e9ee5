"""One function: SSA blocks to LLVM IR over warps of 32 lanes.

Owns control flow and values; what an instruction computes is in families/. Each PTX block is emitted once or twice:

- masked (`m`): the blocks lie in scheduling order; each has a pending mask. Reaching block b with pending lanes runs it for those lanes
  and adds them to the pending masks of its successors; a back edge with lanes jumps back. So the waiting lanes in the lowest
  block always run first, and lanes that parted meet again. Correct for any graph.
- full (`f`): all 32 lanes are here, nothing is masked. A varying branch that really splits the lanes enters the masked version; the
  masked version returns here when a join or loop header has all lanes again.

Values that cross blocks live in allocas (LLVM promotes them); only phis and exported values are blended under the mask.
In the conservative mode of divergence.py, lanes that reach a barrier park there while the warp's other lanes run on.
Source: facts page "Divergence" and "Barriers".
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from farlane.backend.jit import families, liveness, strides
from farlane.backend.jit.abi import UnsupportedError
from farlane.backend.jit.affine import Affine, materialise, operand, rows
from farlane.backend.jit.cfg import EXIT, Block, Graph
from farlane.backend.jit.divergence import Divergence
from farlane.backend.jit.ir import LANES, Builder, Val, floating, integer
from farlane.backend.jit.model import Immediate, Instruction, Negated, Special, Storage, Symbol
from farlane.backend.jit.specials import special
from farlane.backend.jit.ssa import Phi, Value
from farlane.backend.jit.types import REGISTER_LLVM, convert

if TYPE_CHECKING:
    from farlane.backend.jit.kernel import KernelContext

ALL = integer(-1, "i32")


class FunctionEmitter:
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
        self.kernel, self.name, self.graph, self.divergence = kernel, name, graph, divergence
        self.storage, self.entry = storage, entry
        self.body = Builder()
        self.prologue = Builder()
        self.prologue.prefix = "e"
        self.allocas: list[str] = []
        self.slots: set[str] = set()
        self.local: dict[Value, Val] = {}
        self.forms: dict[Value, Affine] = {}
        self.mask: Val | None = None
        self.mask_bits = ALL
        self.block = 0
        self.line = 0
        self.cached: dict[str, Val] = {}
        self.pointers: dict[str, str] = {}
        self.frame: dict[str, int] = {}
        self.frame_bytes = 0
        self.dual = (
            kernel.options.dual and entry and not divergence.conservative and kernel.dual_fits(graph, divergence)
        )
        self.parks = divergence.conservative and kernel.fibers

    # Slots -------------------------------------------------------------------------------------------------------
    def slot(self, name: str, kind: str, vec: bool, initial: bool = True) -> str:
        """A named stack slot, zero at entry."""
        if name not in self.slots:
            self.slots.add(name)
            shown = f"<{LANES} x {kind}>" if vec else kind
            self.allocas.append(f"  {name} = alloca {shown}, align {64 if vec else 16}")
            if initial:
                self.allocas.append(f"  store {shown} zeroinitializer, ptr {name}")
        return name

    def value_slot(self, value: Value) -> str:
        return self.slot(f"%x{value.number}", REGISTER_LLVM[value.type], value.varying)

    def export_slot(self, value: Value) -> str:
        return self.slot(f"%out{value.number}", REGISTER_LLVM[value.type], True)

    def pending(self, block: int) -> str:
        return self.slot(f"%pend{block}", "i32", False)

    # Values ------------------------------------------------------------------------------------------------------
    def value(self, value: Value) -> Val:
        """The value in its register type."""
        known = self.local.get(value)
        if known is not None:
            return known
        kind = REGISTER_LLVM[value.type]
        if value.definition is None:
            return self._zero(kind)
        affine = self.affine(value)
        if affine is not None:
            result = self.local[value] = materialise(self, affine)
            return result
        if value.exported and self._outside(value):
            result = self.body.load(kind, True, self.export_slot(value))
        else:
            result = self.body.load(kind, value.varying, self.value_slot(value))
        self.local[value] = result
        return result

    def _zero(self, kind: str) -> Val:
        return floating(0, kind) if kind in ("float", "double", "half") else integer(0, kind)

    def _outside(self, value: Value) -> bool:
        if self.divergence.conservative:
            return value.block != self.block
        loops = self.graph.loops
        return any(value.block in loops[header] and self.block not in loops[header] for header in self.divergence.loops)

    def define(self, value: Value | None, result: Val) -> None:
        """Sets an SSA value; `result` already has the register's type."""
        if value is None:
            return
        if result.vec and not value.varying:
            raise AssertionError(f"uniform value {value.number} got a vector ({self.name} line {self.line})")
        self.local[value] = result
        if value.crosses:
            shaped = self.body.splat(result) if value.varying else result
            self.body.store(shaped, self.value_slot(value))
        if value.exported:
            self._export(value, result)

    # Affine values (full version only) -------------------------------------------------------------------------------
    def affine(self, value: Value) -> Affine | None:
        """The value in affine form, if it has one here."""
        if self.mask is not None or not self.is_affine(value) or (value.exported and self._outside(value)):
            return None
        known = self.forms.get(value)
        if known is None:
            known = self.forms[value] = self._load_form(value)
        return known

    def is_affine(self, value: Value) -> bool:
        return self.dual and value.varying and value.stride is not None

    def _form_slots(self, value: Value) -> tuple[str, str | None]:
        kind = REGISTER_LLVM[value.type]
        base = self.slot(f"%base{value.number}", kind, False)
        return base, self.slot(f"%step{value.number}", kind, False) if rows(self) > 1 else None

    def _load_form(self, value: Value) -> Affine:
        base, step = self._form_slots(value)
        kind = REGISTER_LLVM[value.type]
        assert value.stride is not None
        first = self.body.load(kind, False, base)
        return Affine(first, value.stride, self.body.load(kind, False, step) if step else None)

    def define_affine(self, value: Value, form: Affine) -> None:
        self.forms[value] = form
        if value.crosses:
            self._store_form(value, form)
        if value.exported:
            self._export(value, materialise(self, form))

    def _store_form(self, value: Value, form: Affine) -> None:
        base, step = self._form_slots(value)
        self.body.store(form.base, base)
        if step:
            self.body.store(form.step or integer(0, form.type), step)

    def leave_full(self, condition: Val) -> None:
        """Goes on in the masked version, from the start of this block, when an affine form does not hold."""
        b = self.body
        stay = b.new_label("holds")
        self.leaves_full = True
        b.branch_if(condition, f"leave{self.block}", stay, unlikely=True)
        b.block(stay)

    def _leave_block(self, index: int) -> None:
        if not self.leaves_full:
            return
        b = self.body
        b.block(f"leave{index}")
        b.store(integer(1, "i1"), self.slot("%plain", "i1", False))
        self._to_vectors(self.live_in[index])
        b.store(ALL, self.pending(index))
        b.branch(f"m{index}.test")

    def _to_vectors(self, values: list[Value]) -> None:
        """The masked version reads these values as vectors."""
        for value in values:
            self.body.store(materialise(self, self._load_form(value)), self.value_slot(value))

    def _to_forms(self, values: list[Value]) -> None:
        """The way back: all lanes are here, so the first lanes of two rows tell base and step."""
        b = self.body
        for value in values:
            vector = b.load(REGISTER_LLVM[value.type], True, self.value_slot(value))
            first = b.lane(vector, 0)
            assert value.stride is not None
            step = None
            if rows(self) > 1:
                step = b.bin("sub", b.lane(vector, LANES // rows(self)), first)
            self._store_form(value, Affine(first, value.stride, step))

    def _export(self, value: Value, result: Val) -> None:
        slot = self.export_slot(value)
        shaped = self.body.splat(result)
        if self.mask is not None:
            shaped = self.body.select(self.mask, shaped, self.body.load(shaped.type, True, slot))
        self.body.store(shaped, slot)

    def read(self, operand: Any, kind: str) -> Val:
        """An operand as a value of an LLVM type."""
        if isinstance(operand, Value):
            return convert(self.body, self.value(operand), kind, self.fail)
        if isinstance(operand, Immediate):
            return self._immediate(operand, kind)
        if isinstance(operand, Negated):
            return self.body.invert(self.read(operand.operand, kind))
        if isinstance(operand, Special):
            return convert(self.body, special(self, operand.name), kind, self.fail)
        if isinstance(operand, Symbol):
            return convert(self.body, families.symbol_address(self, operand), kind, self.fail)
        raise self.fail("unexpected operand")

    def _immediate(self, operand: Immediate, kind: str) -> Val:
        if kind in ("float", "double", "half"):
            if operand.kind == "i":
                raise self.fail("integer literal where a float is needed")
            if operand.kind == "f32":
                value = floating(operand.value, "float")
                return value if kind == "float" else self.body.cast("fpext", value, kind)
            value = floating(operand.value, "double")
            return value if kind == "double" else self.body.cast("fptrunc", value, kind)
        if operand.kind == "f32" and kind != "i32":
            raise self.fail("float literal of the wrong size")
        if operand.kind == "f64" and kind == "i32":
            as_double = struct.unpack("<d", struct.pack("<Q", operand.value))[0]
            return integer(struct.unpack("<I", struct.pack("<f", as_double))[0], "i32")
        return integer(operand.value, kind)

    def constant(self, operand: Any, depth: int = 8) -> int | None:
        """The operand's value when it is known now (through moves of constants)."""
        return strides.constant(operand, depth)

    def once(self, key: str, make: Callable[[Builder], Val]) -> Val:
        """A value computed at the function's entry, at most once."""
        if key not in self.cached:
            self.cached[key] = make(self.prologue)
        return self.cached[key]

    def fail(self, message: str) -> UnsupportedError:
        return UnsupportedError(message, self.line, self.kernel.name)

    # Function ----------------------------------------------------------------------------------------------------
    def emit(self) -> str:
        """The whole function as IR text."""
        families.layout_frame(self)
        blocks = self.graph.blocks
        for block in blocks:
            self.line = block.line
            if block.leaves == "exit" and not self.entry:
                raise self.fail("exit inside a device function is not supported yet")
        live = self.once("live", self._live)
        if self.dual:
            self.live_in, self.live_out = liveness.compute(self.graph, self.is_affine)
            for index, block in enumerate(blocks):
                self.leaves_full = False
                self._full(index, block)
                self._leave_block(index)
        for index, block in enumerate(blocks):
            self._masked(index, block)
        self._end(len(blocks))
        self._start(live)
        signature, returning = families.signature(self)
        lines = [f"define internal {signature} #0 {{", "entry:", *self.allocas, *self.prologue.lines]
        lines += self.body.lines
        lines += ["done:", *returning, "}"]
        return "\n".join(lines) + "\n"

    def _live(self, b: Builder) -> Val:
        if not self.entry:
            return Val("%mask", "i32")
        return b.load("i32", False, families.warp_field(b, 4))

    def _start(self, live: Val) -> None:
        b = self.prologue
        families.enter(self, b)
        if self.dual:
            full = b.op(f"icmp eq {live}, -1", "i1", False)
            b.branch_if(full, "f0", "start.masked")
            b.block("start.masked")
        b.store(live, self.pending(0))
        b.branch("m0.test")

    def _end(self, count: int) -> None:
        b = self.body
        b.block(f"m{count}.test")
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
        released = b.op(f"call i32 @farlane_wait(ptr %warp, {ids})", "i32", False)
        for index in sites:
            families.resume(self, index, self.graph.blocks[index], released)
        b.branch("m0.test")

    @staticmethod
    def _barrier(block: Block) -> Instruction | None:
        last = block.instructions[-1] if block.instructions else None
        waits = last is not None and last.base in ("bar", "barrier") and not {"warp", "arrive"} & set(last.modifiers)
        return last if waits else None

    # Blocks ------------------------------------------------------------------------------------------------------
    def _full(self, index: int, block: Block) -> None:
        self.block, self.mask, self.mask_bits = index, None, ALL
        self.body.block(f"f{index}")
        self._code(block)
        b = self.body
        if block.leaves == "trap":
            return
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
            self._to_vectors(self.live_out[index])
            self.part([(yes, bits), (no, b.invert(bits))])
            first = min(target for target in block.targets if target != EXIT)
            if first <= index:
                self._poll(bits)
            b.branch(f"m{first}.test")

    def _full_jump(self, target: int) -> None:
        if target == EXIT:
            self._leave(ALL)
            self.body.branch("done")
            return
        self._copies([(target, None)])
        if target <= self.block:
            self._poll(None)
        self.body.branch(f"f{target}")

    def _full_switch(self, index: int, block: Block) -> None:
        selector = self.read(block.condition, "i32")
        if selector.vec:
            self._to_vectors(self.live_out[index])
            self.part(self._cases(block, selector))
            first = min(target for target in block.targets if target != EXIT)
            self.body.branch(f"m{first}.test")
        else:
            self._uniform_switch(block, selector, self._full_jump)

    def _masked(self, index: int, block: Block) -> None:
        b = self.body
        self.block = index
        b.block(f"m{index}.test")
        slot = self.pending(index)
        bits = b.load("i32", False, slot)
        run = f"m{index}.run"
        b.branch_if(b.icmp("eq", bits, integer(0, "i32")), f"m{index + 1}.test", run)
        b.block(run)
        b.store(integer(0, "i32"), slot)
        if self.dual and (len(block.predecessors) > 1 or index in self.graph.loops):
            inside, whole = b.new_label("part"), b.new_label("whole")
            plain = b.load("i1", False, self.slot("%plain", "i1", False))
            b.branch_if(b.bin("and", b.icmp("eq", bits, ALL), b.invert(plain)), whole, inside)
            b.block(whole)
            self._to_forms(self.live_in[index])
            b.branch(f"f{index}")
            b.block(inside)
        self.mask, self.mask_bits = b.mask(bits), bits
        self._code(block)
        if block.leaves == "trap":
            return
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
            taken = b.bits(condition)
            self.part([(yes, b.bin("and", bits, taken)), (no, b.bin("and", bits, b.invert(taken)))])
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
            b.branch_if(b.icmp("ne", waiting, integer(0, "i32")), again, onward)
            b.block(again)
            self._poll(None)
            b.branch(f"m{target}.test")
            b.block(onward)
        b.branch(f"m{self.block + 1}.test")

    def _poll(self, _bits: Val | None) -> None:
        """A back edge: leaves when the launch is aborted."""
        families.poll(self)

    def _code(self, block: Block) -> None:
        self.local, self.forms = {}, {}
        for phi in block.phis:
            if phi.value.exported:
                self._export(phi.value, self.value(phi.value))
        for instruction in block.instructions:
            self.line = instruction.line
            families.emit(self, instruction)

    def _condition(self, block: Block) -> Val:
        condition = self.read(block.condition, "i1")
        return self.body.invert(condition) if block.negated else condition

    # Edges -------------------------------------------------------------------------------------------------------
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
                self._leave(bits)
                continue
            slot = self.pending(target)
            b.store(b.bin("or", b.load("i32", False, slot), bits), slot)

    def _leave(self, bits: Val) -> None:
        if self.entry and self.kernel.fibers:
            self.body.line(f"call void @farlane_leave(ptr %warp, {bits})")

    def _copies(self, edges: list[tuple[int, Val | None]]) -> None:
        """Phi assignments of some edges: all sources are read before any phi is written."""
        b = self.body
        moves: list[tuple[Phi, Value, Val | None]] = [
            (phi, phi.operands[self.block], bits) for target, bits in edges for phi in self.graph.blocks[target].phis
        ]
        masks: dict[str, Val] = {}
        shaped: list[tuple[str, Val]] = []
        forms: list[tuple[Value, Affine]] = []
        for phi, value, bits in moves:
            if bits is None and self.is_affine(phi.value):
                forms.append((phi.value, operand(self, value, REGISTER_LLVM[value.type])))
                continue
            slot, source = self.value_slot(phi.value), self.value(value)
            if phi.value.varying:
                source = b.splat(source)
                if bits is not None:
                    mask = masks.get(bits.name) or masks.setdefault(bits.name, b.mask(bits))
                    source = b.select(mask, source, b.load(source.type, True, slot))
            shaped.append((slot, source))
        for slot, source in shaped:
            b.store(source, slot)
        for value, form in forms:
            self._store_form(value, form)
