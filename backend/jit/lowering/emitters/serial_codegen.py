"""The code of a region that runs for one lane after the other (serial.py), beside the vectors' code of the same blocks.

Lanes get here from the region's first block, in the masked version's state: what they bring lies in vectors, which go to arrays in memory, and what a
lane computes and later blocks read goes to arrays again. In between everything is a scalar: the instruction families emit what they emit for values that all
lanes share. Addresses are compared with runs of pages that are kept in registers, one for each array that accesses are reckoned from.
When is serial_choice.py's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from farlane.backend.jit.analysis import neighbours, origins, serial
from farlane.backend.jit.analysis.serial import Region
from farlane.backend.jit.lowering import families, support
from farlane.backend.jit.lowering.affine import Affine
from farlane.backend.jit.lowering.emitter import ALL, Emitter
from farlane.backend.jit.lowering.emitters import advance
from farlane.backend.jit.lowering.families.accesses import addresses, limits, memory
from farlane.backend.jit.lowering.families.accesses.addresses import Place
from farlane.backend.jit.lowering.ir import BITS, REGISTER_LLVM, Val, integer
from farlane.backend.jit.ptx.model import LANES, Address, Instruction
from farlane.backend.jit.runtime.structures import Latch
from farlane.backend.jit.ssa.blocks import EXIT, Block
from farlane.backend.jit.ssa.ssa import Value

if TYPE_CHECKING:
    from farlane.backend.jit.analysis.patterns import Pattern
    from farlane.backend.jit.lowering.emitters.codegen import FunctionEmitter

Run = tuple[Value | None, int, int]  # the array that accesses are reckoned from, or which one it is; bytes


class SerialEmitter(Emitter):
    """One region's code: a function of its own, so that it has all registers."""

    def __init__(self, e: FunctionEmitter, region: Region) -> None:
        super().__init__(e.kernel, e.name, e.graph, e.divergence, e.storage, True)
        self.outer, self.region = e, region
        self.key = f"s{region.start}"
        self.pointers, self.frame = e.pointers, e.frame
        self.into, self.out = serial.live_in(e.graph, region), serial.live_out(e.graph, region)
        self.exits = sorted({t for index in self._indices for t in e.graph.blocks[index].targets if t not in region})
        self.choice = e.kernel.site()  # serial_choice.py's latch
        self.emitter = cast("FunctionEmitter", self)  # what instruction families ask of theirs, this one answers
        self.area: dict[str, int] = {}  # what the two functions hand each other
        self.area_bytes = 0
        self.runs: dict[Run, int] = {}  # -> latch
        self.spans: dict[int, set[int]] = {}  # of a latch: how far accesses that are checked together lie apart
        self.rows: dict[int, list[Instruction]] = {}  # of the block: loads that are checked together
        self.seen: set[int] = set()  # those that have been
        self.asked: dict[Value, list[int]] = {}  # of the block: from where later lines have been asked for
        self.lane = integer(0, "i32")
        self.inside = False  # whether it is the region's function that is being emitted
        self.varying: list[Value] = []  # of what the lanes bring

    @property
    def _indices(self) -> range:
        return range(self.region.start, self.region.end)

    # From one to the other -----------------------------------------------------------------------------------------
    def _in_area(self, name: str, value: Value | None = None, vector: bool = True) -> str:
        """A pointer to a place in the area, in the function that is being emitted: a scalar, or a vector of which lanes' elements are accessed."""
        if name not in self.area:
            size = 8 if value is None or not vector else LANES * max(BITS[REGISTER_LLVM[value.type]] // 8, 1)
            self.area_bytes = -(-self.area_bytes // min(size, 64)) * min(size, 64)
            self.area[name] = self.area_bytes
            self.area_bytes += size
        return self.body.gep("%area" if self.inside else f"%{self.key}.area", self.area[name])

    def emit(self) -> None:
        """From lanes in %<key>.bits to the masked version's next block."""
        e = self.outer
        body, self.body = self.body, e.body
        self.inside = False
        bits = self._enter()
        self.body, self.inside = body, True
        self._function()
        self.body, self.inside = e.body, False
        self._leave(bits)
        e.allocas.append(f"  %{self.key}.area = alloca [{self.area_bytes} x i8], align 64")

    def _enter(self) -> Val:
        b, e = self.body, self.outer
        b.block(self.key)
        bits = b.load("i32", False, f"%{self.key}.bits")
        e.mask, e.mask_bits, e.local, e.forms, e.block = b.mask(bits), bits, {}, {}, self.region.start
        self.varying = [value for value in self.into if self._per_lane(value)]
        for value in self.into:
            kind = REGISTER_LLVM[value.type]
            if value not in self.varying:
                slot = b.load(kind, False, e.value_slot(value))
                b.store(slot, self._in_area(f"in{value.number}", value, False))
                continue
            exported = value.exported and e.outside(value)
            vector = b.load(kind, True, e.export_slot(value) if exported else e.value_slot(value))
            if kind == "i1":
                b.store(b.bits(vector), self._in_area(f"in{value.number}"))
            else:
                b.store(vector, self._in_area(f"in{value.number}", value), ", align 64")
        b.line(f"call void @farlane_alone_{self.key}(ptr %warp, ptr %{self.key}.area, {bits})")
        return bits

    def _function(self) -> None:
        b = self.body
        self.mask, self.mask_bits = Val("splat (i1 true)", "i1", True, True), ALL
        self.prologue.store(Val("%bits", "i32"), self._own("left"))
        uniform = [value for value in self.into if value not in self.varying]
        b.block("start")
        for value in uniform:
            kind = REGISTER_LLVM[value.type]
            found = b.load(kind, False, self._in_area(f"in{value.number}", value, False))
            b.store(found, self._place(value, "in" if value.block in self.region else "x"))
        self._latches()
        b.branch("lane")
        self._each([value for value in uniform if value.block in self.region])
        for index in self._indices:
            self._block(index, self.graph.blocks[index])
        b.block("next")
        left = b.load("i32", False, self._own("left"))
        left = b.bin("and", left, b.bin("sub", left, integer(1, "i32")))
        b.store(left, self._own("left"))
        b.branch_if(b.icmp("ne", left, integer(0, "i32")), "lane", "done")
        b.block("done")
        for target in self.exits:
            b.store(b.load("i32", False, self._own(f"to{target}")), self._in_area(f"to{target}"))
        b.line("ret void")
        for declaration in (*b.intrinsics.values(), *self.prologue.intrinsics.values()):
            self.kernel.declare(declaration)
        name = f"farlane_alone_{self.key}"
        lines = [f"define internal void @{name}(ptr %warp, ptr noalias %area, i32 %bits) noinline #0 {{", "entry:"]
        lines += [*self.allocas, *self.prologue.lines, "  br label %start", *b.lines, "}"]
        self.kernel.helpers[name] = "\n".join(lines)

    def _own(self, name: str) -> str:
        return self.slot(f"%{name}", "i32", False)

    def _per_lane(self, value: Value) -> bool:
        return value.varying or (value.exported and self.outer.outside(value))

    def _place(self, value: Value, name: str = "x") -> str:
        """Where a lane's value lives from block to block."""
        return self.slot(f"%{name}{value.number}", REGISTER_LLVM[value.type], False)

    def _element(self, array: str, kind: str) -> str:
        b = self.body
        name = b.name("at")
        b.line(f"{name} = getelementptr {kind}, ptr {array}, {self.lane}")
        return name

    def _each(self, shared: list[Value]) -> None:
        """A lane's start. `shared`: the first block's phis that are the same for all lanes, but may be others in a loop's next iteration."""
        b = self.body
        b.block("lane")
        left = b.load("i32", False, self._own("left"))
        self.lane = b.bin("and", b.call("cttz", "i32", [left], "i1 true"), integer(LANES - 1, "i32"))
        self.mask_bits = b.bin("shl", integer(1, "i32"), self.lane)
        for value in self.varying:
            kind = REGISTER_LLVM[value.type]
            if kind == "i1":
                bits = b.load("i32", False, self._in_area(f"in{value.number}"))
                found = b.icmp("ne", b.bin("and", bits, self.mask_bits), integer(0, "i32"))
            else:
                found = b.load(kind, False, self._element(self._in_area(f"in{value.number}"), kind))
            b.store(found, self._place(value))
        for value in shared:
            b.store(b.load(REGISTER_LLVM[value.type], False, self._place(value, "in")), self._place(value))
        b.branch(f"b{self.region.start}")

    def _block(self, index: int, block: Block) -> None:
        b = self.body
        self.block = index
        b.block(f"b{index}")
        self.local, self.forms = {}, {}
        self.rows, self.seen, self.asked = neighbours.together(block, self.outer.kernel.options), set(), {}
        for instruction in block.instructions:
            self.line = instruction.line
            self._instruction(instruction)
        if block.condition is None or len(set(block.targets)) == 1:
            self._go(index, block.targets[0])
            return
        condition = self.read(block.condition, "i1")
        if block.negated:
            condition = b.invert(condition)
        labels = b.new_label("yes"), b.new_label("no")
        b.branch_if(condition, *labels)
        known = dict(self.local)
        for label, target in zip(labels, block.targets, strict=True):
            b.block(label)
            self.local = dict(known)
            self._go(index, target)

    def _go(self, index: int, target: int) -> None:
        b = self.body
        phis = self.graph.blocks[target].phis if target != EXIT else []
        sources = [(phi.value, self.value(phi.operands[index])) for phi in phis]
        if target in self.region:
            for value, source in sources:
                b.store(source, self._place(value))
            if target <= index:
                support.poll(self)
            b.branch(f"b{target}")
            return
        sources += [(value, self.value(value)) for value in self.out if self.graph.dominates(value.block, index)]
        for value, source in sources:
            if not value.varying:
                b.store(source, self._in_area(f"same{value.number}", value, False))
            if self._kept(value):
                kind = "i8" if source.type == "i1" else source.type
                place = self._element(self._in_area(f"out{value.number}", value), kind)
                b.store(b.cast("zext", source, kind), place)
        left = self._own(f"to{target}")
        b.store(b.bin("or", b.load("i32", False, left), self.mask_bits), left)
        b.branch("next")

    def _kept(self, value: Value) -> bool:
        """Whether the code that goes on reads it per lane. What phis of later blocks export, these export."""
        return value.varying or (value.exported and value.block in self.region)

    def _leave(self, bits: Val) -> None:
        """All lanes are through: their values go to where the masked version has them."""
        b, e = self.body, self.outer
        mask = b.mask(bits)
        for value in self.out:
            if f"same{value.number}" in self.area:
                kind = REGISTER_LLVM[value.type]
                self._keep(value, b.load(kind, False, self._in_area(f"same{value.number}")), bits)
            if self._kept(value) and f"out{value.number}" in self.area:
                vector = self._vector(value)
                if value.varying:
                    e.blend(e.value_slot(value), vector, mask)
                if value.exported:
                    e.blend(e.export_slot(value), vector, mask)
        for target in self.exits:
            lanes = b.load("i32", False, self._in_area(f"to{target}"))
            if target == EXIT:
                e.leave(lanes)
                continue
            there = b.mask(lanes)
            for phi in self.graph.blocks[target].phis:
                if phi.value.varying:
                    e.blend(e.value_slot(phi.value), self._vector(phi.value), there)
                else:
                    kind = REGISTER_LLVM[phi.value.type]
                    self._keep(phi.value, b.load(kind, False, self._in_area(f"same{phi.value.number}")), lanes)
            slot = e.pending(target)
            b.store(b.bin("or", b.load("i32", False, slot), lanes), slot)
        b.branch(f"m{self.region.end}.test")

    def _keep(self, value: Value, found: Val, lanes: Val) -> None:
        """A value that all lanes share, if any came by there."""
        b, slot = self.body, self.outer.value_slot(value)
        some = b.icmp("ne", lanes, integer(0, "i32"))
        b.store(b.select(some, found, b.load(found.type, False, slot)), slot)

    def _vector(self, value: Value) -> Val:
        b = self.body
        kind = REGISTER_LLVM[value.type]
        place = self._in_area(f"out{value.number}", value)
        if kind != "i1":
            return b.load(kind, True, place, ", align 64" if BITS[kind] > 8 else "")
        return b.icmp("ne", b.load("i8", True, place, ", align 1"), integer(0, "i8"))

    # Values --------------------------------------------------------------------------------------------------------
    def stored(self, value: Value, kind: str) -> Val:
        return self.body.load(kind, False, self._place(value))

    def define(self, value: Value | None, result: Val) -> None:
        if value is None:
            return
        result = self.body.lane(result, self.lane)
        self.local[value] = result
        if value.crosses:
            self.body.store(result, self._place(value))

    def read(self, operand: Any, kind: str) -> Val:
        return self.body.lane(super().read(operand, kind), self.lane)

    def affine(self, value: Value) -> Affine | None:
        return None

    def pattern(self, value: Value) -> Pattern | None:
        return None

    # Accesses --------------------------------------------------------------------------------------------------------
    def _latches(self) -> None:
        """Gives each access that will be checked here a run of pages, and brings them into registers."""
        for index in self._indices:
            together = neighbours.together(self.graph.blocks[index], self.outer.kernel.options)
            for instruction in self.graph.blocks[index].instructions:
                if not self._checked(instruction):
                    continue
                run = self._run(instruction)
                if run not in self.runs:
                    self.runs[run] = self.kernel.site()
                self.spans.setdefault(self.runs[run], set()).add(len(together.get(id(instruction), [0])) - 1)
        for run in self.runs:
            self._look(run)

    def _checked(self, i: Instruction) -> bool:
        return i.base == "ld" and addresses.space_of(i) in ("global", "const")

    def _run(self, i: Instruction) -> Run:
        """Which run of pages an access is compared with: its array's, where it has one that it is as aligned as."""
        size = memory.access_bytes(self.outer, i)
        operand = i.sources[0]
        base = operand.base if isinstance(operand, Address) else None
        if not isinstance(base, Value) or BITS[REGISTER_LLVM[base.type]] != 64:
            return None, i.line, size
        array, log = origins.reckoned(base, self._shared)
        if array not in self.into or 1 << log < size or operand.offset % size:
            return None, base.number, size
        return array, -1, size

    def _shared(self, value: Value) -> bool:
        return value.definition is not None and not self._per_lane(value) and value.block not in self.region

    def _look(self, run: Run) -> None:
        """Brings what is known of a run of pages into registers."""
        b = self.body
        array, _, size = run
        site = self.runs[run]
        latch = support.latch(self, site)
        low, count = b.load("i64", False, latch), b.load("i64", False, b.gep(latch, Latch.end.offset))
        b.store(low, self._long(f"low{site}"))
        if array is None:
            b.store(count, self._long(f"count{site}"))
            return
        start = b.load("i64", False, self._place(array))
        b.store(b.bin("sub", start, low), self._long(f"delta{site}"))
        # Where the array is not aligned, every access is looked at, and the first one refused.
        aligned = b.icmp("eq", b.bin("and", start, integer(size - 1, "i64")), integer(0, "i64"))
        for span in self.spans[site]:
            left = b.call("usub.sat", "i64", [count, integer(span, "i64")])
            limit = b.bin("shl", left, integer(size.bit_length() - 1, "i64"))
            b.store(b.select(aligned, limit, integer(0, "i64")), self._long(f"limit{site}.{span}"))

    def _long(self, name: str) -> str:
        return self.slot(f"%{name}", "i64", False)

    def _instruction(self, i: Instruction) -> None:
        if not self._checked(i):
            families.emit(self.emitter, i)
            return
        if id(i) not in self.seen:
            together = self.rows.get(id(i), [i])
            self._check(together)
            advance.ask(self, i)
            self.seen.update(id(item) for item in together)
        _, address = addresses.effective(self.emitter, i.sources[0], addresses.space_of(i))
        self.placed = Place("null", address)
        families.emit(self.emitter, i)
        self.placed = None

    def _check(self, together: list[Instruction]) -> None:
        """Of accesses beside each other: where the first and the last lie in one run of pages, the others do."""
        b = self.body
        run = self._run(together[0])
        array, _, size = run
        site, shape, span = self.runs[run], limits.shape_of(size, False), len(together) - 1
        places = [addresses.effective(self.emitter, item.sources[0], addresses.space_of(item))[1] for item in together]
        if array is not None:
            limit = b.load("i64", False, self._long(f"limit{site}.{span}"))
            bad = b.icmp("uge", self._distance(together[0], places[0], array, site), limit)
        else:
            low = b.load("i64", False, self._long(f"low{site}"))
            count = b.load("i64", False, self._long(f"count{site}"))
            corners = [b.bin("sub", corner, low) for corner in (places[0], places[-1])[: span + 1]]
            outside = [b.icmp("uge", limits.rotate(self.emitter, corner, shape), count) for corner in corners]
            bad = b.bin("or", outside[0], outside[-1])
        miss, hit = b.new_label("miss"), b.new_label("hit")
        b.branch_if(bad, miss, hit, unlikely=True)
        b.block(miss)
        latch = support.latch(self, site)
        for item, place in sorted(zip(together, places, strict=True), key=lambda pair: pair[0].line):
            arguments = f"ptr %warp, {place}, {self.lane}, ptr {latch}, i32 {shape}, i32 {item.line}"
            b.line(f"call preserve_allcc void @farlane_check_alone({arguments})")
        self._look(run)
        b.branch(hit)
        b.block(hit)

    def _distance(self, i: Instruction, place: Val, array: Value, site: int) -> Val:
        """From the start of the run of pages to where an access goes: one instruction where it is an index into the array."""
        b = self.body
        operand = i.sources[0]
        added = operand.base.definition
        here = operand.base.block == self.block and isinstance(added, Instruction) and added.base == "add"
        if here and array in added.sources:
            index = self.read(added.sources[1 if added.sources[0] is array else 0], "i64")
            delta = b.load("i64", False, self._long(f"delta{site}"))
            return b.bin("add", b.bin("add", delta, index), integer(operand.offset, "i64"))
        return b.bin("sub", place, b.load("i64", False, self._long(f"low{site}")))
