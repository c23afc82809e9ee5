"""The targets of computed jumps that come from `switch`.

Two forms: position-independent (`movsxd r, [base + index*4]; add r, base; jmp r`, entries relative to the table) and
absolute (`jmp [table + index*8]`). The table's base may be loaded far away (hoisted out of a loop), so every `lea base,
[table]` of the function is a candidate, the nearest before the jump first. The number of entries comes from the
comparison that guards the jump, or from a mask that the index was given just before (`switch (x & 7)` needs no
comparison). A table is believed only if all its entries are instructions of the function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from farlane.analyzer.loader.image import Image
from farlane.analyzer.machine.instruction import NONE, XMM0, Immediate, Instruction, Memory, Register

MAXIMUM_ENTRIES = 4096
_WINDOW = 40
# What changes its first operand alone, and what changes none.
_CHANGES = (
    "mov",
    "movzx",
    "movsx",
    "movsxd",
    "lea",
    "add",
    "sub",
    "and",
    "or",
    "xor",
    "shl",
    "shr",
    "sar",
    "neg",
    "not",
)
_READS = ("cmp", "test", "push", "nop")
_GUARDS = ("ja", "jbe", "jae", "jb")


class Finder:
    """Finds jump tables in one function.

    Args:
        image: the file.
        order: the function's instructions by address.
        inside: whether an address belongs to the function.
    """

    def __init__(self, image: Image, order: Sequence[Instruction], inside: Callable[[int], bool]) -> None:
        self._image, self._order, self._inside = image, order, inside

    @functools.cached_property
    def _index(self) -> dict[int, int]:
        """Address -> position; most functions have no jump that asks for it."""
        return {instruction.address: position for position, instruction in enumerate(self._order)}

    def targets(self, jump: Instruction) -> list[int] | None:
        """The distinct targets of a computed jump, by address; None when they are not known."""
        operand = jump.operands[0]
        position = self._index[jump.address]
        before = [self._order[index] for index in range(position - 1, max(-1, position - _WINDOW), -1)]
        if isinstance(operand, Memory):
            if operand.base != NONE or operand.scale != 8 or operand.indexed == NONE:
                return None
            masked, mask = self._masked(operand.indexed, before, [jump])
            found = self._absolute(operand.displacement, masked or self._count(before))
            return None if masked and _any_past(mask, found, jump) else found
        if not isinstance(operand, Register):
            return None
        for step, instruction in enumerate(before):
            source = instruction.operands[1] if len(instruction.operands) == 2 else None
            if not isinstance(source, Memory) or not isinstance(instruction.operands[0], Register):
                continue
            if instruction.mnemonic == "movsxd" and source.size == 4 and source.scale == 4 and source.base != NONE:
                masked, mask = self._masked(source.indexed, before[step + 1 :], [jump, *before[: step + 1]])
                found = self._relative(source.base, masked or self._count(before[step:]), position)
                return None if masked and _any_past(mask, found, jump) else found
            if instruction.mnemonic == "mov" and source.size == 4 and source.scale == 1 and source.indexed != NONE:
                # Unoptimized: the index is scaled by itself, the table is either of the two registers.
                count = self._count(before[step:])
                return self._relative(source.indexed, count, position) or self._relative(source.base, count, position)
            if instruction.mnemonic == "mov" and source.scale == 8 and source.base == NONE and source.indexed != NONE:
                return self._absolute(source.displacement, self._count(before[step:]))
        return None

    def _count(self, before: Sequence[Instruction]) -> int:
        """Entries, from the nearest comparison with a constant that a guard follows."""
        guard = ""
        for instruction in before:
            if instruction.mnemonic in _GUARDS:
                guard = instruction.mnemonic
            elif instruction.mnemonic in ("cmp", "sub") and guard:  # clang -O0 subtracts
                bound = instruction.operands[1]
                if isinstance(bound, Immediate) and 0 <= bound.value < MAXIMUM_ENTRIES:
                    return bound.value + (1 if guard in ("ja", "jbe") else 0)
                return 0
            elif instruction.mnemonic in ("jmp", "ret") and not guard:
                return 0
        return 0

    def _masked(self, index: int, before: Sequence[Instruction], behind: Sequence[Instruction]) -> tuple[int, int]:
        """Entries, from the mask that a table's index was given in the straight line of instructions that leads to the
        jump, and where it was; 0: none.

        Args:
            before: the instructions before the table is read, the nearest first.
            behind: that one and those up to the jump, which no other jump may lead to.
        """
        if any(each.address in self._entered for each in behind):
            return 0, 0
        for instruction in before:
            first = instruction.operands[0] if instruction.operands else None
            changes = isinstance(first, Register) and first.number == index and instruction.mnemonic not in _READS
            if changes and instruction.mnemonic == "and" and isinstance(first, Register) and first.size == 4:
                mask = instruction.operands[1]
                last = mask.value if isinstance(mask, Immediate) else 0
                return (last + 1 if 0 < last < MAXIMUM_ENTRIES and not last & (last + 1) else 0), instruction.address
            plain = instruction.mnemonic in _READS or instruction.mnemonic in _CHANGES
            vector = isinstance(first, Register) and first.number >= XMM0 and not instruction.writes
            if changes or not (plain or vector) or instruction.address in self._entered:
                break
        return 0, 0

    @functools.cached_property
    def _entered(self) -> set[int]:
        """Where direct jumps of the function lead to."""
        jumps = (each for each in self._order if each.mnemonic[0] == "j" and isinstance(each.operands[0], Immediate))
        return {each.operands[0].value for each in jumps if isinstance(each.operands[0], Immediate)}

    def _relative(self, base: int, count: int, position: int) -> list[int] | None:
        if not count:
            return None
        tables: list[tuple[int, int]] = []
        for index, instruction in enumerate(self._order):
            if instruction.mnemonic != "lea":
                continue
            register, address = instruction.operands
            fixed = isinstance(address, Memory) and address.base == NONE and address.indexed == NONE
            if isinstance(register, Register) and register.number == base and fixed and isinstance(address, Memory):
                distance = position - index if index < position else len(self._order) + index
                tables.append((distance, address.displacement))
        for _, table in sorted(tables):
            targets = set()
            for entry in range(count):
                offset = self._image.constant(table + 4 * entry, 4)
                if offset is None:
                    break
                target = (table + (offset ^ 0x80000000) - 0x80000000) & (2**64 - 1)
                if not self._inside(target) or target not in self._index:
                    break
                targets.add(target)
            else:
                return sorted(targets)
        return None

    def _absolute(self, table: int, count: int) -> list[int] | None:
        targets = set()
        for entry in range(count):
            at = table + 8 * entry
            target = self._image.pointers.get(at) or self._image.constant(at, 8)
            if target is None or not self._inside(target) or target not in self._index:
                return None
            targets.add(target)
        return sorted(targets) or None


def _any_past(mask: int, targets: Sequence[int] | None, jump: Instruction) -> bool:
    """Whether a table leads to behind the mask that its index was given, on the way to the jump."""
    return any(mask < target <= jump.address for target in targets or ())
