"""What a slice means: a reference that evaluates one, the specification of those in the shim and in the plane.

The caller gives the inputs, gets every call with what it is passed, and gives the bytes that a copy to the
host has brought, before the next call is asked for. The slice must have passed `check`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from farlane.analyzer.slices.arithmetic import StuckError, compute
from farlane.analyzer.slices.form import (
    Branch,
    Call,
    Called,
    Code,
    Input,
    Jump,
    Operation,
    Place,
    Slice,
    array,
)
from farlane.limits.generated import SLICE_STEPS


@dataclass(frozen=True)
class Made:
    """A call that the loop makes now.

    Attributes:
        arguments: the bytes of each, by its number.
        source: the bytes that a copy to the device carries; None: it is no such copy.
    """

    call: Call
    arguments: dict[int, bytes]
    source: bytes | None


@dataclass(frozen=True)
class Left:
    """The loop is left towards an address."""

    address: int


class Evaluation:
    """One execution of a loop by its slice.

    Args:
        value: what the program holds at the entry, for each input: so many bytes as its place has, 8 for a register.
    """

    def __init__(self, slice_: Slice, value: Callable[[Input], bytes]) -> None:
        self._slice = slice_
        self._registers = [0] * slice_.registers
        self._memory = bytearray(slice_.memory)
        for each in slice_.inputs:
            data = value(each)
            if isinstance(each.to, Place):
                self._memory[each.to.offset : each.to.offset + each.to.size] = data
            else:
                self._registers[each.to] = int.from_bytes(data, "little")
        self._block = 0
        self.iterations = 0

    def fill(self, place: Place, data: bytes) -> None:
        """A copy to the host has brought these bytes."""
        if len(data) != place.size:
            raise ValueError(f"{len(data)} bytes for a place of {place.size}")
        self._memory[place.offset : place.offset + place.size] = data

    def run(self) -> Iterator[Made | Left]:
        """The calls in order, then how the loop is left. The first call is the one at the entry. Between two calls what
        the first one brought is to be given to `fill`.

        Raises:
            StuckError: the program would be ended by a fault, or what it does is not in the slice.
        """
        blocks = self._slice.blocks
        steps = 0
        while True:
            if self._block == 0:
                self.iterations += 1
                steps = 0
            block = blocks[self._block]
            steps += 1 + len(block.operations)
            if steps > SLICE_STEPS:
                raise StuckError("too many operations without a call")
            for operation in block.operations:
                self._operate(operation)
            end = block.end
            if isinstance(end, Jump):
                self._block = end.block
            elif isinstance(end, Branch):
                self._block = end.then if self._registers[end.register] else end.other
            elif isinstance(end, Called):
                yield self._made(self._slice.calls[end.call])
                steps = 0
                self._block = end.block
            else:
                yield Left(end.address)
                return

    def _made(self, call: Call) -> Made:
        arguments = {}
        for argument in call.arguments:
            if isinstance(argument.value, Place):
                arguments[argument.number] = self._bytes(argument.value)
            else:
                held = self._registers[argument.value].to_bytes(8, "little")
                arguments[argument.number] = held[: argument.width]
        return Made(call, arguments, None if call.source is None else self._bytes(call.source))

    def _bytes(self, place: Place) -> bytes:
        return bytes(self._memory[place.offset : place.offset + place.size])

    def _operate(self, operation: Operation) -> None:
        code, width, target, operands, immediate = operation
        registers = self._registers
        if code == Code.CONSTANT:
            registers[target] = immediate
        elif code == Code.LOAD:
            registers[target] = int.from_bytes(self._memory[immediate : immediate + width], "little")
        elif code == Code.STORE:
            held = registers[operands[0]] & ((1 << 8 * width) - 1)
            self._memory[immediate : immediate + width] = held.to_bytes(width, "little")
        elif code in (Code.LOAD_AT, Code.STORE_AT):
            place = array(immediate)
            at = registers[operands[-1]]
            if at > place.size - width:
                raise StuckError("an element outside of its array")
            low = place.offset + at
            if code == Code.LOAD_AT:
                registers[target] = int.from_bytes(self._memory[low : low + width], "little")
            else:
                held = registers[operands[0]] & ((1 << 8 * width) - 1)
                self._memory[low : low + width] = held.to_bytes(width, "little")
        else:
            registers[target] = compute(code, [registers[each] for each in operands], width)
