"""A slice as text, for people, and as plain data, for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from farlane.analyzer.machine.instruction import NAMES
from farlane.analyzer.slices.form import (
    FOLLOWED,
    HAS_IMMEDIATE,
    Block,
    Branch,
    Call,
    Called,
    Code,
    Input,
    Jump,
    Leave,
    Operation,
    Origin,
    Place,
    Slice,
    array,
)


def summary(slice_: Slice) -> str:
    """One line."""
    operations = sum(len(block.operations) for block in slice_.blocks)
    return (
        f"from the call at {slice_.entry:#x} on: {len(slice_.calls)} calls, {operations} operations in "
        f"{len(slice_.blocks)} blocks, {len(slice_.inputs)} inputs"
    )


def lines(slice_: Slice) -> Iterator[str]:
    """All of it."""
    for each in slice_.inputs:
        yield f"{_where(each.to)} = {_origin(each)}"
    for index, block in enumerate(slice_.blocks):
        yield f"block {index}:"
        for operation in block.operations:
            yield f"    {_operation(operation)}"
        yield f"    {_end(block, slice_)}"


def _where(where: int | Place) -> str:
    return f"memory[{where.offset}:{where.offset + where.size}]" if isinstance(where, Place) else f"r{where}"


def _origin(each: Input) -> str:
    if each.origin == Origin.REGISTER:
        return NAMES[each.number]
    if each.origin == Origin.BIAS:
        return "where the file is"
    if each.origin in FOLLOWED:
        where, behind = each.number & 0xFFFFFFFF, each.number >> 32
        held = NAMES[where] if each.origin == Origin.BEHIND_REGISTER else f"[rsp+{where:#x}]"
        return f"[{held}+{behind:#x}]"
    return f"[rsp+{each.number:#x}]" if each.origin == Origin.FRAME else f"[{each.number:#x}]"


def _operation(operation: Operation) -> str:
    code, width, target, operands, immediate = operation
    parts = [f"r{each}" for each in operands]
    if code in (Code.LOAD, Code.STORE):
        parts.append(_where(Place(immediate, width)))
    elif code in (Code.LOAD_AT, Code.STORE_AT):
        parts.append(_where(array(immediate)))
    elif code in HAS_IMMEDIATE:
        parts.append(f"{immediate:#x}")
    name = f"{code.name.lower()}.{width} {', '.join(parts)}"
    return name if target < 0 else f"r{target} = {name}"


def _end(block: Block, slice_: Slice) -> str:
    end = block.end
    if isinstance(end, Jump):
        return f"go to {end.block}"
    if isinstance(end, Branch):
        return f"go to {end.then} if r{end.register}, else to {end.other}"
    if isinstance(end, Called):
        return f"{_call(slice_.calls[end.call])}; go to {end.block}"
    assert isinstance(end, Leave)
    return f"leave to {end.address:#x}" if end.address else "return"


def _call(call: Call) -> str:
    parts = [f"{each.number}: {_where(each.value)}" for each in call.arguments]
    source = "" if call.source is None else f", carries {_where(call.source)}"
    fills = "" if call.fills is None else f", fills {_where(call.fills)}"
    return f"call {call.name} at {call.site:#x} ({', '.join(parts)}{source}{fills})"


def plain(slice_: Slice) -> dict[str, Any]:
    """Numbers and texts."""
    return {
        "entry": slice_.entry,
        "registers": slice_.registers,
        "memory": slice_.memory,
        "floating": slice_.floating,
        "inputs": [f"{_where(each.to)} = {_origin(each)}" for each in slice_.inputs],
        "calls": [{"site": each.site, "name": each.name, "text": _call(each)} for each in slice_.calls],
        "blocks": [
            [*(_operation(operation) for operation in block.operations), _end(block, slice_)] for block in slice_.blocks
        ],
    }
