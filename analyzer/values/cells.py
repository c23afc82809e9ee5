"""What registers and memory hold at one point of a function, and what a load reads there.

Registers are a list: 0..15, the two halves of vector registers 16 + 2n and 17 + 2n; then the launch configuration that
__cudaPushCallConfiguration set aside, the flags, and versions of memory. Memory is cells keyed by the address's base
(its non-constant part), offset and size. `state` says what stores do to them.

A load of what no cell holds is an atom of the address and the versions of the memory it reads: two loads are equal only
if nothing was stored in between that may be there.
"""

from __future__ import annotations

from farlane.analyzer.machine.instruction import REGISTERS
from farlane.analyzer.values.addresses import allocated_top
from farlane.analyzer.values.expression import INITIAL, LOAD, OPERATION, Value
from farlane.analyzer.values.memory import PLACES, Memory

CONFIGURATION = REGISTERS  # .. 53: grid x|y, grid z, block x|y, block z, shared memory, stream
PUSHED = PLACES  # the push that set them aside
FLAGS = 55
# Versions: of everything; of the frame, by every store and by those of unknown extent; of what is reached through
# unknown pointers; of global variables, by stores of unknown extent; of what the function was given pointers to.
MEMORY, STACK_STORES, STACK_RANGES, OTHER_STORES, GLOBAL_RANGES, GIVEN_STORES = range(56, 62)
LENGTH = 62
KEYS = range(LENGTH)
_SIZES = (1, 2, 4)

Held = dict[Value, dict[tuple[int, int], Value]]


class Cells:
    """Registers, cells, and the lowest offset of the frame whose address has escaped (None: none has).

    `kept`: base -> the versions of everything and of other stores for what no cell holds there: stores at other offsets
        from the
    same base do not change it. Its bases are such as may point anywhere, and all have cells.
    `limits`: phi -> the largest number that it is, by the branches on the way here, and in how many of its bytes.
    `own`: the bases whose cells are this state's alone (None: there are none): copies share all others, until one of
        them changes them.
    `objects`, `limits` are shared as well, and never changed in place.
    """

    __slots__ = ("cells", "escaped", "kept", "limits", "memory", "objects", "own", "registers")

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.registers: list[Value] = []
        self.objects: dict[Value, Value] = {}
        self.cells: Held = {}
        self.kept: dict[Value, tuple[Value, Value]] = {}
        self.limits: dict[Value, tuple[int, int]] = {}
        self.escaped: int | None = None
        self.own: set[Value] | None = None

    def same(self, other: Cells) -> bool:
        return (
            self.registers == other.registers
            and self.cells == other.cells
            and self.escaped == other.escaped
            and self.objects == other.objects
            and self.kept == other.kept
            and self.limits == other.limits
        )

    def _end(self, address: Value, size: int) -> int | None:
        """The offset of the frame behind a store at an address of it; None: not known, or it may be no address of it at
        all."""
        if (top := allocated_top(address)) is not None:
            return top + size
        if address.low is None or (self.memory.values.stack_pointer, 1) not in address.terms:
            return None
        own = 0 if self.memory.separate and address.low < 0 else None
        end = address.low + size
        for atom, coefficient in address.terms:
            if atom is self.memory.values.stack_pointer:
                continue
            largest = self._largest(atom)
            if largest is None or coefficient >> 32:
                return own
            end += coefficient * max(largest, 0)
        return end if own is None else min(end, own)

    def _largest(self, atom: Value) -> int | None:
        bytes_, more = 8, 0
        if atom.kind == OPERATION and atom.arguments[0] in ("zx4", "sx4") and len(atom.arguments[1].terms) == 1:
            (inner, coefficient), more = atom.arguments[1].terms[0], atom.arguments[1].signed
            if coefficient != 1:
                return None
            atom, bytes_ = inner, 4
        elif isinstance(atom.arguments[-1], tuple) and atom.arguments[-1][-1] == 4:
            bytes_ = 4  # a cell of 4 bytes
        known = self.limits.get(atom)
        return None if known is None or known[1] < bytes_ else known[0] + more

    def read(self, address: Value, size: int) -> Value:
        """The value of 1, 2, 4 or 8 bytes, zero-extended."""
        values = self.memory.values
        base, offset = address.parts or values.base(address)
        cells = self.cells.get(base)
        if cells:
            exact = cells.get((offset, size))
            if exact is not None:
                return exact
            end = offset + size
            overlapping = [(start, wide) for start, wide in cells if start < end and offset < start + wide]
            if overlapping:
                return self._assembled(cells, sorted(overlapping), address, offset, size)
        if base.kind == OPERATION and base.arguments[0] == "choose" and base.stack:
            *which, first, second = base.arguments
            if self._in_frame(first) and self._in_frame(second):
                one, other = (self.read(values.add(place, offset), size) for place in (first, second))
                return one if one is other else values.atom(OPERATION, *which, one, other)
        return self._untracked(address, size)

    def read_frame(self, address: Value, place: tuple[int, int]) -> Value:
        """As `read` at an offset of the own frame, of a size, which is no cell's place."""
        cells = self.cells.get(self.memory.values.stack_pointer)
        offset, size = place
        if cells:
            end = offset + size
            overlapping = [(start, wide) for start, wide in cells if start < end and offset < start + wide]
            if overlapping:
                return self._assembled(cells, sorted(overlapping), address, offset, size)
        return self.memory.values.atom(LOAD, address, size, self._versions(address, size))

    def _in_frame(self, address: Value) -> bool:
        """Whether an address is one place of the frame, or one of several."""
        base, _ = self.memory.values.base(address)
        if base.kind == OPERATION and base.arguments[0] == "choose":
            return all(self._in_frame(place) for place in base.arguments[-2:])
        return base is self.memory.values.stack_pointer

    def _assembled(
        self, cells: dict[tuple[int, int], Value], keys: list[tuple[int, int]], address: Value, offset: int, size: int
    ) -> Value:
        values = self.memory.values
        start, wide = keys[0]
        if len(keys) == 1 and start <= offset and offset + size <= start + wide:
            if start == offset:
                return values.zero_extended(cells[keys[0]], size)
            shifted = values.operation("shr", cells[keys[0]], values.constant(8 * (offset - start)), size=8)
            return values.zero_extended(shifted, size)
        if size == 8 and keys[0][0] <= offset and keys[-1][0] + keys[-1][1] >= offset + 8:
            halves = [self._half(cells, keys, at) for at in (offset, offset + 4)]
            if halves[0] is not None and halves[1] is not None:
                return values.pair(halves[0], halves[1])
        pieces = tuple(part for key in keys for part in (values.constant(key[0] - offset), cells[key]))
        covered = offset
        for start, wide in keys:
            covered = max(covered, start + wide) if start <= covered else covered
        if covered < offset + size:
            pieces = (self._untracked(address, size), *pieces)
        return values.atom(OPERATION, f"pieces{size}", *pieces)

    def _half(self, cells: dict[tuple[int, int], Value], keys: list[tuple[int, int]], offset: int) -> Value | None:
        """Four bytes that one cell begins or ends with."""
        values = self.memory.values
        for start, size in keys:
            if start == offset and size >= 4:
                return values.zero_extended(cells[start, size], 4)
            if start == offset - 4 and size == 8:
                return values.high_half(cells[start, size])
        return None

    def _untracked(self, address: Value, size: int) -> Value:
        values, memory = self.memory.values, self.memory
        if address.is_constant:
            kernel = memory.handle(address.constant) if size == 8 else None
            if kernel is not None:
                return values.atom(OPERATION, "kernel", values.constant(kernel))
            number = memory.image.constant(address.constant, size)
            if number is not None:
                return values.constant(number)
        return values.atom(LOAD, address, size, self._versions(address, size))

    def _versions(self, address: Value, size: int) -> tuple[Value, ...]:
        memory, registers = self.memory, self.registers
        base, offset = memory.values.base(address)
        if memory.separate:
            memory.use(base, offset, size)
        version = registers[MEMORY]
        if address.is_constant:
            return (version, registers[GLOBAL_RANGES])
        if base is memory.values.stack_pointer:
            return (version, registers[STACK_RANGES])
        if address.stack:
            others = () if memory.separate and address.low is not None else (registers[OTHER_STORES],)
            return (version, registers[STACK_STORES], registers[STACK_RANGES], *others)
        own = memory.objects_of(base)
        if own:
            return (version, *[self.version_of(each) for each in own])
        return self.versions_at(base)

    def version_of(self, own: Value) -> Value:
        """The version of an object."""
        known = self.objects.get(own)
        if known is None:
            values = self.memory.values
            from_before = self.memory.separate and (own is self.memory.arrays or self.memory.given(own))
            known = values.atom(INITIAL, GIVEN_STORES) if from_before else values.zero
        return known

    def versions_at(self, base: Value) -> tuple[Value, Value]:
        """The versions of what no cell holds at a base that may point anywhere."""
        stores = GIVEN_STORES if self.memory.given(base) else OTHER_STORES
        return self.kept.get(base) or (self.registers[MEMORY], self.registers[stores])
