"""What registers and memory hold at one point of a function.

Registers are a list: 0..15, the two halves of vector registers 16 + 2n and 17 + 2n; then the launch configuration that
__cudaPushCallConfiguration set aside, the flags, and versions of memory. Memory is cells keyed by the address's base (its
non-constant part), offset and size. Rules of aliasing, each on the side of doubt:

- the own frame and other memory are distinct as long as no address of the frame at or below the offset has escaped;
- two offsets from one base are distinct when they do not overlap; any two other bases may be the same memory, but for
  global variables at fixed addresses and memory from an allocator, which are distinct from each other;
- a store at a computed offset of the frame may hit every cell from its lowest offset upward; a computed part of an address
  only counts up, unless it is a value that meets others at a loop's head and grows smaller;
- an address of the frame that is stored in a cell which is forgotten has escaped: it may be read back unnoticed.

A load of what no cell holds is an atom of the address and the versions of the memory it reads: two loads are equal only
if nothing was stored in between that may be there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from farlane.analyzer.flow.apart import apart, stride
from farlane.analyzer.flow.expression import CALL, CODE, INITIAL, LOAD, OPERATION, PHI, VERSION, Value
from farlane.analyzer.flow.interface import GET_KERNEL
from farlane.analyzer.flow.memory import ADDRESS, NUMBER, OTHER, PART, PLACES, FrameStore, Memory, Store
from farlane.analyzer.machine.instruction import SCALAR_FLOATING, XMM0

CONFIGURATION = XMM0 + 32  # .. 53: grid x|y, grid z, block x|y, block z, shared memory, stream
PUSHED = PLACES  # the push that set them aside
FLAGS = 55
# Versions: of everything; of the frame, by every store and by those of unknown extent; of what is reached through unknown
# pointers; of global variables, by stores of unknown extent; of what the function was given pointers to.
MEMORY, STACK_STORES, STACK_RANGES, OTHER_STORES, GLOBAL_RANGES, GIVEN_STORES = range(56, 62)
LENGTH = 62
KEYS = range(LENGTH)
MAXIMUM_CELLS = 4000
_SIZES = (1, 2, 4)
_WRAPPERS = frozenset({"zx1", "zx4", "set", "res4", "cmp4"})

Cells = dict[Value, dict[tuple[int, int], Value]]


class State:
    """Registers, cells, and the lowest offset of the frame whose address has escaped (None: none has).

    `kept`: base -> the versions of everything and of other stores for what no cell holds there: stores at other offsets from the
    same base do not change it. Its bases are such as may point anywhere, and all have cells.
    `limits`: phi -> the largest number that it is, by the branches on the way here, and in how many of its bytes.
    `own`: the bases whose cells are this state's alone (None: there are none): copies share all others, until one of them changes them.
    `objects`, `limits` are shared as well, and never changed in place.
    """

    __slots__ = ("cells", "escaped", "kept", "limits", "memory", "objects", "own", "registers")

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.registers: list[Value] = []
        self.objects: dict[Value, Value] = {}
        self.cells: Cells = {}
        self.kept: dict[Value, tuple[Value, Value]] = {}
        self.limits: dict[Value, tuple[int, int]] = {}
        self.escaped: int | None = None
        self.own: set[Value] | None = None

    @staticmethod
    def at_entry(memory: Memory, codes: frozenset[int] = frozenset()) -> State:
        """The state at a function's entry; `codes` are the registers in which it is given CUDA's error codes."""
        state = State(memory)
        values = memory.values
        if not memory.initial:
            memory.initial = [values.atom(INITIAL, key) for key in KEYS]
        state.registers = memory.initial.copy()
        for key in codes:
            state.registers[key] = values.atom(INITIAL, key, CODE)
        return state

    def copy(self) -> State:
        other = State.__new__(State)
        other.memory = self.memory
        other.registers = self.registers.copy()
        other.objects = self.objects
        other.cells = self.cells.copy()
        other.kept = self.kept.copy()
        other.limits = self.limits
        other.escaped = self.escaped
        self.own = other.own = None
        return other

    def without(self, bases: Collection[Value]) -> State:
        """This state, to be read only, without what is known of memory at some bases."""
        other = State(self.memory)
        other.registers, other.objects, other.escaped = self.registers, self.objects, self.escaped
        other.limits = self.limits
        other.cells = {base: cells for base, cells in self.cells.items() if base not in bases}
        self.own = None
        other.kept = {base: versions for base, versions in self.kept.items() if base not in bases}
        return other

    def same(self, other: State) -> bool:
        return (
            self.registers == other.registers
            and self.cells == other.cells
            and self.escaped == other.escaped
            and self.objects == other.objects
            and self.kept == other.kept
            and self.limits == other.limits
        )

    # Limits

    def limit(self, phi: Value, largest: int, size: int) -> State:
        """This state where a phi, in its low `size` bytes, is known to be at most a number."""
        known = self.limits.get(phi)
        if known is not None and known[0] <= largest:
            return self
        other = self.copy()
        other.limits = {**self.limits, phi: (largest, size)}
        return other

    def _end(self, address: Value, size: int) -> int | None:
        """The offset of the frame behind a store at an address of it; None: not known, or it may be no address of it at all."""
        if (top := _allocated(address)) is not None:
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

    # Reading

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

    # Writing

    def write(self, address: Value, size: int, value: Value, at: int) -> None:
        """Stores 1, 2, 4 or 8 bytes; `at` is the instruction."""
        values = self.memory.values
        base, offset = address.parts or values.base(address)
        version = values.atom(VERSION, at)
        if address.is_constant and (of_stub(value) or self._names_kernel(value)):
            self._drop(base, offset, offset + size)
            return
        if base is values.stack_pointer:
            self._write_frame(address, offset, size, value, version)
        else:
            self._note(address, size, value)
            self._note_frame(address, size, PART if size < 8 else _what(value), value)
            self._write_elsewhere(address, size, at, version)
        cells = self._changing(base)
        cells[offset, size] = values.zero_extended(value, size)
        if len(cells) > MAXIMUM_CELLS:
            self._escape_cells(-(2**62), None)
            self.cells, self.own = {}, None
            self.kept = {}
            self.registers[MEMORY] = version
        if value.stack and base is not values.stack_pointer:
            self.escape(value)

    def _write_elsewhere(self, address: Value, size: int, at: int, version: Value) -> None:
        """What a store at any other place makes of all that is known."""
        values, registers = self.memory.values, self.registers
        base, offset = values.base(address)
        if address.is_constant:
            self._overwrite(base, offset, size, GLOBAL_RANGES, version)
            self._forget(lambda other: not other.stack and self._anything(other))
            registers[OTHER_STORES] = registers[GIVEN_STORES] = version
        elif address.stack:
            self._forget(lambda other: other.stack and other not in (base, values.stack_pointer))
            self._drop(base, offset, offset + size)
            self._drop_frame(address, self._end(address, size), size)
            registers[STACK_STORES] = registers[STACK_RANGES] = version
            if address.low is None and _allocated(address) is None:
                # It may be no address of the frame at all.
                self._forget(lambda other: other is not values.stack_pointer)
                registers[MEMORY] = registers[OTHER_STORES] = registers[GIVEN_STORES] = version
            self._change_chosen(base, at)
        elif own := self.memory.objects_of(base):
            self._object_changed(own, base, version)
            self._overwrite(base, offset, size, MEMORY, version)
        else:
            self._clobber_beside(base, offset, size, at)

    def _write_frame(self, address: Value, offset: int, size: int, value: Value, version: Value) -> None:
        """What a store at a fixed place of the own frame, or above it, makes of all else that is known."""
        memory, registers, base = self.memory, self.registers, self.memory.values.stack_pointer
        if offset >= 8:
            self._note(address, size, value)
        if memory.frame_log is not None:
            what = memory.storing or (PART if size < 8 else _what(value))
            memory.frame_log.append(FrameStore(offset, self._end(address, size), what, address, size, value))
        self._overwrite(base, offset, size, STACK_RANGES, version)
        registers[STACK_STORES] = version
        if len(self.cells) > 1 or base not in self.cells:
            self._forget(lambda other: other.stack and other is not base)
            if self.escaped is not None and offset + size > self.escaped:
                self._forget(lambda other: not other.stack and self._anything(other))
        if self.escaped is not None and offset + size > self.escaped:
            registers[OTHER_STORES] = registers[GIVEN_STORES] = version

    def write_range(self, address: Value, size: Value | None, at: int, value: Value | None = None) -> None:
        """Unknown bytes are stored from an address on; `size` None or not constant: any number of them.

        `value`: what they are for who knows the size.
        """
        values, registers = self.memory.values, self.registers
        base, offset = values.base(address)
        length = size.constant if size is not None and size.is_constant and size.constant < 2**31 else None
        if length == 0:
            return
        top = _top(address)
        if top is not None and top <= 0:
            self._write_below(top, values.atom(VERSION, at))
            return
        self._note(address, length, value if length is None else None, size)
        self._note_frame(address, length)
        version = values.atom(VERSION, at)
        if address.stack:
            if base is values.stack_pointer:
                self._escape_cells(offset, None if length is None else offset + length)
                if length is None:
                    self._drop(base, offset, None)
                else:
                    self._overwrite(base, offset, length, STACK_RANGES, version)
            else:
                self._drop_frame(address, None if length is None else self._end(address, length))
            self._forget(lambda other: other.stack and other is not values.stack_pointer)
            registers[STACK_STORES] = registers[STACK_RANGES] = version
            if self.escaped is not None or address.low is None:
                self._forget(lambda other: not other.stack and self._anything(other))
                registers[OTHER_STORES] = registers[GIVEN_STORES] = version
            if address.low is None:
                self.clobber(at)
            self._change_chosen(base, at)
        elif address.is_constant and length is not None:
            self._overwrite(base, offset, length, GLOBAL_RANGES, version)
            self._forget(lambda other: not other.stack and self._anything(other))
            registers[GLOBAL_RANGES] = registers[OTHER_STORES] = registers[GIVEN_STORES] = version
        else:
            own = self.memory.objects_of(base)
            if not own and length in (1, 2, 4, 8):
                self._clobber_beside(base, offset, length, at)
                self._changing(base)[offset, length] = values.atom(LOAD, address, length, (version, version))
            elif not own:
                self._clobber_through(base, at)
            else:
                self._object_changed(own, None, version)

    def _change_chosen(self, base: Value, at: int) -> None:
        """Something was stored at one of several places, of which one is in the frame: those that are elsewhere may have changed, too."""
        for place in chosen_elsewhere(base):
            where, _ = self.memory.values.base(place)
            if own := self.memory.objects_of(where):
                self._object_changed(own, None, self.memory.values.atom(VERSION, at))
            else:
                self._clobber_through(where, at)

    def _changing(self, base: Value) -> dict[tuple[int, int], Value]:
        """The cells at a base, to be changed."""
        cells = self.cells.get(base)
        if cells is None:
            cells = self.cells[base] = {}
        elif self.own is None or base not in self.own:
            cells = self.cells[base] = cells.copy()
        else:
            return cells
        self.make_own(base)
        return cells

    def make_own(self, base: Value) -> None:
        """The cells at a base are this state's alone."""
        if self.own is None:
            self.own = {base}
        else:
            self.own.add(base)

    def _write_below(self, top: int, version: Value) -> None:
        """Unknown bytes are stored in what was allocated by moving the stack pointer: an array of variable length."""
        registers, stack_pointer = self.registers, self.memory.values.stack_pointer
        self._escape_cells(-(2**62), top)
        self._drop(stack_pointer, -(2**62), top)
        self._forget(lambda other: other.stack and other is not stack_pointer)
        registers[STACK_STORES] = registers[STACK_RANGES] = version
        if self.memory.frame_log is not None:
            self.memory.frame_log.append(FrameStore(None, top))

    def _clobber_beside(self, base: Value, offset: int, size: int, at: int) -> None:
        """A store through an address that may point anywhere: what lies beside it, from the same base on, is what it was."""
        cells, versions = self.cells.get(base) or {}, self.versions_at(base)
        alone = not cells or (self.own is not None and base in self.own)
        end = offset + size
        cut = any(k[0] < offset < k[0] + k[1] or k[0] < end < k[0] + k[1] for k in cells)
        self._clobber_through(base, at)
        self.cells[base] = cells
        if alone:
            self.make_own(base)
        self._drop(base, offset, end)
        if not cut:
            self.kept[base] = versions

    def fresh(self, allocated: Value) -> None:
        """An allocator returned this address: what is known of memory there, from an earlier time, is not of this one."""
        self._forget(lambda other: allocated in self.memory.objects_of(other))
        self.objects = {own: version for own, version in self.objects.items() if own is not allocated}

    def _anything(self, base: Value) -> bool:
        """Whether an address with this base, outside the frame, may point anywhere."""
        return bool(base.terms) and not self.memory.objects_of(base)

    def _names_kernel(self, value: Value) -> bool:
        """Whether a launch stub notes, in a variable of its own, the host function that stands for its kernel."""
        if not self.memory.in_stub or not value.is_constant:
            return False
        function = self.memory.image.function_at(value.constant)
        return function is not None and function.start == value.constant

    def _object_changed(self, own: tuple[Value, ...], kept: Value | None, version: Value) -> None:
        """Something was stored in one of some allocations."""

        def may_be_there(other: Value) -> bool:
            if other is kept or other.stack or not other.terms:
                return False
            its = self.memory.objects_of(other)
            return any(each in own for each in its) if its else not self.memory.given(other)

        self._forget(may_be_there)
        self.registers[OTHER_STORES] = version
        self.objects = {**self.objects, **dict.fromkeys(own, version)}

    def _note(self, address: Value, size: int | None, value: Value | None, length: Value | None = None) -> None:
        if self.memory.log is None:
            return
        if not self.in_own_frame(address, size):
            if self.memory.separate:
                self.memory.use(*self.memory.values.base(address), size)
            self.memory.log.append(Store(address, size, value, False, length if size is None else None))

    def in_own_frame(self, address: Value, size: int | None) -> bool:
        """Whether a store at an address goes to the function's own frame, and nowhere else."""
        base, offset = self.memory.values.base(address)
        if base is self.memory.values.stack_pointer:
            return offset < 8
        if not address.stack or size is None:
            return False
        end = self._end(address, size)
        return end is not None and end <= 0

    def _note_frame(self, address: Value, size: int | None, what: int = OTHER, value: Value | None = None) -> None:
        if self.memory.frame_log is None:
            return
        if address.stack:
            end = None if size is None else self._end(address, size)
            self.memory.frame_log.append(
                FrameStore(self.memory.low(address), end, self.memory.storing or what, address, size, value)
            )

    def clobber(self, at: int) -> None:
        """Anything reachable may have changed: all but the part of the frame that has not escaped."""
        stack_pointer = self.memory.values.stack_pointer
        registers = self.registers
        version = self.memory.values.atom(VERSION, at)
        self._forget(lambda other: other is not stack_pointer and not (other.stack and self.escaped is None))
        registers[OTHER_STORES] = registers[GLOBAL_RANGES] = registers[GIVEN_STORES] = version
        registers[MEMORY] = version
        if self.escaped is not None:
            if self.memory.frame_log is not None:
                self.memory.frame_log.append(FrameStore(self.escaped, None))
            self._drop(stack_pointer, self.escaped, None)
            registers[STACK_STORES] = registers[STACK_RANGES] = version

    def _clobber_through(self, base: Value, at: int) -> None:
        """Something was stored through a pointer that may point anywhere; one that the function was given, or found in memory as
        it was at its entry, points neither into the frame nor into what was allocated since."""
        if not self.memory.given(base):
            self.clobber(at)
            return
        version = self.memory.values.atom(VERSION, at)
        self._forget(lambda other: not other.stack and not self.memory.objects_of(other))
        for key in (OTHER_STORES, GLOBAL_RANGES, GIVEN_STORES):
            self.registers[key] = version

    def escape(self, value: Value) -> None:
        """An address of the frame became known elsewhere, and with it every address stored in what it reaches."""
        if not value.stack:
            return
        lowest = self.memory.lowest(value)
        while self.escaped is None or lowest < self.escaped:
            self.escaped = lowest
            lowest = self._lowest_held(lowest)

    def _lowest_held(self, lowest: int) -> int:
        """The lowest of an offset of the frame and those whose addresses are stored from there on."""
        held = self.cells.get(self.memory.values.stack_pointer, {}).items()
        return min(
            [lowest, *(self.memory.lowest(value) for (at, size), value in held if value.stack and at + size > lowest)]
        )

    def lowest_reached(self, given: Iterable[Value]) -> int | None:
        """The lowest offset of the frame that is reached by some of its addresses; None: there are none."""
        lowest = min(map(self.memory.lowest, given), default=None)
        while lowest is not None and (held := self._lowest_held(lowest)) < lowest:
            lowest = held
        return lowest

    def frame_changed(self, lowest: int, at: int) -> None:
        """Anything may have been stored in the frame from an offset on."""
        stack_pointer, version = self.memory.values.stack_pointer, self.memory.values.atom(VERSION, at)
        self._escape_cells(lowest, None)
        self._drop(stack_pointer, lowest, None)
        self._forget(lambda other: other.stack and other is not stack_pointer)
        self.registers[STACK_STORES] = self.registers[STACK_RANGES] = version
        if self.memory.frame_log is not None:
            self.memory.frame_log.append(FrameStore(lowest, None))

    def escape_range(self, address: Value) -> None:
        """What lies from an address on was copied to where it is not followed."""
        if address.stack:
            self._escape_cells(self.memory.lowest(address), None)

    def _escape_cells(self, start: int, end: int | None) -> None:
        held = [
            value
            for (offset, size), value in self.cells.get(self.memory.values.stack_pointer, {}).items()
            if value.stack and offset + size > start and (end is None or offset < end)
        ]
        for value in held:
            self.escape(value)

    def _drop_frame(self, address: Value, end: int | None, size: int | None = None) -> None:
        """Forgets the frame from the lowest offset upward that an address may mean, up to an end if there is one.

        `size`: of the store, when it is known: what lies between the places where it may be, which are a stride apart, is what it was.
        """
        lowest, stack_pointer = self.memory.lowest(address), self.memory.values.stack_pointer
        kept: Cells = {}
        if size is not None:
            cells = self.cells.get(stack_pointer, {})
            beside = {key: value for key, value in cells.items() if self._beside(address, size, key, value)}
            if beside:
                kept[stack_pointer] = beside
                self._drop_keys(stack_pointer, beside)
        self._escape_cells(lowest, end)
        self._drop(stack_pointer, lowest, end)
        for base, beside in kept.items():
            self._changing(base).update(beside)

    def _beside(self, address: Value, size: int, place: tuple[int, int], held: Value) -> bool:
        """Whether a store at a computed place of the frame leaves a cell alone."""
        strided = stride(self.memory.values, address)
        if strided is None:
            return False
        if apart(strided, size, (place[0], 0), place[1]):
            return True
        if not self.memory.separate:
            return False
        return place[1] != size or any(_plain(atom) is _plain(held) for atom, _ in address.terms)

    def _overwrite(self, base: Value, offset: int, size: int, key: int, version: Value) -> None:
        """Drops what a store covers. The rest of a cell that it covers in part is kept, in cells of 1, 2 or 4 bytes."""
        cells = self.cells.get(base)
        if not cells:
            return
        values = self.memory.values
        end = offset + size
        touched = [k for k in cells if k[0] < end and k[0] + k[1] > offset]
        if not touched:
            return
        cells = self._changing(base)
        left: dict[tuple[int, int], Value] = {}
        for start, wide in touched:
            value = cells.pop((start, wide))
            if wide > 8:
                self.registers[key] = version
                continue
            for at, kept in (*_pieces(start, offset), *_pieces(end, start + wide)):
                shifted = value
                if at > start:
                    shifted = values.operation("shr", value, values.constant(8 * (at - start)), size=8)
                left[at, kept] = values.zero_extended(shifted, kept)
        for place, value in left.items():
            cells.setdefault(place, value)

    def _drop(self, base: Value, start: int, end: int | None) -> None:
        cells = self.cells.get(base)
        if cells:
            gone = [k for k in cells if k[0] + k[1] > start and (end is None or k[0] < end)]
            if gone:
                cells = self._changing(base)
                for key in gone:
                    del cells[key]

    def _drop_keys(self, base: Value, keys: Iterable[tuple[int, int]]) -> None:
        cells = self._changing(base)
        for key in keys:
            del cells[key]

    def _forget(self, which: Callable[[Value], bool]) -> None:
        if len(self.cells) > 1 or self.memory.values.stack_pointer not in self.cells:
            for base in [base for base in self.cells if which(base)]:
                del self.cells[base]
                if self.own is not None:
                    self.own.discard(base)
                self.kept.pop(base, None)


def _what(value: Value) -> int:
    """What 8 bytes are that are stored in the frame."""
    if value.stack:
        return ADDRESS
    return NUMBER if value.kind == OPERATION and value.arguments[0] in SCALAR_FLOATING else OTHER


def _pieces(start: int, end: int) -> Iterable[tuple[int, int]]:
    """Places of 1, 2 and 4 bytes that make up fewer than 8, each with its size."""
    while start < end:
        size = next(size for size in (4, 2, 1) if start + size <= end and start % size == 0)
        yield start, size
        start += size


def _plain(value: Value) -> Value:
    """A value without extensions of 32-bit parts."""
    while value.kind == OPERATION and value.arguments[0] in ("zx4", "sx4"):
        value = value.arguments[1]
    return value


def _top(address: Value) -> int | None:
    """The offset of the frame below which an address lies that was computed by moving the stack pointer down; None for others.

    What is allocated so lies below all that has a fixed place, and is taken to be as long as what is stored there.
    """
    down = [atom.stack or coefficient >> 63 == 0 for atom, coefficient in address.terms]
    moved = address.stack and len(down) > 1 and down.count(True) == 1 and address.terms[down.index(True)][1] == 1
    whole = moved and address.terms[down.index(True)][0].kind == INITIAL
    return address.signed if whole else None


def _allocated(address: Value) -> int | None:
    """The same where what the stack pointer was moved down by counts nothing in a loop, so that it is no index that may be negative."""
    top = _top(address)
    moved = [atom for atom, _ in address.terms if not atom.stack] if top is not None else []
    return None if any(part.kind == PHI for atom in moved for part, _ in _plain(atom).terms) else top


def chosen_elsewhere(address: Value) -> list[Value]:
    """The places outside the frame of an address that is one of several, null aside."""
    found = []
    for atom, _ in address.terms:
        if atom.kind == OPERATION and atom.arguments[0] == "choose":
            for place in atom.arguments[-2:]:
                if place.stack:
                    found += chosen_elsewhere(place)
                elif place.terms or place.constant:
                    found.append(place)
    return found


def of_stub(value: Value) -> bool:
    """Whether a value is what nvcc's launch stub notes of having asked for its kernel's handle, in a variable of its own."""
    while value.kind == OPERATION and value.arguments[0] in _WRAPPERS:
        value = next(
            (part for part in value.arguments[1:] if isinstance(part, Value) and part.terms), value.arguments[-1]
        )
        if not isinstance(value, Value):
            return False
    return value.kind == CALL and value.arguments[1] == GET_KERNEL
