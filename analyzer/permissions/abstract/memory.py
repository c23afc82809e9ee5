"""What registers and memory hold at one point, which objects have escaped, and which object an access touches.

The frame is cells at exact offsets from the stack pointer at the analyzed function's entry; callees' frames lie below.
What is stored at an offset that is not exact may be in any cell and goes into `loose` as well. An object has escaped
when its address was stored where anybody may find it, or given to somebody who may keep it; with it everything whose
address it holds.

An object is *carried* when a device may hold its address: it was a kernel's parameter, or among bytes that were copied to
the device. Nothing on the device can follow such an address, as host memory that is not pinned, mapped, registered or
managed is not in a device's reach. It can only come back: so what a copy to the host brings may be the address of any
object that is carried, and host code that keeps it there makes it escape.
"""

from __future__ import annotations

from itertools import compress
from operator import ne
from typing import NamedTuple

from farlane.analyzer.loader.image import Image
from farlane.analyzer.machine.instruction import REGISTERS
from farlane.analyzer.permissions.abstract.domain import (
    ANYTHING,
    CONSTANT,
    EXACT,
    FRAME,
    IN_ANYTHING,
    IN_FRAME,
    IN_GLOBAL,
    IN_OUTSIDE,
    NONE,
    OUTSIDE,
    UNKNOWN,
    WILD,
    Heap,
    Object,
    Objects,
    Value,
    based_on,
    blurred,
    constant,
    frame,
    join,
    narrow,
)

READ, WRITE, FREE, LEAVES = "read", "write", "free", "leaves"
CALLED = "called"  # nothing: a library's function was called
GIVEN = "given"  # read as what a kernel is passed: the shim fetches what is outstanding of it first
LOWEST, HIGHEST = -(2**62), 2**62
_ALWAYS_KNOWN: Objects = IN_OUTSIDE | IN_GLOBAL
_LOW_PAGES = 4096  # no object lies there


class Access(NamedTuple):
    """Memory that an instruction touches, as a set of objects; a range of the frame when FRAME is among them, of
    addresses when GLOBAL is alone and they are known.

    `at` is an instruction of the analyzed function; `source`, called `name`, the one that does it, perhaps in a callee.
    kind LEAVES: no access, but from here the program may go on anywhere (an exception, a function of which nothing is
    known).
    """

    at: int
    kind: str
    objects: Objects
    low: int
    high: int
    name: str
    source: int

    @property
    def text(self) -> str:
        return f"{self.name} at {self.source:#x}"


class Flags(NamedTuple):
    """The last comparison (`test`: the and) of two values of `size` bytes."""

    name: str
    size: int
    first: Value
    second: Value


class State:
    """Registers, cells, what was stored where, what has escaped, what a device may hold addresses of."""

    __slots__ = ("carried", "cells", "contents", "escaped", "flags", "image", "loose", "recent", "registers")

    def __init__(self, image: Image) -> None:
        self.image = image
        self.registers: list[Value] = [UNKNOWN] * REGISTERS
        self.cells: dict[int, tuple[int, Value]] = {}
        self.loose: Objects = NONE
        self.contents: dict[Heap, Objects] = {}
        self.escaped: Objects = NONE
        self.carried: Objects = NONE
        self.recent: frozenset[int] = frozenset()  # cells stored since the last call: perhaps arguments of the next
        self.flags: Flags | None = None

    @staticmethod
    def at_entry(image: Image) -> State:
        state = State(image)
        state.registers[4] = frame(0)
        return state

    def copy(self) -> State:
        other = State.__new__(State)
        other.image, other.loose, other.escaped, other.recent = self.image, self.loose, self.escaped, self.recent
        other.registers, other.cells, other.contents = list(self.registers), dict(self.cells), dict(self.contents)
        other.carried, other.flags = self.carried, self.flags
        return other

    def same(self, other: State) -> bool:
        return (
            self.registers == other.registers
            and self.cells == other.cells
            and self.loose == other.loose
            and self.escaped == other.escaped
            and self.carried == other.carried
            and self.contents == other.contents
            and self.flags == other.flags
            and self.recent == other.recent
        )

    def joined(self, other: State, widen: bool) -> State:
        """What holds in both states."""
        result = self.copy()
        if self.registers != other.registers:
            result.registers = [
                a if a is b or a == b else join(a, b, widen)
                for a, b in zip(self.registers, other.registers, strict=True)
            ]
        result.loose = self.loose | other.loose
        if self.cells != other.cells:
            result._join_cells(other, widen)
        for heap, objects in other.contents.items():
            result.contents[heap] = result.contents.get(heap, NONE) | objects
        result.escaped = self.escaped | other.escaped
        result.carried = self.carried | other.carried
        result.recent = self.recent | other.recent
        result.flags = self.flags if self.flags == other.flags else None
        if self.escaped != other.escaped:
            result._close(NONE)
        return result

    def _join_cells(self, other: State, widen: bool) -> None:
        """A cell that only one state has, or that is longer there, holds what the other may have in its bytes."""
        own, its = self.cells, other.cells
        cells = own.copy()
        differing = set(compress(own, map(ne, own.values(), map(its.get, own))))
        for offset in differing | (its.keys() - own.keys()):
            size = max(held[offset][0] for held in (own, its) if offset in held)
            cells[offset] = (size, join(self.cell(offset, size), other.cell(offset, size), widen))
        self.cells = cells

    # Objects

    def fixed(self, number: int) -> Value:
        """A constant that stands as an address in an operand."""
        return constant(number, IN_GLOBAL if number >= _LOW_PAGES else NONE)

    def immediate(self, number: int) -> Value:
        """An instruction's immediate operand: an address only where code is not position-independent."""
        if self.image.moves:
            return constant(number)
        lowest = self.image.segments[0].start
        return constant(number, IN_GLOBAL if lowest <= number < 2**31 else NONE)

    def escape(self, objects: Objects) -> None:
        """Addresses of these objects became known elsewhere, and with them everything that they hold."""
        # What is escaped is always closed: all that escaped objects hold has escaped.
        if objects - self.escaped - _ALWAYS_KNOWN:
            self._close(objects)

    def carry(self, objects: Objects) -> None:
        """A device holds addresses of these objects."""
        self.carried |= objects - _ALWAYS_KNOWN

    def _close(self, objects: Objects) -> None:
        found: set[Object] = set()
        work = [*self.escaped, *objects]
        while work:
            each = work.pop()
            if each in found or each in _ALWAYS_KNOWN:
                continue
            found.add(each)
            if each == FRAME:
                work += self.held()
            elif isinstance(each, Heap):
                work += self.contents.get(each, NONE)
        self.escaped = frozenset(found)

    def held(self) -> Objects:
        """What the frame's cells hold."""
        return self.loose.union(*{value.objects for _, value in self.cells.values()})

    def touched(self, address: Value) -> Objects:
        """The objects that an access at an address may be to."""
        # An address of an object that no other code knows is always based on it; a number may be any other.
        objects = address.objects or IN_OUTSIDE
        if OUTSIDE in objects:
            objects |= self.escaped
        return objects

    def span(self, address: Value, size: int | None) -> tuple[int, int]:
        """The offsets of the frame that an access may be to."""
        if address.framed:
            exact = address.kind == EXACT and size is not None
            return address.number, address.number + size if exact and size is not None else HIGHEST
        return LOWEST, HIGHEST

    def access(self, at: int, kind: str, address: Value, size: int | None, name: str, source: int) -> Access | None:
        """The access for the record; None for memory that never changes."""
        if address.kind == EXACT and size is not None and address.objects == IN_FRAME:
            low = address.number
            return tuple.__new__(Access, (at, kind, IN_FRAME, low, low + size, name, source))
        if address.kind == CONSTANT and address.objects == IN_GLOBAL and kind == READ:
            segment = self.image.segment(address.number & (2**64 - 1))
            if segment is not None and not segment.writable:
                return None
        objects = self.touched(address)
        low, high = self.span(address, size)
        if (OUTSIDE in address.objects or not address.objects) and FRAME in objects:
            low, high = LOWEST, HIGHEST
        if address.kind == CONSTANT and address.objects == IN_GLOBAL and size is not None:
            low, high = address.number, address.number + size
        return Access(at, kind, objects, low, high, name, source)

    # Memory

    def read(self, address: Value, size: int) -> Value:
        """What up to 8 bytes may be, zero-extended."""
        if address.kind == EXACT:
            return self.cell(address.number, size)
        if address.kind == CONSTANT and address.objects:
            number = self.image.constant(address.number & (2**64 - 1), size)
            if number is not None:
                held = number & (2**64 - 1) if size == 8 else 0
                inside = held >= _LOW_PAGES and self.image.segment(held) is not None
                return constant(number, IN_GLOBAL if inside else NONE)
        objects: Objects = IN_OUTSIDE
        for each in address.objects:
            if each == FRAME:
                objects |= self.held()
            elif each == ANYTHING:
                return WILD
            elif isinstance(each, Heap):
                objects |= self.contents.get(each, NONE)
        return narrow(based_on(objects), size)

    def cell(self, offset: int, size: int) -> Value:
        """What stands at an offset of the frame."""
        held = self.cells.get(offset)
        if held is not None and held[0] >= size:
            return held[1] if held[0] == size else narrow(held[1], size)
        objects = self.loose | IN_OUTSIDE
        for start in range(offset - 7, offset + size):
            held = self.cells.get(start)
            if held is not None and start + held[0] > offset:
                objects |= held[1].objects
        return narrow(based_on(objects), size)

    def write(self, address: Value, size: int, value: Value) -> None:
        """Stores up to 8 bytes."""
        value = narrow(value, size)
        if address.kind == EXACT:
            self._clear(address.number, address.number + size)
            self.cells[address.number] = (size, value)
            self.recent |= {address.number}
            if FRAME in self.escaped and value.objects - self.escaped:
                self.escape(value.objects)
            return
        self._weakly(address, value.objects)

    def write_range(self, address: Value, size: int | None, objects: Objects) -> None:
        """Stores unknown bytes that may be addresses of `objects`; `size` None: any number, from the address upward."""
        if address.kind == EXACT and size is not None:
            self._clear(address.number, address.number + size)
            if size in (1, 2, 4, 8):
                self.cells[address.number] = (size, narrow(based_on(objects | IN_OUTSIDE), size))
            else:
                self.loose |= objects
            if FRAME in self.escaped:
                self.escape(objects)
            return
        self._weakly(address, objects)

    def _weakly(self, address: Value, objects: Objects) -> None:
        targets = self.touched(address)
        if ANYTHING in targets or targets & (IN_OUTSIDE | IN_GLOBAL) or targets & self.escaped:
            self.escape(objects)
        if FRAME in targets or ANYTHING in targets:
            own = address.objects and OUTSIDE not in address.objects and ANYTHING not in targets
            more = objects if own else objects | IN_OUTSIDE
            low = address.number if address.framed and own else LOWEST
            for offset, (size, value) in list(self.cells.items()):
                if offset + size > low:
                    self.cells[offset] = (size, blurred(value, more))
            self.loose |= objects
        for each in targets:
            if isinstance(each, Heap):
                self.contents[each] = self.contents.get(each, NONE) | objects

    def _clear(self, low: int, high: int) -> None:
        for start in range(low - 7, high) if high - low < 64 else [k for k in self.cells if low - 7 <= k < high]:
            held = self.cells.get(start)
            if held is not None and start + held[0] > low:
                del self.cells[start]
                if start < low or start + held[0] > high:
                    self.loose |= held[1].objects

    def pointees(self, address: Value, size: int | None) -> Objects:
        """What the memory at an address may hold addresses of."""
        objects: Objects = NONE
        if address.framed and address.objects == frozenset({FRAME}):
            low, high = self.span(address, size)
            if size is None:
                low = LOWEST
            at = low
            for offset, (width, value) in sorted(self.cells.items()):
                if offset < high and offset + width > low:
                    objects |= value.objects
                    if offset <= at:
                        at = max(at, offset + width)
            if at < high:
                objects |= self.loose
            return objects
        for each in self.touched(address):
            if each == FRAME:
                objects |= self.held()
            elif isinstance(each, Heap):
                objects |= self.contents.get(each, NONE) | IN_OUTSIDE
            else:
                objects |= frozenset({each})
        return objects

    def drop_below(self, offset: int) -> None:
        """A callee has returned: its frame is gone."""
        for key in [key for key in self.cells if key < offset]:
            del self.cells[key]

    def forget(self) -> None:
        """Anything may have happened to memory: the state at a landing pad."""
        self.cells = {offset: (size, WILD) for offset, (size, _) in self.cells.items()}
        self.loose |= IN_ANYTHING
        self.escaped |= IN_ANYTHING
