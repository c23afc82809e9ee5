"""Whether all lanes of a warp group take the same way at a branch, told by scalars: from the least and the greatest of what they compare.

Owns what can be told of a condition so: comparisons of affine values with uniform ones, and what `and`, `or` and `not` make of them. A warp group that
lies inside of an image learns from four comparisons that no lane is at an edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from farlane.backend.jit.lowering import affine
from farlane.backend.jit.lowering.ir import Val
from farlane.backend.jit.ptx.model import Instruction, Negated, Special
from farlane.backend.jit.ssa.ssa import Value

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitters.group_values import GroupValues

_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "lo": "hi", "hi": "lo", "ls": "hs", "hs": "ls"}
# Of a comparison with a bound: which extreme has to be in which relation to it, for all lanes and for none.
_ORDERS = {
    name: relations
    for names, relations in {
        ("lt", "lo"): (("high", "slt"), ("low", "sge")),
        ("le", "ls"): (("high", "sle"), ("low", "sgt")),
        ("gt", "hi"): (("low", "sgt"), ("high", "sle")),
        ("ge", "hs"): (("low", "sge"), ("high", "slt")),
    }.items()
    for name in names
}


@dataclass(frozen=True, slots=True)
class Agreement:
    """What is known of a condition.

    Attributes:
        every: it holds for all lanes.
        none: it holds for none.
        whole: whether lanes disagree where neither is true. Else they may agree as well.
    """

    every: Val
    none: Val
    whole: bool

    def inverted(self) -> Agreement:
        return Agreement(self.none, self.every, self.whole)


def found(e: GroupValues, condition: Any) -> Agreement | None:
    """Of a condition at the end of the block that is being emitted."""
    b = e.body
    if isinstance(condition, Negated):
        operand = found(e, condition.operand)
        return None if operand is None else operand.inverted()
    if not isinstance(condition, Value):
        return None
    if not condition.varying:
        value = e.value(condition)
        return Agreement(value, b.invert(value), True)
    definition = condition.definition
    if not isinstance(definition, Instruction) or condition.block != e.block or definition.guard is not None:
        return None
    if definition.base == "setp":
        return _compared(e, definition)
    if definition.modifiers != ("pred",) or definition.base not in ("and", "or", "not"):
        return None
    parts = [found(e, source) for source in definition.sources]
    if None in parts:
        return None
    first, second = parts[0], parts[-1]
    assert first is not None
    assert second is not None
    if definition.base == "not":
        return first.inverted()
    if definition.base == "and":
        return Agreement(b.bin("and", first.every, second.every), b.bin("or", first.none, second.none), False)
    return Agreement(b.bin("or", first.every, second.every), b.bin("and", first.none, second.none), False)


def _compared(e: GroupValues, i: Instruction) -> Agreement | None:
    """Where a lane wraps, neither is known."""
    if len(i.modifiers) != 2 or len(i.destinations) != 1 or len(i.sources) != 2:
        return None
    (name, kind), (x, y) = i.modifiers, i.sources
    if kind not in ("s32", "u32"):
        return None
    if isinstance(y, Value) and y.varying:
        (x, y), name = (y, x), _MIRRORED.get(name, name)
    if not isinstance(x, Value) or not e.is_affine(x) or isinstance(y, Special) or name not in _ORDERS:
        return None
    if isinstance(y, Value) and y.varying:
        return None
    b = e.body
    signed = kind == "s32"
    low, high, wraps = affine.extremes(e, affine.operand(e, x, "i32"), signed)
    bound = b.resize(e.read(y, "i32"), "i64", signed)
    (one, holds), (other, fails) = _ORDERS[name]
    fine = b.invert(wraps)
    least = {"low": low, "high": high}
    every = b.bin("and", b.icmp(holds, least[one], bound), fine)
    return Agreement(every, b.bin("and", b.icmp(fails, least[other], bound), fine), True)
