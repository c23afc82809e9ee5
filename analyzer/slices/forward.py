"""Shortens a slice's blocks: copies of registers, and loads of what was just stored, give way to the register itself.

Between two calls machine code moves the same value through registers, stubs' frames and arrays of parameters. In a slice
none of that is needed. Works on each block by itself, on graphs in which everything is known.
"""

from __future__ import annotations

from farlane.analyzer.slices import reasons
from farlane.analyzer.slices.form import Branch, Called, Code, Operation
from farlane.analyzer.slices.raw import Graph, Range, RawBlock, RawCall, RefusedError

_ONE_BIT = frozenset(
    {
        *(Code.EQUAL, Code.BELOW, Code.BELOW_EQUAL, Code.LESS, Code.LESS_EQUAL),
        *(Code.F_EQUAL, Code.F_LESS, Code.F_LESS_EQUAL, Code.F_UNORDERED),
    }
)
_FULL = frozenset({Code.SIGN, Code.INSERT, Code.WIDEN, Code.TO_8, Code.NEAREST_8})
_HALF = frozenset({Code.NARROW, Code.TO_4, Code.NEAREST_4})


def forward(graph: Graph) -> None:
    """Changes the blocks in place; what is not wanted any more is left for `simplify.clean`. Raises RefusedError where
    the configuration of a launch is not known."""
    for block in graph.blocks:
        if isinstance(block.end, Called):
            _name(block, graph.calls[block.end.call])
        _Block(block, graph).run()


def _name(block: RawBlock, call: RawCall) -> None:
    """A launch is known by the push of its configuration, whose return address is a constant argument up to here."""
    for argument in [each for each in call.arguments if each[0] < 0]:
        call.arguments.remove(argument)
        made = [each for each in block.steps if isinstance(each, Operation) and each.target == argument[2]]
        if not made or made[-1].code != Code.CONSTANT:
            raise RefusedError(reasons.UNKNOWN_KERNEL, "which configuration a launch takes")
        call.site = made[-1].immediate or call.site


class _Block:
    """What is known at a point of one block.

    `same`: register -> the one that holds the same; `bytes`: register -> how many low bytes of it may not be 0;
    `stored`: (place, bytes) of memory -> the register that holds it.
    """

    def __init__(self, block: RawBlock, graph: Graph) -> None:
        self._block, self._graph = block, graph
        self._same: dict[int, int] = {}
        self._bytes: dict[int, int] = {}
        self._stored: dict[tuple[int, int], int] = {}

    def run(self) -> None:
        block = self._block
        for index, step in enumerate(block.steps):
            assert isinstance(step, Operation)
            block.steps[index] = self._step(step)
        end = block.end
        if isinstance(end, Branch):
            block.end = end._replace(register=self._same.get(end.register, end.register))
        elif isinstance(end, Called):
            call = self._graph.calls[end.call]
            call.arguments = [(number, size, self._argument(value)) for number, size, value in call.arguments]

    def _argument(self, value: int | Range) -> int | Range:
        if isinstance(value, Range):
            return self._stored.get((value.low, value.size), value)
        return self._same.get(value, value)

    def _step(self, step: Operation) -> Operation:
        code, width, target, operands, immediate = step
        operands = tuple(self._same.get(each, each) for each in operands)
        step = Operation(code, width, target, operands, immediate)
        if code == Code.STORE_AT:
            region = self._graph.regions[immediate]
            self._lose(region.low, region.size)
            return step
        if code == Code.STORE:
            self._lose(immediate, width)
            self._stored[immediate, width] = operands[0]
            return step
        if code == Code.LOAD and (immediate, width) in self._stored:
            step = Operation(Code.COPY, width, target, (self._stored[immediate, width],))
        source = step.operands[0] if step.code == Code.COPY else -1
        exact = source != target and step.code == Code.COPY and self._bytes.get(source, 8) <= width
        self._defined(target)
        self._bytes[target] = _size(step)
        if exact:
            self._same[target] = source
        if step.code == Code.LOAD:
            self._stored[immediate, width] = target
        return step

    def _defined(self, register: int) -> None:
        """A register holds something else from here on."""
        self._same.pop(register, None)
        for each in [each for each, source in self._same.items() if source == register]:
            del self._same[each]
        for place in [place for place, held in self._stored.items() if held == register]:
            del self._stored[place]

    def _lose(self, low: int, size: int) -> None:
        for place in [place for place in self._stored if place[0] < low + size and low < place[0] + place[1]]:
            del self._stored[place]


def _size(step: Operation) -> int:
    """How many low bytes of an operation's result may not be 0."""
    if step.code == Code.CONSTANT:
        return max(1, -(-step.immediate.bit_length() // 8))
    if step.code in _ONE_BIT:
        return 1
    if step.code in _FULL:
        return 8
    return 4 if step.code in _HALF else step.width
