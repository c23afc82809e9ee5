"""Integer arithmetic, shifts and comparisons of general registers and memory, and the flags they leave."""

from __future__ import annotations

from collections.abc import Callable

from farlane.analyzer.machine.instruction import RAX, RDX, RSP, Immediate, Instruction, Register
from farlane.analyzer.semantics.operands import get, opaque, put, width
from farlane.analyzer.values.cells import FLAGS
from farlane.analyzer.values.expression import OPERATION
from farlane.analyzer.values.state import State


def _arithmetic(name: str) -> Callable[[State, Instruction], None]:
    def run(state: State, instruction: Instruction) -> None:
        values = state.memory.values
        target, source = instruction.operands[0], instruction.operands[-1]
        size = width(target)
        first, second = get(state, target), get(state, source)
        if isinstance(source, Immediate):
            second = (
                values.sign_extended(values.constant(source.value), size) if size < 8 else values.constant(source.value)
            )
        if name in ("xor", "sub") and target == source:
            result = values.zero
        elif name in ("add", "sub"):
            result = values.combine(first, second, 1 if name == "add" else -1)
        elif name == "and" and second.is_constant and second.constant & 0xFFFFFFFF == 0xFFFFFFFF and size == 4:
            result = first
        elif name == "and" and second.is_constant and second.constant == 0xFFFFFFFF:
            result = values.zero_extended(first, 4)
        elif name == "and" and isinstance(target, Register) and target.number == RSP:
            result = values.atom(OPERATION, "align", first, second)
        elif name == "or" and second.is_constant and second.constant & ((1 << 8 * size) - 1) == (1 << 8 * size) - 1:
            result = values.constant(-1)
        else:
            result = values.operation(name, first, second, size=size)
        put(state, target, result, instruction)
        if name == "sub":
            state.registers[FLAGS] = values.atom(OPERATION, f"cmp{size}", first, second)
        else:
            state.registers[FLAGS] = values.atom(OPERATION, f"res{size}", values.zero_extended(result, size))

    return run


def _step(amount: int) -> Callable[[State, Instruction], None]:
    def run(state: State, instruction: Instruction) -> None:
        (target,) = instruction.operands
        values = state.memory.values
        result = values.add(get(state, target), amount)
        put(state, target, result, instruction)
        state.registers[FLAGS] = values.atom(
            OPERATION, f"res{width(target)}", values.zero_extended(result, width(target))
        )

    return run


def _negate(state: State, instruction: Instruction) -> None:
    (target,) = instruction.operands
    values = state.memory.values
    result = values.scale(get(state, target), -1)
    if instruction.mnemonic == "not":
        result = values.add(result, -1)
    put(state, target, result, instruction)
    state.registers[FLAGS] = opaque(state, instruction, "flags")


def _multiply_accumulator(state: State, instruction: Instruction) -> None:
    """The product of the accumulator and an operand, in two registers."""
    values = state.memory.values
    size = width(instruction.operands[0])
    first, second = values.zero_extended(state.registers[RAX], size), get(state, instruction.operands[0])
    if size >= 4:
        low = values.operation("imul", first, second, size=size)
        state.registers[RAX] = values.zero_extended(low, size)
        state.registers[RDX] = values.atom(OPERATION, f"{instruction.mnemonic}high{size}", first, second)
    else:
        state.registers[RAX] = opaque(state, instruction, RAX)
        state.registers[RDX] = opaque(state, instruction, RDX)
    state.registers[FLAGS] = opaque(state, instruction, "flags")


def _multiply(state: State, instruction: Instruction) -> None:
    if len(instruction.operands) == 1:
        _multiply_accumulator(state, instruction)
        return
    values = state.memory.values
    target = instruction.operands[0]
    first, second = get(state, instruction.operands[-2]), get(state, instruction.operands[-1])
    if isinstance(instruction.operands[-1], Immediate):
        second = values.constant(instruction.operands[-1].value)
    if first.is_constant:
        first, second = second, first
    if second.is_constant:
        result = values.scale(first, second.constant)
    else:
        result = values.operation("imul", first, second, size=width(target))
    put(state, target, result, instruction)
    state.registers[FLAGS] = opaque(state, instruction, "flags")


def _shift(name: str) -> Callable[[State, Instruction], None]:
    def run(state: State, instruction: Instruction) -> None:
        values = state.memory.values
        target = instruction.operands[0]
        size = width(target)
        first = get(state, target)
        count = get(state, instruction.operands[1]) if len(instruction.operands) == 2 else values.constant(1)
        if name == "shl" and count.is_constant:
            result = values.scale(first, 1 << (count.constant & (63 if size == 8 else 31)))
        else:
            result = values.operation(name, first, count, size=size)
        put(state, target, result, instruction)
        state.registers[FLAGS] = values.atom(OPERATION, f"res{size}", values.zero_extended(result, size))

    return run


def _compare(state: State, instruction: Instruction) -> None:
    values = state.memory.values
    first, second = instruction.operands
    size = width(first)
    left, right = get(state, first), get(state, second)
    if isinstance(second, Immediate):
        right = values.zero_extended(values.constant(second.value), size)
    if instruction.mnemonic == "test":
        if left is right:
            state.registers[FLAGS] = values.atom(OPERATION, f"res{size}", left)
            return
        state.registers[FLAGS] = values.atom(OPERATION, f"res{size}", values.operation("and", left, right, size=size))
        return
    state.registers[FLAGS] = values.atom(OPERATION, f"cmp{size}", left, right)


def _bit_test(state: State, instruction: Instruction) -> None:
    state.registers[FLAGS] = opaque(state, instruction, "flags")


def _divide(state: State, instruction: Instruction) -> None:
    """div, idiv; where the dividend's upper half only extends the lower one, a function of two values."""
    values = state.memory.values
    size = width(instruction.operands[0])
    name = instruction.mnemonic
    state.registers[FLAGS] = opaque(state, instruction, "flags")
    if size < 4:
        state.registers[RAX] = opaque(state, instruction, RAX)
        state.registers[RDX] = opaque(state, instruction, RDX)
        return
    low, high = (values.zero_extended(state.registers[number], size) for number in (RAX, RDX))
    divisor = get(state, instruction.operands[0])
    sign = values.zero_extended(values.operation("sar", low, values.constant(8 * size - 1), size=size), size)
    if high is (sign if name == "idiv" else values.zero):
        quotient = values.divided(low, divisor, size, name == "idiv")
        rest = values.combine(low, values.operation("imul", quotient, divisor, size=size), -1)
        if divisor.is_constant:
            rest = values.combine(low, values.scale(quotient, divisor.constant), -1)
    else:
        quotient = values.atom(OPERATION, f"{name}wide{size}", low, high, divisor)
        rest = values.atom(OPERATION, f"{name}rest{size}", low, high, divisor)
    state.registers[RAX] = values.zero_extended(quotient, size)
    state.registers[RDX] = values.zero_extended(rest, size)


def _with_carry(state: State, instruction: Instruction) -> None:
    target, source = instruction.operands
    values = state.memory.values
    size = width(target)
    inputs = (get(state, target), get(state, source), state.registers[FLAGS])
    if instruction.mnemonic == "sbb" and target == source:
        inputs = (values.zero, values.zero, state.registers[FLAGS])
    put(
        state,
        target,
        values.zero_extended(values.atom(OPERATION, f"{instruction.mnemonic}{size}", *inputs), size),
        instruction,
    )
    state.registers[FLAGS] = opaque(state, instruction, "flags")


def _of_inputs(state: State, instruction: Instruction) -> None:
    """A function of its operands and nothing else, kept by name."""
    values = state.memory.values
    target = instruction.operands[0]
    size = width(target)
    inputs = [get(state, operand) for operand in instruction.operands]
    if len(inputs) == 1 and instruction.mnemonic in ("rol", "ror"):
        inputs.append(values.constant(1))
    result = values.zero_extended(values.atom(OPERATION, f"{instruction.mnemonic}{size}", *inputs), size)
    put(state, target, result, instruction)
    state.registers[FLAGS] = opaque(state, instruction, "flags")


HANDLERS: dict[str, Callable[[State, Instruction], None]] = {
    **{name: _arithmetic(name) for name in ("add", "sub", "and", "or", "xor")},
    "inc": _step(1),
    "dec": _step(-1),
    "neg": _negate,
    "not": _negate,
    "imul": _multiply,
    "mul": _multiply,
    "div": _divide,
    "idiv": _divide,
    "shl": _shift("shl"),
    "sal": _shift("shl"),
    "shr": _shift("shr"),
    "sar": _shift("sar"),
    "cmp": _compare,
    "test": _compare,
    "bt": _bit_test,
    **dict.fromkeys(("sbb", "adc"), _with_carry),
    **dict.fromkeys(("rol", "ror", "bswap", "popcnt", "lzcnt", "tzcnt", "bsr", "bsf"), _of_inputs),
}
