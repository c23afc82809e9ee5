"""Reading and writing an instruction's operands in an abstract state, with a record of every access."""

from __future__ import annotations

from farlane.analyzer.machine.instruction import NONE as NO_REGISTER
from farlane.analyzer.machine.instruction import (
    RSP,
    SCALAR_FLOATING,
    XMM0,
    Immediate,
    Instruction,
    Memory,
    Operand,
    Register,
    lane,
)
from farlane.analyzer.permissions.abstract.domain import (
    NUMBER,
    UNKNOWN,
    WILD,
    Value,
    add,
    based_on,
    constant,
    narrow,
    scale,
)
from farlane.analyzer.permissions.abstract.memory import READ, WRITE, Access, State


class Refused(Exception):
    """Something that is not followed; the text says what and where."""


def address_of(state: State, memory: Memory) -> Value:
    """The address of a memory operand."""
    base, indexed, factor, displacement, _, thread = memory
    if thread:
        return UNKNOWN
    registers = state.registers
    if base == NO_REGISTER:
        total = state.fixed(displacement)
    else:
        total = add(constant(displacement), registers[base] if base < XMM0 else WILD)
    if indexed != NO_REGISTER:
        total = add(total, scale(registers[indexed] if indexed < XMM0 else WILD, factor))
    return total


class Operands:
    """Reads and writes operands in a state, and records what memory they touch.

    Args:
        state: changed in place.
        records: every access is appended.
    """

    def __init__(self, state: State, records: list[Access]) -> None:
        self.state, self.records = state, records

    def get(self, operand: Operand, instruction: Instruction, record: bool = True) -> Value:
        state = self.state
        if isinstance(operand, Register):
            number, size, offset = operand
            if number == NO_REGISTER:
                return WILD
            if number >= XMM0:
                return self._vector(operand)
            value = state.registers[number]
            return based_on(value.objects) if offset else value if size >= 8 else narrow(value, size)
        if isinstance(operand, Immediate):
            number, size = operand
            return state.immediate(number & ((1 << 8 * size) - 1) if size < 8 else number)
        address, size = address_of(state, operand), operand.size
        if record:
            self.touch(instruction, READ, address, size or None, operand)
        if not 1 <= size <= 8:
            return based_on(state.pointees(address, size or None))
        return state.read(address, size)

    def _vector(self, operand: Register) -> Value:
        low, high = (self.state.registers[lane(operand.number, half)] for half in (0, 1))
        return low if operand.size <= 8 else based_on(low.objects | high.objects)

    def put(self, operand: Operand, value: Value, instruction: Instruction) -> None:
        state = self.state
        if isinstance(operand, Memory):
            address = address_of(state, operand)
            self.touch(instruction, WRITE, address, operand.size or None, operand)
            if 1 <= operand.size <= 8:
                state.write(address, operand.size, value)
            else:
                state.write_range(address, operand.size or None, value.objects)
        elif isinstance(operand, Register) and operand.number >= XMM0:
            for half in (0, 1):
                state.registers[lane(operand.number, half)] = based_on(value.objects)
        elif isinstance(operand, Register) and operand.number != NO_REGISTER:
            if operand.size < 4 or operand.offset:
                value = based_on(value.objects | state.registers[operand.number].objects)
                if operand.number == RSP:
                    raise Refused(f"the stack pointer is changed at {instruction.address:#x}")
            state.registers[operand.number] = narrow(value, operand.size)

    def touch(
        self, instruction: Instruction, kind: str, address: Value, size: int | None, operand: Operand | None = None
    ) -> None:
        fixed = isinstance(operand, Memory) and operand.thread and operand.base == operand.indexed == NO_REGISTER
        if fixed and isinstance(operand, Memory) and operand.displacement == 0x28:
            return  # the stack protector's number
        at = instruction.address
        access = self.state.access(at, kind, address, size, instruction.mnemonic, at)
        if access is not None:
            self.records.append(access)

    def floating(self, instruction: Instruction) -> bool:
        """Arithmetic on one floating-point number, and conversions: numbers, beside what the target held above them."""
        if instruction.mnemonic not in SCALAR_FLOATING or len(instruction.operands) != 2:
            return False
        target, source = instruction.operands
        self.get(source, instruction)
        if not isinstance(target, Register) or target.number == NO_REGISTER:
            return False
        if target.number < XMM0:
            self.put(target, NUMBER, instruction)
        elif instruction.mnemonic.endswith("sd"):
            self.state.registers[lane(target.number)] = NUMBER
        else:
            own = lane(target.number)
            self.state.registers[own] = based_on(self.state.registers[own].objects)
        return True
