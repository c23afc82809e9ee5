"""Instructions on vector registers, whose halves are registers of 64 bits: moves, scalar arithmetic, comparisons,
conversions, and logic on bits. What works on more than one number of a half, compilers' vectorized loops do, and is
unknown here."""

from __future__ import annotations

from collections.abc import Callable

from farlane.analyzer.machine.effects import CLEARS
from farlane.analyzer.machine.instruction import XMM0, Instruction, Memory, Operand, Register, lane
from farlane.analyzer.slices.form import Code
from farlane.analyzer.slices.lifting.integers import ORDERED, Integers

_ARITHMETIC = {
    "add": Code.F_ADD,
    "sub": Code.F_SUBTRACT,
    "mul": Code.F_MULTIPLY,
    "div": Code.F_DIVIDE,
    "min": Code.F_MINIMUM,
    "max": Code.F_MAXIMUM,
    "sqrt": Code.F_SQUARE_ROOT,
}
_LOGIC = {
    **dict.fromkeys(("andps", "andpd", "pand"), Code.AND),
    **dict.fromkeys(("orps", "orpd", "por"), Code.OR),
    **dict.fromkeys(("xorps", "xorpd", "pxor"), Code.XOR),
    **dict.fromkeys(("andnps", "andnpd", "pandn"), Code.NOT),
}
_WIDE = ("movaps", "movups", "movdqa", "movdqu", "movapd", "movupd")
_LOW = {"movq": 8, "movd": 4, "movss": 4, "movsd": 8}
_HALF = {"movhps": 1, "movhpd": 1, "movlps": 0, "movlpd": 0}


def _vector(operand: Operand) -> bool:
    return isinstance(operand, Register) and operand.number >= XMM0


class Vectors(Integers):
    """Executes instructions on vector registers, and those on integers.

    Attributes:
        floating: whether there has been floating-point arithmetic.
    """

    floating = False

    def vectors(self, instruction: Instruction) -> bool:
        """Whether it is one of these."""
        handler = _HANDLERS.get(instruction.mnemonic)
        converts = instruction.mnemonic.startswith("cvt")
        if handler is None or not (converts or any(_vector(each) for each in instruction.operands)):
            return False
        if any(_vector(each) and each.size > 16 for each in instruction.operands):
            return False
        if instruction.mnemonic.startswith(("ucomi", "comi", "cvt")) or instruction.mnemonic in _FLOATING:
            self.floating = True
        return handler(self, instruction)

    def _halves(self, operand: Operand, instruction: Instruction) -> tuple[int, int]:
        """Registers that hold the 16 bytes of an operand."""
        if isinstance(operand, Memory):
            low, high = (self.load(operand, instruction, 8, 16, 8 * half) for half in (0, 1))
            return low, high
        assert isinstance(operand, Register)
        return lane(operand.number), lane(operand.number, 1)

    def _low(self, operand: Operand, instruction: Instruction, size: int) -> int:
        """A register whose low bytes are those of an operand."""
        if isinstance(operand, Memory):
            return self.load(operand, instruction, size, max(size, operand.size))  # some are decoded as of 16 bytes
        return self.get(operand, instruction)

    def _set(self, register: Operand, value: int, size: int) -> None:
        """The low bytes of a vector register; the others stay."""
        assert isinstance(register, Register)
        if size == 8:
            self.emit(Code.COPY, 8, value, target=lane(register.number))
        else:
            self.emit(Code.INSERT, size, lane(register.number), value, target=lane(register.number))

    def _wide(self, instruction: Instruction) -> bool:
        target, source = instruction.operands
        halves = self._halves(source, instruction)
        if isinstance(target, Memory):
            for half in (0, 1):
                self.store(target, halves[half], instruction, 8, 16, 8 * half)
        else:
            assert isinstance(target, Register)
            for half in (0, 1):
                self.emit(Code.COPY, 8, halves[half], target=lane(target.number, half))
        return True

    def _move_low(self, instruction: Instruction) -> bool:
        target, source = instruction.operands
        name = instruction.mnemonic
        size = _LOW[name]
        value = self._low(source, instruction, size)
        if isinstance(target, Memory):
            self.store(target, value, instruction, size)
        elif isinstance(target, Register) and target.number >= XMM0:
            if name in ("movss", "movsd") and _vector(source):
                self._set(target, value, size)
            else:
                self.emit(Code.COPY, size, value, target=lane(target.number))
                self.emit(Code.CONSTANT, 8, target=lane(target.number, 1))
        else:
            self.put(target, value, instruction)
        return True

    def _move_half(self, instruction: Instruction) -> bool:
        target, source = instruction.operands
        half = _HALF[instruction.mnemonic]
        if isinstance(target, Memory) and isinstance(source, Register):
            self.store(target, lane(source.number, half), instruction, 8)
        elif isinstance(target, Register) and isinstance(source, Memory):
            self.emit(Code.COPY, 8, self.load(source, instruction, 8), target=lane(target.number, half))
        else:
            return False
        return True

    def _unpack(self, instruction: Instruction) -> bool:
        """Two low halves become one register; `unpcklps` of numbers of 4 bytes."""
        target, source = instruction.operands
        if not _vector(source) or not isinstance(target, Register) or not isinstance(source, Register):
            return False
        if instruction.mnemonic in ("punpcklqdq", "unpcklpd"):
            self.emit(Code.COPY, 8, lane(source.number), target=lane(target.number, 1))
            return True
        first, second = self.emit(Code.COPY, 8, lane(target.number)), self.emit(Code.COPY, 8, lane(source.number))
        four = self.constant(32)
        for half in (1, 0):
            one, other = (self.emit(Code.SHIFT_RIGHT, 8, each, four) if half else each for each in (first, second))
            raised = self.emit(Code.SHIFT_LEFT, 8, other, four)
            self.emit(Code.INSERT, 4, raised, one, target=lane(target.number, half))
        return True

    def _logic(self, instruction: Instruction) -> bool:
        target, source = instruction.operands
        code = _LOGIC[instruction.mnemonic]
        assert isinstance(target, Register)
        if instruction.mnemonic in CLEARS and target == source:
            for half in (0, 1):
                self.emit(Code.CONSTANT, 8, target=lane(target.number, half))
            return True
        others = self._halves(source, instruction)
        for half in (0, 1):
            own = lane(target.number, half)
            held = self.emit(Code.NOT, 8, own) if code == Code.NOT else own
            self.emit(Code.AND if code == Code.NOT else code, 8, held, others[half], target=own)
        return True

    def _scalar(self, instruction: Instruction) -> bool:
        name = instruction.mnemonic
        target, source = instruction.operands
        size = 4 if name.endswith("ss") else 8
        code = _ARITHMETIC[name[:-2]]
        value = self._low(source, instruction, size)
        assert isinstance(target, Register)
        own = lane(target.number)
        if code == Code.F_SQUARE_ROOT:
            result = self.emit(code, size, value)
        else:
            result = self.emit(code, size, own, value)
        self._set(target, result, size)
        return True

    def _compare(self, instruction: Instruction) -> bool:
        first, second = instruction.operands
        size = 4 if instruction.mnemonic.endswith("ss") else 8
        self.compared(ORDERED, size, self._low(first, instruction, size), self._low(second, instruction, size))
        return True

    def _mask(self, instruction: Instruction) -> bool:
        """A comparison that leaves all bits or none."""
        name = instruction.mnemonic
        target, source = instruction.operands
        size = 4 if name.endswith("ss") else 8
        code, negated = _MASKS[name[3:-2]]
        assert isinstance(target, Register)
        held = self.emit(code, size, lane(target.number), self._low(source, instruction, size))
        if negated:
            held = self.emit(Code.EQUAL, 8, held, self.constant(0))
        self._set(target, self.emit(Code.NEGATE, size, held), size)
        return True

    def _convert(self, instruction: Instruction) -> bool:
        name = instruction.mnemonic
        target, source = instruction.operands
        if name in ("cvtss2sd", "cvtsd2ss"):
            widens = name == "cvtss2sd"
            value = self._low(source, instruction, 4 if widens else 8)
            result = self.emit(Code.WIDEN if widens else Code.NARROW, 4 if widens else 8, value)
            self._set(target, result, 8 if widens else 4)
        elif name in ("cvtsi2ss", "cvtsi2sd"):
            size = 4 if name.endswith("ss") else 8
            if source.size not in (4, 8):
                return False
            code = Code.FROM_4 if source.size == 4 else Code.FROM_8
            self._set(target, self.emit(code, size, self.get(source, instruction)), size)
        else:
            size = 4 if "ss2" in name else 8
            cut = name.startswith("cvtt")
            eight = target.size == 8
            code = (Code.TO_8 if eight else Code.TO_4) if cut else (Code.NEAREST_8 if eight else Code.NEAREST_4)
            self.put(target, self.emit(code, size, self._low(source, instruction, size)), instruction)
        return True

    def _convert_two(self, instruction: Instruction) -> bool:
        """Both numbers of a half or register, as compilers convert one."""
        target, source = instruction.operands
        if not _vector(source) or not isinstance(source, Register) or not isinstance(target, Register):
            return False
        low, high = self._halves(source, instruction)
        if instruction.mnemonic == "cvtps2pd":
            second = self.emit(Code.WIDEN, 4, self.emit(Code.SHIFT_RIGHT, 8, low, self.constant(32)))
            self.emit(Code.WIDEN, 4, low, target=lane(target.number))
            self.emit(Code.COPY, 8, second, target=lane(target.number, 1))
        else:
            raised = self.emit(Code.SHIFT_LEFT, 8, self.emit(Code.NARROW, 8, high), self.constant(32))
            first = self.emit(Code.NARROW, 8, low)
            self.emit(Code.INSERT, 4, raised, first, target=lane(target.number))
            self.emit(Code.CONSTANT, 8, target=lane(target.number, 1))
        return True


_MASKS = {
    "eq": (Code.F_EQUAL, False),
    "lt": (Code.F_LESS, False),
    "le": (Code.F_LESS_EQUAL, False),
    "unord": (Code.F_UNORDERED, False),
    "neq": (Code.F_EQUAL, True),
    "nlt": (Code.F_LESS, True),
    "nle": (Code.F_LESS_EQUAL, True),
    "ord": (Code.F_UNORDERED, True),
}
_COMPARING = frozenset(f"cmp{name}{width}" for name in _MASKS for width in ("ss", "sd"))
_SCALAR = frozenset(f"{name}{width}" for name in _ARITHMETIC for width in ("ss", "sd"))
_FLOATING = _SCALAR | _COMPARING
_HANDLERS: dict[str, Callable[[Vectors, Instruction], bool]] = {
    **dict.fromkeys(_WIDE, Vectors._wide),
    **dict.fromkeys(_LOW, Vectors._move_low),
    **dict.fromkeys(_HALF, Vectors._move_half),
    **dict.fromkeys(("punpcklqdq", "unpcklpd", "unpcklps", "punpckldq"), Vectors._unpack),
    **dict.fromkeys(_LOGIC, Vectors._logic),
    **dict.fromkeys(_SCALAR, Vectors._scalar),
    **dict.fromkeys(_COMPARING, Vectors._mask),
    **dict.fromkeys(("ucomiss", "ucomisd", "comiss", "comisd"), Vectors._compare),
    **dict.fromkeys(("cvtss2sd", "cvtsd2ss", "cvtsi2ss", "cvtsi2sd"), Vectors._convert),
    **dict.fromkeys(("cvttss2si", "cvttsd2si", "cvtss2si", "cvtsd2si"), Vectors._convert),
    **dict.fromkeys(("cvtps2pd", "cvtpd2ps"), Vectors._convert_two),
}
