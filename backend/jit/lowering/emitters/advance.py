"""By how much a value grows from one iteration of a loop to the next, where that is known now: what a header's phi counts by, and what follows from it.

Overflow of 32 bits is not looked for: good for asking ahead, not for leaving out checks. Owns that asking, too, for lanes that go one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from farlane.backend.jit.analysis import strides
from farlane.backend.jit.lowering.families.accesses import addresses
from farlane.backend.jit.lowering.ir import integer
from farlane.backend.jit.ptx.model import Address, Instruction, extends
from farlane.backend.jit.ssa.ssa import Phi, Value

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitters.serial_codegen import SerialEmitter

AHEAD_BYTES = 512  # into the first-level cache. Measured: 256 as good, 128 and 1024 some per cent worse, and into the second-level cache no gain
LINE = 64
_DEPTH = 16  # instructions from an address back to what the loop counts
_INTEGERS = {"b32", "u32", "s32", "b64", "u64", "s64"}


def ask(e: SerialEmitter, i: Instruction) -> None:
    """Asks for what lies some lines behind what a load reads, where its loop goes through memory step by step.

    A lane's row ends soon, and the next lane's begins where this instruction has not been: there the first-level cache loses what it followed.
    """
    around = e.graph.loops_around(e.block)
    base = i.sources[0].base if isinstance(i.sources[0], Address) else None
    if not around or not isinstance(base, Value):
        return
    members = e.graph.loops[around[0]]
    moves = step(base, around[0], members)
    if not moves or abs(moves) > LINE:
        return
    start, added = root(base, members)
    at, others = added + i.sources[0].offset, e.asked.setdefault(start, [])
    if any(abs(at - other) < LINE for other in others):
        return
    others.append(at)
    here = addresses.effective(e.emitter, i.sources[0], addresses.space_of(i))[1]
    there = e.body.bin("add", here, integer(AHEAD_BYTES if moves > 0 else -AHEAD_BYTES, "i64"))
    e.kernel.declare("declare void @llvm.prefetch.p0(ptr, i32 immarg, i32 immarg, i32 immarg)")
    e.body.line(f"call void @llvm.prefetch.p0({e.body.cast('inttoptr', there, 'ptr')}, i32 0, i32 3, i32 1)")


def step(value: object, header: int, members: Collection[int], depth: int = _DEPTH) -> int | None:
    """What is added to a value in each iteration of the loop with these blocks. None: not known, or not always the same."""
    if not isinstance(value, Value) or value.block not in members:
        return 0
    definition = value.definition
    if isinstance(definition, Phi):
        return _counted(value, definition, members) if value.block == header else None
    if not isinstance(definition, Instruction) or not depth or definition.guard or value.type not in _INTEGERS:
        return None
    base, sources, modifiers = definition.base, definition.sources, definition.modifiers
    plain = len(modifiers) == 1
    if not (base in ("mov", "cvta") or extends(definition) or plain or {"lo", "wide"} & set(modifiers)):
        return None
    parts = [step(source, header, members, depth - 1) for source in sources]
    first = parts[0] if parts else None
    if None in parts or first is None:
        return None
    if base in ("mov", "cvta", "cvt") and len(parts) == 1:
        return first
    if base in ("add", "sub") and len(parts) == 2:
        return first + (parts[1] or 0) * (1 if base == "add" else -1)
    factor = strides.signed_constant(sources[1], 32) if len(parts) > 1 else None
    if factor is None:
        return None
    if base == "shl" and 0 <= factor < 32:
        return first << factor
    if base in ("mul", "mad"):
        return first * factor + sum(part or 0 for part in parts[2:])
    return None


def _counted(value: Value, phi: Phi, members: Collection[int]) -> int | None:
    """What each way through the loop adds to one of its header's phis."""
    steps = {_added(item, value) for source, item in phi.operands.items() if source in members}
    return steps.pop() if len(steps) == 1 else None


def _added(item: object, start: Value) -> int | None:
    """A value less another one, from which it is reckoned by adding numbers."""
    for root, total in _behind(item):
        if root is start:
            return total
    return None


def root(value: Value, members: Collection[int]) -> tuple[Value, int]:
    """What a value is reckoned from in the loop by adding a number, and the number."""
    *_, last = (pair for pair in _behind(value) if pair[0] is value or pair[0].block in members)
    return last


def _behind(item: object) -> Iterator[tuple[Value, int]]:
    """Values from which one is reckoned by adding numbers, and what has been added: the value itself first."""
    total = 0
    for _ in range(_DEPTH):
        if not isinstance(item, Value):
            return
        yield item, total
        definition = item.definition
        if not isinstance(definition, Instruction) or definition.guard:
            return
        sources = definition.sources
        if definition.base in ("add", "sub") and len(definition.modifiers) == 1:
            number = strides.signed_constant(sources[1], 64 if item.type.endswith("64") else 32)
            if number is None:
                return
            total += -number if definition.base == "sub" else number
        elif definition.base != "mov" or len(sources) != 1:
            return
        item = sources[0]
