"""What instructions do to a state, and what memory they touch. Calls and jumps are `walk`'s business.

Exact for the few instructions that move and add addresses; of every other one it is assumed that what it writes may be
based on everything that it reads. An instruction that touches memory in no visible way is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from farlane.analyzer.machine.arithmetic import signed
from farlane.analyzer.machine.effects import (
    CLEARS,
    COMPARES,
    NOTHING,
    SETS,
    UNITS,
    Flags,
    clears,
    flags,
    string,
    targets,
)
from farlane.analyzer.machine.instruction import NONE as NO_REGISTER
from farlane.analyzer.machine.instruction import (
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    XMM0,
    Immediate,
    Instruction,
    Memory,
    Register,
    lane,
)
from farlane.analyzer.permissions.abstract.domain import (
    ANY,
    CONSTANT,
    EXACT,
    NONE,
    NUMBER,
    UNKNOWN,
    WILD,
    Objects,
    Value,
    add,
    based_on,
    computed,
    constant,
    narrow,
    scale,
    widened,
)
from farlane.analyzer.permissions.abstract.memory import READ, WRITE
from farlane.analyzer.permissions.abstract.memory import Flags as Compared
from farlane.analyzer.permissions.abstract.operands import Operands, Refused, address_of

_MOVES = {"mov", "movabs", "movzx"}
_WIDE_MOVES = {"movaps", "movups", "movdqa", "movdqu", "movapd", "movupd"}
_LOW_MOVES = {"movq": 8, "movd": 4, "movss": 4, "movsd": 8}
_HALF_MOVES = {"movhps": 1, "movhpd": 1, "movlps": 0, "movlpd": 0}
# Instructions that touch memory without an operand that says so, or do what is not followed.
_REFUSED = (
    *("syscall", "sysenter", "int", "enter", "xlatb", "maskmov", "vmaskmovdqu", "xsave", "xrstor", "fxsave", "fxrstor"),
    *("vgather", "vpgather", "vscatter", "vpscatter", "xbegin", "wrfsbase", "wrgsbase", "clzero", "movdir64", "enqcmd"),
    *("std", "lcall", "ljmp", "in", "out", "insb", "insd", "outsb", "outsd", "rdssp", "incssp", "swapgs", "lgs", "lfs"),
    *("loop", "loope", "loopne"),
)
_REFUSED_PREFIXES = tuple(name for name in _REFUSED if len(name) > 4)


class Step(Operands):
    """Executes instructions on a state."""

    def execute(self, instruction: Instruction) -> None:
        state, mnemonic = self.state, instruction.mnemonic
        handler = _HANDLERS.get(mnemonic)
        before = state.flags
        state.flags = None
        # Of what has a handler, only movsd may be a string instruction.
        if handler is not None and (mnemonic != "movsd" or not self._string(instruction)):
            handler(self, instruction)
            if mnemonic in _KEEPING:
                state.flags = before
        elif mnemonic in NOTHING or (mnemonic.startswith("j") and mnemonic != "jmp") or mnemonic == "jmp":
            state.flags = before
            if mnemonic == "jmp" and instruction.operands and isinstance(instruction.operands[0], Memory):
                self.touch(instruction, READ, address_of(state, instruction.operands[0]), 8)
        elif mnemonic.startswith("prefetch"):
            pass
        else:
            self._other(instruction)

    # Instructions

    def move(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        self.put(target, self.get(source, instruction), instruction)

    def move_signed(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        self.put(target, widened(self.get(source, instruction), source.size), instruction)

    def load_address(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        assert isinstance(source, Memory)
        self.put(target, computed(address_of(self.state, source), target.size), instruction)

    def arithmetic(self, instruction: Instruction) -> None:
        target, source = instruction.operands[0], instruction.operands[-1]
        name, state = instruction.mnemonic, self.state
        first, second = self.get(target, instruction), self.get(source, instruction)
        size = target.size
        if isinstance(source, Immediate):
            second = constant(source.value)
            if size < 8:
                second = constant(signed(source.value) & ((1 << 8 * size) - 1))
        if target == source and name in CLEARS:
            result = constant(0)
        elif name == "add":
            if size == 4 and isinstance(source, Immediate):
                second = constant(signed(source.value, 4))
            result = add(first, second)
        elif name == "sub" and second.kind == CONSTANT and not second.objects:
            number = signed(second.number, size)
            result = add(first, constant(-number))
        elif name == "and" and isinstance(target, Register) and target.number == RSP:
            raise Refused(f"the stack is aligned at {instruction.address:#x}")
        elif first.kind == CONSTANT and second.kind == CONSTANT and name in ("and", "or", "xor"):
            one, two = first.number, second.number
            result = constant(one & two if name == "and" else one | two if name == "or" else one ^ two)
        else:
            result = based_on(first.objects | second.objects)
        if name in ("add", "sub"):
            result = computed(result, size)
        self.put(target, result, instruction)
        if name == "sub":
            state.flags = Compared("cmp", size, first, second)
        elif name in ("and", "or", "xor"):
            done = narrow(result, size)
            state.flags = Compared("test", size, done, done)

    def negate(self, instruction: Instruction) -> None:
        (target,) = instruction.operands
        value = self.get(target, instruction)
        self.put(target, computed(based_on(value.objects), target.size), instruction)

    def step(self, instruction: Instruction) -> None:
        (target,) = instruction.operands
        amount = 1 if instruction.mnemonic == "inc" else -1
        self.put(target, computed(add(self.get(target, instruction), constant(amount)), target.size), instruction)

    def scaled(self, instruction: Instruction) -> None:
        """shl by a constant, imul with a constant; all other shifts and products are numbers."""
        operands = instruction.operands
        target = operands[0]
        if instruction.mnemonic == "imul" and len(operands) == 1:
            self._other(instruction)
            return
        first = self.get(operands[-2] if len(operands) > 1 else target, instruction)
        second = self.get(operands[-1], instruction) if len(operands) > 1 else constant(1)
        if instruction.mnemonic == "imul" and first.kind == CONSTANT:
            first, second = second, first
        if instruction.mnemonic == "imul" and second.kind == CONSTANT:
            result = scale(first, signed(second.number, target.size))
        elif instruction.mnemonic in ("shl", "sal") and second.kind == CONSTANT and len(operands) > 1:
            result = scale(
                self.get(target, instruction, False), 1 << (second.number & (63 if target.size == 8 else 31))
            )
        else:
            result = based_on((first.objects | second.objects) - UNKNOWN.objects)
        self.put(target, computed(result, target.size), instruction)

    def compare(self, instruction: Instruction) -> None:
        first, second = instruction.operands[0], instruction.operands[1]
        left, right = self.get(first, instruction), self.get(second, instruction)
        if instruction.mnemonic in ("cmp", "test"):
            self.state.flags = Compared(instruction.mnemonic, first.size, left, right)

    def push(self, instruction: Instruction) -> None:
        state = self.state
        operand = instruction.operands[0]
        value = state.immediate(operand.value) if isinstance(operand, Immediate) else self.get(operand, instruction)
        stack = add(self.stack(instruction), constant(-8))
        state.registers[RSP] = stack
        self.touch(instruction, WRITE, stack, 8)
        state.write(stack, 8, value)

    def pop(self, instruction: Instruction) -> None:
        state = self.state
        stack = self.stack(instruction)
        self.touch(instruction, READ, stack, 8)
        value = state.read(stack, 8)
        state.registers[RSP] = add(stack, constant(8))
        self.put(instruction.operands[0], value, instruction)

    def leave(self, instruction: Instruction) -> None:
        state = self.state
        state.registers[RSP] = state.registers[RBP]
        stack = self.stack(instruction)
        self.touch(instruction, READ, stack, 8)
        state.registers[RBP] = state.read(stack, 8)
        state.registers[RSP] = add(stack, constant(8))

    def stack(self, instruction: Instruction) -> Value:
        value = self.state.registers[RSP]
        if value.kind != EXACT:
            raise Refused(f"the stack pointer is not known at {instruction.address:#x}")
        return value

    def extend(self, instruction: Instruction) -> None:
        registers = self.state.registers
        if instruction.mnemonic == "cdqe":
            registers[RAX] = widened(registers[RAX], 4)
        elif instruction.mnemonic in ("cwde", "cbw"):
            registers[RAX] = based_on(registers[RAX].objects - UNKNOWN.objects)
        else:
            registers[RDX] = based_on(registers[RAX].objects - UNKNOWN.objects)

    def set_byte(self, instruction: Instruction) -> None:
        self.put(instruction.operands[0], NUMBER, instruction)

    def move_wide(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        if target.size != 16 or source.size != 16:
            self._other(instruction)
            return
        state = self.state
        if isinstance(source, Memory):
            address = address_of(state, source)
            self.touch(instruction, READ, address, 16, source)
            halves = [state.read(add(address, constant(8 * half)), 8) for half in (0, 1)]
        elif isinstance(source, Register) and source.number >= XMM0:
            halves = [state.registers[lane(source.number, half)] for half in (0, 1)]
        else:
            self._other(instruction)
            return
        if isinstance(target, Memory):
            address = address_of(state, target)
            self.touch(instruction, WRITE, address, 16, target)
            for half in (0, 1):
                state.write(add(address, constant(8 * half)), 8, halves[half])
        elif isinstance(target, Register) and target.number >= XMM0:
            for half in (0, 1):
                state.registers[lane(target.number, half)] = halves[half]
        else:
            self._other(instruction)

    def move_low(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        size = _LOW_MOVES[instruction.mnemonic]
        if any(isinstance(o, Register) and o.number == NO_REGISTER for o in (target, source)):
            self._other(instruction)
            return
        if isinstance(source, Memory):
            value = self.get(source._replace(size=size), instruction)
        elif isinstance(source, Register) and source.number >= XMM0:
            value = narrow(self.state.registers[lane(source.number)], size)
        else:
            value = narrow(self.get(source, instruction), size)
        if isinstance(target, Memory):
            self.put(target._replace(size=size), value, instruction)
        elif isinstance(target, Register) and target.number >= XMM0:
            registers = self.state.registers
            keeps = instruction.mnemonic in ("movss", "movsd") and isinstance(source, Register)
            old = registers[lane(target.number)]
            registers[lane(target.number)] = based_on(value.objects | old.objects) if keeps and size == 4 else value
            if not keeps:
                registers[lane(target.number, 1)] = constant(0)
        else:
            self.put(target, value, instruction)

    def move_half(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        half = _HALF_MOVES[instruction.mnemonic]
        if isinstance(target, Memory) and isinstance(source, Register) and source.number >= XMM0:
            self.put(target._replace(size=8), self.state.registers[lane(source.number, half)], instruction)
        elif isinstance(target, Register) and target.number >= XMM0 and isinstance(source, Memory):
            self.state.registers[lane(target.number, half)] = self.get(source._replace(size=8), instruction)
        else:
            self._other(instruction)

    def unpack(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        both = all(isinstance(o, Register) and o.number >= XMM0 for o in (target, source))
        if both and isinstance(target, Register) and isinstance(source, Register):
            self.state.registers[lane(target.number, 1)] = self.state.registers[lane(source.number)]
        else:
            self._other(instruction)

    def _string(self, instruction: Instruction) -> bool:
        """String instructions, `movsd` between two places in memory among them."""
        name = string(instruction)
        if name is None:
            return False
        registers, state = self.state.registers, self.state
        repeated = name != instruction.mnemonic
        unit = UNITS[name[4]]
        count = registers[RCX]
        size = unit if not repeated else unit * count.number if count.kind == CONSTANT and count.number >= 0 else None
        target, source = registers[RDI], registers[RSI]
        held: Objects = NONE
        if name[:4] in ("movs", "lods", "cmps"):
            self.touch(instruction, READ, source, size)
            held = state.pointees(source, size)
        if name[:4] in ("scas", "cmps"):
            self.touch(instruction, READ, target, size)
        if name[:4] in ("movs", "stos"):
            self.touch(instruction, WRITE, target, size)
            state.write_range(target, size, held if name[:4] == "movs" else registers[RAX].objects)
        if name[:4] == "lods":
            registers[RAX] = based_on(held | registers[RAX].objects)
        for number in (RDI, RSI):
            registers[number] = based_on(registers[number].objects)
        if repeated:
            registers[RCX] = NUMBER
        return True

    def _other(self, instruction: Instruction) -> None:
        """What is written may be based on all that is read."""
        mnemonic, state = instruction.mnemonic, self.state
        if self._string(instruction) or self.floating(instruction):
            return
        if mnemonic.startswith(_REFUSED_PREFIXES) or mnemonic in _REFUSED:
            raise Refused(f"{mnemonic} at {instruction.address:#x}")
        operands = instruction.operands
        objects: Objects = NONE
        for operand in operands:
            if not isinstance(operand, Immediate):
                objects |= self.get(operand, instruction).objects
        if clears(instruction):
            objects = NONE
        named = {operand.number for operand in operands if isinstance(operand, Register)}
        implicit = [number for number in instruction.writes if number not in named]
        if len(operands) < 2 or implicit:
            for number in (RAX, RBX, RCX, RDX):
                objects |= state.registers[number].objects
            if mnemonic in ("mul", "imul", "div", "idiv"):
                objects -= UNKNOWN.objects
                implicit = [RAX, RDX]
        if mnemonic.startswith("f") and any(isinstance(operand, Memory) for operand in operands):
            objects |= WILD.objects  # moves through the old floating-point registers
        if mnemonic in COMPARES:
            return
        if mnemonic.startswith("cvt"):
            objects -= UNKNOWN.objects
        for operand in targets(instruction):
            if isinstance(operand, Register) and operand.number == RSP:
                raise Refused(f"the stack pointer is changed at {instruction.address:#x}")
            if isinstance(operand, Memory) or (isinstance(operand, Register) and operand.number >= XMM0):
                self.put(operand, based_on(objects), instruction)
            elif isinstance(operand, Register) and operand.number != NO_REGISTER:
                size = operand.size if mnemonic.startswith("set") else 8
                self.put(operand._replace(size=max(size, 4), offset=0), Value(ANY, 0, objects), instruction)
        for number in implicit:
            if number == RSP:
                raise Refused(f"the stack pointer is changed at {instruction.address:#x}")
            if number >= XMM0:
                for half in (0, 1):
                    state.registers[lane(number, half)] = based_on(objects)
            elif number >= 0:
                state.registers[number] = based_on(objects)


_HANDLERS: dict[str, Callable[[Step, Instruction], None]] = {
    **dict.fromkeys(_MOVES, Step.move),
    **dict.fromkeys(("movsx", "movsxd"), Step.move_signed),
    "lea": Step.load_address,
    **dict.fromkeys(("add", "sub", "and", "or", "xor"), Step.arithmetic),
    **dict.fromkeys(("inc", "dec"), Step.step),
    **dict.fromkeys(("neg", "not"), Step.negate),
    **dict.fromkeys(("imul", "shl", "sal", "sar", "shr"), Step.scaled),
    **dict.fromkeys(COMPARES, Step.compare),
    "push": Step.push,
    "pop": Step.pop,
    "leave": Step.leave,
    **dict.fromkeys(("cdqe", "cwde", "cbw", "cdq", "cqo", "cwd"), Step.extend),
    **dict.fromkeys(SETS, Step.set_byte),
    **dict.fromkeys(_WIDE_MOVES, Step.move_wide),
    **dict.fromkeys(_LOW_MOVES, Step.move_low),
    **dict.fromkeys(_HALF_MOVES, Step.move_half),
    **dict.fromkeys(("punpcklqdq", "unpcklpd"), Step.unpack),
}
# What `Step` executes knowing its implicit effects; the decoder tells those of every other instruction.
HANDLED = frozenset(_HANDLERS) | NOTHING
# Of these, what leaves the flags as they are.
_KEEPING = frozenset(name for name in _HANDLERS if flags(name) in (Flags.KEEPS, Flags.READS))
