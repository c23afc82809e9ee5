"""Instructions on general registers, and what flags say behind them."""

from __future__ import annotations

from collections.abc import Callable

from farlane.analyzer.machine.arithmetic import signed
from farlane.analyzer.machine.effects import NOTHING, Flags, flags
from farlane.analyzer.machine.instruction import RAX, RBP, RDX, RSP, Immediate, Instruction, Memory, Register
from farlane.analyzer.slices import reasons
from farlane.analyzer.slices.form import Code, Operation
from farlane.analyzer.slices.lifting.operands import Operands
from farlane.analyzer.slices.raw import FIRST, SECOND

_TWO = {
    "add": Code.ADD,
    "sub": Code.SUBTRACT,
    "and": Code.AND,
    "or": Code.OR,
    "xor": Code.XOR,
    "cmp": Code.SUBTRACT,
    "test": Code.AND,
}
_SHIFTS = {"shl": Code.SHIFT_LEFT, "sal": Code.SHIFT_LEFT, "shr": Code.SHIFT_RIGHT, "sar": Code.SHIFT_ARITHMETIC}
_SIZES = frozenset({1, 2, 4, 8})
# Kinds of flags: after a comparison; after what leaves neither carry nor overflow; after what only zero and sign are
# known of; after a comparison whose carry is not known; of two floating-point numbers; of a bit.
COMPARED, LOGIC, RESULT, SIGNED, ORDERED, BIT = "compared", "logic", "result", "signed", "ordered", "bit"


class Integers(Operands):
    """Executes instructions on integers."""

    def integers(self, instruction: Instruction) -> bool:
        """Whether it is one of these."""
        name = instruction.mnemonic
        handler = _HANDLERS.get(name)
        if name in NOTHING or name.startswith("prefetch"):
            return True
        if name.startswith(("set", "cmov")):
            return self._chosen(instruction)
        if handler is None or not handler(self, instruction):
            return False
        if flags(name) not in (Flags.KEEPS, Flags.READS) and name not in _SETTING:
            self.flags = None
        return True

    def compared(self, kind: str, size: int, first: int, second: int | None = None) -> None:
        """The flags are those of a comparison."""
        self.emit(Code.COPY, size, first, target=FIRST)
        if second is not None:
            self.emit(Code.COPY, size, second, target=SECOND)
        self.flags = (kind, size)

    # Moves

    def _move(self, instruction: Instruction) -> bool:
        target, source = instruction.operands
        if target == Register(RSP, 8):
            return True
        if target.size not in _SIZES or source.size not in _SIZES:
            return False
        value = self.get(source, instruction)
        if instruction.mnemonic in ("movsx", "movsxd"):
            value = self.emit(Code.SIGN, source.size, value) if source.size < 8 else value
        elif instruction.mnemonic == "movzx":
            value = self.emit(Code.COPY, source.size, value)
        self.put(target, value, instruction)
        return True

    def _address(self, instruction: Instruction) -> bool:
        target, source = instruction.operands
        assert isinstance(source, Memory)
        if target != Register(RSP, 8):
            self.put(target, self.address(source), instruction)
        return True

    def _push(self, instruction: Instruction) -> bool:
        operand = instruction.operands[0]
        value = self.get(operand, instruction)
        where = [each for each in self.accesses.get(instruction.address, ()) if each.kind == "write"]
        if len(where) != 1 or where[0].high - where[0].low != 8:
            return False
        self.steps.append(Operation(Code.STORE, 8, -1, (value,), where[0].low))
        return True

    def _pop(self, instruction: Instruction) -> bool:
        target = instruction.operands[0]
        where = [each for each in self.accesses.get(instruction.address, ()) if each.kind == "read"]
        if (
            len(where) != 1
            or where[0].high - where[0].low != 8
            or not isinstance(target, Register)
            or target.number == RSP
        ):
            return False
        self.put(target, self.read(where[0].low, 8), instruction)
        return True

    def _leave(self, instruction: Instruction) -> bool:
        where = [each for each in self.accesses.get(instruction.address, ()) if each.kind == "read"]
        if len(where) != 1 or where[0].high - where[0].low != 8:
            return False
        self.emit(Code.COPY, 8, self.read(where[0].low, 8), target=RBP)
        return True

    # Arithmetic

    def _two(self, instruction: Instruction) -> bool:
        target, source = instruction.operands[0], instruction.operands[-1]
        name, size = instruction.mnemonic, target.size
        if size not in _SIZES:
            return False
        if target == Register(RSP, 8) and name in ("add", "sub", "and"):
            self.flags = None
            return True
        same = target == source and isinstance(target, Register) and name in ("xor", "sub")
        first = self.constant(0) if same else self.get(target, instruction)
        second = self.constant(0) if same else self.get(source, instruction)
        result = self.emit(_TWO[name], size, first, second)
        if name in ("cmp", "sub"):
            self.compared(COMPARED, size, first, second)
        elif name == "add":
            self._added(size, source, first, result)
        else:
            self.compared(LOGIC, size, result)
        if name not in ("cmp", "test"):
            held = self.flags
            self.put(target, result, instruction)
            self.flags = held
        return True

    def _carried(self, instruction: Instruction) -> bool:
        """adc, sbb: with the carry, which some comparisons leave."""
        target, source = instruction.operands
        size = target.size
        carry = self.condition("b")
        if size not in _SIZES or carry is None:
            return False
        code = Code.ADD if instruction.mnemonic == "adc" else Code.SUBTRACT
        value = self.emit(code, size, self.get(target, instruction), self.get(source, instruction))
        self.put(target, self.emit(code, size, value, carry), instruction)
        self.flags = None
        return True

    def _added(self, size: int, source: object, first: int, result: int) -> None:
        """x + n compares as x - (-n) does, but for the carry, where -n has no other sign."""
        if isinstance(source, Immediate) and signed(source.value, size) != -(1 << (8 * size - 1)):
            self.compared(SIGNED, size, first, self.constant(-source.value))
        else:
            self.compared(RESULT, size, result)

    def _step(self, instruction: Instruction) -> bool:
        (target,) = instruction.operands
        if target.size not in _SIZES:
            return False
        down = instruction.mnemonic == "dec"
        value = self.get(target, instruction)
        result = self.emit(Code.SUBTRACT if down else Code.ADD, target.size, value, self.constant(1))
        self.compared(SIGNED, target.size, value, self.constant(1 if down else -1))
        self.put(target, result, instruction)
        return True

    def _one(self, instruction: Instruction) -> bool:
        (target,) = instruction.operands
        if target.size not in _SIZES:
            return False
        value = self.get(target, instruction)
        code = Code.NEGATE if instruction.mnemonic == "neg" else Code.NOT
        result = self.emit(code, target.size, value)
        if code == Code.NEGATE:
            self.compared(RESULT, target.size, result)
        self.put(target, result, instruction)
        return True

    def _shift(self, instruction: Instruction) -> bool:
        operands = instruction.operands
        target = operands[0]
        size = target.size
        if size not in _SIZES or len(operands) > 2:
            return False
        count = self.get(operands[1], instruction) if len(operands) == 2 else self.constant(1)
        number: int | None = 1  # how far; None: it is not known
        if len(operands) == 2:
            by = operands[1]
            number = by.value & (63 if size == 8 else 31) if isinstance(by, Immediate) else None
        result = self.emit(_SHIFTS[instruction.mnemonic], size, self.get(target, instruction), count)
        if number:
            self.compared(RESULT, size, result)
        elif number is None:
            self.flags = None  # a count of 0 leaves the flags as they were
        held = self.flags
        self.put(target, result, instruction)
        self.flags = held
        return True

    def _rotate(self, instruction: Instruction) -> bool:
        target, count = instruction.operands[0], instruction.operands[-1]
        size = target.size
        if size not in (4, 8) or len(instruction.operands) != 2 or not isinstance(count, Immediate):
            return False
        number = count.value % (8 * size)
        left = number if instruction.mnemonic == "rol" else -number % (8 * size)
        value = self.emit(Code.COPY, size, self.get(target, instruction))
        up = self.emit(Code.SHIFT_LEFT, size, value, self.constant(left))
        down = self.emit(Code.SHIFT_RIGHT, size, value, self.constant(8 * size - left)) if left else up
        self.put(target, self.emit(Code.OR, size, up, down), instruction)
        return True

    def _multiply(self, instruction: Instruction) -> bool:
        operands = instruction.operands
        size = operands[0].size
        if len(operands) == 1:
            if size not in (4, 8):
                return False
            value, code = self.get(operands[0], instruction), instruction.mnemonic
            high = self.emit(Code.HIGH if code == "mul" else Code.HIGH_SIGNED, size, RAX, value)
            self.emit(Code.MULTIPLY, size, RAX, value, target=RAX)
            self.emit(Code.COPY, size, high, target=RDX)
            return True
        if instruction.mnemonic != "imul" or size not in (2, 4, 8):
            return False
        first, second = self.get(operands[-2], instruction), self.get(operands[-1], instruction)
        self.put(operands[0], self.emit(Code.MULTIPLY, size, first, second), instruction)
        return True

    def _extend(self, instruction: Instruction) -> bool:
        name = instruction.mnemonic
        if name == "cdqe":
            self.emit(Code.SIGN, 4, RAX, target=RAX)
        elif name == "cwde":
            self.emit(Code.COPY, 4, self.emit(Code.SIGN, 2, RAX), target=RAX)
        else:
            size = 8 if name == "cqo" else 4
            self.emit(Code.SHIFT_ARITHMETIC, size, RAX, self.constant(8 * size - 1), target=RDX)
        return True

    def _divide(self, instruction: Instruction) -> bool:
        """Where rdx holds the sign of rax, or 0: `dividend` is what said so."""
        (source,) = instruction.operands
        size = source.size
        as_signed = instruction.mnemonic == "idiv"
        if size not in (4, 8) or self.dividend != (size if as_signed else 0):
            return False
        divisor = self.emit(Code.COPY, size, self.get(source, instruction))
        quotient = self.emit(Code.DIVIDE_SIGNED if as_signed else Code.DIVIDE, size, RAX, divisor)
        rest = self.emit(Code.REMAINDER_SIGNED if as_signed else Code.REMAINDER, size, RAX, divisor)
        self.emit(Code.COPY, size, quotient, target=RAX)
        self.emit(Code.COPY, size, rest, target=RDX)
        return True

    def _bit(self, instruction: Instruction) -> bool:
        first, second = instruction.operands
        if not isinstance(first, Register) or first.size not in (4, 8):
            return False
        shifted = self.emit(Code.SHIFT_RIGHT, first.size, self.get(first, instruction), self.get(second, instruction))
        self.compared(BIT, 8, self.emit(Code.AND, 8, shifted, self.constant(1)))
        return True

    # rdx, for a division: 4 or 8: the sign of so many bytes of rax; 0: zero; None: anything
    dividend: int | None = None

    def noticed(self, instruction: Instruction) -> None:
        """Keeps what is known of rdx for a division, behind an instruction."""
        name, operands = instruction.mnemonic, instruction.operands
        if name in ("cdq", "cqo"):
            self.dividend = 4 if name == "cdq" else 8
        elif (
            name in ("xor", "sub")
            and operands[0] == operands[-1]
            and operands[0] in (Register(RDX, 4), Register(RDX, 8))
        ):
            self.dividend = 0
        elif self.dividend is not None:
            changed = (RDX,) if self.dividend == 0 else (RDX, RAX)
            moved = name in _PLAIN and not (isinstance(operands[0], Register) and operands[0].number in changed)
            if not moved:
                self.dividend = None

    # Flags

    def _chosen(self, instruction: Instruction) -> bool:
        name = instruction.mnemonic
        held = self.condition(name.removeprefix("set").removeprefix("cmov"))
        detail = f"{name} at {instruction.address:#x}"
        if held is None:
            held = self.unknown(self.temporary(), reasons.INSTRUCTION, detail)
        if name.startswith("set"):
            self.put(instruction.operands[0], held, instruction)
            return True
        target, source = instruction.operands
        if target.size not in (2, 4, 8):
            return False
        value = self.emit(Code.SELECT, target.size, self.get(source, instruction), self.get(target, instruction), held)
        self.put(target, value, instruction)
        return True

    def condition(self, asked: str) -> int | None:
        """A register that is 1 when a condition (the letters behind `j`) holds, else 0; None: it is not known."""
        if self.flags is None:
            return None
        kind, size = self.flags
        negated = asked in _NEGATED
        asked = _NEGATED.get(asked, asked)
        if kind == ORDERED:
            found = self._ordered(asked, size)
        elif kind == BIT:
            found = FIRST if asked == "b" else None
        elif asked in ("e", "s") and kind in (LOGIC, RESULT):
            found = self.emit(Code.EQUAL if asked == "e" else Code.LESS, size, FIRST, self.constant(0))
        elif kind == LOGIC:
            found = self._against_zero(asked, size)
        elif kind in (COMPARED, SIGNED):
            found = self._relation(asked, size, kind == COMPARED)
        else:
            found = None
        return self.emit(Code.EQUAL, 8, found, self.constant(0)) if negated and found is not None else found

    def _against_zero(self, asked: str, size: int) -> int | None:
        zero = self.constant(0)
        if asked == "b":
            return zero
        code = {"be": Code.EQUAL, "l": Code.LESS, "le": Code.LESS_EQUAL}.get(asked)
        return None if code is None else self.emit(code, size, FIRST, zero)

    def _relation(self, asked: str, size: int, carry: bool) -> int | None:
        if asked == "s":
            return self.emit(Code.LESS, size, self.emit(Code.SUBTRACT, size, FIRST, SECOND), self.constant(0))
        code = {"e": Code.EQUAL, "l": Code.LESS, "le": Code.LESS_EQUAL}.get(asked)
        if code is None and carry:
            code = {"b": Code.BELOW, "be": Code.BELOW_EQUAL}.get(asked)
        return None if code is None else self.emit(code, size, FIRST, SECOND)

    def _ordered(self, asked: str, size: int) -> int | None:
        """Of two floating-point numbers: where one is a NaN, zero, parity and carry are all set."""
        code = {"e": Code.F_EQUAL, "b": Code.F_LESS, "be": Code.F_LESS_EQUAL}.get(asked)
        unordered = self.emit(Code.F_UNORDERED, size, FIRST, SECOND)
        if asked == "p":
            return unordered
        return None if code is None else self.emit(Code.OR, 8, self.emit(code, size, FIRST, SECOND), unordered)


# What leaves rax and rdx alone but for its first operand.
_PLAIN = frozenset({"mov", "lea", "movzx", "movsx", "movsxd", "add", "sub", "and", "or", "xor", "nop", "cmp", "test"})
_NEGATED = {"ne": "e", "ge": "l", "g": "le", "ae": "b", "a": "be", "ns": "s", "np": "p", "no": "o"}
_SETTING = frozenset({*_TWO, *_SHIFTS, "inc", "dec", "neg", "bt"})
_HANDLERS: dict[str, Callable[[Integers, Instruction], bool]] = {
    **dict.fromkeys(("mov", "movabs", "movzx", "movsx", "movsxd"), Integers._move),
    **dict.fromkeys(_TWO, Integers._two),
    **dict.fromkeys(_SHIFTS, Integers._shift),
    **dict.fromkeys(("inc", "dec"), Integers._step),
    **dict.fromkeys(("adc", "sbb"), Integers._carried),
    **dict.fromkeys(("neg", "not"), Integers._one),
    **dict.fromkeys(("imul", "mul"), Integers._multiply),
    **dict.fromkeys(("rol", "ror"), Integers._rotate),
    **dict.fromkeys(("cdqe", "cwde", "cdq", "cqo"), Integers._extend),
    **dict.fromkeys(("idiv", "div"), Integers._divide),
    "lea": Integers._address,
    "push": Integers._push,
    "pop": Integers._pop,
    "leave": Integers._leave,
    "bt": Integers._bit,
}
