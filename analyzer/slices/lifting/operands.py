"""Operands of an instruction as registers of a slice, and the places in memory that an instruction touches.

Which memory an operand means is not found here: the abstract machine of the permissions has executed the function, and
its record tells for every instruction which bytes of the frame it touches, exactly or not. What is not one place for
certain is unknown when it is read, and loses all that it may be when it is written.
"""

from __future__ import annotations

from collections.abc import Iterable

from farlane.analyzer.loader.image import Image
from farlane.analyzer.machine.arithmetic import low
from farlane.analyzer.machine.effects import writes
from farlane.analyzer.machine.instruction import (
    NONE,
    RSP,
    XMM0,
    Immediate,
    Instruction,
    Memory,
    Operand,
    Register,
    lane,
)
from farlane.analyzer.permissions.abstract import memory as abstract
from farlane.analyzer.permissions.abstract.domain import (
    ANYTHING,
    CONSTANT,
    EXACT,
    FRAME,
    GLOBAL,
    IN_FRAME,
    IN_GLOBAL,
    OUTSIDE,
    Heap,
    Value,
)
from farlane.analyzer.permissions.abstract.memory import Access
from farlane.analyzer.slices import extents, reasons
from farlane.analyzer.slices.form import Code, Operation, Origin
from farlane.analyzer.slices.raw import (
    BIAS,
    GLOBALS,
    HEAPS,
    HIGHEST,
    LOWEST,
    STACK,
    TEMPORARY,
    Extent,
    Lost,
    Region,
    Step,
    Unknown,
)
from farlane.limits.generated import SLICE_MEMORY


class Operands:
    """Reads and writes operands; `steps` grows.

    Attributes:
        stack: the stack pointer before the instruction, as a distance from the entry's.
        accesses: what the instructions at hand touch, by address.
        regions: the arrays whose elements are touched at computed places.
        arrays: where what the loop's copies carry or bring begins and ends, in the frame and among global variables.
        extents: the heap blocks that they bring or carry.
        values: what the abstract machine says of the registers.
        entry_stack: the stack pointer at the entry, as an offset of the frame.
        flags: what the last comparison was and of how many bytes; the two sides are in `raw.FIRST` and `raw.SECOND`.
    """

    def __init__(self, image: Image) -> None:
        self.image = image
        self.steps: list[Step] = []
        self.accesses: dict[int, list[Access]] = {}
        self.stack = 0
        self.flags: tuple[str, int] | None = None
        self.regions: list[Region] = []
        self.arrays: list[tuple[int, int]] = []
        self.extents: dict[Heap, Extent] = {}
        self.entry_stack = 0
        self.values: list[Value] = []
        self._next = TEMPORARY

    def temporary(self) -> int:
        self._next += 1
        return self._next - 1

    def emit(self, code: Code, width: int, *operands: int, target: int | None = None, immediate: int = 0) -> int:
        """An operation; its result's register, a new one if none is named."""
        target = self.temporary() if target is None else target
        self.steps.append(Operation(code, width, target, operands, immediate))
        return target

    def constant(self, value: int) -> int:
        return self.emit(Code.CONSTANT, 8, immediate=low(value, 8))

    def unknown(self, register: int, reason: str, detail: str) -> int:
        self.steps.append(Unknown(register, reason, detail))
        return register

    # Places

    def place(self, instruction: Instruction, operand: Memory, kind: str, size: int) -> int | None:
        """The one place that an operand means; None: it is not known."""
        if operand.thread:
            return None
        if operand.base == operand.indexed == NONE:
            return GLOBALS + operand.displacement if operand.displacement > 0 else None
        found = [each for each in self.accesses.get(instruction.address, ()) if each.kind == kind]
        if len(found) == 1:
            _, _, objects, begin, end, _, _ = found[0]
            if objects == IN_FRAME and begin > abstract.LOWEST and end - begin == size:
                return begin
            if OUTSIDE in objects and kind == abstract.READ and operand.base != NONE and operand.indexed == NONE:
                return self.given(operand.base, operand.displacement, size)
        return None

    def given(self, base: int, behind: int, size: int) -> int | None:
        """Where bytes behind an address from elsewhere stand; None: they may change."""
        raise NotImplementedError

    def addressed(self, heap: Heap, register: int) -> None:
        """A heap block's address is taken from a register; the walk knows the entry."""
        raise NotImplementedError

    def element(self, instruction: Instruction, operand: Memory, kind: str, offset: int) -> tuple[int, int] | None:
        """An access at a computed place: a register with the distance from an array's start, and the array, in the frame,
        among the global variables, or on the heap. Which array is a guess; that it is this one, the evaluation finds out.
        """
        found = [each for each in self.accesses.get(instruction.address, ()) if each.kind == kind]
        if operand.thread or len(found) != 1:
            return None
        objects, first, last = found[0].objects, found[0].low, found[0].high
        heap = extents.block(objects)
        extent = None if heap is None else self.extents.get(heap)
        if extent is not None and heap is not None:
            bases = [each for each in (operand.base, operand.indexed) if 0 <= each < XMM0]
            for each in bases:
                if heap in self.values[each].objects:
                    self.addressed(heap, each)
            region = Region(extent.low, extent.size, extent.low, extent.low + extent.size)
            start = self.emit(Code.LOAD, 8, immediate=extent.address)
        elif FRAME in objects and operand.base != NONE:
            base = self.values[operand.base] if operand.base < XMM0 else None
            within = self._within(first if base is None or base.kind != EXACT else base.number + operand.displacement)
            if within is None:
                return None
            reached = (max(first, LOWEST), min(last, GLOBALS)) if objects == IN_FRAME else (LOWEST, HIGHEST)
            region = Region(within[0], within[1] - within[0], *reached)
            start = self.emit(Code.ADD, 8, STACK, self.constant(within[0] - self.entry_stack))
        elif GLOBAL in objects:
            variable = self._variable(operand)
            if variable is None:
                return None
            reached = (GLOBALS, HEAPS) if objects == IN_GLOBAL else (LOWEST, HIGHEST)
            region = Region(variable[0], variable[1] - variable[0], *reached)
            start = self.placed(variable[0] - GLOBALS)
        else:
            return None
        if region not in self.regions:
            self.regions.append(region)
        if offset:
            start = self.emit(Code.SUBTRACT, 8, start, self.constant(offset))
        return self.emit(Code.SUBTRACT, 8, self.address(operand), start), self.regions.index(region)

    def source(self, register: int) -> tuple[Origin, int] | None:
        """What a register's value comes from in its block: another register, or a place of the frame."""
        for step in reversed(self.steps):
            if isinstance(step, Lost) or step.target != register:
                continue
            if isinstance(step, Operation) and step.code == Code.COPY and step.width == 8:
                register = step.operands[0]
            elif isinstance(step, Operation) and step.code == Code.LOAD and step.width == 8:
                return (Origin.FRAME, step.immediate)
            else:
                return None
        return (Origin.REGISTER, register)

    def _variable(self, operand: Memory) -> tuple[int, int] | None:
        """Where to look for an element of a global array: in that of the loop's copies in which an address at hand lies, or
        behind this; in the only one, where none is at hand."""
        held = [self.values[each] for each in (operand.base, operand.indexed) if 0 <= each < XMM0]
        bases = [
            each.number + operand.displacement for each in held if each.kind == CONSTANT and GLOBAL in each.objects
        ]
        if operand.base == NONE:
            bases.append(operand.displacement)
        known = [each for each in self.arrays if each[0] >= GLOBALS]
        if len(bases) != 1:
            return known[0] if len(known) == 1 and not bases else None
        guess = GLOBALS + bases[0]
        inside = [each for each in known if each[0] <= guess < each[1]]
        segment = self.image.segment(bases[0])
        if inside or segment is None:
            return inside[0] if inside else None
        return guess, min(guess + extents.LONGEST, GLOBALS + segment.end)

    def _within(self, guess: int) -> tuple[int, int] | None:
        """Where to look for an element: among all of the loop's arrays, with one that may begin at the guess, where that is
        in none of them."""
        below = LOWEST < guess < self.entry_stack
        known = [each for each in self.arrays if (each[0] < self.entry_stack) == below and each[0] < GLOBALS]
        inside = [each for each in known if each[0] <= guess < each[1]]
        if guess > LOWEST and not inside:
            inside = [(guess, min(guess + extents.LONGEST, 0) if guess < 0 else guess + extents.LONGEST)]
            known += inside
        low, high = min((each[0] for each in known), default=0), max((each[1] for each in known), default=0)
        if high - low <= SLICE_MEMORY // 2:
            return (low, high) if known else None
        return inside[0] if inside else None

    def lose(self, accesses: Iterable[Access], reason: str, detail: str) -> None:
        """Whatever these write is not known."""
        for access in accesses:
            if access.kind in (abstract.READ, abstract.GIVEN):
                continue
            if FRAME in access.objects or ANYTHING in access.objects:
                self.steps.append(Lost(max(access.low, LOWEST), min(access.high, GLOBALS), reason, detail))
            if access.objects & {GLOBAL, OUTSIDE, ANYTHING}:
                self.steps.append(Lost(GLOBALS, HEAPS, reason, detail))
            for heap, extent in self.extents.items():
                if heap in access.objects or ANYTHING in access.objects:
                    self.steps.append(Lost(extent.low, extent.low + extent.size, reason, detail))

    # Reading

    def address(self, memory: Memory) -> int:
        """An address that an instruction computes."""
        if memory.base == memory.indexed == NONE or memory.thread:
            if memory.thread:
                return self.unknown(self.temporary(), reasons.INSTRUCTION, "a variable of the thread")
            return self.placed(memory.displacement)
        total = self.constant(memory.displacement)
        if memory.base != NONE:
            total = self.emit(Code.ADD, 8, self.general(memory.base), total)
        if memory.indexed != NONE:
            scaled = self.emit(Code.MULTIPLY, 8, self.general(memory.indexed), self.constant(memory.scale))
            total = self.emit(Code.ADD, 8, scaled, total)
        return total

    def placed(self, address: int) -> int:
        """Where something of the file is in the process."""
        held = self.constant(address)
        return self.emit(Code.ADD, 8, BIAS, held) if self.image.moves else held

    def general(self, number: int) -> int:
        """A general register, whole."""
        if not 0 <= number < XMM0:
            return self.unknown(self.temporary(), reasons.INSTRUCTION, "a register that is not modelled")
        if number == RSP:
            return self.emit(Code.ADD, 8, STACK, self.constant(self.stack)) if self.stack else STACK
        return number

    def get(self, operand: Operand, instruction: Instruction, size: int | None = None) -> int:
        """A register whose low bytes are an operand's; of a vector register the low half."""
        if isinstance(operand, Immediate):
            return self.constant(operand.value)
        if isinstance(operand, Register):
            if operand.number >= XMM0:
                return lane(operand.number)
            held = self.general(operand.number)
            return self.emit(Code.SHIFT_RIGHT, 8, held, self.constant(8)) if operand.offset else held
        return self.load(operand, instruction, operand.size if size is None else size)

    def load(self, operand: Memory, instruction: Instruction, size: int, whole: int = 0, offset: int = 0) -> int:
        """Some bytes of a memory operand of `whole` bytes, `offset` bytes behind its address."""
        where = self.place(instruction, operand, abstract.READ, whole or size)
        if where is not None:
            return self.read(where + offset, size)
        element = self.element(instruction, operand, abstract.READ, offset) if size in (1, 2, 4, 8) else None
        if element is not None:
            return self.emit(Code.LOAD_AT, size, element[0], immediate=element[1])
        detail = f"{instruction.mnemonic} at {instruction.address:#x} reads memory that is not the loop's own"
        return self.unknown(self.temporary(), reasons.MEMORY, detail)

    def read(self, where: int, size: int) -> int:
        """What stands at a place."""
        if size not in (1, 2, 4, 8):
            return self.unknown(self.temporary(), reasons.INSTRUCTION, f"{size} bytes are read at once")
        if where >= GLOBALS:
            number = self.image.constant(where - GLOBALS, size)
            if number is not None:
                return self.constant(number)
        return self.emit(Code.LOAD, size, immediate=where)

    # Writing

    def put(self, operand: Operand, value: int, instruction: Instruction) -> None:
        """The low bytes of a register become an operand's."""
        if isinstance(operand, Memory):
            self.store(operand, value, instruction, operand.size)
        elif isinstance(operand, Register) and 0 <= operand.number < XMM0 and operand.number != RSP:
            number = operand.number
            if operand.offset:
                self.unknown(number, reasons.INSTRUCTION, f"{instruction.mnemonic} at {instruction.address:#x}")
            elif operand.size >= 4:
                self.emit(Code.COPY, operand.size, value, target=number)
            else:
                self.emit(Code.INSERT, operand.size, number, value, target=number)

    def store(
        self, operand: Memory, value: int, instruction: Instruction, size: int, whole: int = 0, offset: int = 0
    ) -> None:
        where = self.place(instruction, operand, abstract.WRITE, whole or size)
        if where is not None and size in (1, 2, 4, 8):
            self.steps.append(Operation(Code.STORE, size, -1, (value,), where + offset))
            return
        element = self.element(instruction, operand, abstract.WRITE, offset) if size in (1, 2, 4, 8) else None
        if element is not None:
            self.steps.append(Operation(Code.STORE_AT, size, -1, (value, element[0]), element[1]))
        else:
            self.forget_memory(instruction)

    def forget_memory(self, instruction: Instruction) -> None:
        """Whatever an instruction may have written is not known."""
        detail = f"{instruction.mnemonic} at {instruction.address:#x} may write there"
        self.lose(self.accesses.get(instruction.address, ()), reasons.MEMORY, detail)

    def forget(self, instruction: Instruction) -> None:
        """Whatever an instruction may change is not known."""
        detail = f"{instruction.mnemonic} at {instruction.address:#x} is not modelled"
        self.forget_memory(instruction)
        for number in writes(instruction):
            if 0 <= number < XMM0 and number != RSP:
                self.unknown(number, reasons.INSTRUCTION, detail)
            elif number >= XMM0:
                for half in (0, 1):
                    self.unknown(lane(number, half), reasons.INSTRUCTION, detail)
