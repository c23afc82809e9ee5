"""What stores and calls do to what is known at one point of a function (`cells`).

Rules of aliasing, each on the side of doubt:

- the own frame and other memory are distinct as long as no address of the frame at or below the offset has escaped;
- two offsets from one base are distinct when they do not overlap; any two other bases may be the same memory, but for
  global variables at fixed addresses and memory from an allocator, which are distinct from each other;
- a store at a computed offset of the frame may hit every cell from its lowest offset upward; a computed part of an
  address only counts up, unless it is a value that meets others at a loop's head and grows smaller;
- an address of the frame that is stored in a cell which is forgotten has escaped: it may be read back unnoticed.
"""

from __future__ import annotations

from collections.abc import Collection

from farlane.analyzer.externals.interface import GET_KERNEL
from farlane.analyzer.machine.arithmetic import NEGATED, number
from farlane.analyzer.machine.instruction import SCALAR_FLOATING
from farlane.analyzer.values.addresses import allocated_top, chosen_elsewhere, lowest_moved
from farlane.analyzer.values.cells import (
    GIVEN_STORES,
    GLOBAL_RANGES,
    KEYS,
    MEMORY,
    OTHER_STORES,
    STACK_RANGES,
    STACK_STORES,
)
from farlane.analyzer.values.condition import Condition
from farlane.analyzer.values.expression import CALL, CODE, INITIAL, LOAD, OPERATION, PHI, VERSION, Value
from farlane.analyzer.values.forgetting import Forgetting
from farlane.analyzer.values.memory import ADDRESS, NUMBER, OTHER, PART, FrameStore, Memory

MAXIMUM_CELLS = 4000
_WRAPPERS = frozenset({"zx1", "zx4", "set", "res4", "cmp4"})


class State(Forgetting):
    """What is known at one point, with what instructions and calls make of it."""

    __slots__ = ()

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

    # Limits

    def limit(self, phi: Value, largest: int, size: int) -> State:
        """This state where a phi, in its low `size` bytes, is known to be at most a number."""
        known = self.limits.get(phi)
        if known is not None and known[0] <= largest:
            return self
        other = self.copy()
        other.limits = {**self.limits, phi: (largest, size)}
        return other

    # Reading

    def limited(self, test: Condition, taken: bool) -> State:
        """The state behind a comparison of a phi with a constant, in which the phi has an upper limit or not."""
        relation = test.relation if taken else NEGATED[test.relation]
        if relation not in ("<", "<=", "==") or len(test.left.terms) != 1:
            return self
        atom, coefficient = test.left.terms[0]
        largest = number(test.right.constant, test.size, True) - test.left.signed - (relation == "<")
        while atom.kind == OPERATION and atom.arguments[0] in ("zx4", "sx4") and test.size <= 4:
            inner = atom.arguments[1]
            if len(inner.terms) != 1 or coefficient != 1:
                return self
            (atom, coefficient), largest = inner.terms[0], largest - inner.signed
        if atom.kind != PHI or coefficient != 1 or test.size < 4 or not 0 <= largest < 2**20:
            return self
        return self.limit(atom, largest, test.size)

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
            if address.low is None and allocated_top(address) is None:
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
        top = lowest_moved(address)
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
        """Something was stored at one of several places, of which one is in the frame: those that are elsewhere may
        have changed, too."""
        for place in chosen_elsewhere(base):
            where, _ = self.memory.values.base(place)
            if own := self.memory.objects_of(where):
                self._object_changed(own, None, self.memory.values.atom(VERSION, at))
            else:
                self._clobber_through(where, at)

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
        """A store through an address that may point anywhere: what lies beside it, from the same base on, is what it
        was."""
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
        """An allocator returned this address: what is known of memory there, from an earlier time, is not of this
        one."""
        self._forget(lambda other: allocated in self.memory.objects_of(other))
        self.objects = {own: version for own, version in self.objects.items() if own is not allocated}

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
        """Something was stored through a pointer that may point anywhere; one that the function was given, or found in
        memory as it was at its entry, points neither into the frame nor into what was allocated since."""
        if not self.memory.given(base):
            self.clobber(at)
            return
        version = self.memory.values.atom(VERSION, at)
        self._forget(lambda other: not other.stack and not self.memory.objects_of(other))
        for key in (OTHER_STORES, GLOBAL_RANGES, GIVEN_STORES):
            self.registers[key] = version

    def frame_changed(self, lowest: int, at: int) -> None:
        """Anything may have been stored in the frame from an offset on."""
        stack_pointer, version = self.memory.values.stack_pointer, self.memory.values.atom(VERSION, at)
        self._escape_cells(lowest, None)
        self._drop(stack_pointer, lowest, None)
        self._forget(lambda other: other.stack and other is not stack_pointer)
        self.registers[STACK_STORES] = self.registers[STACK_RANGES] = version
        if self.memory.frame_log is not None:
            self.memory.frame_log.append(FrameStore(lowest, None))


def _what(value: Value) -> int:
    """What 8 bytes are that are stored in the frame."""
    if value.stack:
        return ADDRESS
    return NUMBER if value.kind == OPERATION and value.arguments[0] in SCALAR_FLOATING else OTHER


def of_stub(value: Value) -> bool:
    """Whether a value is what nvcc's launch stub notes of having asked for its kernel's handle, in a variable of its
    own."""
    while value.kind == OPERATION and value.arguments[0] in _WRAPPERS:
        value = next(
            (part for part in value.arguments[1:] if isinstance(part, Value) and part.terms), value.arguments[-1]
        )
        if not isinstance(value, Value):
            return False
    return value.kind == CALL and value.arguments[1] == GET_KERNEL
