"""The targets of computed jumps that come from `switch`.

Two forms: position-independent (`movsxd r, [base + index*4]; add r, base; jmp r`, entries relative to the table) and absolute
(`jmp [table + index*8]`). The table's base may be loaded far away (hoisted out of a loop), so every `lea base, [table]`
of the function is a candidate, the nearest before the jump first. The number of entries comes from the comparison that
guards the jump. A table is believed only if all its entries are instructions of the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from farlane.analyzer.loader.image import Image
from farlane.analyzer.machine.instruction import NONE, Immediate, Instruction, Memory, Register

MAXIMUM_ENTRIES = 4096
_WINDOW = 40
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
        self._index = {instruction.address: position for position, instruction in enumerate(order)}

    def targets(self, jump: Instruction) -> list[int] | None:
        """The distinct targets of a computed jump, by address; None when they are not known."""
        operand = jump.operands[0]
        position = self._index[jump.address]
        before = [self._order[index] for index in range(position - 1, max(-1, position - _WINDOW), -1)]
        if isinstance(operand, Memory):
            if operand.base != NONE or operand.scale != 8 or operand.indexed == NONE:
                return None
            return self._absolute(operand.displacement, self._count(before))
        if not isinstance(operand, Register):
            return None
        for step, instruction in enumerate(before):
            source = instruction.operands[1] if len(instruction.operands) == 2 else None
            if not isinstance(source, Memory) or not isinstance(instruction.operands[0], Register):
                continue
            if instruction.mnemonic == "movsxd" and source.size == 4 and source.scale == 4 and source.base != NONE:
                return self._relative(source.base, before[step:], position)
            if instruction.mnemonic == "mov" and source.size == 4 and source.scale == 1 and source.indexed != NONE:
                # Unoptimized: the index is scaled by itself, the table is either of the two registers.
                found = self._relative(source.indexed, before[step:], position)
                return found or self._relative(source.base, before[step:], position)
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

    def _relative(self, base: int, before: Sequence[Instruction], position: int) -> list[int] | None:
        count = self._count(before)
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
