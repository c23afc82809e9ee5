"""Loads that read four words beside each other, one instruction for each: what a compiler makes of an unrolled loop over a row.

Where lanes run one after the other, four words of a lane need one check. Loads are taken together when nothing between the first and the last
may change what they read, or may let other threads do so.

Owns which loads of a block are taken together; lowering/emitters/serial_codegen.py checks them at the first.
"""

from __future__ import annotations

from farlane.backend.jit.options import Options
from farlane.backend.jit.ptx.instructions import Trait, having
from farlane.backend.jit.ptx.model import Address, Instruction
from farlane.backend.jit.ssa.blocks import Block
from farlane.backend.jit.ssa.ssa import Value

COUNT = 4
_WORDS = {"b32", "u32", "s32", "f32"}
_PLAIN = {"global", "weak", "nc", "ca", "cg", "cs", "lu"}
_ORDERED = {"volatile", "relaxed", "acquire", "release", "mmio"}
_CALM = having(Trait.LANE) | {"ld"}  # what neither writes memory nor lets other threads run


def together(block: Block, options: Options) -> dict[int, list[Instruction]]:
    """The same under these options. Without warp groups, looking at one page may take another away."""
    if options.tier == 1 or options.checks or options.touches or options.untranslated or not options.warp_groups:
        return {}
    return found(block)


def found(block: Block) -> dict[int, list[Instruction]]:
    """For each load that is taken together with others, by id: all of them, in the order of their addresses."""
    result: dict[int, list[Instruction]] = {}
    runs: dict[Value, list[Instruction]] = {}
    for instruction in block.instructions:
        if instruction.base not in _CALM or _ORDERED & set(instruction.modifiers):
            _close(runs, result)
        elif _word(instruction):
            runs.setdefault(instruction.sources[0].base, []).append(instruction)
    _close(runs, result)
    return result


def _word(i: Instruction) -> bool:
    """A plain load of a word, at an address that differs between lanes in no way that is known."""
    if i.base != "ld" or i.guard is not None or len(i.sources) != 1 or len(i.destinations) != 1:
        return False
    operand = i.sources[0]
    if (
        not i.modifiers
        or i.modifiers[-1] not in _WORDS
        or not set(i.modifiers[:-1]) <= _PLAIN
        or "global" not in i.modifiers
    ):
        return False
    if i.destinations[0] is None or not isinstance(operand, Address) or not isinstance(operand.base, Value):
        return False
    base = operand.base
    return base.type in ("b64", "u64", "s64") and base.varying and base.stride is None


def _close(runs: dict[Value, list[Instruction]], result: dict[int, list[Instruction]]) -> None:
    for loads in runs.values():
        by_offset = {item.sources[0].offset: item for item in reversed(loads)}
        taken: set[int] = set()
        for start in sorted(by_offset):
            offsets = [start + 4 * number for number in range(COUNT)]
            if taken.isdisjoint(offsets) and all(offset in by_offset for offset in offsets):
                taken.update(offsets)
                group = [by_offset[offset] for offset in offsets]
                result.update((id(item), group) for item in group)
    runs.clear()
