"""What instruction families see of the function that they are written into: one interface of three emitters.

codegen.py emits a function for warps, group_codegen.py for groups of warps, serial_codegen.py for one lane after the other. They differ in where
values live and in which form they are read, and in control flow, which is theirs.

Values that cross blocks live in stack slots (LLVM promotes them): %x<n> as computed, %out<n> per lane for exported ones, %base<n> and
%step<n> for affine ones in the full version. In large functions under the conservative rules, where every value that crosses blocks
is blended under masks, promoting them would make a web of phis that takes minutes to compile: there the slots stay in memory. Owns reading operands, defining results, and carrying affine values between the two
versions of a block; codegen.py adds control flow.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from farlane.backend.jit.analysis import patterns, strides
from farlane.backend.jit.analysis.register_tiles import Tiles, place_of
from farlane.backend.jit.lowering import families, touches
from farlane.backend.jit.lowering.affine import Affine, materialise, rows
from farlane.backend.jit.lowering.ir import REGISTER_LLVM, Builder, Val, convert, floating, integer, lanes
from farlane.backend.jit.lowering.specials import special
from farlane.backend.jit.ptx.declarations import UnsupportedError
from farlane.backend.jit.ptx.model import LANES, Immediate, Negated, Special, Storage, Symbol
from farlane.backend.jit.ssa.ssa import Value

if TYPE_CHECKING:
    from farlane.backend.jit.analysis.divergence import Divergence
    from farlane.backend.jit.analysis.warp_groups import WarpGroup
    from farlane.backend.jit.lowering.families.accesses.addresses import Place
    from farlane.backend.jit.lowering.kernel import KernelContext
    from farlane.backend.jit.lowering.streaming import Streams
    from farlane.backend.jit.ssa.cfg import Graph

ALL = integer(-1, "i32")
MANY_BLOCKS = 60


class Emitter:
    """State of the block being emitted, as instruction families use it; `body` is the builder that instruction families append to, `prologue` the entry's."""

    def __init__(
        self,
        kernel: KernelContext,
        name: str,
        graph: Graph,
        divergence: Divergence,
        storage: dict[str, Storage],
        entry: bool,
    ) -> None:
        self.kernel, self.name, self.graph, self.divergence, self.entry = kernel, name, graph, divergence, entry
        self.storage = storage
        self.pointers: dict[str, str] = {}  # arguments passed as local-memory offsets
        self.frame: dict[str, int] = {}  # offsets in the function's local-memory frame
        self.frame_bytes = 0
        self.body = Builder()
        self.prologue = Builder()
        self.prologue.prefix = "e"
        self.allocas: list[str] = []
        self.slots: set[str] = set()
        self.local: dict[Value, Val] = {}
        self.forms: dict[Value, Affine] = {}
        self.cached: dict[str, Val] = {}
        self.mask: Val | None = None  # None in the full version
        self.mask_bits = ALL
        self.block = 0
        self.line = 0
        self.dual = False
        self.parks = False  # whether lanes that reach a barrier wait while the warp's other lanes run on
        self.streams: Streams | None = None  # stores that may go past the caches
        self.group: WarpGroup | None = None  # set where what is emitted is a warp group's code
        self.instance: int | Val = 0  # which of its warps
        self.placed: Place | None = None  # where the access being emitted goes, if that has been checked already
        self.contiguous = False  # whether the masked access being emitted is of neighbouring elements (guarding.py)
        self.scattered: str | None = None  # where reads here and there are counted (serial_choice.py)
        self.in_memory = divergence.conservative and len(graph.blocks) > MANY_BLOCKS
        self.touching = touches.Counting()
        self.leaves_full = False
        self.tiles = Tiles()  # additions that are made in loops, and where their sums lie (register_tiles.py)
        self.stepping: set[Value] = set()  # the affine values that have a step from row to row
        self.live_in: list[list[Value]] = []
        self.live_out: list[list[Value]] = []
        self._patterns: dict[Value, patterns.Pattern] | None = None

    @property
    def warps(self) -> int:
        """How many the code is for."""
        return self.group.warps if self.group is not None else 1

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
        if (home := self.tiles.homes.get(value)) is not None:
            return place_of(*home)
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
        pattern = self.pattern(value) if value.varying else None
        if pattern is not None and pattern.known:
            result = lanes(list(pattern.offsets), kind)
        else:
            result = self.stored(value, kind)
        self.local[value] = result
        return result

    def stored(self, value: Value, kind: str) -> Val:
        """A value from where it was left in another block."""
        if value.exported and self.outside(value):
            return self.body.load(kind, True, self.export_slot(value))
        return self.body.load(kind, value.varying, self.value_slot(value))

    def _zero(self, kind: str) -> Val:
        return floating(0, kind) if kind in ("float", "double", "half") else integer(0, kind)

    def outside(self, value: Value) -> bool:
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
            self.export(value, result)

    # Affine values (full version only) -------------------------------------------------------------------------------
    def affine(self, value: Value) -> Affine | None:
        """The value in affine form, if it has one here."""
        if self.mask is not None or not self.is_affine(value) or (value.exported and self.outside(value)):
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
        return base, self.slot(f"%step{value.number}", kind, False) if value in self.stepping else None

    def _load_form(self, value: Value) -> Affine:
        base, step = self._form_slots(value)
        kind = REGISTER_LLVM[value.type]
        assert value.stride is not None
        first = self.body.load(kind, False, base)
        return Affine(first, value.stride, self.body.load(kind, False, step) if step else None)

    def pattern(self, value: Value) -> patterns.Pattern | None:
        """How the value differs between the lanes of a warp, where all are active and it is known now."""
        options = self.kernel.options
        if self.mask is not None or not self.dual or options.tier == 1 or options.checks or options.touches:
            return None
        if self._patterns is None:
            self._patterns = patterns.analyse(self.graph, self.kernel.block)
        return self._patterns.get(value)

    def define_affine(self, value: Value, form: Affine) -> None:
        assert form.step is None or value in self.stepping
        self.forms[value] = form
        if value.crosses:
            self.store_form(value, form)
        if value.exported:
            self.export(value, materialise(self, form))

    def store_form(self, value: Value, form: Affine) -> None:
        assert form.step is None or value in self.stepping
        base, step = self._form_slots(value)
        self.body.store(form.base, base)
        if step:
            self.body.store(form.step or integer(0, form.type), step)

    def part(self, edges: list[tuple[int, Val]]) -> None:
        """Lanes go on to these blocks, those of the masks."""
        raise AssertionError("lanes part in a warp's masked code alone")

    def leave_full(self, condition: Val) -> None:
        """Goes on in the masked version, from the start of this block, when an affine form does not hold."""
        b = self.body
        stay = b.new_label("holds")
        self.leaves_full = True
        b.branch_if(condition, f"leave{self.block}", stay, unlikely=True)
        b.block(stay)

    def leave_block(self, index: int) -> None:
        if not self.leaves_full:
            return
        b = self.body
        b.block(f"leave{index}")
        b.store(integer(1, "i1"), self.slot("%plain", "i1", False))
        self.to_vectors(self.live_in[index])
        b.store(ALL, self.pending(index))
        b.branch(f"m{index}.test")

    def to_vectors(self, values: list[Value]) -> None:
        """The masked version reads these values as vectors."""
        for value in values:
            self.body.store(materialise(self, self._load_form(value)), self.value_slot(value))

    def to_forms(self, values: list[Value]) -> None:
        """The way back: all lanes are here, so the first lanes of two rows tell base and step."""
        b = self.body
        for value in values:
            vector = b.load(REGISTER_LLVM[value.type], True, self.value_slot(value))
            first = b.lane(vector, 0)
            assert value.stride is not None
            step = None
            if value in self.stepping:
                step = b.bin("sub", b.lane(vector, LANES // rows(self)), first)
            self.store_form(value, Affine(first, value.stride, step))

    def export(self, value: Value, result: Val) -> None:
        slot = self.export_slot(value)
        self.blend(slot, self.body.splat(result), self.mask)

    def blend(self, slot: str, value: Val, mask: Val | None) -> None:
        """Stores a value for the lanes of a mask, without one for all."""
        b = self.body
        if mask is None:
            b.store(value, slot)
        elif self.in_memory and value.type != "i1":
            b.masked_store(value, slot, mask)
        else:
            # Volatile: not promoted.
            kind = "store volatile" if self.in_memory else "store"
            b.line(f"{kind} {b.select(mask, value, b.load(value.type, True, slot))}, ptr {slot}")

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

    def site(self) -> int:
        """The number of what an access remembers of the pages it has found."""
        return self.kernel.site()

    @contextlib.contextmanager
    def reporting(self) -> Iterator[None]:
        """Round a call that may name a thread: for a warp group's warps but the first, it has to know which."""
        yield

    def once(self, key: str, make: Callable[[Builder], Val]) -> Val:
        """A value computed at the function's entry, at most once."""
        if key not in self.cached:
            self.cached[key] = make(self.prologue)
        return self.cached[key]

    def fail(self, message: str) -> UnsupportedError:
        return UnsupportedError(message, self.line, self.kernel.name)
