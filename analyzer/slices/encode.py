"""A slice as bytes and back: little-endian, without padding.

Writing and reading share the tables below and `form`'s shapes; `read` checks what it has read (check.py), so bytes that
no writer vouches for give a well-formed slice or a SliceError. Source: protos/manifest.md, "Slices".
"""

from __future__ import annotations

import struct

from farlane.analyzer.slices.check import SliceError, check
from farlane.analyzer.slices.form import (
    HAS_IMMEDIATE,
    SHAPES,
    Argument,
    Block,
    Branch,
    Call,
    Called,
    Code,
    End,
    Input,
    Jump,
    Leave,
    Operation,
    Origin,
    Place,
    Slice,
)

_HEAD = struct.Struct("<QHHHHHBx")  # entry, registers, memory, inputs, blocks, calls, floating
_INPUT = struct.Struct("<BBHHQ")  # origin, whether to a register, register or offset, bytes, number
_CALL = struct.Struct("<QBBHHHH")  # site, bytes of the name, arguments, source (offset, bytes), fills
_ARGUMENT = struct.Struct("<BBHH")  # number, whether a register, register or offset, bytes
_OPERATION = struct.Struct("<BBH")  # code, width, target
_JUMP, _BRANCH, _CALLED, _LEAVE = range(4)
_ENDS = {
    _JUMP: struct.Struct("<BH"),
    _BRANCH: struct.Struct("<BHHH"),
    _CALLED: struct.Struct("<BHH"),
    _LEAVE: struct.Struct("<BQ"),
}
NO_TARGET = 0xFFFF


def write(slice_: Slice) -> bytes:
    """Its bytes; raises SliceError."""
    check(slice_)
    out = bytearray(
        _HEAD.pack(
            slice_.entry,
            slice_.registers,
            slice_.memory,
            len(slice_.inputs),
            len(slice_.blocks),
            len(slice_.calls),
            slice_.floating,
        )
    )
    for each in slice_.inputs:
        out += _INPUT.pack(each.origin, not isinstance(each.to, Place), *_where(each.to, 8), each.number)
    for call in slice_.calls:
        out += _written_call(call)
    for block in slice_.blocks:
        out += struct.pack("<H", len(block.operations))
        for operation in block.operations:
            out += _written_operation(operation)
        out += _written_end(block.end)
    return bytes(out)


def _where(where: int | Place, width: int) -> tuple[int, int]:
    return (where.offset, where.size) if isinstance(where, Place) else (where, width)


def _written_call(call: Call) -> bytes:
    name = call.name.encode()
    places = [number for place in (call.source, call.fills) for number in (place or Place(0, 0))]
    out = _CALL.pack(call.site, len(name), len(call.arguments), *places) + name
    for argument in call.arguments:
        held = not isinstance(argument.value, Place)
        out += _ARGUMENT.pack(argument.number, held, *_where(argument.value, argument.width))
    return out


def _written_operation(operation: Operation) -> bytes:
    target = operation.target if operation.target >= 0 else NO_TARGET
    out = _OPERATION.pack(operation.code, operation.width, target)
    out += b"".join(struct.pack("<H", each) for each in operation.operands)
    if operation.code in HAS_IMMEDIATE:
        out += struct.pack("<Q", operation.immediate)
    return out


def _written_end(end: End) -> bytes:
    kind = {Jump: _JUMP, Branch: _BRANCH, Called: _CALLED, Leave: _LEAVE}[type(end)]
    return _ENDS[kind].pack(kind, *end)


def read(data: bytes) -> Slice:
    """The slice that these bytes are, all of them; raises SliceError."""
    try:
        reader = _Reader(data)
        slice_ = reader.slice()
    except (struct.error, ValueError, KeyError) as error:
        raise SliceError(f"not a slice: {error}") from error
    if reader.at != len(data):
        raise SliceError("bytes behind the slice")
    check(slice_)
    return slice_


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def _take(self, form: struct.Struct) -> tuple[int, ...]:
        found = form.unpack_from(self._data, self.at)
        self.at += form.size
        return found

    def slice(self) -> Slice:
        entry, registers, memory, inputs, blocks, calls, floating = self._take(_HEAD)
        if floating > 1 or self._data[_HEAD.size - 1]:
            raise SliceError("fields that are not defined")
        return Slice(
            entry,
            registers,
            memory,
            tuple(self._input() for _ in range(inputs)),
            calls=tuple(self._call() for _ in range(calls)),
            blocks=tuple(self._block() for _ in range(blocks)),
            floating=bool(floating),
        )

    def _input(self) -> Input:
        origin, held, where, size, number = self._take(_INPUT)
        if held > 1 or (held and size != 8):
            raise SliceError("an input to nothing")
        return Input(Origin(origin), number, where if held else Place(where, size))

    def _call(self) -> Call:
        site, length, count, *places = self._take(_CALL)
        name = self._data[self.at : self.at + length].decode()
        self.at += length
        arguments = tuple(self._argument() for _ in range(count))
        source, fills = (Place(*places[at : at + 2]) if any(places[at : at + 2]) else None for at in (0, 2))
        return Call(site, name, arguments, source, fills)

    def _argument(self) -> Argument:
        number, held, where, size = self._take(_ARGUMENT)
        if held > 1:
            raise SliceError("an argument in nothing")
        return Argument(number, size, where if held else Place(where, size))

    def _block(self) -> Block:
        (count,) = self._take(_COUNT)
        operations = tuple(self._operation() for _ in range(count))
        return Block(operations, self._end())

    def _operation(self) -> Operation:
        number, width, target = self._take(_OPERATION)
        code = Code(number)
        operands = tuple(self._take(_COUNT)[0] for _ in range(SHAPES[code][0]))
        immediate = self._take(_IMMEDIATE)[0] if code in HAS_IMMEDIATE else 0
        return Operation(code, width, -1 if target == NO_TARGET else target, operands, immediate)

    def _end(self) -> End:
        kind, *numbers = self._take(_ENDS[self._data[self.at]] if self.at < len(self._data) else _ENDS[_JUMP])
        end: End
        if kind == _JUMP:
            end = Jump(*numbers)
        elif kind == _BRANCH:
            end = Branch(*numbers)
        elif kind == _CALLED:
            end = Called(*numbers)
        else:
            end = Leave(*numbers)
        return end


_COUNT, _IMMEDIATE = struct.Struct("<H"), struct.Struct("<Q")
