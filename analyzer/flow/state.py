"""What registers and memory hold at one point of a function.

Registers are keys 0..15, the two halves of vector registers 16 + 2n and 17 + 2n; then the launch configuration that
__cudaPushCallConfiguration set aside, the flags, and three versions of memory. Memory is cells keyed by the address's
base (its non-constant part), offset and size. Rules of aliasing, each on the side of doubt:

- the own frame and other memory are distinct as long as no address of the frame at or below the offset has escaped;
- two offsets from one base are distinct when they do not overlap; any two other bases may be the same memory;
- a store at a computed offset of the frame may hit every cell from its constant part upward.

A load of what no cell holds is an atom of the address and the version of the memory it reads: two loads are equal only
if nothing was stored in between that may be there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from farlane.analyzer.flow.expression import CODE, INITIAL, LOAD, OPERATION, VERSION, Value, Values
from farlane.analyzer.flow.success import decided
from farlane.analyzer.loader.image import Image

CONFIGURATION = 64  # .. 69: grid x|y, grid z, block x|y, block z, shared memory, stream
PUSHED = 70  # the push that set them aside
FLAGS, MEMORY, STACK_STORES, GLOBAL_STORES = 80, 81, 82, 83
KEYS = (*range(48), *range(CONFIGURATION, PUSHED + 1), FLAGS, MEMORY, STACK_STORES, GLOBAL_STORES)
MAXIMUM_CELLS = 4000

Cells = dict[Value, dict[tuple[int, int], Value]]


class Store(NamedTuple):
    """A store outside the own frame. `size` None: any number of bytes; `value` None: unknown ones.

    An `address` of None stands for a call of an unknown function.
    """

    address: Value | None
    size: int | None
    value: Value | None


class Memory:
    """What all states of one analysis share: the values, the file, and the kernel handles found so far."""

    def __init__(self, values: Values, image: Image) -> None:
        self.values, self.image = values, image
        # Address of a variable that __cudaGetKernel filled -> address of the kernel's host function.
        self.handles: dict[int, int] = {}
        # What is stored outside the frame of the function whose final pass runs; None while none does.
        self.log: list[Store] | None = None
        self._decided: dict[tuple[str, Value], bool | None] = {}

    def on_success(self, mnemonic: str, flags: Value) -> bool | None:
        """Whether a branch is taken when CUDA's calls succeed; None when that does not decide it."""
        key = (mnemonic, flags)
        if key not in self._decided:
            self._decided[key] = decided(self.values, mnemonic, flags)
        return self._decided[key]


class State:
    """Registers, cells, and the lowest offset of the frame whose address has escaped (None: none has)."""

    __slots__ = ("cells", "escaped", "memory", "registers")

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.registers: dict[int, Value] = {}
        self.cells: Cells = {}
        self.escaped: int | None = None

    @staticmethod
    def at_entry(memory: Memory, codes: frozenset[int] = frozenset()) -> State:
        """The state at a function's entry; `codes` are the registers in which it is given CUDA's error codes."""
        state = State(memory)
        state.registers = {key: memory.values.atom(INITIAL, key) for key in KEYS}
        for key in codes:
            state.registers[key] = memory.values.atom(INITIAL, key, CODE)
        return state

    def copy(self) -> State:
        other = State(self.memory)
        other.registers = dict(self.registers)
        other.cells = {base: dict(cells) for base, cells in self.cells.items()}
        other.escaped = self.escaped
        return other

    def same(self, other: State) -> bool:
        return self.registers == other.registers and self.cells == other.cells and self.escaped == other.escaped

    # Reading

    def read(self, address: Value, size: int) -> Value:
        """The value of 1, 2, 4 or 8 bytes, zero-extended."""
        values = self.memory.values
        base, offset = values.base(address)
        cells = self.cells.get(base)
        if cells:
            exact = cells.get((offset, size))
            if exact is not None:
                return exact
            overlapping = [key for key in cells if key[0] < offset + size and offset < key[0] + key[1]]
            if overlapping:
                return self._assembled(cells, sorted(overlapping), address, offset, size)
        return self._untracked(address, size)

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
        if keys == [(offset, 4), (offset + 4, 4)] and size == 8:
            low, high = cells[keys[0]], cells[keys[1]]
            if low.is_constant and high.is_constant:
                return values.constant(low.constant | high.constant << 32)
            return values.atom(OPERATION, "pair", low, high)
        pieces = tuple(part for key in keys for part in (values.constant(key[0] - offset), cells[key]))
        return values.atom(OPERATION, f"pieces{size}", self._untracked(address, size), *pieces)

    def _untracked(self, address: Value, size: int) -> Value:
        values, memory = self.memory.values, self.memory
        if address.is_constant:
            if size == 8 and address.constant in memory.handles:
                return values.atom(OPERATION, "kernel", values.constant(memory.handles[address.constant]))
            number = memory.image.constant(address.constant, size)
            if number is not None:
                return values.constant(number)
        return values.atom(LOAD, address, size, self._versions(address))

    def _versions(self, address: Value) -> tuple[Value, ...]:
        base, _ = self.memory.values.base(address)
        version = self.registers[MEMORY]
        if address.is_constant or base is self.memory.values.stack_pointer:
            return (version,)
        return (version, self.registers[STACK_STORES if address.stack else GLOBAL_STORES])

    # Writing

    def write(self, address: Value, size: int, value: Value, at: int) -> None:
        """Stores 1, 2, 4 or 8 bytes; `at` is the instruction."""
        values = self.memory.values
        base, offset = values.base(address)
        version = values.atom(VERSION, at)
        self._note(address, size, value)
        if base is values.stack_pointer:
            self._overwrite(base, offset, size, version)
            self._forget(lambda other: other.stack and other is not base)
            self.registers[STACK_STORES] = version
            if self.escaped is not None and offset + size > self.escaped:
                self._forget(lambda other: not other.stack and bool(other.terms))
                self.registers[GLOBAL_STORES] = version
        elif address.is_constant:
            self._overwrite(base, offset, size, version)
            self._forget(lambda other: not other.stack and bool(other.terms))
            self.registers[GLOBAL_STORES] = version
        elif address.stack:
            self._forget(lambda other: other.stack and other not in (base, values.stack_pointer))
            self._drop(base, offset, offset + size)
            self._drop(values.stack_pointer, self._lowest(address), None)
            self.registers[STACK_STORES] = self.registers[MEMORY] = version
        else:
            kept = self.cells.get(base, {})
            self.clobber(at)
            self.cells[base] = kept
            self._drop(base, offset, offset + size)
        self.cells.setdefault(base, {})[offset, size] = values.zero_extended(value, size)
        if sum(map(len, self.cells.values())) > MAXIMUM_CELLS:
            self.cells = {}
            self.registers[MEMORY] = version
        if value.stack and base is not values.stack_pointer:
            self.escape(value)

    def write_range(self, address: Value, size: Value | None, at: int) -> None:
        """Unknown bytes are stored from an address on; `size` None or not constant: any number of them."""
        values = self.memory.values
        base, offset = values.base(address)
        length = size.constant if size is not None and size.is_constant and size.constant < 2**31 else None
        self._note(address, length, None)
        if address.stack:
            known = base is values.stack_pointer
            low = offset if known else self._lowest(address)
            self._drop(values.stack_pointer, low, low + length if known and length is not None else None)
            self._forget(lambda other: other.stack and other is not values.stack_pointer)
            self.registers[STACK_STORES] = self.registers[MEMORY] = values.atom(VERSION, at)
            if self.escaped is not None:
                self.clobber(at)
        else:
            self.clobber(at)

    def _note(self, address: Value, size: int | None, value: Value | None) -> None:
        base, offset = self.memory.values.base(address)
        own = base is self.memory.values.stack_pointer and offset < 8
        if self.memory.log is not None and not own:
            self.memory.log.append(Store(address, size, value))

    def clobber(self, at: int) -> None:
        """Anything reachable may have changed: all but the part of the frame that has not escaped."""
        stack_pointer = self.memory.values.stack_pointer
        self._forget(lambda other: other is not stack_pointer and not (other.stack and self.escaped is None))
        if self.escaped is not None:
            self._drop(stack_pointer, self.escaped, None)
        version = self.memory.values.atom(VERSION, at)
        self.registers[MEMORY] = self.registers[STACK_STORES] = self.registers[GLOBAL_STORES] = version

    def escape(self, value: Value) -> None:
        """An address of the frame became known elsewhere, and with it every address stored in what it reaches."""
        if not value.stack:
            return
        lowest = self._lowest(value)
        while self.escaped is None or lowest < self.escaped:
            self.escaped = lowest
            for (offset, size), held in self.cells.get(self.memory.values.stack_pointer, {}).items():
                if held.stack and offset + size > self.escaped:
                    lowest = min(lowest, self._lowest(held))

    def _lowest(self, address: Value) -> int:
        """The lowest offset of the frame that an address may mean: its constant part when the rest only counts up."""
        return address.signed

    def _overwrite(self, base: Value, offset: int, size: int, version: Value) -> None:
        """Drops what a store covers; the rest of a cell that it covers in part is not what memory held before the cell."""
        cells = self.cells.get(base, {})
        if any(
            k[0] + k[1] > offset and k[0] < offset + size and (k[0] < offset or k[0] + k[1] > offset + size)
            for k in cells
        ):
            self.registers[MEMORY] = version
        self._drop(base, offset, offset + size)

    def _drop(self, base: Value, start: int, end: int | None) -> None:
        cells = self.cells.get(base)
        if cells:
            for key in [k for k in cells if k[0] + k[1] > start and (end is None or k[0] < end)]:
                del cells[key]

    def _forget(self, which: Callable[[Value], bool]) -> None:
        for base in [base for base in self.cells if which(base)]:
            del self.cells[base]
