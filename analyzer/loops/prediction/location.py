"""Where the values of a function are found when the program stands at a CUDA call, perhaps deep in called functions.

Owns turning a symbolic value into a `Formula`. A value is looked for among what the registers that calls preserve, the
frame's cells and global variables hold at the call; an operation that none of them holds is computed from its operands.
The bytes that matter are counted: a 32-bit comparison needs only the low half of a register.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from farlane.analyzer.loops.model import Formula, Location, Place
from farlane.analyzer.loops.prediction.formula import constant, extended, operation, term, total
from farlane.analyzer.machine.instruction import CALLEE_SAVED, RSP
from farlane.analyzer.values.expression import EXTENSIONS, INITIAL, LOAD, OPERATION, SUM, Value, Values
from farlane.analyzer.values.state import State
from farlane.limits.generated import CODE_FRAME_BYTES

MAXIMUM_DEPTH = 16
_BITWISE = {"and": "and", "or": "or", "xor": "xor", "imul": "mul"}


class Found(NamedTuple):
    """A formula; `exact` is whether it is the value, rather than what memory holds now where it will be read later."""

    formula: Formula
    exact: bool = True


class _Holder(NamedTuple):
    """location - offset is the atom (or the sum without its constant), in its low `size` bytes."""

    location: Location
    offset: int
    size: int


_Place = tuple[Place, int, int, int]  # of a location


class Holders:
    """Which values the places at a call instruction of the loop's function hold; found when first asked for."""

    def __init__(self, values: Values, state: State) -> None:
        self._values, self._state = values, state
        self._found: dict[Value, list[tuple[_Place, int, int]]] | None = None

    def of(self, atom: Value) -> Iterable[_Holder]:
        """The places that hold an atom, or a sum without its constant."""
        if self._found is None:
            self._found = {}
            self._collect(self._found)
        return (_Holder(Location(*place), offset, size) for place, offset, size in self._found.get(atom, ()))

    def _collect(self, found: dict[Value, list[tuple[_Place, int, int]]]) -> None:
        state = self._state
        for register in CALLEE_SAVED:
            _hold(found, self._values.base(state.registers[register]), (Place.REGISTER, register, 0, 8), 8)
        base, top = self._values.base(state.registers[RSP])
        for (offset, size), value in sorted(state.cells.get(base, {}).items(), key=_by_place):
            if value.terms and 0 <= offset - top < CODE_FRAME_BYTES - size:
                _hold(found, self._values.base(value), (Place.FRAME, 4, offset - top, size), size)
        for (offset, size), value in sorted(state.cells.get(self._values.zero, {}).items(), key=_by_place):
            if value.terms:
                _hold(found, self._values.base(value), (Place.GLOBAL, 0, offset, size), size)


def _by_place(cell: tuple[tuple[int, int], Value]) -> tuple[int, int]:
    return cell[0]


def _hold(found: dict[Value, list[tuple[_Place, int, int]]], held: tuple[Value, int], place: _Place, size: int) -> None:
    atom, offset = held
    if not atom.terms:
        return
    found.setdefault(atom, []).append((place, offset, size))
    # The low bytes of an extension are those of what it extends.
    while not offset and atom.kind == OPERATION and atom.arguments[0] in EXTENSIONS:
        inner, width = atom.arguments[1], int(atom.arguments[0][2])
        if len(inner.terms) != 1 or inner.terms[0][1] != 1:
            return
        (atom, _), offset, size = inner.terms[0], inner.signed, min(size, width)
        found.setdefault(atom, []).append((place, offset, size))


class Locator:
    """Finds values at one call.

    Args:
        values: the program's values.
        states: the state at the call instruction in the loop's function, then at each further one of the chain, in the
            functions that it leads to; the last one is the CUDA call's.
        holders: of the first of these states; calls that are reached through the same instruction share it.
    """

    def __init__(self, values: Values, states: Sequence[State], holders: Holders) -> None:
        self._values, self._state, self._deeper = values, states[0], states[1:]
        self._holders = holders
        # Of places that were asked for: where they are seen from the end of the chain.
        self._descended: dict[Location, Location | None] = {}

    def find(self, value: Value, size: int = 8, depth: int = 0) -> Found | None:
        """The low `size` bytes of a value; what is above them is of no meaning."""
        base, offset = self._values.base(value)
        if base.kind == SUM:  # a pointer to the end of an array is kept whole, its parts are gone
            held = self._held(base, size)
            if held is not None:
                return Found(total([(1, term(held.location)), (1, constant(offset - held.offset))]))
        parts: list[tuple[int, Formula]] = [(1, constant(value.constant))]
        exact = True
        for atom, coefficient in value.terms:
            found = self._atom(atom, size, depth)
            if found is None:
                return None
            parts.append((coefficient - (1 << 64) if coefficient >> 63 else coefficient, found.formula))
            exact = exact and found.exact
        return Found(total(parts), exact)

    def _held(self, atom: Value, size: int) -> _Holder | None:
        """The first place with enough bytes that can be seen from the end of the chain."""
        for holder in self._holders.of(atom):
            if holder.size >= size:
                place = self._descend(holder.location)
                if place is not None:
                    return holder._replace(location=place)
        return None

    def _descend(self, location: Location) -> Location | None:
        """The same place, seen from the CUDA call at the end of the chain."""
        if not self._deeper:
            return location
        if location not in self._descended:
            self._descended[location] = self._seen_below(location)
        return self._descended[location]

    def _seen_below(self, location: Location) -> Location | None:
        for state in self._deeper:
            base, top = self._values.base(state.registers[RSP])
            if base is not self._values.stack_pointer:
                return None
            if location.kind == Place.FRAME:
                location = Location(Place.FRAME, 4, location.displacement + 8 - top, location.size)
                if not 0 <= location.displacement < CODE_FRAME_BYTES - 8:
                    return None
            elif location.kind == Place.REGISTER:
                place = self._saved(state, location.register, top)
                if place is None:
                    return None
                location = place
        return location

    def _saved(self, state: State, register: int, top: int) -> Location | None:
        """Where a called function keeps its caller's value of a register."""
        wanted = self._values.atom(INITIAL, register)
        for key in CALLEE_SAVED:
            if state.registers[key] is wanted:
                return Location(Place.REGISTER, key)
        for (offset, size), value in sorted(state.cells.get(self._values.stack_pointer, {}).items()):
            if value is wanted and size == 8 and 0 <= offset - top < CODE_FRAME_BYTES - 8:
                return Location(Place.FRAME, 4, offset - top, 8)
        return None

    def _atom(self, atom: Value, size: int, depth: int) -> Found | None:
        held = self._held(atom, size)
        if held is not None:
            return Found(total([(1, term(held.location)), (-1, constant(held.offset))]))
        if depth > MAXIMUM_DEPTH:
            return None
        if atom.kind == OPERATION:
            return self._operation(atom, size, depth)
        if atom.kind == LOAD:
            return self._load(atom, size)
        return None

    def _load(self, atom: Value, size: int) -> Found | None:
        address, bytes_, _ = atom.arguments
        exact = self._state.read(address, bytes_) is atom
        if address.is_constant:
            return Found(term(Location(Place.GLOBAL, 0, address.constant, bytes_)), exact)
        base, offset = self._values.base(address)
        own, top = self._values.base(self._state.registers[RSP])
        if base is not own or not 0 <= offset - top < CODE_FRAME_BYTES - bytes_:
            return None
        place = self._descend(Location(Place.FRAME, 4, offset - top, bytes_))
        return None if place is None else Found(term(place), exact)

    def _operation(self, atom: Value, size: int, depth: int) -> Found | None:
        name = atom.arguments[0]
        operands = [value for value in atom.arguments[1:] if isinstance(value, Value)]
        if len(operands) != len(atom.arguments) - 1:
            return None
        if name in EXTENSIONS:
            inner = int(name[2])
            found = self.find(operands[0], min(size, inner), depth + 1)
            if found is None or size <= inner:
                return found
            return Found(extended(found.formula, inner, name[0] == "s"), found.exact)
        stem, width = name.rstrip("1248"), 8
        if stem != name:
            width = int(name[len(stem) :])
        if len(operands) != 2:
            return None
        if stem in _BITWISE:
            both = [self.find(operand, min(size, width), depth + 1) for operand in operands]
        elif stem in ("idiv", "div"):
            both = [self.find(operand, width, depth + 1) for operand in operands]
        elif stem in ("shl", "shr", "sar"):
            both = [self.find(operands[0], width, depth + 1), self.find(operands[1], 1, depth + 1)]
        else:
            return None
        first, second = both
        if first is None or second is None:
            return None
        exact = first.exact and second.exact
        if stem in _BITWISE:
            return Found(operation(_BITWISE[stem], first.formula, second.formula), exact)
        if stem in ("idiv", "div"):
            dividend, divisor = (extended(each.formula, width, stem == "idiv") for each in (first, second))
            return Found(operation("sdiv" if stem == "idiv" else "udiv", dividend, divisor), exact)
        count = operation("and", second.formula, constant(63 if width == 8 else 31))
        shifted = operation(stem, extended(first.formula, width, stem == "sar"), count)
        return Found(shifted if size <= width else extended(shifted, width, False), exact)
