"""Instructions on all numbers of a vector register, as compilers make of a few equal statements: each number by itself,
in the operations of one.

Only what is exact: sums of all of a register's numbers are written by compilers as such instructions one after the
other, so their order is the program's.
"""

from __future__ import annotations

from collections.abc import Callable

from farlane.analyzer.machine.instruction import XMM0, Immediate, Instruction, Operand, Register, lane
from farlane.analyzer.slices.form import Code
from farlane.analyzer.slices.lifting.vectors import Vectors

_ARITHMETIC = {
    **{
        f"{name}{suffix}": (code, size)
        for suffix, size in (("ps", 4), ("pd", 8))
        for name, code in (
            ("add", Code.F_ADD),
            ("sub", Code.F_SUBTRACT),
            ("mul", Code.F_MULTIPLY),
            ("div", Code.F_DIVIDE),
            ("min", Code.F_MINIMUM),
            ("max", Code.F_MAXIMUM),
        )
    },
    "paddd": (Code.ADD, 4),
    "paddq": (Code.ADD, 8),
    "psubd": (Code.SUBTRACT, 4),
    "psubq": (Code.SUBTRACT, 8),
    "pmulld": (Code.MULTIPLY, 4),
}
# -> the operation, the bytes of a number before and behind it.
_CONVERTED = {
    "cvtdq2ps": (Code.FROM_4, 4, 4),
    "cvtdq2pd": (Code.FROM_4, 4, 8),
    "cvttps2dq": (Code.TO_4, 4, 4),
    "cvtps2dq": (Code.NEAREST_4, 4, 4),
    "cvttpd2dq": (Code.TO_4, 8, 4),
    "cvtpd2dq": (Code.NEAREST_4, 8, 4),
}
# -> whether the elements are the high halves' (of the target and the source in turn), their size.
_UNPACKED = {"unpckhps": 4, "punpckhdq": 4, "unpckhpd": 8, "punpckhqdq": 8}
_ROUNDED = {0: Code.ROUND_EVEN, 1: Code.ROUND_DOWN, 2: Code.ROUND_UP, 3: Code.ROUND_CUT, 4: Code.ROUND_EVEN}


class Packed(Vectors):
    """Executes instructions on packed numbers."""

    def packed(self, instruction: Instruction) -> bool:
        """Whether it is one of these."""
        handler = _HANDLERS.get(instruction.mnemonic)
        registers = [each for each in instruction.operands if isinstance(each, Register)]
        if handler is None or not registers or any(each.number < XMM0 or each.size > 16 for each in registers):
            return False
        return handler(self, instruction)

    def _elements(self, operand: Operand, instruction: Instruction, size: int) -> list[int]:
        """Registers that hold the numbers of an operand in their low bytes, first to last."""
        halves = self._halves(operand, instruction)
        if size == 8:
            return [self.emit(Code.COPY, 8, half) for half in halves]
        four = self.constant(32)
        return [
            self.emit(Code.COPY, 4, half) if first else self.emit(Code.SHIFT_RIGHT, 8, half, four)
            for half in halves
            for first in (True, False)
        ]

    def _become(self, target: Operand, elements: list[int]) -> None:
        """The numbers of a vector register, two or four."""
        assert isinstance(target, Register)
        for half in (0, 1):
            own = lane(target.number, half)
            if len(elements) == 2:
                self.emit(Code.COPY, 8, elements[half], target=own)
            else:
                low, high = elements[2 * half : 2 * half + 2]
                raised = self.emit(Code.SHIFT_LEFT, 8, high, self.constant(32))
                self.emit(Code.INSERT, 4, raised, low, target=own)

    def _each(self, instruction: Instruction) -> bool:
        target, source = instruction.operands
        code, size = _ARITHMETIC[instruction.mnemonic]
        self.floating = self.floating or code >= Code.F_ADD
        first, second = (self._elements(each, instruction, size) for each in (target, source))
        self._become(target, [self.emit(code, size, a, b) for a, b in zip(first, second, strict=True)])
        return True

    def _converted(self, instruction: Instruction) -> bool:
        """Each number of the source as one of the other kind; of two results of 4 bytes, zeros stand behind them."""
        target, source = instruction.operands
        code, taken, size = _CONVERTED[instruction.mnemonic]
        if size > taken and not isinstance(source, Register):
            return False
        self.floating = True
        width = size if code == Code.FROM_4 else taken
        found = self._elements(source, instruction, taken)[: 16 // max(taken, size)]
        made = [self.emit(code, width, each) for each in found]
        if len(made) * size < 16:
            made += [self.constant(0), self.constant(0)]
        self._become(target, made)
        return True

    def _chosen_elements(self, instruction: Instruction) -> bool:
        target, source, mask = instruction.operands
        if not isinstance(mask, Immediate):
            return False
        chosen = [mask.value >> 2 * index & 3 for index in range(4)]
        second = self._elements(source, instruction, 4)
        first = second if instruction.mnemonic == "pshufd" else self._elements(target, instruction, 4)
        self._become(target, [(first if index < 2 else second)[each] for index, each in enumerate(chosen)])
        return True

    def _high(self, instruction: Instruction) -> bool:
        target, source = instruction.operands
        size = _UNPACKED[instruction.mnemonic]
        first, second = (self._elements(each, instruction, size) for each in (target, source))
        half = len(first) // 2
        pairs = zip(first[half:], second[half:], strict=True)
        self._become(target, [each for pair in pairs for each in pair])
        return True

    def _half(self, instruction: Instruction) -> bool:
        """One half of the source becomes the other half of the target."""
        target, source = instruction.operands
        if not isinstance(target, Register) or not isinstance(source, Register):
            return False
        high = instruction.mnemonic == "movhlps"
        self.emit(Code.COPY, 8, lane(source.number, int(high)), target=lane(target.number, int(not high)))
        return True

    def _rounded(self, instruction: Instruction) -> bool:
        target, source, mode = instruction.operands
        code = _ROUNDED.get(mode.value & 7) if isinstance(mode, Immediate) else None
        if code is None:
            return False
        self.floating = True
        size = 4 if instruction.mnemonic == "roundss" else 8
        value = self._low(source, instruction, size)
        self._set(target, self.emit(code, size, value), size)
        return True


_HANDLERS: dict[str, Callable[[Packed, Instruction], bool]] = {
    **dict.fromkeys(_ARITHMETIC, Packed._each),
    **dict.fromkeys(_CONVERTED, Packed._converted),
    **dict.fromkeys(("pshufd", "shufps"), Packed._chosen_elements),
    **dict.fromkeys(_UNPACKED, Packed._high),
    **dict.fromkeys(("movhlps", "movlhps"), Packed._half),
    **dict.fromkeys(("roundsd", "roundss"), Packed._rounded),
}
