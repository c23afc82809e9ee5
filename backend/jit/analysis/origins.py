"""Which array an address is reckoned from, and how far it is known to be aligned as that is.

An access at an array's address and a multiple of its size is as aligned as the array: that is tested once.
Both are found by going down from the best that can be until nothing changes, so that what a loop adds to its own address is taken into account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from farlane.backend.jit.analysis import strides
from farlane.backend.jit.ptx.model import Instruction, extends
from farlane.backend.jit.ssa.ssa import Phi, Value

MOST = 64  # log2 of what zero is a multiple of
_ANY: Any = object()  # the array of an address of which nothing has been found out yet
Origin = tuple[Value | None, int]
_LONG = {"b64", "u64", "s64"}


def reckoned(value: Value, shared: Callable[[Value], bool]) -> Origin:
    """(array, log): an address is an array's and a multiple of 1 << log more. (None, 0) where that cannot be told.

    Args:
        shared: whether a value may be an array's address.
    """
    found: dict[Value, Origin] = {
        item: (item, MOST) if shared(item) else (_ANY, MOST) for item in _behind(value, shared)
    }
    changed = True
    while changed:
        changed = False
        for item, (array, log) in found.items():
            if shared(item):
                continue
            now, times = _origin(item, found)
            new = (None, 0) if array not in (_ANY, now) else (now, min(log, times))
            if new != (array, log):
                found[item], changed = new, True
    return found[value] if found[value][0] is not _ANY else (None, 0)


def _behind(value: Value, shared: Callable[[Value], bool]) -> list[Value]:
    """A value, and the values of its type that it is computed from."""
    seen = {value}
    work = [value]
    while work:
        current = work.pop()
        if not shared(current):
            more = {item for item in _sources(current) if isinstance(item, Value) and item.type in _LONG} - seen
            seen |= more
            work += more
    return sorted(seen, key=lambda item: item.number)


def _sources(value: Value) -> Iterator[Any]:
    if isinstance(value.definition, Phi):
        yield from value.definition.operands.values()
    elif isinstance(value.definition, Instruction):
        yield from value.definition.sources


def _origin(value: Value, found: dict[Value, Origin]) -> Origin:
    definition = value.definition
    if isinstance(definition, Phi):
        parts = [found.get(item, (None, 0)) for item in definition.operands.values()]
        arrays = {array for array, _ in parts if array is not _ANY} or {_ANY}
        return _clear(arrays.pop() if len(arrays) == 1 else None, min(log for _, log in parts))
    if not isinstance(definition, Instruction):
        return None, 0
    sources = definition.sources
    if definition.base in ("mov", "cvta") and len(sources) == 1:
        return found.get(sources[0], (None, 0)) if isinstance(sources[0], Value) else (None, 0)
    ways = {"add": ((0, 1), (1, 0)), "sub": ((0, 1),), "mad": ((2, -1),)}.get(definition.base, ())
    for one, other in ways:
        array, log = found.get(sources[one], (None, 0)) if isinstance(sources[one], Value) else (None, 0)
        if array is not None:
            return _clear(array, min(log, _product(definition, _multiple) if other < 0 else _multiple(sources[other])))
    return None, 0


def _clear(array: Value | None, log: int) -> Origin:
    return (None, 0) if array is None else (array, log)


def _multiple(operand: object) -> int:
    """The log2 of what it is a multiple of, as far as is known now."""
    known: dict[Value, int] = {}
    work = [operand]
    while work:
        item = work.pop()
        if isinstance(item, Value) and item not in known:
            known[item] = MOST
            work += _sources(item)

    def current(item: object) -> int:
        if isinstance(item, Value):
            return known[item]
        number = strides.constant(item)
        return 0 if number is None else MOST if number == 0 else min((number & -number).bit_length() - 1, MOST)

    changed = True
    while changed:
        changed = False
        for item, log in known.items():
            new = _times(item, current)
            if new < log:
                known[item], changed = new, True
    return current(operand)


def _times(value: Value, current: Callable[[object], int]) -> int:
    definition = value.definition
    if isinstance(definition, Phi):
        return min(current(item) for item in definition.operands.values())
    if not isinstance(definition, Instruction) or value.type in ("f32", "f64", "pred") or not definition.modifiers:
        return 0
    sources = definition.sources
    if definition.base in ("add", "sub") and len(definition.modifiers) == 1:
        return min(current(sources[0]), current(sources[1]))
    if definition.base == "mul":
        return _product(definition, current)
    if definition.base == "shl":
        amount = strides.constant(sources[1])
        return min(current(sources[0]) + amount, MOST) if amount is not None and 0 <= amount < MOST else 0
    if definition.base == "mov" and len(sources) == 1 and len(definition.destinations) == 1:
        return current(sources[0])
    return current(sources[0]) if definition.base == "cvt" and extends(definition) else 0


def _product(i: Instruction, current: Callable[[object], int]) -> int:
    """Of a product's factors, where no high half is taken: what is cut off is a multiple of more."""
    if not {"wide", "lo"} & set(i.modifiers):
        return 0
    return min(current(i.sources[0]) + current(i.sources[1]), MOST)
