"""Reading and writing an instruction's operands in a state, and what is left of an instruction that is not modelled."""

from __future__ import annotations

from farlane.analyzer.machine.effects import targets
from farlane.analyzer.machine.instruction import NONE, XMM0, Immediate, Instruction, Memory, Operand, Register, lane
from farlane.analyzer.values.cells import FLAGS
from farlane.analyzer.values.expression import OPAQUE, OPERATION, Value
from farlane.analyzer.values.state import State


def held(state: State, key: int) -> Value:
    """What a register holds; if a call left it undefined, a value that nothing else is equal to."""
    value = state.registers[key]
    if value.lost:
        return state.memory.values.atom(OPAQUE, state.memory.at, key)
    return value


def address_of(state: State, memory: Memory) -> Value:
    """The address of a memory operand."""
    values, base = state.memory.values, memory.base
    if 0 <= base < XMM0 and memory.indexed == NONE and not memory.thread:
        value = state.registers[base]
        return values.add(held(state, base) if value.lost else value, memory.displacement)
    total = values.constant(memory.displacement)
    if memory.thread:
        total = values.add(values.atom(OPERATION, "thread"), memory.displacement)
    if memory.base != NONE:
        total = (
            values.combine(total, held(state, memory.base))
            if 0 <= memory.base < XMM0
            else values.atom(OPAQUE, state.memory.at, "address")
        )
    if memory.indexed != NONE:
        total = values.combine(total, held(state, memory.indexed), memory.scale)
    return total


def get(state: State, operand: Operand) -> Value:
    """An operand of up to 8 bytes, zero-extended."""
    values = state.memory.values
    if isinstance(operand, Register):
        number, size, offset = operand
        if number == NONE:
            return values.atom(OPAQUE, state.memory.at, "register")
        if number >= XMM0:
            return held(state, lane(number))
        value = state.registers[number]
        if value.lost:
            value = held(state, number)
        if offset:
            value = values.operation("shr", value, values.constant(8))
        return value if size >= 8 else values.zero_extended(value, size)
    if isinstance(operand, Immediate):
        return values.constant(operand.value & ((1 << 8 * operand.size) - 1) if operand.size < 8 else operand.value)
    return state.read(address_of(state, operand), min(operand.size, 8))


def put(state: State, operand: Operand, value: Value, instruction: Instruction) -> None:
    """Stores into an operand of up to 8 bytes."""
    values = state.memory.values
    if isinstance(operand, Memory):
        state.write(address_of(state, operand), min(operand.size, 8), value, instruction.address)
    elif isinstance(operand, Register) and operand.number >= XMM0:
        state.registers[lane(operand.number)] = value
    elif isinstance(operand, Register) and operand.number != NONE:
        if operand.size >= 8:
            pass
        elif operand.size >= 4:
            value = values.zero_extended(value, operand.size)
        else:
            value = values.atom(
                OPERATION, "insert", state.registers[operand.number], value, operand.size, operand.offset
            )
        state.registers[operand.number] = value


def opaque(state: State, instruction: Instruction, what: object) -> Value:
    return state.memory.values.atom(OPAQUE, instruction.address, what)


def width(operand: Operand) -> int:
    return min(operand.size, 8)


def wide(operand: Operand) -> bool:
    return isinstance(operand, (Register, Memory)) and operand.size > 16


def unknown(state: State, instruction: Instruction) -> None:
    for number in instruction.writes:
        if number >= XMM0:
            state.registers[lane(number)] = opaque(state, instruction, lane(number))
            state.registers[lane(number, 1)] = opaque(state, instruction, lane(number, 1))
        elif number != NONE:
            state.registers[number] = opaque(state, instruction, number)
    for operand in targets(instruction):
        if not isinstance(operand, Memory):
            continue
        if operand.size <= 8:
            put(state, operand, opaque(state, instruction, "memory"), instruction)
        else:
            size = state.memory.values.constant(operand.size)
            state.write_range(address_of(state, operand), size, instruction.address)
    state.registers[FLAGS] = opaque(state, instruction, "flags")
