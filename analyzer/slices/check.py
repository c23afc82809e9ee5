"""Whether a slice is well-formed: every reader of slices asks before it evaluates one.

The check takes time that grows with the slice alone, which the bounds of `form` hold small. What passes can be
evaluated with what it says: no register and no byte outside of it is named, every operation has a type that exists, no
iteration makes a call twice. How long the ways between calls are, the evaluation counts.
"""

from __future__ import annotations

from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.slices.form import (
    FLOATING,
    FOLLOWED,
    HAS_IMMEDIATE,
    REACHED,
    SHAPES,
    STORES,
    Block,
    Branch,
    Call,
    Called,
    Code,
    Input,
    Jump,
    Operation,
    Origin,
    Place,
    Slice,
    array,
)
from farlane.limits.generated import (
    SLICE_ARGUMENTS,
    SLICE_BLOCKS,
    SLICE_CALLS,
    SLICE_FRAME_BYTES,
    SLICE_INPUTS,
    SLICE_MEMORY,
    SLICE_OPERATIONS,
    SLICE_REGISTERS,
)

WIDTHS = (1, 2, 4, 8)
_ONE = (Origin.REGISTER, Origin.BIAS)  # numbers of 8 bytes


class SliceError(AnalysisError):
    """A slice breaks a rule; the message names it."""


def _require(kept: bool, rule: str) -> None:
    if not kept:
        raise SliceError(rule)


def successors(block: Block) -> tuple[int, ...]:
    """The blocks that may come next."""
    end = block.end
    if isinstance(end, Branch):
        return (end.then, end.other)
    return (end.block,) if isinstance(end, (Jump, Called)) else ()


def check(slice_: Slice) -> None:
    """Raises SliceError."""
    _require(0 <= slice_.registers <= SLICE_REGISTERS, "too many registers")
    _require(0 <= slice_.memory <= SLICE_MEMORY, "too much memory")
    _require(0 < len(slice_.blocks) <= SLICE_BLOCKS, "no blocks, or too many")
    _require(len(slice_.calls) <= SLICE_CALLS, "too many calls")
    _require(len(slice_.inputs) <= SLICE_INPUTS, "too many inputs")
    _require(sum(len(block.operations) for block in slice_.blocks) <= SLICE_OPERATIONS, "too many operations")
    for each in slice_.inputs:
        _input(each, slice_)
    for call in slice_.calls:
        _call(call, slice_)
    for block in slice_.blocks:
        for operation in block.operations:
            _operation(operation, slice_)
        _end(block, slice_)
    _iterations(slice_.blocks)


def _register(number: int, slice_: Slice) -> None:
    _require(0 <= number < slice_.registers, f"register {number}")


def _place(place: Place, slice_: Slice) -> None:
    _require(place.offset >= 0 and place.size > 0, f"a place at {place.offset}")
    _require(place.offset + place.size <= slice_.memory, f"a place at {place.offset}")


def _input(each: Input, slice_: Slice) -> None:
    size = 8
    if isinstance(each.to, Place):
        _place(each.to, slice_)
        size = each.to.size
        _require(each.origin not in _ONE or size <= 8, "an input longer than a register")
    else:
        _register(each.to, slice_)
        _require(each.origin in _ONE, "a register takes its value from a register")
    if each.origin == Origin.REGISTER:
        _require(each.number in REACHED, f"an input in register {each.number}")
    elif each.origin == Origin.FRAME:
        _require(0 <= each.number <= SLICE_FRAME_BYTES - size, "an input outside of the frame")
    elif each.origin in FOLLOWED:
        where, behind = each.number & 0xFFFFFFFF, each.number >> 32
        reached = where in REACHED if each.origin == Origin.BEHIND_REGISTER else where <= SLICE_FRAME_BYTES - 8
        _require(reached and 0 <= behind <= SLICE_MEMORY, "an input behind an address")
    elif each.origin == Origin.BIAS:
        _require(each.number == 0, "a bias has no number")
    else:
        _require(0 < each.number < 2**63, "an input at no address")


def _call(call: Call, slice_: Slice) -> None:
    _require(0 <= call.site < 2**64, "a call at no address")
    _require(len(call.arguments) <= SLICE_ARGUMENTS, "too many arguments")
    _require(len(call.name.encode()) <= 255, "a long name")
    numbers = [argument.number for argument in call.arguments]
    _require(all(0 <= number <= 255 for number in numbers), "an argument's number")
    _require(len(set(numbers)) == len(numbers), "an argument is given twice")
    for argument in call.arguments:
        if isinstance(argument.value, Place):
            _place(argument.value, slice_)
            _require(argument.width == argument.value.size, "an argument's width")
        else:
            _register(argument.value, slice_)
            _require(argument.width in WIDTHS, "an argument's width")
    for place in (call.source, call.fills):
        if place is not None:
            _place(place, slice_)


def _operation(operation: Operation, slice_: Slice) -> None:
    code, width, target, operands, immediate = operation
    shape = SHAPES.get(code)
    _require(shape is not None, f"operation {code}")
    assert shape is not None
    _require(len(operands) == shape[0] and width in shape[1], f"{code.name}: its operands or its width")
    for each in operands:
        _register(each, slice_)
    if code in STORES:
        _require(target == -1, "a store has no target")
    else:
        _register(target, slice_)
    if code in (Code.LOAD, Code.STORE):
        _place(Place(immediate, width), slice_)
    elif code in (Code.LOAD_AT, Code.STORE_AT):
        _place(array(immediate), slice_)
        _require(array(immediate).size >= width, "an array shorter than its elements")
    elif code in HAS_IMMEDIATE:
        _require(0 <= immediate < 2**64, "a constant of 64 bits")
    else:
        _require(not immediate, f"{code.name} has no immediate")
    _require(slice_.floating or code not in FLOATING, "floating-point arithmetic that is not declared")


def _end(block: Block, slice_: Slice) -> None:
    for target in successors(block):
        _require(0 <= target < len(slice_.blocks), f"block {target}")
    if isinstance(block.end, Branch):
        _register(block.end.register, slice_)
    elif isinstance(block.end, Called):
        _require(0 <= block.end.call < len(slice_.calls), f"call {block.end.call}")


def _iterations(blocks: tuple[Block, ...]) -> None:
    """Every cycle with a call in it leads through block 0."""
    for index, block in enumerate(blocks):
        if isinstance(block.end, Called):
            seen, work = {0}, [block.end.block]
            while work:
                each = work.pop()
                if each not in seen:
                    seen.add(each)
                    work += successors(blocks[each])
            _require(index == 0 or index not in seen, "a cycle with a call that does not lead through block 0")
