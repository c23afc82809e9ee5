"""From a simplified graph to a slice: registers and memory are numbered anew, inputs are named, the form is checked."""

from __future__ import annotations

from collections.abc import Callable

from farlane.analyzer.machine.instruction import REGISTERS
from farlane.analyzer.slices import reasons
from farlane.analyzer.slices.check import SliceError, check
from farlane.analyzer.slices.form import (
    REACHED,
    Argument,
    Block,
    Branch,
    Call,
    Called,
    Code,
    Input,
    Operation,
    Origin,
    Place,
    Slice,
)
from farlane.analyzer.slices.raw import ADDRESSES, BIAS, GLOBALS, HEAPS, Graph, Range, RawCall, RefusedError
from farlane.analyzer.slices.simplify import Demand, touched
from farlane.limits.generated import SLICE_FRAME_BYTES


def compact(graph: Graph, demand: Demand) -> Slice:
    """The slice of a graph; raises RefusedError."""
    made = sorted({block.end.call for block in graph.blocks if isinstance(block.end, Called)})
    places = _Places(touched(graph, demand))
    registers: dict[int, int] = {}

    def register(number: int) -> int:
        return registers.setdefault(number, len(registers))

    inputs = [*_registers(demand, register), *places.inputs(demand, graph)]
    blocks = []
    for block in graph.blocks:
        operations = []
        for step in block.steps:
            assert isinstance(step, Operation)  # what is not known has refused the slice
            code, width, target, operands, immediate = step
            if code in (Code.LOAD, Code.STORE):
                immediate = places.at(immediate)
            elif code in (Code.LOAD_AT, Code.STORE_AT):
                region = graph.regions[immediate]
                immediate = places.at(region.low) | region.size << 16
            numbers = tuple(register(each) for each in operands)
            operations.append(Operation(code, width, target if target < 0 else register(target), numbers, immediate))
        end = block.end
        if isinstance(end, Branch):
            end = Branch(register(end.register), end.then, end.other)
        elif isinstance(end, Called):
            end = Called(made.index(end.call), end.block)
        blocks.append(Block(tuple(operations), end))
    described = tuple(_call(graph.calls[number], places, register) for number in made)
    floating = graph.floating and any(each.code >= Code.F_ADD for block in blocks for each in block.operations)
    found = Slice(graph.entry, len(registers), places.size, tuple(inputs), tuple(blocks), described, floating)
    try:
        check(found)
    except SliceError as error:
        reason = reasons.NESTED if "cycle" in str(error) else reasons.TOO_LONG
        raise RefusedError(reason, str(error)) from error
    return found


def _registers(demand: Demand, register: Callable[[int], int]) -> list[Input]:
    found = []
    for number in sorted(demand.registers):
        if number == BIAS:
            found.append(Input(Origin.BIAS, 0, register(number)))
            continue
        if number not in REACHED:
            what = "a register that the call changes" if number < REGISTERS else "what stands before it"
            raise RefusedError(reasons.ENTRY, f"{what} is wanted at the entry")
        found.append(Input(Origin.REGISTER, number, register(number)))
    return found


def _call(raw: RawCall, places: _Places, register: Callable[[int], int]) -> Call:
    arguments = []
    for index, size, value in sorted(raw.arguments, key=lambda each: each[0]):
        where = places.place(value) if isinstance(value, Range) else register(value)
        arguments.append(Argument(index, size, where))
    source, fills = (None if each is None else places.place(each) for each in (raw.source, raw.fills))
    return Call(raw.site, raw.name, tuple(arguments), source, fills)


class _Places:
    """The slice's memory: the bytes that it touches, those side by side in the program side by side here."""

    def __init__(self, touched: set[int]) -> None:
        self._places = {where: place for place, where in enumerate(sorted(touched))}
        self.size = len(touched)

    def at(self, where: int) -> int:
        return self._places[where]

    def place(self, each: Range) -> Place:
        return Place(self.at(each.low), each.size)

    def inputs(self, demand: Demand, graph: Graph) -> list[Input]:
        """One for every run of wanted bytes; raises RefusedError."""
        found: list[Input] = []
        wanted = sorted(demand.memory)
        while wanted:
            low = high = wanted[0]
            while wanted and wanted[0] == high:
                high += 1
                wanted.pop(0)
            place = Place(self.at(low), high - low)
            if low >= HEAPS:
                found.append(self._behind(low, place, graph))
            elif low >= GLOBALS:
                found.append(Input(Origin.GLOBAL, low - GLOBALS, place))
            elif 0 <= low - graph.stack <= SLICE_FRAME_BYTES - place.size:
                found.append(Input(Origin.FRAME, low - graph.stack, place))
            else:
                raise RefusedError(reasons.ENTRY, "a variable outside of the frame is wanted at the entry")
        return found

    def _behind(self, low: int, place: Place, graph: Graph) -> Input:
        """What a heap block holds, or its address."""
        number = (low - ADDRESSES) >> 4 if low >= ADDRESSES else (low - HEAPS) >> 16
        if number not in graph.addresses:
            raise RefusedError(reasons.ENTRY, "where a heap block's address stands at the entry is not known")
        origin, where = graph.addresses[number]
        if low >= ADDRESSES:
            return Input(origin, where, place)
        behind = Origin.BEHIND_REGISTER if origin == Origin.REGISTER else Origin.BEHIND_FRAME
        return Input(behind, where | (low & 0xFFFF) << 32, place)
