"""Memory that is filled or copied at once: memset, memcpy, memmove, and the repeated string instructions that compilers
make of them, at places and of sizes that are known.
"""

from __future__ import annotations

from farlane.analyzer.machine.effects import string
from farlane.analyzer.machine.instruction import RAX, RCX, RDI, RSI, Instruction
from farlane.analyzer.permissions.abstract.arguments import passed
from farlane.analyzer.permissions.abstract.domain import CONSTANT, Value
from farlane.analyzer.permissions.abstract.memory import State
from farlane.analyzer.slices import extents
from farlane.analyzer.slices.form import Code, Operation
from farlane.analyzer.slices.lifting.packed import Packed

_FILLS = frozenset({"memset", "__memset_chk"})
_COPIES = frozenset({"memcpy", "__memcpy_chk", "memmove", "__memmove_chk"})
_WIDTHS = {"b": 1, "w": 2, "d": 4, "q": 8}


def _pieces(size: int) -> list[tuple[int, int]]:
    """Offset and bytes of the pieces in which so many bytes are moved."""
    found, at = [], 0
    while at < size:
        width = next(width for width in (8, 4, 2, 1) if at + width <= size)
        found.append((at, width))
        at += width
    return found


def _number(value: Value) -> int | None:
    return value.number if value.kind == CONSTANT and not value.objects else None


class Strings(Packed):
    """Executes these, and gives back the stores: behind what the call or the instruction is known to lose."""

    def filled(self, name: str, state: State) -> list[Operation]:
        """The stores of a library's function; none where it is no such function, or too little is known."""
        to, size = extents.at(passed(state, 0)), _number(passed(state, 2))
        if to is None or size is None or not 0 < size <= extents.LONGEST:
            return []
        if name in _FILLS:
            byte = _number(passed(state, 1, 4))
            if byte is None:
                return []
            held = self.constant((byte & 0xFF) * 0x0101_0101_0101_0101)
            return [Operation(Code.STORE, width, -1, (held,), to + at) for at, width in _pieces(size)]
        source = extents.at(passed(state, 1)) if name in _COPIES else None
        if source is None:
            return []
        held_all = [self.read(source + at, width) for at, width in _pieces(size)]
        return [
            Operation(Code.STORE, width, -1, (held,), to + at)
            for held, (at, width) in zip(held_all, _pieces(size), strict=True)
        ]

    def strings(self, instruction: Instruction) -> bool:
        """Whether it is a repeated `stos` or `movs` of which all is known."""
        name = string(instruction)
        if name is None or not instruction.mnemonic.startswith("rep ") or name[:4] not in ("stos", "movs"):
            return False
        width, count = _WIDTHS[name[4]], _number(self.values[RCX])
        to = extents.at(self.values[RDI])
        if to is None or count is None or not 0 < count * width <= extents.LONGEST:
            return False
        if name.startswith("stos"):
            held = [RAX] * count
        else:
            source = extents.at(self.values[RSI])
            if source is None:
                return False
            places = [source + width * index for index in range(count)]
            if any(abs(place - to) < count * width for place in places):
                return False  # what is copied first may be copied again
            held = [self.read(place, width) for place in places]
            self.emit(Code.ADD, 8, RSI, self.constant(count * width), target=RSI)
        for index, each in enumerate(held):
            self.steps.append(Operation(Code.STORE, width, -1, (each,), to + width * index))
        self.emit(Code.ADD, 8, RDI, self.constant(count * width), target=RDI)
        self.emit(Code.CONSTANT, 8, target=RCX)
        return True
